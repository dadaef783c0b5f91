"""From the arguments of a launch to a kernel's parameters, and to the memory that it may touch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.arguments import value_bits
from tileprobe.targets.gpu.arguments import told, value_at
from tileprobe.targets.simgpu.cubin import Parameter

_DESCRIPTORS = ("nvTmaDesc", "bytes")


def flatten(
    signature: Sequence[Any], arguments: Sequence[Any], names: Sequence[str]
) -> list[tuple[str, str, Any]]:
    """(name, type, value) of all that is not constant; tuples are taken apart."""
    return [(name, kind, value_at(arguments, path)) for path, name, kind in told(names, signature)]


def pack(kernel: str, values: Sequence[tuple[str, str, Any]], parameters: Sequence[Parameter]) -> bytes:
    """The parameters as they stand in the constant bank."""
    if len(values) != len(parameters):
        raise TileProbeError(
            f"kernel {kernel}: the cubin takes {len(parameters)} parameters, the launch has {len(values)}"
        )
    end = max((p.offset + p.size for p in parameters), default=0)
    made = bytearray(end)
    for (name, kind, value), parameter in zip(values, parameters):
        data = bytes(value) if kind in _DESCRIPTORS else _bytes(kernel, name, kind, value)
        if len(data) != parameter.size:
            raise TileProbeError(
                f"kernel {kernel}: {name} of type {kind} has {len(data)} bytes, the cubin wants {parameter.size}"
            )
        made[parameter.offset : parameter.offset + parameter.size] = data
    return bytes(made)


def _bytes(kernel: str, name: str, kind: str, value: Any) -> bytes:
    bits = value_bits(kernel, name, kind, value).to_bytes(8, "little")
    return bits[: _size_of(kind)]


def _size_of(kind: str) -> int:
    """The bytes of a parameter of this type."""
    if kind.startswith("*"):
        return 8
    return max(1, int(re.sub(r"\D", "", kind)) // 8)


def pointer(value: Any) -> int:
    if value is None:
        return 0
    return int(value.data_ptr()) if hasattr(value, "data_ptr") else int(value)


def memory(value: Any, sized: bool = False) -> tuple[int, int] | None:
    """The first byte and the end of the memory that a tensor lies in; a view of another type has it as its base.
    `sized`: only of what says how large it is."""
    while hasattr(value, "data_ptr") and not hasattr(value, "untyped_storage") and hasattr(value, "base"):
        value = value.base
    storage = getattr(value, "untyped_storage", None)
    if storage is not None:
        kept = storage()
        return kept.data_ptr(), kept.data_ptr() + kept.nbytes()
    if hasattr(value, "data_ptr"):
        start, size = int(value.data_ptr()), _size(value)
        if size is None:
            return None if sized else mapping(start)
        return start, start + size
    return None


def mapping(address: int) -> tuple[int, int] | None:
    """The memory around an address, as the system has it: all that is known of what gives an address alone."""
    with suppress(OSError), open("/proc/self/maps") as file:
        for line in file:
            first, _, last = line.partition(" ")[0].partition("-")
            if int(first, 16) <= address < int(last, 16):
                return address, int(last, 16)
    return None


@dataclass(frozen=True)
class Named:
    """The memory of an argument that is a pointer; elements count from what the kernel was given."""

    name: str
    first: int
    start: int
    stop: int
    size: int  # bytes of an element

    def element(self, address: int) -> str:
        return f"{self.name}[{(address - self.first) // self.size}]"


def named(values: Sequence[tuple[str, str, Any]]) -> list[Named]:
    """Of all arguments whose memory is known."""
    found = []
    for name, kind, value in values:
        span = memory(value) if kind.startswith("*") and name != "scratch" else None
        bits = re.search(r"\d+", kind)
        if span is not None and bits is not None:
            found.append(Named(name, pointer(value), *span, max(1, int(bits[0]) // 8)))
    return found


def element(names: Sequence[Named], address: int) -> str:
    """An address in the words of the kernel, `x[32]`; nothing where no argument, or more than one, lies there."""
    found = {one.element(address) for one in names if one.start <= address < one.stop}
    return found.pop() if len(found) == 1 else ""


def _size(value: Any) -> int | None:
    """The bytes of something that only looks like a tensor, by what such things have."""
    if (size := getattr(value, "nbytes", None)) is not None:
        return int(size)
    if hasattr(value, "numel") and hasattr(value, "element_size"):
        return int(value.numel()) * int(value.element_size())
    inner = getattr(value, "numpy", None)
    return int(inner().nbytes) if inner is not None else None
