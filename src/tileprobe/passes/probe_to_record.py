"""probe-to-record: probes become clock readings stored in their places.

In comes IR with slots assigned; out goes IR of the `record` dialect, which a target lowers. `copies` writes
each record several times: the dose by which replay learns what a record costs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.ir.blocks import exits, insert_first
from tileprobe.ir.carry import carry
from tileprobe.ir.layout import Layout
from tileprobe.ir.probe import ProbeOp, RegionOp, ValueOp
from tileprobe.ir.record import (
    SLOT,
    ClockOp,
    CursorOp,
    EnterOp,
    FlushOp,
    IndexOp,
    NextOp,
    OpenOp,
    PushOp,
    SlotOp,
    StoreOp,
    TripOp,
    next_value,
)
from tileprobe.ir.registry import structure
from tileprobe.ir.structure import Loop as SourceLoop
from tileprobe.ir.structure import Structure
from tileprobe.passes import assign_slots
from tileprobe.passes.instrument import LOOP_REGION
from tileprobe.passes.sample import CAPACITY, DYNAMIC


@dataclass(frozen=True)
class ProbeToRecordPass(ModulePass):
    """The options are those of `record.open`; `copies` is the dose."""

    name = "probe-to-record"

    structure: str = "scf"
    granularity: str = "program"
    buffer: str = "global"
    strategy: str = "exact"
    copies: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.copies < 1:
            raise TileProbeError(f"a record is written at least once, not {self.copies} times")
        how = structure(self.structure)
        for kernel in how.kernels(op):
            if assign_slots.LAYOUT in kernel.attributes:
                self._lower(kernel, how)

    def _lower(self, kernel: Operation, how: Structure) -> None:
        layout = replace(assign_slots.layout_of(kernel), copies=self.copies)
        entry = kernel.regions[0].blocks[0]
        opened = OpenOp(
            layout.block_words,
            granularity=self.granularity,
            buffer=self.buffer,
            strategy=self.strategy,
            clock_bits=layout.clock_bits,
            layout=json.dumps(layout.to_json(), separators=(",", ":")),
        )
        opened.block.name_hint = "block"
        insert_first(entry, opened)
        cursor = _start_cursor(entry, opened) if layout.streams[0].cursor_capacity else None
        _Lowering(how, layout, opened.block, self.copies, cursor).run(kernel)
        for last in exits(kernel.regions[0]):
            assert last.parent is not None
            last.parent.insert_op_before(FlushOp(operands=[opened.block, cursor]), last)
        if cursor is not None:
            carry(cursor, next_value)
        del kernel.attributes[assign_slots.LAYOUT]


def _start_cursor(entry: Block, opened: OpenOp) -> SSAValue:
    started = CursorOp(operands=[opened.block], result_types=[i64])
    started.count.name_hint = "cursor"
    entry.insert_op_after(started, opened)
    return started.count


@dataclass
class _Lowering:
    how: Structure
    layout: Layout
    buffer: SSAValue
    copies: int
    cursor: SSAValue | None  # before the first push; `carry` moves it on

    def run(self, kernel: Operation) -> None:
        for block in kernel.regions[0].blocks:
            self._block(block, ())

    def _block(self, block: Block, indices: tuple[SSAValue, ...]) -> None:
        """Lowers the probes of a block; `indices` are the kept iterations of the loops around it."""
        stamped: int | None = None
        for op in list(block.ops):
            if isinstance(op, RegionOp):
                op.detach()
                op.erase()
            elif isinstance(op, ProbeOp):
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
        for _ in range(self.copies):
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
        number = op.attributes.pop(assign_slots.LOOP, None)
        dynamic = op.attributes.pop(DYNAMIC, None) is not None
        for name in (CAPACITY, LOOP_REGION):
            op.attributes.pop(name, None)
        if not isinstance(number, IntAttr):
            for region in op.regions:
                for inner in region.blocks:
                    self._block(inner, indices)
            return
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
            entered = EnterOp(
                operands=[self.buffer], properties={"loop": IntAttr(number)}, result_types=[i64]
            )
            entered.number.name_hint = "number"
            block.insert_op_before(entered, op)
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
            step = IndexOp(
                operands=[self.buffer, loop.induction, loop.lower, loop.step, trip.count, within],
                properties=properties,
                result_types=[i64],
            )
        step.results[0].name_hint = "k"
        insert_first(body, step)
        if isinstance(step, NextOp):
            carry(step.number, next_value)
        return step.results[0]
