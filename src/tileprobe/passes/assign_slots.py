"""assign-slots: gives every probe its place among the records, and the kernel its `Layout`.

In comes instrumented IR; out goes the same with `record.slot` on probes, `record.loop` on loops,
`record.streams` on ops whose regions run side by side, and the layout as JSON on the kernel. Neighbouring
probes share a place: one clock reading ends one region and begins the next. An asynchronous operation of which
one end is missing is noted on the kernel.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError, UnsupportedError
from tileprobe.ir.accessors import attr_value, op_name
from tileprobe.ir.blocks import has_cycle, in_order, successors
from tileprobe.ir.layout import CURSOR_WORDS, Body, Layout, Span, Stamp, StreamItems, allocate
from tileprobe.ir.probe import DoneOp, IssueOp, MarkOp, ProbeOp, RegionOp, StartOp, StopOp, ValueOp, WaitOp
from tileprobe.ir.registry import structure
from tileprobe.ir.structure import Strand, Structure
from tileprobe.ir.windows import with_windows
from tileprobe.passes import instrument
from tileprobe.passes._pairs import End, Wait, pair, span_between
from tileprobe.passes.sample import CAPACITY

LAYOUT = "record.layout"
SLOT = "record.slot"
LOOP = "record.loop"
STREAMS = "record.streams"  # for each region of an op the stream that it is, or -1
UNPAIRED = "record.unpaired"  # on a kernel: sentences about asynchronous operations with one end

_WARP_GROUP = 4  # warps


@dataclass(frozen=True)
class AssignSlotsPass(ModulePass):
    """Gives every probe its place among the records, and the kernel its layout.

    A block takes at most `max_words`: loops with much room get less of it until it fits. Records of loops that nobody
    counts the iterations of have room for `cursor_capacity` of them, or with 0 for as many iterations as other loops.
    In shared memory a program takes at most `shared_words`. What records are (a `granularity`, a `buffer`, a
    `strategy`, the width of their clock) goes into the layout."""

    name = "assign-slots"
    lowers: ClassVar[str] = "probe"  # the IR before this pass is the last of that level

    structure: str = "scf"
    granularity: str = "program"
    buffer: str = "global"
    strategy: str = "exact"
    clock_bits: int = 64
    capacity: int = 256
    cursor_capacity: int = 1024
    max_words: int = 16384
    shared_words: int = 2048

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        how = structure(self.structure)
        for kernel in how.kernels(op):
            if any(isinstance(inner, ProbeOp) for inner in kernel.walk()):
                self._assign(kernel, how)

    def _assign(self, kernel: Operation, how: Structure) -> None:
        walker = _Walker(how, self.capacity, self.granularity)
        walker.strand(how.streams(kernel)[0])
        _drop_unreachable(kernel)
        spans, notes = walker.all_spans(kernel)
        layout = self._layout(walker.streams)
        meeting = [span for span in spans if span.kind != "async" or _meets(span, layout)]
        names = _names(kernel)
        notes += [
            f"{names.get(span.region, span.region)}: what is issued or awaited in a `while` loop, or in a branch with "
            "strategy=circular, is joined with nothing outside of it; such waits stand for themselves"
            for span in spans
            if span not in meeting
        ]
        layout = replace(layout, spans=tuple(meeting))
        kernel.attributes[LAYOUT] = StringAttr(json.dumps(layout.to_json(), separators=(",", ":")))
        if notes:
            kernel.attributes[UNPAIRED] = ArrayAttr([StringAttr(note) for note in dict.fromkeys(notes)])

    def _layout(self, streams: list[StreamItems]) -> Layout:
        shared, flushed = self.buffer == "shared", self.strategy == "flush"
        if (shared or self.strategy == "circular") and any(
            isinstance(item, Body) and item.again for part in streams for item in part.items
        ):
            raise UnsupportedError(
                "partitions that are started in a loop have records with buffer=global and strategy=exact alone"
            )
        if flushed and not shared:
            raise UnsupportedError(
                f"records with strategy flush collect in shared memory: they take buffer=shared, not {self.buffer}"
            )
        most = min(self.max_words, self.shared_words) if shared and not flushed else self.max_words
        layout = self._fitting(streams, most)
        return with_windows(layout, self.shared_words) if flushed else layout

    def _fitting(self, streams: list[StreamItems], most_words: int) -> Layout:
        pushed = self.cursor_capacity or max(
            _pushed(part.items, part.all_cursor, self.capacity if part.all_cursor else 1) for part in streams
        )
        # Blocks of global memory were sized for one instance; in shared memory several have to share.
        parts = sum(part.instances // part.ctas for part in streams) if self.buffer == "shared" else 1
        while True:
            while self._least_words(streams) > most_words and (largest := _largest(streams)) > 1:
                streams = _shrunk(
                    streams, largest
                )  # laying out hundreds of millions of words would take a while
            layout = allocate(
                streams,
                clock_bits=self.clock_bits,
                cursor_capacity=min(pushed, most_words // (2 * CURSOR_WORDS * parts)),
                granularity=self.granularity,
                buffer=self.buffer,
                strategy=self.strategy,
            )
            if layout.block_words <= most_words:
                return layout
            largest = _largest(streams)
            if largest == 1:
                raise TileProbeError(
                    f"one program's records need {layout.block_words} words and may take {most_words}: "
                    f"select fewer regions, or allow more ({self._room})"
                )
            streams = _shrunk(streams, largest)

    @property
    def _room(self) -> str:
        """The option that says how much a program may take."""
        return "shared_words" if self.buffer == "shared" else "max_words"

    def _least_words(self, streams: list[StreamItems]) -> int:
        """What records with places take at least."""
        circular = self.strategy == "circular"
        return sum(part.instances * _words(part.items, part.all_cursor, circular) for part in streams)


def _words(items: Sequence[Stamp | Body], cursor: bool, circular: bool) -> int:
    count = 0
    for item in items:
        if cursor or (circular and item.branch):  # it may go to the cursor's segment
            continue
        if isinstance(item, Stamp):
            count += 2 if item.payload else 1
        elif item.counted:
            count += 1 + item.capacity * _words(item.items, cursor, circular)
    return count


def _largest(streams: Sequence[StreamItems]) -> int:
    """The most room of a loop whose iterations have places."""

    def most(items: Sequence[Stamp | Body]) -> int:
        bodies = [item for item in items if isinstance(item, Body) and item.counted]
        return max((max(body.capacity, most(body.items)) for body in bodies), default=1)

    return max((most(part.items) for part in streams if not part.all_cursor), default=1)


def _shrunk(streams: Sequence[StreamItems], largest: int) -> list[StreamItems]:
    return [replace(part, items=[_shrink(item, largest) for item in part.items]) for part in streams]


def _pushed(items: Sequence[Stamp | Body], cursor: bool, room: int) -> int:
    """The records of the cursor's segment, as many iterations of each loop as there is room for in others."""
    count = 0
    for item in items:
        if isinstance(item, Stamp):
            count += room if cursor else 0
        else:
            inside = cursor or not item.counted
            count += _pushed(item.items, inside, max(room, item.capacity) if inside else room)
    return count


