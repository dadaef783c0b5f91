"""assign-slots: gives every probe its place among the records, and the kernel its `Layout`.

In comes instrumented IR; out goes the same with `record.slot` on probes, `record.loop` on loops and the
layout as JSON on the kernel. Neighbouring probes share a place: one clock reading ends one region and begins
the next.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from xdsl.context import Context
from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import attr_value
from tileprobe.ir.blocks import has_cycle, in_order
from tileprobe.ir.layout import Body, Layout, Span, Stamp, allocate
from tileprobe.ir.probe import DoneOp, IssueOp, MarkOp, ProbeOp, StartOp, StopOp, ValueOp, WaitOp
from tileprobe.ir.registry import structure
from tileprobe.ir.structure import Structure
from tileprobe.passes.instrument import LOOP_REGION
from tileprobe.passes.sample import CAPACITY

LAYOUT = "record.layout"
SLOT = "record.slot"
LOOP = "record.loop"


@dataclass(frozen=True)
class AssignSlotsPass(ModulePass):
    """A block takes at most `max_words`: loops with much room get less of it until it fits."""

    name = "assign-slots"

    structure: str = "scf"
    clock_bits: int = 64
    capacity: int = 256
    cursor_capacity: int = 1024
    max_words: int = 16384

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        how = structure(self.structure)
        for kernel in how.kernels(op):
            if any(isinstance(inner, ProbeOp) for inner in kernel.walk()):
                layout = self._layout(kernel, how)
                kernel.attributes[LAYOUT] = StringAttr(json.dumps(layout.to_json(), separators=(",", ":")))

    def _layout(self, kernel: Operation, how: Structure) -> Layout:
        walker = _Walker(how, self.capacity, has_cycle(kernel.regions[0]))
        items = walker.region(kernel.regions[0])
        while True:
            layout = allocate(
                items,
                spans=walker.all_spans(),
                clock_bits=self.clock_bits,
                cursor_capacity=self.cursor_capacity,
                all_cursor=walker.cursor,
            )
            if layout.block_words <= self.max_words:
                return layout
            largest = max((loop.capacity for loop in layout.loops if not loop.cursor), default=1)
            if largest == 1:
                raise TileProbeError(
                    f"one program's records need {layout.block_words} words and may take {self.max_words}: "
                    "select fewer regions, or allow more"
                )
            items = [_shrink(item, largest) for item in items]


def _shrink(item: Stamp | Body, largest: int) -> Stamp | Body:
    """Halves the room of the loops that have most of it."""
    if isinstance(item, Stamp):
        return item
    room = item.capacity // 2 if item.capacity == largest else item.capacity
    return replace(item, capacity=room, items=tuple(_shrink(inner, largest) for inner in item.items))


@dataclass
class _Walker:
    """Collects what is to be placed, in program order, and the spans between."""

    how: Structure
    capacity: int
    cursor: bool
    slots: int = 0
    loops: int = 0
    spans: list[Span] = field(default_factory=list)
    tags: dict[tuple[int, str], int] = field(default_factory=dict)  # in the cursor's segment
    issued: dict[int, list[tuple[int, IssueOp]]] = field(default_factory=dict)
    waited: dict[int, tuple[int, WaitOp]] = field(default_factory=dict)
    pairs: list[tuple[int, int, int, int]] = field(default_factory=list)  # region, wait, done, after
    loop_of: dict[int, int] = field(default_factory=dict)  # region of a loop -> loop

    def region(self, region: Region) -> list[Stamp | Body]:
        items: list[Stamp | Body] = []
        stacks: dict[Block, list[StartOp]] = {}
        for block in in_order(region):
            stack = list(stacks.get(block, []))
            items += self._block(block, stack)
            for after in block.last_op.successors if block.last_op is not None else ():
                stacks.setdefault(after, stack)
        return items

    def _block(self, block: Block, stack: list[StartOp]) -> list[Stamp | Body]:
        items: list[Stamp | Body] = []
        shared: int | None = None  # the slot of the probe just before
        for op in block.ops:
            if not isinstance(op, ProbeOp):
                shared = None
                items += self._nested(op)
                continue
            if isinstance(op, ValueOp):
                kind = "i64" if str(op.payload.type)[0] in "ius" else "f64"
                slot, fresh, shared = *self._slot(op, None), None
                items += [Stamp(slot, kind)] if fresh else []
            else:
                slot, fresh = self._slot(op, shared)
                shared = slot
                items += [Stamp(slot)] if fresh else []
            op.attributes[SLOT] = IntAttr(slot)
            self._span(op, slot, stack)
        return items

    def _slot(self, op: ProbeOp, shared: int | None) -> tuple[int, bool]:
        """The slot of a probe, and whether it is a new one. A tag of the cursor's names one probe of one
        region: neighbours share nothing there, but the stops on several paths are one."""
        if self.cursor:
            key = (op.region_id, op.name)
            fresh = key not in self.tags
            slot = self.tags.setdefault(key, self.slots)
        else:
            fresh = shared is None
            slot = self.slots if shared is None else shared
        self.slots += fresh
        return slot, fresh

    def _nested(self, op: Operation) -> list[Stamp | Body]:
        if not any(isinstance(inner, ProbeOp) for inner in op.walk()):
            return []
        loop = self.how.loop(op)
        if loop is None:
            return [item for region in op.regions for item in self.region(region)]
        number, self.loops = self.loops, self.loops + 1
        op.attributes[LOOP] = IntAttr(number)
        mine = op.attributes.get(LOOP_REGION)
        if isinstance(mine, IntAttr):
            self.loop_of[mine.data] = number
        room = op.attributes.get(CAPACITY)
        capacity = room.data if isinstance(room, IntAttr) else min(self.capacity, loop.trip or self.capacity)
        outside, self.cursor = self.cursor, self.cursor or not loop.counted or has_cycle(loop.body)
        items = tuple(self.region(loop.body))
        counted, self.cursor = not self.cursor, outside
        return [Body(number, capacity, items, counted)]

    def _span(self, op: ProbeOp, slot: int, stack: list[StartOp]) -> None:
        region = op.region_id
        if isinstance(op, StartOp):
            stack.append(op)
        elif isinstance(op, StopOp):
            first = stack.pop()
            self._add(Span(region, _slot_of(first), slot), first)
        elif isinstance(op, (MarkOp, ValueOp)):
            self._add(Span(region, slot, slot, "mark" if isinstance(op, MarkOp) else "value"), op)
        elif isinstance(op, IssueOp):
            self.issued.setdefault(region, []).append((slot, op))
        elif isinstance(op, WaitOp):
            self.waited[region] = (slot, op)
        elif isinstance(op, DoneOp):
            if region not in self.waited:
                raise TileProbeError(f"region {region} is done, but nothing waited for it")
            waited, wait = self.waited[region]
            self.pairs.append((region, waited, slot, wait.distance))

    def _add(self, span: Span, op: ProbeOp) -> None:
        peeled = op.peeled.data if op.peeled is not None else -1
        ahead = op.ahead.data if op.ahead is not None else 0
        span = replace(span, start_ahead=ahead, start_peeled=peeled, stop_ahead=ahead, stop_peeled=peeled)
        if span not in self.spans:
            self.spans.append(span)

    def all_spans(self) -> list[Span]:
        """The spans, with loops in place of their regions, and those of asynchronous operations."""
        found = [
            replace(
                s,
                start_peeled=self.loop_of.get(s.start_peeled, -1),
                stop_peeled=self.loop_of.get(s.stop_peeled, -1),
            )
            for s in self.spans
        ]
        for region, wait, done, after in self.pairs:
            issues = self.issued.get(region, [])
            found += [Span(region, slot, done, "async", start_ahead=after) for slot, _ in issues[:1]]
            found.append(Span(region, wait, done, "wait"))
        return found


def _slot_of(op: Operation) -> int:
    slot = op.attributes[SLOT]
    assert isinstance(slot, IntAttr)
    return slot.data


def layout_of(kernel: Operation) -> Layout:
    """The layout that this pass gave a kernel."""
    text = attr_value(kernel, LAYOUT)
    if not isinstance(text, str):
        raise TileProbeError("the kernel has no record layout; run assign-slots first")
    return Layout.from_json(json.loads(text))
