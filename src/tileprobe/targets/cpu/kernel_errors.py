"""What goes wrong inside a kernel, as Python exceptions that name the kernel, the line and the program.

Comes in: the error block a launch filled, the kernel's list of sites and the known tensors. Goes out: an
exception to raise.
"""

from __future__ import annotations

import ctypes
from typing import Any

from tileprobe.errors import TileProbeError

BLOCK_BYTES = 128
_VALUES = 6


class KernelError(TileProbeError, RuntimeError):
    """A program of a launch failed."""


class KernelAssertionError(KernelError, AssertionError):
    """A `tl.device_assert` did not hold."""


class KernelIndexError(KernelError, IndexError):
    """An access outside every tensor the kernel was given (with `check_bounds`)."""


class ErrorBlock(ctypes.Structure):
    """As generated code sees it: the first program that fails sets `state` and fills the rest."""

    _fields_ = [
        ("state", ctypes.c_int32),
        ("site", ctypes.c_int32),
        ("program", ctypes.c_int64),
        ("values", ctypes.c_int64 * _VALUES),
        ("reserved", ctypes.c_uint8 * (BLOCK_BYTES - 16 - 8 * _VALUES)),
    ]


def describe(
    kernel: str, block: ErrorBlock, sites: list[dict[str, Any]], grid: Any, tensors: Any
) -> KernelError:
    """The exception for a filled error block."""
    site = sites[block.site] if 0 <= block.site < len(sites) else {"kind": "error", "message": "unknown site"}
    where = f"{site['file']}:{site.get('line', 0)}" if site.get("file") else "unknown line"
    x = block.program % grid[0]
    y = block.program // grid[0] % grid[1]
    z = block.program // (grid[0] * grid[1])
    head = f"kernel {kernel}, {where}, program ({x}, {y}, {z})"
    if site.get("function"):
        head += f", in {site['function']}"
    if site["kind"] == "assert":
        return KernelAssertionError(f"{head}: device assertion failed: {site.get('message') or 'no message'}")
    if site["kind"] == "bounds":
        return KernelIndexError(f"{head}: {_out_of_bounds(site, list(block.values), tensors)}")
    return KernelError(f"{head}: {site.get('message') or site['kind']}")


def _out_of_bounds(site: dict[str, Any], values: list[int], tensors: Any) -> str:
    """The first value of a bounds site is the address. The nearest tensor is named, with the index."""
    address = values[0] & (2**64 - 1)
    access = site.get("access") or site.get("message") or "access"
    if not tensors:
        return f"{access} at address {address:#x} is outside every tensor"
    nearest = min(tensors, key=lambda t: max(t.begin - address, address - (t.end - 1), 0))
    index = (address - nearest.first) // nearest.itemsize
    count = (nearest.end - nearest.first) // nearest.itemsize
    where = f"element {index} of {count} (shape {tuple(nearest.shape)}, {nearest.itemsize} bytes each)"
    if not -count <= index < 2 * count:
        return f"out-of-bounds {access} far from any tensor; from {nearest.name}, the nearest: {where}"
    return f"out-of-bounds {access} of {nearest.name}: {where}"
