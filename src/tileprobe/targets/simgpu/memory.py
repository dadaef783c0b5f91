"""Memory that a kernel may touch without having been given it: tensors whose addresses it read from other tensors."""

from __future__ import annotations

import gc
from typing import Any

from tileprobe.targets.simgpu import arguments


def holds_addresses(values: list[tuple[str, str, Any]]) -> bool:
    """Whether a kernel can have got addresses other than through pointer arguments: from tensors of 64-bit integers, or
    as numbers."""
    return any(
        (kind.startswith("*") and kind.lstrip("*k") in ("i64", "u64"))
        or kind in ("i64", "u64")
        or (kind.startswith("*") and isinstance(value, int))
        for _, kind, value in values
    )


def find(address: int) -> tuple[int, int] | None:
    """The memory of a living tensor or array that an address lies in."""
    for thing in gc.get_objects():
        kind = type(
            thing
        )  # asked of the type: an object may answer for another, which may be gone (weak proxies)
        if not hasattr(kind, "data_ptr"):
            continue
        try:
            span = arguments.memory(thing, sized=True)
        except Exception:  # a tensor without memory of its own
            continue
        # Tensors that have no memory (meta, fake) may name an address all the same.
        if span is not None and span[0] <= address < span[1] and arguments.mapping(address) is not None:
            return span
    return None
