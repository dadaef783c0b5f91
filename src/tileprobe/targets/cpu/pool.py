"""The threads that run programs: created once, shared by all launches of the process.

Comes in: a kernel's address, its launch block and the number of programs. Goes out: a status. The launching
thread takes part and does not hold the GIL meanwhile. Only one job runs at a time; a thread that launches
while its own job is running (from a signal handler, say) runs those programs by itself.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import threading
from functools import lru_cache
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.base import Watch
from tileprobe.targets.cpu import pool_ir
from tileprobe.targets.cpu.host import default_threads, host
from tileprobe.targets.cpu.loader import compile_ir
from tileprobe.targets.cpu.pool_ir import STATUS_MORE
from tileprobe.targets.cpu.pool_layout import OFFSETS, SLOT, SLOT_BYTES
from tileprobe.targets.linker import Library, load_object

_MAX_PROGRAMS = 2**63 - 1
_MAX_THREADS = 4096
# Signals a thread raises by its own doing; all others are left to Python's threads.
_OWN_SIGNALS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP}


class Pool:
    """`threads` threads, the launching one among them."""

    def __init__(self, threads: int):
        if threads < 1:
            raise TileProbeError(f"a pool needs at least one thread, {threads} asked for")
        self.threads = threads
        self._code = _code()
        self._block = _Block(threads)
        self._lock = threading.Lock()
        self._owner = 0
        start_worker = self._code.library.address("tp_worker")
        with _signals_blocked():
            for index in range(1, threads):
                _start_thread(start_worker, self._block.slot(index))

    def run(
        self, kernel: int, launch: Any, programs: int, scratch_bytes: int, watch: Watch | None = None
    ) -> int:
        """Runs all programs of a launch and returns the or of STATUS_ERROR and STATUS_MEMORY, or 0. A `watch` is told
        when they start and when they have ended: not that they waited for another thread's launch before."""
        if programs <= 0:
            return 0
        if programs > _MAX_PROGRAMS:
            raise TileProbeError(f"a grid of {programs} programs is too large: at most {_MAX_PROGRAMS}")
        if not self._lock.acquire(False):
            if self._owner == threading.get_ident():
                return _alone().run(kernel, launch, programs, scratch_bytes, watch)
            self._lock.acquire()
        try:
            self._owner = threading.get_ident()
            if watch is not None:
                self._block.watched.value, self._block.taken.value, self._block.spent.value = 1, 0, 0
                watch.start()
            status = self._code.run(self._block.address, kernel, launch, programs, scratch_bytes)
            if status & STATUS_MORE:
                status = self._finish()
            if watch is not None:
                block = self._block
                began, taken = block.began.value, max(0, block.taken.value)
                watch.ended(taken, block.ended.value - began, began, max(0, block.spent.value - taken))
            return status
        finally:
            self._block.watched.value = 0
            self._owner = 0
            self._lock.release()

    def _finish(self) -> int:
        """Waits for a long job a slice at a time; in between Python handles its signals."""
        try:
            while True:
                status = self._code.resume(self._block.address)
                if not status & STATUS_MORE:
                    return status
        except BaseException:  # Ctrl-C: programs not yet started are given up
            self._code.cancel(self._block.address)
            while self._code.resume(self._block.address) & STATUS_MORE:
                pass
            raise

    def close(self) -> None:
        """Lets the workers end. They may be a moment about it; the shared block stays."""
        with self._lock:
            self._code.stop(self._block.address)


class _Block:
    """The memory all threads of a pool share. Never freed: a worker may look at it until the process ends."""

    def __init__(self, threads: int):
        size = OFFSETS["slots"] + threads * SLOT_BYTES
        raw = ctypes.create_string_buffer(size + 64)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(raw))
        self.address = (ctypes.addressof(raw) + 63) & ~63
        ctypes.c_int32.from_address(self.address + OFFSETS["threads"]).value = threads
        self.watched = ctypes.c_int32.from_address(self.address + OFFSETS["watched"])
        self.taken, self.began, self.ended, self.spent = (
            ctypes.c_int64.from_address(self.address + OFFSETS[name])
            for name in ("taken", "began", "ended", "spent")
        )
        for index in range(threads):
            ctypes.c_uint64.from_address(self.slot(index) + SLOT["pool"]).value = self.address

    def slot(self, index: int) -> int:
        return self.address + OFFSETS["slots"] + index * SLOT_BYTES


class _Code:
    """The pool's functions, callable from Python. A ctypes call releases the GIL."""

    def __init__(self, library: Library):
        pointer, i64, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        self.library = library
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))  # workers run it until the process ends
        self.run = ctypes.CFUNCTYPE(i32, pointer, pointer, pointer, i64, i64)(library.address("tp_run"))
        self.resume = ctypes.CFUNCTYPE(i32, pointer)(library.address("tp_resume"))
        self.cancel = ctypes.CFUNCTYPE(None, pointer)(library.address("tp_cancel"))
        self.stop = ctypes.CFUNCTYPE(None, pointer)(library.address("tp_stop"))


@lru_cache(maxsize=1)
def _code() -> _Code:
    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(host().arch, host().arch)
    data = compile_ir(pool_ir.module_text(arch), passes=False)  # every process waits for it, once
    return _Code(load_object(data, pool_ir.EXPORTS))


@contextlib.contextmanager
def _signals_blocked():
    """A new thread inherits the mask: Ctrl-C must reach Python, not a worker."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _OWN_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_thread(function: int, argument: int) -> None:
    libc = ctypes.CDLL(None)
    handle = ctypes.c_ulong()
    code = libc.pthread_create(
        ctypes.byref(handle), None, ctypes.c_void_p(function), ctypes.c_void_p(argument)
    )
    if code:
        raise TileProbeError(
            f"the system would not start another thread ({os.strerror(code)}); "
            "set TILEPROBE_NUM_THREADS to a smaller number"
        )
    libc.pthread_detach(handle)


_local = threading.local()


def _alone() -> Pool:
    """A pool without workers for launches made while the thread's own launch runs."""
    pool = getattr(_local, "pool", None)
    if pool is None or pool._lock.locked():
        pool = _local.pool = Pool(1)
    return pool


_current: Pool | None = None
_wanted: int | None = None
_creating = threading.Lock()


def current() -> Pool:
    """The pool of this process, created on first use."""
    return _current or _create()


def wanted_threads() -> int | None:
    """What `set_threads` was last given."""
    return _wanted


def set_threads(threads: int | None) -> None:
    """Use that many threads from the next launch on; None for the default."""
    global _current, _wanted
    if threads is not None and (not isinstance(threads, int) or not 1 <= threads <= _MAX_THREADS):
        raise TileProbeError(f"threads must be a whole number from 1 to {_MAX_THREADS}; got {threads!r}")
    with _creating:
        _wanted = threads
        wanted = threads or default_threads()
        if _current is not None and _current.threads != wanted:
            _current.close()
            _current = None


def _create() -> Pool:
    global _current
    with _creating:
        if _current is None:
            _current = Pool(_wanted or default_threads())
        return _current


def _forget() -> None:
    """In a forked child only the forking thread lives on: start afresh with the next launch."""
    global _current, _creating
    _current = None
    _creating = threading.Lock()
    _local.__dict__.clear()


def _at_exit() -> None:
    if _current is not None:
        _current.close()


os.register_at_fork(after_in_child=_forget)
atexit.register(_at_exit)
