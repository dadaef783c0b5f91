"""Runs a `tile.nest`: its body for all points, in a chosen order, and the reductions over what it yields.

What is reduced is collected and combined the same way in every order, so that orders differ only where memory
does. Only nests whose points meet in memory are walked in an order other than "op"; any other gives the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from tileprobe.ir.accessors import op_name
from tileprobe.targets.cpu.dialect import NestOp, ReadOp, WriteOp, YieldOp
from tileprobe.targets.cpu.interpret import control, effects, elementwise
from tileprobe.targets.cpu.interpret.effects import Lanes
from tileprobe.targets.cpu.interpret.float_ops import Evaluate
from tileprobe.targets.cpu.interpret.floats import Array
from tileprobe.targets.cpu.interpret.machine import Frame
from tileprobe.targets.cpu.interpret.orders import Access, blocks, hazards
from tileprobe.targets.cpu.interpret.reducing import Reductions

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
        sums = Reductions(self.op, self.yielded)
        kept: dict[SSAValue, Any] = {}
        before: tuple[int, ...] | None = None
        for points in blocks(self.dims, order, frame.machine.lanes):
            indices = np.unravel_index(points, self.dims) if self.dims else ()
            now = zip(self.op.body.block.args, (i.astype(np.int32) for i in indices))
            lanes = Lanes(frame, {**self.constants, **kept, **dict(now)}, points, log)
            if order == "hoisted":
                place = tuple(int(i[0]) for i in indices)
                self._run_hoisted(lanes, before, place)
                kept, before = lanes.values, place
            else:
                self._run(lanes)
            sums.collect(lanes, len(self.steps))
        return sums.results()

    def _run(self, lanes: Lanes) -> None:
        for place, step in enumerate(self.steps):
            lanes.place = place
            step.run(lanes)

    def _run_hoisted(self, lanes: Lanes, before: tuple[int, ...] | None, now: tuple[int, ...]) -> None:
        """What waits for the outer axes only is done when they change, in front of everything inside."""
        inside = len(self.dims)
        changed = -1 if before is None else next(a for a in range(inside) if before[a] != now[a])
        for level in range(changed + 1, inside + 1):
            for step in self.steps:
                if step.level == level:
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


def _evaluates(op: Operation, evaluate: Evaluate) -> Step:
    operands, result = list(op.operands), op.results[0]

    def run(lanes: Lanes) -> None:
        lanes.values[result] = evaluate(*[lanes.get(v) for v in operands])

    return run


def _serially(lanes: Lanes, op: Operation) -> None:
    results = effects.one_by_one(lanes, op, control.SERIAL[op_name(op)])
    lanes.values.update(zip(op.results, results))
