"""Every way in which a profiled process can end, so that what was recorded is kept whichever it is.

In comes an `Ending`: what is to be done last. It is done once: when the program is over, at SIGTERM and SIGHUP, or when
the program calls `os._exit`, as processes that multiprocessing forks do. After a signal the process dies of it, as it
would have without us; a program with a handler of its own for the signal keeps it. What cannot be caught is kill -9 and
a crash of the interpreter.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any, NoReturn

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Ending:
    """What a process does last. `last(code)` is what a kind of process makes of it; it returns the exit status."""

    patient = False  # whether signals while results are written never end it

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._status: int | None = None
        self.writing = False
        self.late: int | None = None  # a signal that came while results were written: it can wait so long

    def last(self, code: int) -> int:
        return code

    def finish(self, code: int) -> int:
        """Does what is to be done last, unless that has been done; returns the exit status."""
        if os.getpid() != self._process:  # a copy in a forked process
            return code
        with self._lock:
            if self._status is None and not self.writing:
                self.writing = True
                with _patient():
                    self._status = self.last(code)
                self.writing = False
            status = code if self._status is None else self._status
        if self.late is not None:
            die(self.late)
        return status


_current: Ending | None = None
_exit = os._exit


def current() -> Ending | None:
    return _current


def watch_over(ending: Ending) -> None:
    """From now on, until `release`, this is how the process ends."""
    global _current
    _current = ending
    os._exit = _exit_after  # pyright: ignore[reportAttributeAccessIssue]
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            _handle(number, _on_signal)


def release() -> None:
    """Puts everything back."""
    global _current
    _current = None
    os._exit = _exit
    for number in _SIGNALS:
        if signal.getsignal(number) is _on_signal:
            _handle(number, signal.SIG_DFL)


def forget() -> None:
    """In a forked child: nothing of the parent's is its own to finish."""
    global _current
    _current = None


def _exit_after(status: int) -> NoReturn:
    """In place of `os._exit`, which leaves nothing time to be written."""
    _exit(status if _current is None else _current.finish(status))


def _on_signal(number: int, frame: Any) -> None:
    ending = _current
    if ending is None or (ending.late is not None and not ending.patient):
        die(number)
    elif ending.writing:
        if not ending.patient:
            print("\ntileprobe: writing what was recorded; once more gives it up", file=sys.stderr)
        ending.late = number
    else:
        ending.finish(128 + number)
        die(number)


def die(number: int) -> None:
    """Of the signal, so that a parent sees what it would have seen."""
    for stream in (sys.stdout, sys.stderr):
        flush(stream)
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


def flush(stream: Any) -> bool:
    """Whether what was printed has gone out; a stream may be closed, broken, or not there at all."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        return False
    return True


class _patient:
    """Ctrl-C while results are written waits for them, once."""

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is signal.default_int_handler:
            _handle(signal.SIGINT, _on_signal)

    def __exit__(self, *error: Any) -> None:
        if signal.getsignal(signal.SIGINT) is _on_signal:
            _handle(signal.SIGINT, self._before)


def _handle(number: int, handler: Any) -> None:
    if threading.current_thread() is threading.main_thread():  # Python lets no other thread do it
        signal.signal(number, handler)
