"""What a launch was given, as the bits that a kernel takes. A wrong argument is an error that names it and the kernel.

The same for every target whose tensors are memory of this machine.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Sequence
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.base import host_devices

_FLOATS = ("fp16", "bf16", "fp32", "f32", "fp64")


class ArgumentError(TileProbeError, TypeError):
    """An argument a kernel cannot take."""


def check_count(kernel: str, names: Sequence[str], args: Sequence[Any]) -> None:
    """A compiled kernel is called with every argument in order, constants too: nothing binds them by name before."""
    if len(args) < len(names):
        missing = ", ".join(repr(name) for name in names[len(args) :])
        raise ArgumentError(f"kernel {kernel}: {len(args)} arguments are given, and {missing} missing")
    if len(args) > len(names):
        listed = ", ".join(names)
        raise ArgumentError(
            f"kernel {kernel}: {len(args)} arguments are given, and it takes {len(names)} ({listed})"
        )


def value_bits(kernel: str, name: str, kind: str, value: Any) -> int:
    """The 64 bits of an argument of this type; those of a narrower one are the low ones."""
    if kind.startswith("*"):
        return _address(kernel, name, kind, value)
    try:
        if isinstance(value, str | bytes):  # Python would read a number from it
            raise TypeError
        if kind in _FLOATS:
            return _float_bits(kind, float(value))
        return int(value) & (2**64 - 1)
    except (TypeError, ValueError):
        found = f"{type(value).__name__} {value!r:.60}"
        raise _wrong(kernel, name, found, f"a number ({kind})") from None


def grid_size(kernel: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentError(f"kernel {kernel}: the grid must be made of integers, got {value!r}") from None


def _address(kernel: str, name: str, kind: str, value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if not hasattr(value, "data_ptr"):
        hint = ""
        if type(value).__module__ == "numpy":
            hint = "; wrap a NumPy array with tileprobe.array(...)"
        raise _wrong(kernel, name, f"a {type(value).__name__}", f"a tensor ({kind})", hint)
    if not is_here(value):
        device = getattr(value, "device", "cpu")
        hint = "; move it with .cpu(), or choose the GPU with tileprobe.use or TRITON_DEFAULT_BACKEND"
        raise _wrong(
            kernel, name, f"one on device {str(device)!r}", "a tensor in this machine's memory", hint
        )
    return value.data_ptr()


def is_here(value: Any) -> bool:
    """Whether a tensor lies in this machine's memory: the CPU's do, and those of a device that is mapped to it."""
    device = getattr(value, "device", "cpu")
    kind = getattr(device, "type", str(device)).split(":")[0]
    return kind == "cpu" or kind in host_devices


def _wrong(kernel: str, name: str, found: str, expected: str, hint: str = "") -> ArgumentError:
    return ArgumentError(f"kernel {kernel}, argument {name!r}: expected {expected}, got {found}{hint}")


def to_bf16(value: float) -> int:
    """The bits of the nearest bfloat16."""
    bits = struct.unpack("<I", ctypes.c_float(value))[0]
    if value != value:
        return 0x7FC0
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def _float_bits(kind: str, value: float) -> int:
    if kind == "fp64":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    if kind == "bf16":
        return to_bf16(value)
    if kind == "fp16":
        try:
            return struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            return 0x7C00 if value > 0 else 0xFC00
    return struct.unpack("<I", ctypes.c_float(value))[0]  # like C: too large becomes infinity
