"""Which arguments of a launch are the same tensor: a kernel is compiled anew for that.

Comes in: the tensors of a launch. Goes out: a text such as `x=out,a=b=c`, empty for almost every launch. It is an
option of the compilation (`CpuOptions.same`): without it, arguments are taken for tensors that do not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def same_tensors(names: Sequence[str], tensors: Sequence[Any]) -> str:
    """The arguments that start at the same address. Asked at every launch, so the usual way out is short."""
    try:
        places = [tensor.data_ptr() for tensor in tensors]
    except AttributeError:  # an address as an integer, or nothing at all
        places = [_place(tensor) for tensor in tensors]
    if len(set(places)) == len(places):
        return ""
    groups: dict[int, list[str]] = {}
    for name, place in zip(names, places):
        groups.setdefault(place, []).append(name)
    groups.pop(0, None)  # an empty tensor is nowhere
    return ",".join("=".join(group) for group in groups.values() if len(group) > 1)


def _place(tensor: Any) -> int:
    """Of what is no tensor it is nowhere: that it is none is said when the arguments are packed."""
    if hasattr(tensor, "data_ptr"):
        return tensor.data_ptr()
    return tensor if isinstance(tensor, int) else 0


def representatives(text: str) -> dict[str, str]:
    """The argument that stands for each one that is the same as another."""
    groups = [group.split("=") for group in text.split(",") if group]
    return {name: group[0] for group in groups for name in group[1:]}
