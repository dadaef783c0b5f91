"""Runs a `tile.nest`: its body for all points, in a chosen order, and the reductions over what it yields.

What is reduced is collected and combined the same way in every order, so that orders differ only where memory
does. Only nests whose points meet in memory are walked in an order other than "op"; any other gives the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from tileprobe.ir.accessors import elem_type, op_name
from tileprobe.targets.cpu.dialect import NestOp, ReadOp, WriteOp, YieldOp
from tileprobe.targets.cpu.interpret import buffers, control, effects, elementwise
from tileprobe.targets.cpu.interpret.effects import Lanes
from tileprobe.targets.cpu.interpret.floats import Array, is_float, round_to, storage, widen
from tileprobe.targets.cpu.interpret.integers import BINARY
from tileprobe.targets.cpu.interpret.machine import Frame
from tileprobe.targets.cpu.interpret.orders import Access, blocks, hazards

Step = Callable[[Lanes], None]


@dataclass(frozen=True)
class _Step:
    """An op of a body, made ready. `level` counts the axes it waits for; an effect waits for all."""

    run: Step
    level: int


class NestPlan:
    """A nest made ready to run many times."""

    def __init__(self, frame: Frame, op: NestOp):
        self.op = op
        self.dims = op.dims
        self.yielded: list[SSAValue] = []
        self.steps: list[_Step] = []
        self.constants: dict[SSAValue, Array] = {}
        varies: dict[SSAValue, int] = {arg: axis + 1 for axis, arg in enumerate(op.body.block.args)}
        for inner in op.body.block.ops:
            level = max((varies.get(v, 0) for v in inner.operands), default=0)
            varies.update((result, level) for result in inner.results)
            self._add(frame, inner, level)
        self.serial = any(effects.is_serial(inner) for inner in op.body.block.ops)
        self.writes = bool(op.into) or any(
            isinstance(inner, WriteOp) or op_name(inner) == "tt.store" or effects.is_serial(inner)
            for inner in op.body.block.ops
        )

    def _add(self, frame: Frame, op: Operation, level: int) -> None:
        name = op_name(op)
        if isinstance(op, YieldOp):
            self.yielded = list(op.values)
        elif name == "arith.constant":
            self.constants[op.results[0]] = elementwise.constant(op)
        elif isinstance(op, ReadOp):
            self.steps.append(_Step(_defines(op.value, lambda lanes: effects.read(lanes, op)), level))
        elif name == "tt.load":
            self.steps.append(_Step(_defines(op.results[0], lambda lanes: effects.load(lanes, op)), level))
        elif isinstance(op, WriteOp):
            self.steps.append(_Step(lambda lanes: effects.write(lanes, op), len(self.dims)))
        elif name == "tt.store":
            self.steps.append(_Step(lambda lanes: effects.store(lanes, op), len(self.dims)))
        elif effects.is_serial(op):
            self.steps.append(_Step(lambda lanes: _serially(lanes, op), len(self.dims)))
        else:
            self.steps.append(_Step(_evaluates(op, frame.machine.evaluator(op)), level))

    # -- running ---------------------------------------------------------------------------------------------

    def visit(self, frame: Frame, order: str, log: list[Access] | None = None) -> list[Array]:
        """Run the body for every point; returns the scalar results."""
        sums = _Reductions(self, frame)
        values: dict[SSAValue, Any] = {}
        before: tuple[int, ...] | None = None
        for points in blocks(self.dims, order, frame.machine.lanes):
            indices = np.unravel_index(points, self.dims) if self.dims else ()
            if order != "hoisted":
                values = dict(self.constants)
            else:
                values.update(self.constants)
            values.update((arg, i.astype(np.int32)) for arg, i in zip(self.op.body.block.args, indices))
            lanes = Lanes(frame, values, points, log)
            if order == "hoisted":
                now = tuple(int(i[0]) for i in indices)
                self._run_hoisted(lanes, before, now)
                before = now
            else:
                for place, step in enumerate(self.steps):
                    lanes.place = place
                    step.run(lanes)
            sums.collect(lanes, len(self.steps))
        return sums.results()

    def _run_hoisted(self, lanes: Lanes, before: tuple[int, ...] | None, now: tuple[int, ...]) -> None:
        """What waits for the outer axes only is done when they change, in front of everything inside."""
        inside = len(self.dims)
        changed = -1 if before is None else next(a for a in range(inside) if before[a] != now[a])
        for level in range(changed + 1, inside):
            for step in self.steps:
                if step.level == level:
                    step.run(lanes)
        for step in self.steps:
            if step.level == inside:
                step.run(lanes)


@control.handler("tile.nest")
def run_nest(frame: Frame, op: Operation) -> None:
    assert isinstance(op, NestOp)
    machine = frame.machine
    plan = machine.plans.get(op)
    if plan is None:
        plan = machine.plans[op] = NestPlan(frame, op)
    if machine.check is not None:
        results = machine.check.run(frame, plan)
    else:
        results = in_order(frame, plan, machine.order)
    frame.values.update(zip(op.reduced, results))


def in_order(frame: Frame, plan: NestPlan, order: str) -> list[Array]:
    if order == "op" or not plan.writes:
        return plan.visit(frame, "op")
    if plan.serial:
        return plan.visit(frame, "point")
    log: list[Access] = []
    frame.memory.begin()
    results = plan.visit(frame, "op", log)
    found = hazards(log)
    if found.any or found.race:
        frame.memory.undo()
        results = plan.visit(frame, order)
    frame.memory.commit()
    return results


def _defines(result: SSAValue, work: Callable[[Lanes], Array]) -> Step:
    def run(lanes: Lanes) -> None:
        lanes.values[result] = work(lanes)

    return run


def _evaluates(op: Operation, evaluate: elementwise.Evaluate) -> Step:
    operands, result = list(op.operands), op.results[0]

    def run(lanes: Lanes) -> None:
        lanes.values[result] = evaluate(*[lanes.get(v) for v in operands])

    return run


def _serially(lanes: Lanes, op: Operation) -> None:
    results = effects.one_by_one(lanes, op, control.SERIAL[op_name(op)])
    lanes.values.update(zip(op.results, results))


class _Reductions:
    """What a nest yields, collected point by point; a row is combined as soon as it is complete."""

    def __init__(self, plan: NestPlan, frame: Frame):
        self.plan, self.frame = plan, frame
        self.names = [elem_type(v.type) for v in plan.yielded]
        if not plan.yielded:
            return
        op = plan.op
        assert op.axis is not None and op.reduce is not None
        self.axis, self.kinds = op.axis.data, [kind.data for kind in op.reduce]
        self.outer = tuple(d for axis, d in enumerate(plan.dims) if axis != self.axis)
        numbers = np.arange(prod(plan.dims)).reshape(plan.dims)
        self.rows = np.moveaxis(numbers, self.axis, -1).reshape(-1, plan.dims[self.axis])
        self.row_of = np.empty(numbers.size, np.int64)
        self.row_of[self.rows] = np.arange(len(self.rows))[:, None]
        self.left = np.full(len(self.rows), plan.dims[self.axis])
        self.values = [np.empty(numbers.size, storage(name)) for name in self.names]

    def collect(self, lanes: Lanes, place: int) -> None:
        if not self.names:
            return
        for held, value in zip(self.values, self.plan.yielded):
            held[lanes.points] = lanes.all(value)
        touched = self.row_of[lanes.points]
        np.subtract.at(self.left, touched, 1)
        complete = np.unique(touched[self.left[touched] == 0])
        if complete.size and self.plan.op.into:
            lanes.place = place
            self._write(lanes, complete)

    def _write(self, lanes: Lanes, complete: np.ndarray) -> None:
        indices = np.unravel_index(complete, self.outer) if self.outer else ()
        for number, target in enumerate(self.plan.op.into):
            buffer, kind = lanes.get(target), buffers.buffer_type(target)
            offsets = buffers.byte_offsets(buffer, kind, indices, complete.size, self.plan.op)
            values = self._combined(number, complete)
            self.frame.memory.write(buffer.region, offsets, values, buffer.owner)
            if lanes.log is not None:
                last, size = self.rows[complete, -1], values.dtype.itemsize
                lanes.log.append(Access(lanes.place, True, offsets + buffer.region.begin, size, last))

    def _combined(self, number: int, rows: np.ndarray) -> np.ndarray:
        name, values = self.names[number], self.values[number][self.rows[rows]]
        return fold(self.kinds[number], name, values)

    def results(self) -> list[Array]:
        if not self.names or self.plan.op.into:
            return []
        everything = np.arange(len(self.rows))
        return [self._combined(number, everything)[0] for number in range(len(self.names))]


def fold(kind: str, name: str, values: np.ndarray) -> np.ndarray:
    """Rows combined to one value each, neighbours first. Small floats are summed in f32 and rounded once."""
    if not is_float(name):
        return pairwise(BINARY[kind], values)
    total = pairwise(elementwise.FLOAT_BINARY[kind], widen(values, name))
    return round_to(total, name)


def pairwise(combine: Callable[[Array, Array], Array], values: np.ndarray) -> np.ndarray:
    while values.shape[-1] > 1:
        even = values.shape[-1] // 2 * 2
        rest = values[..., even:]
        values = np.concatenate([combine(values[..., 0:even:2], values[..., 1:even:2]), rest], axis=-1)
    return values[..., 0]
