"""A worker process, seen from its parent: give it a task, wait for the outcome, kill it when it takes too long.

The process is a session of its own, so that a Ctrl-C of the terminal does not reach it, and so that what a point
starts is killed with it. A killed one, or one that died, is started anew with the next task.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time

from tileprobe.sweeps.outcome import DIED, LATE, Outcome, here

_ENDS_S = 2.0  # between the end of its output and its own
_SAYS = 400  # characters of what a process that died said last


class Process:
    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.errors: int = -1
        self.begun = 0.0
        self.seconds: float | None = None
        self.said = b""

    def start(self, task: str, seconds: float | None) -> None:
        """Gives it a task; it may take so many seconds."""
        if self.process is None or self.process.poll() is not None:
            self.close()
            self._open()
        assert self.process is not None and self.process.stdin is not None
        self.begun, self.seconds, self.said = time.monotonic(), seconds, b""
        with contextlib.suppress(OSError):  # it died since: `finished` tells
            self.process.stdin.write(task.encode() + b"\n")
            self.process.stdin.flush()

    def _open(self) -> None:
        self.errors = os.memfd_create("tileprobe-worker")
        fcntl.fcntl(self.errors, fcntl.F_SETFL, os.O_APPEND)  # it is emptied after each point
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "tileprobe.sweeps.worker"]
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                start_new_session=True, env=environment,
            )  # fmt: skip
        except BaseException:
            os.close(self.errors)
            self.errors = -1
            raise

    def fileno(self) -> int:
        """For those who wait for several."""
        assert self.process is not None and self.process.stdout is not None
        return self.process.stdout.fileno()

    def left(self) -> float | None:
        """Seconds that the task may still take."""
        return None if self.seconds is None else max(self.begun + self.seconds - time.monotonic(), 0.0)

    def finished(self) -> Outcome | None:
        """The outcome, if there is one by now."""
        while select.select([self], [], [], 0)[0]:
            piece = os.read(self.fileno(), 1 << 16)
            if not piece:
                return self._died()
            self.said += piece
            if self.said.endswith(b"\n"):
                self._forget()
                return Outcome.of(json.loads(self.said))
        if self.left() == 0.0:
            self.close()
            return Outcome(LATE, f"took longer than {self.seconds:g} s", None, self.seconds or 0.0, here())
        return None

    def wait(self) -> Outcome:
        """The outcome, whenever it comes."""
        while (outcome := self.finished()) is None:
            select.select([self], [], [], self.left())
        return outcome

    def _died(self) -> Outcome:
        assert self.process is not None
        try:
            code = self.process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:  # it closed its output and goes on
            self.process.kill()
            code = self.process.wait()
        name = f"{here().rpartition(':')[0]}:{self.process.pid}"
        last = self._last_words()
        how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with status {code}"
        self.close()
        reason = f"the worker process {how}" + (f"; it said last: {last}" if last else "")
        return Outcome(DIED, reason, None, time.monotonic() - self.begun, name)

    def _last_words(self) -> str:
        size = os.fstat(self.errors).st_size
        text = os.pread(self.errors, _SAYS, max(size - _SAYS, 0)).decode(errors="replace").strip()
        return text if size <= _SAYS else "..." + text

    def _forget(self) -> None:
        """What points printed is kept for the one that kills its process, not for ever."""
        os.ftruncate(self.errors, 0)

    def close(self) -> None:
        """Kills the process, and what the point in it started."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        os.close(self.errors)
        self.process, self.errors = None, -1
