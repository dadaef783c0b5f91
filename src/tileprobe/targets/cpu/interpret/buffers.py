"""Buffers in scratch memory: where an element lies, and whole tiles at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from tileprobe.ir.accessors import elem_type
from tileprobe.targets.cpu.codegen.dot_layout import Panel
from tileprobe.targets.cpu.dialect import BufferType
from tileprobe.targets.cpu.interpret.errors import OutOfBoundsError, describe
from tileprobe.targets.cpu.interpret.floats import Array, storage
from tileprobe.targets.cpu.interpret.memory import Memory, Region
from tileprobe.targets.cpu.schedule.scratch import buffer_elements


@dataclass(frozen=True)
class Buffer:
    """A buffer at run time. Views share the region, the offset and the owner of what they view."""

    region: Region
    offset: int  # in bytes
    owner: int  # number of the allocation it comes from; 0 for a table of constants

    @property
    def address(self) -> int:
        return self.region.begin + self.offset


def buffer_type(value: SSAValue) -> BufferType:
    assert isinstance(value.type, BufferType)
    return value.type


def size_of(kind: BufferType) -> int:
    """Bytes of a buffer, without the room behind it."""
    return buffer_elements(kind) * storage(elem_type(kind.element)).itemsize


def _check(kind: BufferType, indices: Sequence[Array], op: Operation) -> None:
    """An index outside the buffer's shape is an error, wherever it would lead."""
    for axis, (index, extent) in enumerate(zip(indices, kind.dims)):
        bad = (index < 0) | (index >= extent)
        if np.any(bad):
            found = int(np.extract(bad, index)[0])
            raise OutOfBoundsError(
                f"{describe(op)}: index {found} along axis {axis} of a buffer of shape {list(kind.dims)}"
            )


def element_offsets(kind: BufferType, indices: Sequence[Array]) -> Array:
    """Places of elements, counted in elements."""
    where = [np.asarray(i, np.int64) for i in indices]
    if kind.panel is None:
        return _row_major(kind.dims, where)
    axis, width = kind.panel
    panel = Panel((kind.dims[-2], kind.dims[-1]), axis, width)
    along, across = where[-2 + axis], where[-1 - axis]
    inside = (along // width * panel.other + across) * width + along % width
    return _row_major(kind.dims[:-2], where[:-2]) * panel.elems + inside


def _row_major(dims: Sequence[int], indices: Sequence[Array]) -> Array:
    flat: Array = np.int64(0)
    for extent, index in zip(dims, indices):
        flat = flat * extent + index
    return flat


@lru_cache(maxsize=512)
def _all_offsets(kind: BufferType) -> np.ndarray:
    grid = np.indices(kind.dims).reshape(len(kind.dims), prod(kind.dims))
    return np.broadcast_to(element_offsets(kind, list(grid)), (prod(kind.dims),)).copy()


def read_elements(
    memory: Memory, buffer: Buffer, kind: BufferType, indices: Sequence[Array], count: int, op: Operation
) -> tuple[np.ndarray, np.ndarray]:
    """`count` elements and their addresses."""
    held = storage(elem_type(kind.element))
    offsets = byte_offsets(buffer, kind, indices, count, op)
    return memory.read(buffer.region, offsets, held, buffer.owner, op), offsets + buffer.region.begin


def byte_offsets(
    buffer: Buffer, kind: BufferType, indices: Sequence[Array], count: int, op: Operation
) -> np.ndarray:
    """Offsets into the buffer's region of `count` elements."""
    _check(kind, indices, op)
    size = storage(elem_type(kind.element)).itemsize
    offsets = np.broadcast_to(element_offsets(kind, indices), (count,))
    return buffer.offset + offsets * size


def read_tile(memory: Memory, buffer: Buffer, kind: BufferType, op: Operation) -> np.ndarray:
    """The whole tile, in its shape."""
    held = storage(elem_type(kind.element))
    offsets = buffer.offset + _all_offsets(kind) * held.itemsize
    return memory.read(buffer.region, offsets, held, buffer.owner, op).reshape(kind.dims)


def write_tile(memory: Memory, buffer: Buffer, kind: BufferType, values: np.ndarray) -> None:
    held = storage(elem_type(kind.element))
    offsets = buffer.offset + _all_offsets(kind) * held.itemsize
    memory.write(buffer.region, offsets, values.reshape(-1), buffer.owner)
