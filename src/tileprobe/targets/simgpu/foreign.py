"""Launches kernels of cubins that Triton did not make: what their parameters are is known by size alone.

In come a decoded kernel, its grid and block, and arguments; they go the way of all launches (`launch.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.arguments import ArgumentError
from tileprobe.targets.catalog import array
from tileprobe.targets.simgpu.cubin import Parameter
from tileprobe.targets.simgpu.launch import Launcher
from tileprobe.targets.simgpu.machine import Machine
from tileprobe.targets.simgpu.program import Program

_POINTER = 8
_DEEPEST = 64  # threads of a block along z (CUDA C++ Programming Guide, technical specifications)


class ForeignLauncher(Launcher):
    """A launcher of one launch; it takes the place of what Triton knows of its kernels."""

    hidden = False

    def __init__(self, program: Program, machine: Machine, block: tuple[int, int, int], shared: int) -> None:
        self.program, self.kernel, self.file, self.constants = program, program.name, "", {}
        self.block = _checked_block(program, machine, block)
        total = program.cubin.static_shared_bytes + shared
        if shared < 0 or total > machine.shared_bytes:
            raise TileProbeError(
                f"kernel {self.kernel}: {shared:,} bytes of shared memory beside {program.cubin.static_shared_bytes:,} "
                f"of its own; a program has {machine.shared_bytes:,} at most"
            )
        self.metadata = SimpleNamespace(shared=shared, num_ctas=1)

    def threads(self, program: Program) -> int:
        assert self.block is not None
        return self.block[0] * self.block[1] * self.block[2]

    def _values(self, args: Any) -> tuple[list[tuple[str, str, Any]], list[tuple[int, int]]]:
        parameters = self.program.cubin.parameters
        if len(args) != len(parameters):
            sizes = ", ".join(str(parameter.size) for parameter in parameters) or "none"
            raise ArgumentError(
                f"kernel {self.kernel} takes {_several(len(parameters))} (bytes of each: {sizes}), and was given "
                f"{len(args)}"
            )
        return [
            (f"argument {n}", *_taken(self.kernel, n, parameter, value))
            for n, (parameter, value) in enumerate(zip(parameters, args))
        ], []


def _several(count: int) -> str:
    return f"{count} parameter{'s' * (count != 1)}"


def _checked_block(program: Program, machine: Machine, block: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = block
    threads, found = x * y * z, program.cubin
    if min(block) < 1 or threads > machine.threads_program or z > _DEEPEST:
        raise TileProbeError(
            f"kernel {program.name}: a block of {x} x {y} x {z} threads; it has between 1 and "
            f"{machine.threads_program}, and {_DEEPEST} along z at most"
        )
    if found.block is not None and tuple(block) != found.block:
        wanted = " x ".join(map(str, found.block))
        raise TileProbeError(
            f"kernel {program.name} is compiled for blocks of {wanted} threads, not {x} x {y} x {z}"
        )
    if found.threads and threads > found.threads:
        raise TileProbeError(
            f"kernel {program.name} is compiled for {found.threads} threads at most, the block has {threads}"
        )
    return x, y, z


def _taken(kernel: str, n: int, parameter: Parameter, value: Any) -> tuple[str, Any]:
    """A type and a value, as `arguments.pack` wants them."""
    size = parameter.size
    if isinstance(value, np.ndarray) and value.ndim:
        value = array(value)
    if value is None or hasattr(value, "data_ptr"):
        _must(size == _POINTER, kernel, n, size, value, "an address has 8")
        return ("*i8" if value is None else _pointer_kind(value)), value
    if isinstance(value, bool | int) and not isinstance(value, np.generic):
        bits = 8 * size
        _must(size in (1, 2, 4, 8), kernel, n, size, value, "no whole number has as many")
        _must(-(1 << bits - 1) <= value < 1 << bits, kernel, n, size, value, "it does not fit")
        return f"i{bits}", int(value)
    if isinstance(value, float) and not isinstance(value, np.generic):
        _must(
            size in (4, 8),
            kernel,
            n,
            size,
            value,
            "a number of Python is passed as 4 or 8; np.float16(x) has 2",
        )
        return f"fp{8 * size}", value
    data = _raw(value)
    _must(data is not None, kernel, n, size, value, "pass an array, a number, a NumPy scalar or bytes")
    _must(len(data or b"") == size, kernel, n, size, value, f"this has {len(data or b'')}")
    return "bytes", data


def _raw(value: Any) -> bytes | None:
    """NumPy's scalars, structures of ctypes and bytes, as they are."""
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tobytes()
    if isinstance(value, ctypes.Structure | ctypes._SimpleCData | ctypes.Array):
        return bytes(memoryview(value).cast("B"))
    return None


def _pointer_kind(value: Any) -> str:
    kind = str(getattr(value, "dtype", "")).rpartition(".")[2]
    size = int(value.element_size()) if hasattr(value, "element_size") else 1
    return f"*{'i' if 'int' in kind else 'fp'}{8 * size}"


def _must(right: bool, kernel: str, n: int, size: int, value: Any, why: str) -> None:
    if not right:
        raise ArgumentError(
            f"kernel {kernel}: argument {n} has {size} bytes in the cubin and cannot take {_shown(value)}: {why}"
        )


def _shown(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 40 and "\n" not in said else f"this {type(value).__name__}"
