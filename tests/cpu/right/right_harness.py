"""Runs kernels in child processes, one for each kind of machine, between guard pages.

What these tests look for may kill a process: reads of masked-off memory, writes out of bounds, compilations that
never end. A child that dies or stays silent is a failed test, and the next test gets a new child. Arrays end at a
page that must not be touched and begin behind bytes that must not change.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import mmap
import os
import subprocess
import sys
import traceback
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from cpu_harness import INTERPRETED, Buffer, launch

# The CPU as it is, vectors of 16 and of 64 bytes. Narrow code is narrow everywhere; wide code needs no AVX-512.
MACHINES: dict[str, dict[str, str]] = {
    "host": {},
    "sse": {"TILEPROBE_CPU": "x86-64-v2"},
    "wide": {"TILEPROBE_VECTOR_BYTES": "64"},
    "checked": {"RIGHT_CHECK_BOUNDS": "1"},
    "interpreter": {"TRITON_INTERPRET": "1"},
}
HERE = bool(os.environ.get("TILEPROBE_TESTS_HERE"))  # in this process, on the target that is in use
ALL_WIDTHS = ("host", "sse", "wide")
_CANARY = 0xA5
_children: dict[str, Child] = {}


class Child:
    """A process that runs kernels as one kind of machine."""

    def __init__(self, machine: str):
        self.pipe, theirs = Pipe()
        fd = theirs.fileno()
        environment = {**os.environ, "TRITON_INTERPRET": "0", **MACHINES[machine]}
        paths = [str(Path(__file__).parent), *sys.path]
        environment["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)
        command = [sys.executable, "-c", f"import right_harness; right_harness.serve({fd})"]
        self.process = subprocess.Popen(command, env=environment, pass_fds=[fd])
        theirs.close()

    def ask(self, job: tuple[Any, ...], timeout_s: float) -> Any:
        try:
            self.pipe.send(job)
            if self.pipe.poll(timeout_s):
                return self.pipe.recv()
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"no answer within {timeout_s:g} s")
        except (EOFError, ConnectionError):
            raise AssertionError(f"the kernel killed its process: status {self.process.wait()}") from None

    def close(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.wait()


@atexit.register
def _close_children() -> None:
    while _children:
        _children.popitem()[1].close()


def run(
    kernel: Any, *args: Any, machine: str = "host", grid: Any = 1, timeout_s: float = 120, **meta: Any
) -> list[np.ndarray]:
    """Launch `kernel`; the arrays among `args` (of NumPy or `Buffer`s) as they are afterwards, in this order.

    The same array twice is the same memory.
    """
    places: dict[int, int] = {}
    arrays: list[tuple[np.ndarray, str]] = []
    packed: list[Any] = []
    for arg in args:
        if not isinstance(arg, np.ndarray | Buffer):
            packed.append(("scalar", arg))
            continue
        if id(arg) not in places:
            places[id(arg)] = len(arrays)
            arrays.append((arg.bits, arg.name) if isinstance(arg, Buffer) else (arg, _name(arg)))
        packed.append(("array", places[id(arg)]))
    code, rest = kernel.fn.__code__, (grid, arrays, packed, meta)
    if HERE:
        answer = _execute(
            {(code.co_filename, kernel.fn.__name__): kernel}, code.co_filename, kernel.fn.__name__, *rest
        )
        assert not answer[1], f"bytes in front of the arrays {answer[1]} changed"
        return answer[0]
    machine = "interpreter" if INTERPRETED else machine  # checks what the tests expect
    child = _children.get(machine)
    if child is None or child.process.poll() is not None:
        child = _children[machine] = Child(machine)
    kind, answer = child.ask((code.co_filename, kernel.fn.__name__, *rest), timeout_s)
    assert kind == "done", answer
    assert not answer[1], f"bytes in front of the arrays {answer[1]} changed"
    return answer[0]


def _name(array: np.ndarray) -> str:
    return "int1" if array.dtype == np.bool_ else str(array.dtype)


# -- in the child --------------------------------------------------------------------------------------------


class Guarded(Buffer):
    """A buffer that ends where a page begins that must not be touched."""

    def __init__(self, bits: np.ndarray, name: str):
        page = mmap.PAGESIZE
        room = (bits.nbytes // page + 2) * page
        self.memory = mmap.mmap(-1, room + page)
        self.memory[:room] = bytes([_CANARY]) * room
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + room), page, 0) == 0
        self.before = room - bits.nbytes
        super().__init__(np.zeros(1), name)
        flat = np.frombuffer(self.memory, bits.dtype, bits.size, self.before)
        self.bits = flat.reshape(bits.shape)
        self.bits[...] = bits
        self.shape = bits.shape

    def broken(self) -> bool:
        return self.memory[: self.before].strip(bytes([_CANARY])) != b""


def serve(fd: int) -> None:
    """Answer jobs until the other side goes away."""
    os.environ.setdefault("TRITON_DEFAULT_BACKEND", "cpu")
    if "RIGHT_CHECK_BOUNDS" in os.environ:
        import tileprobe

        tileprobe.use("cpu", check_bounds=True)
    pipe: Connection = Connection(fd)
    kernels: dict[tuple[str, str], Any] = {}
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(("done", _execute(kernels, *job)))
        except BaseException:
            pipe.send(("failed", traceback.format_exc()))


def _execute(
    kernels: dict[tuple[str, str], Any],
    path: str,
    name: str,
    grid: Any,
    arrays: list[tuple[np.ndarray, str]],
    args: list[tuple[str, Any]],
    meta: dict[str, Any],
) -> tuple[list[np.ndarray], list[int]]:
    if (path, name) not in kernels:
        kernels[path, name] = getattr(_module(path), name)
    memory = [Guarded(np.ascontiguousarray(bits), kind) for bits, kind in arrays]
    given = [memory[arg] if kind == "array" else arg for kind, arg in args]
    launch(kernels[path, name], grid, *given, **meta)
    return [m.bits.copy() for m in memory], [n for n, m in enumerate(memory) if m.broken()]


def _module(path: str) -> Any:
    name = Path(path).stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == path:
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
