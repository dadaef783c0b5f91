"""What a nest yields, collected point by point and combined along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from tileprobe.ir.accessors import elem_type
from tileprobe.targets.cpu.dialect import NestOp
from tileprobe.targets.cpu.interpret import buffers
from tileprobe.targets.cpu.interpret.effects import Lanes
from tileprobe.targets.cpu.interpret.float_ops import FLOAT_BINARY
from tileprobe.targets.cpu.interpret.floats import Array, is_float, round_to, storage, widen
from tileprobe.targets.cpu.interpret.integers import BINARY
from tileprobe.targets.cpu.interpret.orders import Access


class Reductions:
    """The reductions of one run of a nest. A row is combined as soon as it is complete, as machine code does."""

    def __init__(self, op: NestOp, yielded: Sequence[SSAValue]):
        self.op, self.yielded = op, yielded
        self.names = [elem_type(v.type) for v in yielded]
        if not yielded:
            return
        dims = op.dims
        assert op.axis is not None and op.reduce is not None
        self.axis, self.kinds = op.axis.data, [kind.data for kind in op.reduce]
        self.outer = tuple(d for axis, d in enumerate(dims) if axis != self.axis)
        numbers = np.arange(prod(dims)).reshape(dims)
        self.rows = np.moveaxis(numbers, self.axis, -1).reshape(-1, dims[self.axis])
        self.row_of = np.empty(numbers.size, np.int64)
        self.row_of[self.rows] = np.arange(len(self.rows))[:, None]
        self.left = np.full(len(self.rows), dims[self.axis])
        self.values = [np.empty(numbers.size, storage(name)) for name in self.names]

    def collect(self, lanes: Lanes, place: int) -> None:
        if not self.names:
            return
        for held, value in zip(self.values, self.yielded):
            held[lanes.points] = lanes.all(value)
        touched = self.row_of[lanes.points]
        np.subtract.at(self.left, touched, 1)
        complete = np.unique(touched[self.left[touched] == 0])
        if complete.size and self.op.into:
            lanes.place = place
            self._write(lanes, complete)

    def _write(self, lanes: Lanes, complete: np.ndarray) -> None:
        indices = np.unravel_index(complete, self.outer) if self.outer else ()
        for number, target in enumerate(self.op.into):
            buffer, kind = lanes.get(target), buffers.buffer_type(target)
            offsets = buffers.byte_offsets(buffer, kind, indices, complete.size, self.op)
            values = self._combined(number, complete)
            lanes.frame.memory.write(buffer.region, offsets, values, buffer.owner)
            if lanes.log is not None:
                last, size = self.rows[complete, -1], values.dtype.itemsize
                lanes.log.append(Access(lanes.place, True, offsets + buffer.region.begin, size, last))

    def _combined(self, number: int, rows: np.ndarray) -> np.ndarray:
        name, values = self.names[number], self.values[number][self.rows[rows]]
        return fold(self.kinds[number], name, values)

    def results(self) -> list[Array]:
        if not self.names or self.op.into:
            return []
        everything = np.arange(len(self.rows))
        return [self._combined(number, everything)[0] for number in range(len(self.names))]


def fold(kind: str, name: str, values: np.ndarray) -> np.ndarray:
    """Rows combined to one value each, neighbours first. Small floats are summed in f32 and rounded once."""
    if not is_float(name):
        return pairwise(BINARY[kind], values)
    total = pairwise(FLOAT_BINARY[kind], widen(values, name))
    return round_to(total, name)


def pairwise(combine: Callable[[Array, Array], Array], values: np.ndarray) -> np.ndarray:
    while values.shape[-1] > 1:
        even = values.shape[-1] // 2 * 2
        rest = values[..., even:]
        values = np.concatenate([combine(values[..., 0:even:2], values[..., 1:even:2]), rest], axis=-1)
    return values[..., 0]