def _shrink(item: Stamp | Body, largest: int) -> Stamp | Body:
    """Halves the room of the loops that have most of it."""
    if isinstance(item, Stamp):
        return item
    room = item.capacity // 2 if item.capacity == largest else item.capacity
    return replace(item, capacity=room, items=tuple(_shrink(inner, largest) for inner in item.items))


@dataclass(frozen=True)
class _Place:
    """Where the walk is: what an op's records depend on."""

    stream: int
    loops: tuple[int, ...] = ()
    cursor: bool = False  # records go to the cursor's segment
    branch: bool = False  # may be passed by


@dataclass(frozen=True)
class _Record:
    """A probe with its slot; `loops` are those around it."""

    op: ProbeOp
    slot: int
    place: _Place


@dataclass
class _Walker:
    """Collects what is to be placed, stream by stream and in program order, and the spans between."""

    how: Structure
    capacity: int
    granularity: str
    streams: list[StreamItems] = field(default_factory=list)
    slots: int = 0
    loops: int = 0
    rooms: dict[int, int] = field(default_factory=dict)  # loop -> iterations that are kept
    around: dict[int, tuple[int, ...]] = field(default_factory=dict)  # loop -> the loops around it
    numbered: dict[int, int] = field(default_factory=dict)  # `probe.loop` -> loop
    tags: dict[tuple[int, ...], int] = field(default_factory=dict)  # in the cursor's segment
    spans: list[tuple[str, _Record, _Record]] = field(default_factory=list)
    issues: dict[int, list[_Record]] = field(default_factory=dict)
    waits: dict[int, list[tuple[_Record, _Record]]] = field(default_factory=dict)
    waiting: dict[tuple[int, ...], _Record] = field(default_factory=dict)

    def strand(self, strand: Strand, started: int = 0) -> int:
        """Walks a region that runs in order by itself; returns the number of its stream. One that is `started` in each
        iteration of a loop of which so many are kept has such a loop of its own around it."""
        number = len(self.streams)
        parts = {"program": 1, "warp": strand.warps, "warp_group": -(-strand.warps // _WARP_GROUP)}
        if self.granularity not in parts:
            raise TileProbeError(f"records have no granularity {self.granularity!r}: {', '.join(parts)}")
        instances = parts[self.granularity] * strand.ctas
        empty = StreamItems((), strand.name, instances, has_cycle(strand.body), strand.ctas)
        self.streams.append(empty)
        place = _Place(number, cursor=empty.all_cursor)
        if not started:
            items = self.region(strand.body, place)
        else:
            again, self.loops = self.loops, self.loops + 1
            self.around[again] = ()
            inside = tuple(self.region(strand.body, replace(place, loops=(again,))))
            if _pushed(inside, empty.all_cursor, 1):
                raise UnsupportedError(
                    f"{strand.name} is started in a loop and has a `while` loop or branches back: where its records "
                    "begin is not known; select nothing in it"
                )
            items = [Body(again, started, inside, again=True)]
        self.streams[number] = replace(empty, items=items)
        return number

    def region(self, region: Region, place: _Place) -> list[Stamp | Body]:
        items: list[Stamp | Body] = []
        stacks: dict[Block, list[_Record]] = {}
        for block in in_order(region):
            stack = list(stacks.get(block, []))
            items += self._block(block, stack, place)
            for after in successors(block):
                stacks.setdefault(after, stack)
        return items

    def _block(self, block: Block, stack: list[_Record], place: _Place) -> list[Stamp | Body]:
        items: list[Stamp | Body] = []
        shared: int | None = None  # the slot of the probe just before
        for op in block.ops:
            if not isinstance(op, ProbeOp):
                shared = None
                items += self._nested(op, place)
                continue
            payload = ""
            if isinstance(op, ValueOp):
                payload, shared = "i64" if str(op.payload.type)[0] in "ius" else "f64", None
            slot, fresh = self._slot(op, shared, place)
            shared = None if payload else slot
            items += [Stamp(slot, payload, place.branch)] if fresh else []
            op.attributes[SLOT] = IntAttr(slot)
            self._note(_Record(op, slot, place), stack)
        return items

    def _slot(self, op: ProbeOp, shared: int | None, place: _Place) -> tuple[int, bool]:
        """The slot of a probe, and whether it is a new one. A tag of the cursor's names one probe of one
        region: neighbours share nothing there, but the stops on several paths are one."""
        if place.cursor:
            kind = (IssueOp, WaitOp, DoneOp, StartOp, StopOp, MarkOp, ValueOp).index(type(op))
            key = (op.region_id, kind, *_shift(op), *place.loops)
            fresh = key not in self.tags
            slot = self.tags.setdefault(key, self.slots)
        else:
            fresh = shared is None
            slot = self.slots if shared is None else shared
        self.slots += fresh
        return slot, fresh

    def _nested(self, op: Operation, place: _Place) -> list[Stamp | Body]:
        if not any(isinstance(inner, ProbeOp) for inner in op.walk()):
            return []
        loop = self.how.loop(op)
        if loop is None:
            return self._regions(op, place)
        number, self.loops = self.loops, self.loops + 1
        op.attributes[LOOP] = IntAttr(number)
        self.around[number] = place.loops
        named = op.attributes.get(instrument.LOOP)
        if isinstance(named, IntAttr):
            self.numbered[named.data] = number
        room = op.attributes.get(CAPACITY)
        capacity = room.data if isinstance(room, IntAttr) else min(self.capacity, loop.trip or self.capacity)
        self.rooms[number] = capacity
        cursor = place.cursor or not loop.counted or has_cycle(loop.body)
        inside = replace(place, loops=(*place.loops, number), cursor=cursor, branch=False)
        items = tuple(self.region(loop.body, inside))
        return [Body(number, capacity, items, not cursor, place.branch, loop.beyond)]

    def _regions(self, op: Operation, place: _Place) -> list[Stamp | Body]:
        """The regions of an op that is no loop: in order with what is around, as branches, or side by side."""
        strands = {strand.body: strand for strand in self.how.streams(op)}
        items: list[Stamp | Body] = []
        numbers: list[IntAttr] = []
        branch = place.branch or op_name(op) != "ttg.warp_specialize"
        for region in op.regions:
            probed = any(isinstance(inner, ProbeOp) for inner in region.walk())
            if region in strands and probed:
                started = self._started(strands[region], place)
                numbers.append(IntAttr(self.strand(strands[region], started)))
                continue
            numbers.append(IntAttr(-1))
            if probed:
                items += self.region(region, replace(place, branch=branch))
        if strands:
            op.attributes[STREAMS] = ArrayAttr(numbers)
        return items

    def _started(self, strand: Strand, place: _Place) -> int:
        """For how many of its starts a strand has room; 0 for one that is started once."""
        around = [self.rooms[loop] for loop in place.loops]
        if not around and not place.stream and not place.cursor:
            return 0
        if len(around) != 1 or place.stream or place.cursor or place.branch:
            raise UnsupportedError(
                f"{strand.name} is started in several loops, in a `while` loop, in a branch, or by another partition: "
                "which time it is would not be known; select nothing in it"
            )
        return around[0]

    # -- spans -----------------------------------------------------------------------------------------------

    def _note(self, record: _Record, stack: list[_Record]) -> None:
        op, region = record.op, record.op.region_id
        if isinstance(op, StartOp):
            stack.append(record)
        elif isinstance(op, StopOp):
            self.spans.append(("region", stack.pop(), record))
        elif isinstance(op, (MarkOp, ValueOp)):
            self.spans.append(("mark" if isinstance(op, MarkOp) else "value", record, record))
        elif isinstance(op, IssueOp):
            self.issues.setdefault(region, []).append(record)
        elif isinstance(op, WaitOp):
            self.waiting[record.place.stream, region, *_shift(op)] = record
        elif isinstance(op, DoneOp):
            wait = self.waiting.pop((record.place.stream, region, *_shift(op)), None)
            if wait is None:
                raise TileProbeError(f"region {region} is done, but nothing waited for it")
            self.waits.setdefault(region, []).append((wait, record))

    def _end(self, record: _Record) -> End:
        ahead, named = _shift(record.op)
        peeled = self.numbered.get(named, -1)
        if named >= 0 and peeled < 0:  # nothing is recorded in that loop: there are no iterations to name
            ahead = 0
        loops = (*self.around[peeled], peeled) if peeled >= 0 else record.place.loops
        return End(record.slot, loops, ahead, peeled, record.place.stream, record.op.parent)

    def all_spans(self, kernel: Operation) -> tuple[list[Span], list[str]]:
        """The spans of the kernel, and what is to be said of asynchronous operations with one end."""
        found = [
            span_between(start.op.region_id, self._end(start), self._end(stop), kind)
            for kind, start, stop in self.spans
        ]
        notes: list[str] = []
        names = _names(kernel)
        for region in sorted({*self.issues, *self.waits}):
            name = names.get(region, f"region {region}")
            issues = [self._end(record) for record in self.issues.get(region, [])]
            waits = [Wait(self._end(a), self._end(b)) for a, b in self.waits.get(region, [])]
            spans, lonely = pair(region, name, issues, waits)
            found += spans
            notes += lonely
        return list(dict.fromkeys(found)), notes


def _names(kernel: Operation) -> dict[int, str]:
    """What regions are called, in quotes."""
    return {op.region.data: f'"{op.label.data}"' for op in kernel.walk() if isinstance(op, RegionOp)}


def _meets(span: Span, layout: Layout) -> bool:
    """Whether the ends of an asynchronous operation can be joined: both in places, or both in one cursor's segment."""
    issue, stop = layout.slots[span.start], layout.slots[span.stop]
    return issue.cursor == stop.cursor and (not issue.cursor or issue.stream == stop.stream)


def _drop_unreachable(kernel: Operation) -> None:
    """Takes out probes that never run; those that the walk did not find elsewhere are refused."""
    for op in [op for op in kernel.walk() if isinstance(op, ProbeOp) and SLOT not in op.attributes]:
        region = op.parent_region()
        if region is not None and op.parent in in_order(region):
            raise UnsupportedError(
                f"{op.name} of region {op.region_id} stands where nothing can be recorded, such as the "
                "condition of a while loop"
            )
        op.detach()
        op.erase()


def _shift(op: ProbeOp) -> tuple[int, int]:
    """The iterations that a probe is ahead, and the number of the loop it was peeled off or -1."""
    return (
        op.ahead.data if op.ahead is not None else 0,
        op.peeled.data if op.peeled is not None else -1,
    )


def layout_of(kernel: Operation) -> Layout:
    """The layout that this pass gave a kernel."""
    text = attr_value(kernel, LAYOUT)
    if not isinstance(text, str):
        raise TileProbeError("the kernel has no record layout; run assign-slots first")
    return Layout.from_json(json.loads(text))
