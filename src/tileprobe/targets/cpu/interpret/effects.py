"""Loads, stores, atomics, prints and assertions, for some points of a nest or for one scalar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from tileprobe.ir.accessors import elem_type, int_attr, op_name
from tileprobe.targets.cpu.dialect import ReadOp, WriteOp
from tileprobe.targets.cpu.interpret import buffers
from tileprobe.targets.cpu.interpret.elementwise import pointee_name
from tileprobe.targets.cpu.interpret.floats import Array, storage
from tileprobe.targets.cpu.interpret.machine import Frame
from tileprobe.targets.cpu.interpret.orders import Access


class Lanes:
    """The points for which an op is done at once, and the values known at them."""

    def __init__(
        self, frame: Frame, values: dict[SSAValue, Any], points: np.ndarray, log: list[Access] | None = None
    ):
        self.frame = frame
        self.values = values
        self.points = points
        self.log = log
        self.place = 0  # of the current op in the body

    @property
    def count(self) -> int:
        return self.points.size

    def get(self, value: SSAValue) -> Any:
        found = self.values.get(value)
        return self.frame.values[value] if found is None else found

    def all(self, value: SSAValue) -> np.ndarray:
        return np.broadcast_to(self.get(value), (self.count,))

    def note(
        self,
        writes: bool,
        addresses: np.ndarray,
        size: int,
        active: Any = slice(None),
        stored: np.ndarray | None = None,
    ) -> None:
        """Remember what was touched, if anybody asks."""
        if self.log is not None:
            self.log.append(Access(self.place, writes, addresses, size, self.points[active], stored))

    def tell(self, op: Operation, addresses: np.ndarray, mask: np.ndarray | None = None) -> None:
        """Says what of the caller's memory is touched, if anybody asks."""
        if self.frame.machine.touched is not None:
            self.frame.machine.touched(op, addresses, mask)


def is_serial(op: Operation) -> bool:
    """Done point by point, forwards, whatever the order: who comes first shows in the outcome."""
    return op_name(op).startswith(("tt.atomic", "tt.print", "tt.assert", "tt.map_elementwise"))


def read(lanes: Lanes, op: ReadOp) -> np.ndarray:
    kind, buffer = buffers.buffer_type(op.buffer), lanes.get(op.buffer)
    indices = [lanes.get(i) for i in op.indices]
    found, addresses = buffers.read_elements(lanes.frame.memory, buffer, kind, indices, lanes.count, op)
    lanes.note(False, addresses, found.dtype.itemsize)
    return found


def write(lanes: Lanes, op: WriteOp) -> None:
    kind, buffer = buffers.buffer_type(op.buffer), lanes.get(op.buffer)
    values = lanes.all(op.value)
    offsets = buffers.byte_offsets(buffer, kind, [lanes.get(i) for i in op.indices], lanes.count, op)
    lanes.frame.memory.write(buffer.region, offsets, values, buffer.owner)
    lanes.note(True, offsets + buffer.region.begin, values.dtype.itemsize)


def load(lanes: Lanes, op: Operation) -> np.ndarray:
    """Where the mask is off, `other`, or zero as in generated code."""
    addresses = lanes.all(op.operands[0])
    kind = storage(pointee_name(op.operands[0].type))
    if len(op.operands) == 1:
        lanes.note(False, addresses, kind.itemsize)
        lanes.tell(op, addresses)
        return lanes.frame.memory.load(addresses, kind, op)
    mask = lanes.all(op.operands[1])
    active = np.flatnonzero(mask)
    lanes.tell(op, addresses, mask)
    found = lanes.all(op.operands[2]).copy() if len(op.operands) > 2 else np.zeros(lanes.count, kind)
    found[active] = lanes.frame.memory.load(addresses[active], kind, op)
    lanes.note(False, addresses[active], kind.itemsize, active)
    return found


def store(lanes: Lanes, op: Operation) -> None:
    addresses, values = lanes.all(op.operands[0]), lanes.all(op.operands[1])
    active: Any = slice(None)
    mask = None
    if len(op.operands) > 2:
        mask = lanes.all(op.operands[2])
        active = np.flatnonzero(mask)
    lanes.tell(op, addresses, mask)
    lanes.frame.memory.store(addresses[active], values[active], op)
    lanes.note(True, addresses[active], values.dtype.itemsize, active, values[active])


_MASKS = {"tt.atomic_rmw": 2, "tt.atomic_cas": 3, "tt.atomic_load": 1, "tt.atomic_store": 2}


def _masked(op: Operation) -> bool:
    return op_name(op) in _MASKS and len(op.operands) > _MASKS[op_name(op)]


def tell_one(frame: Frame, op: Operation, args: list[Array]) -> None:
    """Says what an atomic operation on one element, outside of any stage, touches, if anybody asks."""
    if frame.machine.touched is not None and op_name(op).startswith("tt.atomic"):
        mask = np.asarray(args[_MASKS[op_name(op)]], bool).reshape(1) if _masked(op) else None
        frame.machine.touched(op, np.asarray(args[0]).reshape(1), mask)


Serial = Callable[[Frame, Operation, list[Array]], list[Array]]


def one_by_one(lanes: Lanes, op: Operation, work: Serial) -> list[np.ndarray]:
    """The results of an op done for one point after another."""
    columns = [lanes.all(v) for v in op.operands]
    if op_name(op).startswith("tt.atomic"):
        lanes.tell(op, columns[0], columns[_MASKS[op_name(op)]] if _masked(op) else None)
    results = [np.zeros(lanes.count, storage(elem_type(r.type))) for r in op.results]
    for lane in range(lanes.count):
        for result, value in zip(results, work(lanes.frame, op, [column[lane] for column in columns])):
            result[lane] = value
    if op_name(op).startswith("tt.atomic"):
        lanes.note(True, columns[0], storage(pointee_name(op.operands[0].type)).itemsize)
    return results


def program_id(frame: Frame, op: Operation) -> Array:
    return np.int32(frame.machine.program[int_attr(op, "axis")])


def program_count(frame: Frame, op: Operation) -> Array:
    return np.int32(frame.machine.grid[int_attr(op, "axis")])
