"""Does the order of points matter? Each nest whose points meet in memory is run in every order, from the same state.

A nest that gives different results was fused wrongly: machine code, which visits points in yet another order,
may give either. Points of a single store that meet are something else, a race of the kernel's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tileprobe.ir.accessors import attr_value
from tileprobe.targets.cpu.interpret import program
from tileprobe.targets.cpu.interpret.errors import InterpretError, lines_of
from tileprobe.targets.cpu.interpret.floats import Array
from tileprobe.targets.cpu.interpret.machine import Frame
from tileprobe.targets.cpu.interpret.memory import Extent, Region
from tileprobe.targets.cpu.interpret.nest import NestPlan
from tileprobe.targets.cpu.interpret.orders import ORDERS, Access, hazards


@dataclass(frozen=True)
class Difference:
    """A nest that does one thing op by op and another in `order`."""

    order: str
    lines: str
    does: str
    program: tuple[int, int, int]
    where: str

    def __str__(self) -> str:
        return (
            f"the stage {self.does!r} ({self.lines}), program {self.program}: visited in order {self.order!r} "
            f"it leaves something else than op by op, {self.where}"
        )


@dataclass
class OrderReport:
    """What `check_orders` found. `races` are the lines of stores whose points meet in one place."""

    differences: list[Difference] = field(default_factory=list)
    races: list[str] = field(default_factory=list)
    outcome: program.Outcome | None = None

    @property
    def ok(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        if self.ok:
            return "every nest gives the same in all orders"
        return "\n".join(map(str, self.differences))


def check_orders(
    module: ModuleOp | str,
    grid: Sequence[int],
    args: Sequence[Any],
    memory: Sequence[Extent],
    *,
    lanes: int = 8,
) -> OrderReport:
    """Run a module as `interpret` does in order "op", and every nest for which it can matter in all orders.

    Each order starts from the same memory and is undone, so that one nest's fault does not hide the next one's.
    """
    check = OrderCheck()
    check.report.outcome = program.run(module, grid, args, memory, "op", lanes, check)
    return check.report


class OrderCheck:
    """Runs nests in all orders and keeps what differs, each nest and order once."""

    def __init__(self) -> None:
        self.report = OrderReport()
        self._seen: set[tuple[NestPlan, str]] = set()

    def run(self, frame: Frame, plan: NestPlan) -> list[Array]:
        if not plan.writes:
            return plan.visit(frame, "op")
        memory, log = frame.memory, list[Access]()
        printed = len(frame.machine.prints)
        memory.begin()
        results = plan.visit(frame, "op", log)
        found = hazards(log)
        if found.race and lines_of(plan.op) not in self.report.races:
            self.report.races.append(lines_of(plan.op))
        if found.any:
            for order in ("point",) if plan.serial else ORDERS[1:]:
                self._compare(frame, plan, order, results, found.race)
                del frame.machine.prints[printed:]
                results = plan.visit(frame, "op")
        memory.commit()
        return results

    def _compare(self, frame: Frame, plan: NestPlan, order: str, results: list[Array], race: bool) -> None:
        """Undo what "op" did, run in `order`, undo that too, and say what differs."""
        memory = frame.memory
        first = _state(memory.touched())
        memory.undo()
        try:
            others = plan.visit(frame, order)
        except InterpretError as error:
            memory.undo()
            self._report(frame, plan, order, f"an error: {error}")
            return
        second = _state(memory.touched())
        memory.undo()
        where = _first_difference(first, second)
        if any(a.tobytes() != b.tobytes() for a, b in zip(results, others)):
            where = "in what it reduces to"
        if where is not None and not race:
            self._report(frame, plan, order, where)

    def _report(self, frame: Frame, plan: NestPlan, order: str, where: str) -> None:
        if (plan, order) in self._seen:
            return
        self._seen.add((plan, order))
        does = str(attr_value(plan.op, "kinds", "nest"))
        self.report.differences.append(
            Difference(order, lines_of(plan.op), does, frame.machine.program, where)
        )


_State = dict[int, tuple[Region, np.ndarray, np.ndarray]]


def _state(touched: dict[int, tuple[Region, np.ndarray]]) -> _State:
    """The bytes at the places a visit wrote."""
    return {begin: (region, at, region.data[at]) for begin, (region, at) in touched.items()}


def _first_difference(first: _State, second: _State) -> str | None:
    """Every order writes the same places unless what they hold decides where; then the places differ."""
    for begin, (region, at, data) in first.items():
        if begin not in second or not np.array_equal(second[begin][1], at):
            return f"writing to other places of {region.name}"
        differs = data != second[begin][2]
        if differs.any():
            return f"first at byte {int(at[np.argmax(differs)])} of {region.name}"
    extra = set(second) - set(first)
    return f"writing to {second[extra.pop()][0].name}" if extra else None
