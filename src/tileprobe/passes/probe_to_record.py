"""probe-to-record: probes become clock readings stored in their places.

In comes IR with slots assigned; out goes IR of the `record` dialect, which a target lowers, with the regions
still declared. `copies` writes each record several times: the dose by which replay learns what a record costs.
Attributes of these passes are gone afterwards: the kernel's own ops are as they were.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import attr_value
from tileprobe.ir.blocks import exits, insert_first
from tileprobe.ir.carry import carry
from tileprobe.ir.layout import Layout
from tileprobe.ir.probe import ProbeOp, RegionOp, ValueOp
from tileprobe.ir.record import (
    SLOT,
    AgainOp,
    ClockOp,
    CursorOp,
    EnterOp,
    FlushOp,
    IndexOp,
    NextOp,
    OpenOp,
    PushOp,
    RanOp,
    SlotOp,
    StoreOp,
    TotalOp,
    TripOp,
    next_value,
)
from tileprobe.ir.registry import structure
from tileprobe.ir.structure import Loop as SourceLoop
from tileprobe.ir.structure import Structure
from tileprobe.passes import assign_slots
from tileprobe.passes.sample import DYNAMIC

_OURS = ("probe.", "record.")  # how the names of our attributes begin


@dataclass(frozen=True)
class ProbeToRecordPass(ModulePass):
    """Turns probes into clock readings stored in their places.

    `copies` is the dose; all else is in the layout that assign-slots made."""

    name = "probe-to-record"

    structure: str = "scf"
    copies: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.copies < 1:
            raise TileProbeError(f"a record is written at least once, not {self.copies} times")
        how = structure(self.structure)
        for kernel in how.kernels(op):
            if assign_slots.LAYOUT in kernel.attributes:
                layout = replace(assign_slots.layout_of(kernel), copies=self.copies)
                lowering = _Lowering(how, layout, attr_value(kernel, assign_slots.UNPAIRED, []))
                lowering.stream(how.streams(kernel)[0].body, 0)
        for inner in op.walk():
            for name in [name for name in inner.attributes if name.startswith(_OURS)]:
                del inner.attributes[name]


class _Lowering:
    def __init__(self, how: Structure, layout: Layout, unpaired: list[str]) -> None:
        self.how, self.layout, self.unpaired = how, layout, unpaired
        self.buffer: SSAValue  # of the stream that is being lowered
        self.cursor: SSAValue | None = None  # before its first push; `carry` moves it on
        # by loop of the cursor's: its iterations and its runs, before the first; moved on, too
        self.totals: dict[int, tuple[SSAValue, SSAValue]] = {}

    def stream(self, body: Region, number: int) -> None:
        """Opens a block at the start of a stream, lowers its probes, closes the block where it ends."""
        outside = (self.buffer, self.cursor) if number else None
        opened = self._open(number)
        self.buffer, self.cursor = opened.block, None
        _insert_behind_declarations(body.blocks[0], opened)
        if self.layout.streams[number].cursor_capacity:
            started = CursorOp(operands=[opened.block], result_types=[i64])
            started.count.name_hint = "cursor"
            body.blocks[0].insert_op_after(started, opened)
            self.cursor = started.count
            self._totals(started, number)
        indices: tuple[SSAValue, ...] = ()
        if (loop := self.layout.started_again(number)) is not None:
            where: dict[str, Attribute] = {"loop": IntAttr(loop.id), "base": IntAttr(loop.trip_base)}
            again = AgainOp(operands=[opened.block], properties=where, result_types=[i64])
            again.index.name_hint = "k"
            body.blocks[0].insert_op_after(again, opened)
            indices = (again.index,)
        for block in body.blocks:
            self._block(block, indices)
        for last in exits(body):
            assert last.parent is not None
            ends: list[Operation] = [
                TotalOp(opened.block, loop.id, loop.trip_base, *self.totals[loop.id])
                for loop in self.layout.pushed_loops(number)
            ]
            last.parent.insert_ops_before([*ends, FlushOp(operands=[opened.block, self.cursor])], last)
        if self.cursor is not None:
            carry(self.cursor, next_value)
        for loop in self.layout.pushed_loops(number):
            total, runs = self.totals[loop.id]
            carry(total, lambda op: op.total if isinstance(op, RanOp) else None)
            carry(runs, lambda op: op.runs if isinstance(op, RanOp) else None)
        if outside is not None:
            self.buffer, self.cursor = outside

    def _totals(self, started: CursorOp, number: int) -> None:
        """Begins to count the iterations of loops whose records go to the cursor's segment."""
        assert started.parent is not None
        for loop in self.layout.pushed_loops(number):
            total, runs = self._entered(loop.id, "ran"), self._entered(loop.id, "runs")
            started.parent.insert_ops_after([total, runs], started)
            self.totals[loop.id] = total.number, runs.number

    def _entered(self, loop: int, name: str) -> EnterOp:
        made = EnterOp(operands=[self.buffer], properties={"loop": IntAttr(loop)}, result_types=[i64])
        made.number.name_hint = name
        return made

    def _open(self, number: int) -> OpenOp:
        layout = self.layout
        opened = OpenOp(
            layout.streams[number].words,
            granularity=layout.granularity,
            buffer=layout.buffer,
            strategy=layout.strategy,
            clock_bits=layout.clock_bits,
            stream=number,
            layout=None if number else json.dumps(layout.to_json(), separators=(",", ":")),
            unpaired=() if number else self.unpaired,
        )
        opened.block.name_hint = "block"
        return opened

    def _block(self, block: Block, indices: tuple[SSAValue, ...]) -> None:
        """Lowers the probes of a block; `indices` are the kept iterations of the loops around it."""
        stamped: int | None = None
        for op in list(block.ops):
            if isinstance(op, ProbeOp):
                slot = op.attributes[assign_slots.SLOT]
                assert isinstance(slot, IntAttr)
                if slot.data != stamped:
                    self._stamp(block, op, slot.data, indices)
                stamped = slot.data
                op.detach()
                op.erase()
            else:
                stamped = None
                self._nested(block, op, indices)

    def _stamp(self, block: Block, op: ProbeOp, slot: int, indices: tuple[SSAValue, ...]) -> None:
        place = self.layout.slots[slot]
        payload = [op.payload] if isinstance(op, ValueOp) else []
        made: list[Operation] = []
        if not place.cursor:
            strides = ArrayAttr([IntAttr(stride) for stride in place.strides])
            properties: dict[str, Attribute] = {
                "slot": IntAttr(slot),
                "base": IntAttr(place.base),
                "strides": strides,
            }
            made.append(SlotOp(operands=[self.buffer, indices], properties=properties, result_types=[SLOT]))
        for _ in range(self.layout.copies):
            clock = ClockOp(self.layout.clock_bits)
            made.append(clock)
            if place.cursor:
                innermost = list(indices[-1:])
                push = PushOp(
                    operands=[clock.ticks, self.buffer, self.cursor, innermost, payload],
                    properties={"slot": IntAttr(slot)},
                    result_types=[i64],
                )
                push.moved.name_hint = "cursor"
                made.append(push)
            else:
                made.append(StoreOp(operands=[clock.ticks, made[0].results[0], payload]))
        for new in made:
            new.location = op.location
        block.insert_ops_before(made, op)

    def _nested(self, block: Block, op: Operation, indices: tuple[SSAValue, ...]) -> None:
        number = op.attributes.get(assign_slots.LOOP)
        if not isinstance(number, IntAttr):
            streams = _streams(op)
            for region in op.regions:
                if region in streams:
                    self.stream(region, streams[region])
                    continue
                for inner in region.blocks:
                    self._block(inner, indices)
            return
        dynamic = DYNAMIC in op.attributes
        loop = self.how.loop(op)
        assert loop is not None
        index = self._enter(block, op, loop, number.data, indices, dynamic)
        for inner in loop.body.blocks:
            self._block(inner, (*indices, index))

    def _enter(
        self,
        block: Block,
        op: Operation,
        loop: SourceLoop,
        number: int,
        indices: tuple[SSAValue, ...],
        dynamic: bool,
    ) -> SSAValue:
        """Before the loop its trip count, at the start of its body the kept iteration."""
        place = self.layout.loops[number]
        properties: dict[str, Attribute] = {"loop": IntAttr(number)}
        if dynamic:
            properties["dynamic"] = UnitAttr()
        body = loop.body.blocks[0]
        within = list(indices[-1:])
        if not loop.counted:
            entered = self._entered(number, "number")
            block.insert_op_before(entered, op)
            block.insert_op_after(RanOp(self.buffer, number, *self.totals[number], entered.number), op)
            step: Operation = NextOp(
                operands=[self.buffer, entered.number, within], properties=properties, result_types=[i64, i64]
            )
        else:
            where: dict[str, Attribute] = {"loop": IntAttr(number)}
            if not place.cursor:
                where["base"] = IntAttr(place.trip_base)
                where["strides"] = ArrayAttr([IntAttr(stride) for stride in place.strides])
            outer = [] if place.cursor else indices
            trip = TripOp(
                operands=[self.buffer, outer, loop.lower, loop.upper, loop.step],
                properties=where,
                result_types=[i64],
            )
            block.insert_op_before(trip, op)
            properties["capacity"] = IntAttr(place.capacity)
            if place.cursor:
                properties["cursor"] = UnitAttr()
                block.insert_op_before(RanOp(self.buffer, number, *self.totals[number], trip.count), op)
            step = IndexOp(
                operands=[self.buffer, loop.induction, loop.lower, loop.step, trip.count, within],
                properties=properties,
                result_types=[i64],
            )
        step.results[0].name_hint = "k"
        insert_first(body, step)
        if isinstance(step, NextOp):
            carry(step.number, lambda link: link.following if isinstance(link, NextOp) else None)
        return step.results[0]


def _streams(op: Operation) -> dict[Region, int]:
    """The regions of an op that are streams of their own."""
    numbers = op.attributes.get(assign_slots.STREAMS)
    if not isinstance(numbers, ArrayAttr):
        return {}
    found = [number.data if isinstance(number, IntAttr) else -1 for number in numbers]
    return {region: number for region, number in zip(op.regions, found, strict=True) if number >= 0}


def _insert_behind_declarations(block: Block, op: Operation) -> None:
    declared = [other for other in block.ops if isinstance(other, RegionOp)]
    block.insert_op_after(op, declared[-1]) if declared else insert_first(block, op)
