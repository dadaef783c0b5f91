"""The extents of the tensors a kernel is given, for launches with `check_bounds`.

Comes in: a launch's arguments. Goes out: the table generated code searches (count, then begin and end of each
range, sorted and merged) and the tensors' names for the error message.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.targets.cpu.tensors import byte_bounds


@dataclass(frozen=True)
class Extent:
    """A tensor's memory: its storage, since kernels may reach from one view into another."""

    name: str
    begin: int
    end: int
    first: int  # address of the view's first element
    itemsize: int
    shape: tuple[int, ...]


def extents(names: Any, args: Any) -> list[Extent] | None:
    """The known tensors among the arguments; None if one has no known size: nothing can be checked."""
    found = []
    for name, value in _tensors(zip(names, args)):
        extent = _extent(name, value)
        if extent is None:
            return None
        found.append(extent)
    return found


def table(known: list[Extent]) -> Any:
    """The table as an array of 64-bit integers that must outlive the launch."""
    merged: list[list[int]] = []
    for begin, end in sorted((e.begin, e.end) for e in known if e.end > e.begin):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    flat = [len(merged), *(value for pair in merged for value in pair)]
    return (ctypes.c_uint64 * len(flat))(*flat)


def _tensors(named: Any) -> Iterator[tuple[str, Any]]:
    for name, value in named:
        if isinstance(value, tuple):
            yield from _tensors((f"{name}[{i}]", item) for i, item in enumerate(value))
        elif hasattr(value, "base") and hasattr(value, "block_shape"):  # a tensor descriptor
            yield name, value.base
        elif hasattr(value, "data_ptr"):
            yield name, value


def _extent(name: str, tensor: Any) -> Extent | None:
    first = tensor.data_ptr()
    if hasattr(tensor, "raw"):  # tileprobe.array
        owner = tensor.raw
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        begin, end = byte_bounds(owner)
        return Extent(name, begin, end, first, tensor.dtype.itemsize, tensor.shape)
    while hasattr(tensor, "base") and not hasattr(tensor, "untyped_storage"):  # triton.reinterpret
        tensor = tensor.base
    if hasattr(tensor, "untyped_storage"):
        storage = tensor.untyped_storage()
        begin, end = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
        return Extent(name, begin, end, first, tensor.element_size(), tuple(tensor.shape))
    if not hasattr(tensor, "element_size") or not hasattr(tensor, "shape"):
        return None
    size = tensor.element_size()
    return Extent(name, first, first + size * math.prod(tensor.shape), first, size, tuple(tensor.shape))
