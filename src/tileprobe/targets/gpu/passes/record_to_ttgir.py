"""record-to-ttgir: records become Triton's own GPU IR, with the instructions of the machine inside.

In comes final TTGIR with `record` ops; out goes TTGIR that Triton compiles on. Each stream finds its block in the
program's scratch, and one thread speaks for each of its instances. The place of a record is the frame of the iteration
it lies in plus a constant; frames are carried through loops beside the values of the kernel. Locations of all that is
added name this pass, so that it can be told from the kernel's own instructions in the machine code.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tileprobe.ir.accessors import attr_value
from tileprobe.ir.blocks import in_order
from tileprobe.ir.layout import CURSOR_WORDS, PAYLOAD_BIT, PUSHED, Layout, Loop
from tileprobe.ir.probe import RegionOp
from tileprobe.ir.record import (
    AgainOp,
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
)
from tileprobe.targets.gpu.carried import Carried, Sampling
from tileprobe.targets.gpu.emit import Emitter, Threads, location
from tileprobe.targets.gpu.gathered import Group, gathered
from tileprobe.targets.gpu.isa import Frame, Gathers, Isa, Paces, Postpones, Reading, isa_of
from tileprobe.targets.gpu.shared_buffer import SharedBuffer
from tileprobe.targets.gpu.streams import Kept, Opened, Read, Stream, due
from tileprobe.targets.gpu.table import BLOCK, EPOCH_WORD, FIRST_LOOP, LOOP_WORDS, WORD, entry_words, loops_of
from tileprobe.targets.gpu.waits import behind_barriers, drop, last_waits, warps_of

# Files that locations name: records by slot and dose, what else is added.
RECORD_FILE = "tileprobe.record"
SHARED_RECORD_FILE = "tileprobe.shared_record"
OTHER_FILE = "tileprobe.overhead"
FLUSH_FILE = "tileprobe.flush"
_OTHER = location(OTHER_FILE)
_FLUSH = location(FLUSH_FILE)
_WARPS = {"warp": 1, "warp_group": 4}  # that make an instance


@dataclass(frozen=True)
class RecordToTtgirPass(ModulePass):
    """Turns records into Triton's GPU IR."""

    name = "record-to-ttgir"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        opened = [inner for inner in op.walk() if isinstance(inner, OpenOp)]
        if opened:
            whole = next(inner.layout for inner in opened if inner.layout is not None)
            layout = Layout.from_json(json.loads(whole.data))
            isa = isa_of(str(attr_value(op, "ttg.target")))
            isa.check(layout)
            behind_barriers(op)
            last_waits(op)
            lowering = _Lowering(op, layout, isa)
            for function in op.ops:
                lowering.regions(function)
            drop(lowering.done)
        drop([inner for inner in op.walk() if isinstance(inner, RegionOp)])


@dataclass
class _Lowering:
    module: ModuleOp
    layout: Layout
    isa: Isa
    streams: dict[SSAValue, Stream] = field(default_factory=dict)
    opened: dict[SSAValue, Opened] = field(default_factory=dict)
    kept: dict[SSAValue, Kept] = field(default_factory=dict)
    done: list[Operation] = field(default_factory=list)
    written: Counter[int] = field(default_factory=Counter)  # slot -> how often so far
    sampled: set[int] = field(default_factory=set)  # loops whose iterations are chosen at run time
    groups: dict[StoreOp, Group] = field(default_factory=dict)  # records that are stored together
    read: dict[StoreOp, Reading] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.isa, Gathers):
            self.groups = gathered(self.module, self.isa.together)
        for op in self.module.walk():
            if isinstance(op, AgainOp):
                self.sampled.add(op.loop.data)
            if isinstance(op, (IndexOp, NextOp)) and (op.dynamic is not None or self.layout.circular):
                self.sampled.add(op.loop.data)

    def regions(self, op: Operation) -> None:
        for region in op.regions:
            for block in in_order(region):
                for inner in list(block.ops):
                    self._op(block, inner)
                    self.regions(inner)

    def _op(self, block: Block, op: Operation) -> None:
        for held in [held for held, opened in self.opened.items() if opened.due is op]:
            self._catch_up(block, op, held)
        lower = {
            OpenOp: self._open,
            AgainOp: self._again,
            TripOp: self._trip,
            IndexOp: self._index,
            EnterOp: self._zero,
            CursorOp: self._zero,
            NextOp: self._next,
            RanOp: self._ran,
            TotalOp: self._total,
            StoreOp: self._store,
            PushOp: self._push,
            FlushOp: self._flush,
        }.get(type(op))
        if lower is not None:
            lower(block, op)
        if op.name.startswith("record."):
            self.done.append(op)

    def _at(self, block: Block, op: Operation, stream: Stream) -> Emitter:
        return Emitter(block, op, stream.threads, _OTHER)

    # -- streams ---------------------------------------------------------------------------------------------

    def _open(self, block: Block, op: OpenOp) -> None:
        """Reads the stream's entry of the table, and the clocks of its start. Where these can be stored later, nothing
        waits for the entry until something else has to."""
        stream = self.layout.streams[op.stream.data]
        warps, size = warps_of(block), attr_value(self.module, "ttg.threads-per-warp") or 32
        threads = Threads(warps, size, attr_value(self.module, "ttg.num-ctas") or 1)
        emit = Emitter(block, op, threads, _OTHER)
        entry = emit.scratch(WORD * entry_words(self.layout, stream.id))
        words = self.isa.table(emit, entry, 0)
        raw = {
            loop: self.isa.table(emit, entry, FIRST_LOOP + LOOP_WORDS * n)
            for n, loop in enumerate(loops_of(self.layout, stream.id))
            if loop in self.sampled
        }
        part = _WARPS.get(self.layout.granularity, warps) * size
        opened = Opened(stream.id, threads, part, entry, words, raw)
        if isinstance(self.isa, Postpones) and self.layout.started_again(stream.id) is None:
            opened.begun, opened.due = self.isa.begun(emit), due(op)
            self.opened[op.block] = opened
        else:
            self.streams[op.block] = self._started(emit, opened)

    def _catch_up(self, block: Block, op: Operation, held: SSAValue) -> None:
        """Stores what a stream read at its start."""
        assert isinstance(self.isa, Postpones)
        opened = self.opened.pop(held)
        emit = Emitter(block, op, opened.threads, _OTHER)
        opened.words = self.isa.arrived(emit, opened.words)
        opened.loops = {loop: self.isa.arrived(emit, words) for loop, words in opened.loops.items()}
        stream = self.streams[held] = self._started(emit, opened)
        for each in opened.postponed:
            at = emit.at(each.where)
            frame, offset = self._near(at, stream.home, WORD * stream.word(each.word))
            self.isa.late(at, frame, stream.by, offset, stream.epoch, self.layout.clock_bits, each.ticks)

    def _started(self, emit: Emitter, opened: Opened) -> Stream:
        """The stream, from its entry in the table; its header is written."""
        stream, words, part = self.layout.streams[opened.number], opened.words, opened.part
        address, epoch = words[BLOCK], emit.cast(words[EPOCH_WORD], 32)
        thread = self.isa.thread(emit)
        speaks = emit.compare("eq", emit.binary("arith.remui", thread, emit.constant(part)), emit.constant(0))
        by = emit.both(speaks, emit.compare("ne", epoch, emit.constant(0)))
        far = None
        if stream.in_a_cta > 1:
            instance = emit.binary("arith.divui", thread, emit.constant(part))
            far = emit.mul(instance, emit.constant(WORD * stream.words))
        frame = self.isa.block(emit, address, by, far)
        sampling = {}
        for loop, (both, extent) in opened.loops.items():
            high, count = (
                emit.cast(emit.binary("arith.shrui", word, emit.constant(32, "i64")), 32)
                for word in (both, extent)
            )
            sampling[loop] = Sampling(emit.cast(both, 32), high, emit.cast(extent, 32), count)
        made = Stream(stream.id, opened.threads, frame, by, epoch, sampling, frame, frame)
        if self.layout.buffer == "shared":
            self._collect(emit.at(_FLUSH), made, part, opened.entry)
        first = by
        if (again := self.layout.started_again(stream.id)) is not None:
            made.before = self._times(emit, frame, by, epoch, WORD * again.trip_base)
            first = emit.both(by, emit.compare("eq", made.before, emit.constant(0)))
        if opened.begun and isinstance(self.isa, Postpones):
            self.isa.late_header(emit, frame, first, words[EPOCH_WORD], opened.begun)
        else:
            self.isa.header(emit, frame, first, words[EPOCH_WORD])
        return made

    def _times(self, emit: Emitter, frame: Frame, by: SSAValue, epoch: SSAValue, offset: int) -> SSAValue:
        """How often a stream was started before, of the threads that speak; one more time is kept."""
        there, near = self._near(emit, frame, offset)
        there = self.isa.onward(emit, there, emit.constant(1), near)
        before = emit.cast(self.isa.fetch(emit, there, by), 32)
        high = emit.binary("arith.shli", emit.cast(epoch, 64, signed=False), emit.constant(32, "i64"))
        more = emit.cast(emit.add(before, emit.constant(1)), 64, signed=False)
        self.isa.put(emit, there, by, 0, emit.binary("arith.ori", high, more))
        return before

    def _again(self, block: Block, op: AgainOp) -> None:
        """As an iteration of a loop that goes round outside of the stream."""
        stream = self.streams[op.block]
        emit = self._at(block, op, stream)
        loop = self.layout.loops[op.loop.data]
        assert stream.before is not None
        stride = stream.sampling[loop.id].stride
        hit, offset = _kept(emit, stream.before, stream.sampling[loop.id])
        frame = self.isa.onward(
            emit, stream.home, emit.binary("arith.divui", offset, stride), WORD * loop.stride
        )
        by, frame = emit.both(stream.by, hit), self.isa.only(emit, frame, hit)
        self.kept[op.index] = Kept(by, frame, hit)

    def _collect(self, emit: Emitter, stream: Stream, part: int, entry: SSAValue) -> None:
        """Records of a stream go to shared memory, from which they are copied to its block."""
        shared = SharedBuffer.made(emit, self.isa, self.layout, stream.number, part, entry)
        shared.clear(emit)
        stream.shared, stream.home = shared, shared.frame(emit, stream.by)
        if self.layout.strategy != "flush":
            at = shared.word(self.layout.streams[stream.number].cursor_base)
            place = self.layout.streams[stream.number].cursor_base
            back = emit.constant(at - place)  # offsets of the cursor's records are those in the block
            stream.pushed = self.isa.onward(emit, stream.home, back, WORD)

    def _flush(self, block: Block, op: FlushOp) -> None:
        stream = self.streams[op.block]
        emit = self._at(block, op, stream)
        if op.cursor is not None:
            self.isa.put(emit, stream.block, stream.by, WORD * PUSHED, op.cursor)
        self.isa.end(emit, stream.block, stream.by)
        if stream.shared is not None:
            stream.shared.copy_rest(emit.at(_FLUSH))

    # -- loops -----------------------------------------------------------------------------------------------

    def _trip(self, block: Block, op: TripOp) -> None:
        """The trip count, stored for the decoder."""
        stream = self.streams[op.block]
        emit = self._at(block, op, stream)
        lower, upper, step = op.lower, op.upper, op.step
        width = 64 if str(lower.type) in ("i64", "index") else 32
        lower, upper, step = (emit.cast(value, width) for value in (lower, upper, step))
        kind = f"i{width}"
        one, none = emit.constant(1, kind), emit.constant(0, kind)
        span = emit.sub(upper, lower)
        rounded = emit.binary("arith.divui", emit.add(span, emit.sub(step, one)), step)
        runs = emit.compare("slt", lower, upper)
        trip = emit.cast(emit.select(runs, rounded, none), 64, signed=False)
        op.count.replace_all_uses_with(trip)
        if op.base is not None:
            by, frame = self._around(op.indices, stream)
            self._put_count(emit, stream, by, frame, op.base.data, trip)

    def _around(self, indices: object, stream: Stream) -> tuple[SSAValue, Frame]:
        """Which threads record in the innermost of these iterations, and its frame."""
        within = list(indices)  # type: ignore[call-overload]
        if not within:
            return stream.by, stream.home
        kept = self.kept[within[-1]]
        return kept.by, kept.frame

    def _index(self, block: Block, op: IndexOp) -> None:
        loop = block.parent_op()
        assert loop is not None
        assert loop.parent is not None
        stream = self.streams[op.block]
        carried = Carried(loop, Emitter(loop.parent, loop, stream.threads, _OTHER))
        outer = None if op.within is None else self.kept[op.within]
        if op.cursor is not None:
            self._counted(block, op, stream, carried, outer)
            return
        number = op.loop.data
        by, frame = (stream.by, stream.home) if outer is None else (outer.by, outer.frame)
        place = self.layout.loops[number]
        emit = self._at(block, op, stream)
        pace = WORD * place.stride
        turns = place.capacity if self.layout.circular else 0
        paced = isinstance(self.isa, Paces) and not frame.shared
        at = moved = None
        if op.dynamic is None and not turns:
            hit = carried.first_ones(emit, op, place.capacity)
        elif turns or paced or place.window:
            hit = moved = carried.sampled(emit, op, stream.sampling[number])
        else:
            hit, at = carried.sampled_by_number(emit, op, stream.sampling[number])
        if place.window:
            assert stream.shared is not None
            behind = Emitter(loop.parent, _behind_records(loop), stream.threads, _FLUSH)
            carried.behind = carried.behind.at(_FLUSH)
            at = stream.shared.window(carried, place, hit, behind)
            frame = self.isa.onward(emit, frame, at, pace)
        elif isinstance(self.isa, Paces) and paced:
            start = self._start(carried.before, frame, place)
            far = carried.frame_number(moved, turns, start.far, pace)
            frame = self.isa.along(start, far)
        else:
            at = carried.frame_number(moved, turns) if at is None else at
            frame = self.isa.onward(emit, frame, at, pace)
        if hit is not None:
            by, frame = emit.both(by, hit), self.isa.only(emit, frame, hit)
        self.kept[op.index] = Kept(by, frame, _and(emit, hit, outer))

    def _start(self, emit: Emitter, around: Frame, loop: Loop) -> Frame:
        """The frame of a loop's first iteration, in front of it: where the first of its records lies."""
        first = WORD * (loop.trip_base + 1)
        return replace(self.isa.onward(emit, around, emit.constant(1), first - around.first), first=first)

    def _counted(
        self, block: Block, op: IndexOp, stream: Stream, carried: Carried, outer: Kept | None
    ) -> None:
        """An iteration of a loop whose records go to the cursor's segment: its number."""
        emit = self._at(block, op, stream)
        hit = None
        if op.dynamic is not None:
            hit = carried.sampled(emit, op, stream.sampling[op.loop.data])
        number = carried.number()
        self._numbered(emit, op.index, number, _and(emit, hit, outer), stream)

    def _numbered(
        self, emit: Emitter, index: SSAValue, number: SSAValue, hit: SSAValue | None, stream: Stream
    ) -> None:
        if hit is not None:
            number = emit.select(hit, number, emit.constant(-1, "i64"))
        by, frame = stream.by, stream.pushed
        if hit is not None:
            by, frame = emit.both(by, hit), self.isa.only(emit, frame, hit)
        self.kept[index] = Kept(by, frame, hit, number)

    def _zero(self, block: Block, op: CursorOp | EnterOp) -> None:
        emit = self._at(block, op, self.streams[op.block])
        op.results[0].replace_all_uses_with(emit.constant(0, "i64"))

    def _next(self, block: Block, op: NextOp) -> None:
        """An iteration of a loop without a trip count. A phase from the end keeps nothing: there is no end."""
        stream = self.streams[op.block]
        emit = self._at(block, op, stream)
        op.following.replace_all_uses_with(emit.add(op.number, emit.constant(1, "i64")))
        outer = None if op.within is None else self.kept[op.within]
        hit = None
        if op.dynamic is not None:
            hit, _ = _kept(emit, emit.cast(op.number, 32), stream.sampling[op.loop.data])
        self._numbered(emit, op.index, op.number, _and(emit, hit, outer), stream)

    def _ran(self, block: Block, op: RanOp) -> None:
        emit = self._at(block, op, self.streams[op.block])
        once = emit.cast(emit.compare("ne", op.count, emit.constant(0, "i64")), 64, signed=False)
        op.total.replace_all_uses_with(emit.add(op.before, op.count))
        op.runs.replace_all_uses_with(emit.add(op.runs_before, once))

    def _total(self, block: Block, op: TotalOp) -> None:
        stream = self.streams[op.block]
        emit = self._at(block, op, stream)
        for n, count in enumerate((op.count, op.runs)):
            self._put_count(emit, stream, stream.by, stream.home, op.base.data + n, count)

    def _put_count(
        self, emit: Emitter, stream: Stream, by: SSAValue, frame: Frame, word: int, count: SSAValue
    ) -> None:
        """A number of iterations, under the launch's epoch."""
        high = emit.binary("arith.shli", emit.cast(stream.epoch, 64, signed=False), emit.constant(32, "i64"))
        self._put(emit, frame, by, WORD * stream.word(word), emit.binary("arith.ori", high, count))

    # -- records ---------------------------------------------------------------------------------------------

    def _store(self, block: Block, op: StoreOp) -> None:
        slot = op.place.owner
        assert isinstance(slot, SlotOp)
        where = self._location(slot.slot.data)
        if (opened := self.opened.get(slot.block)) is not None:
            assert isinstance(self.isa, Postpones)
            ticks = self.isa.clock_now(Emitter(block, op, opened.threads, where))
            opened.postponed.append(Read(ticks, slot.base.data, where))
            return
        stream = self.streams[slot.block]
        by, frame = self._around(slot.indices, stream)
        emit = Emitter(block, op, stream.threads, where)
        offset = WORD * stream.word(slot.base.data)
        frame, offset = self._near(emit, frame, offset)
        if isinstance(self.isa, Gathers):
            self.read[op] = Reading(self.isa.clock(emit), frame, offset, emit.where)
            group = self.groups[op]
            if op is group[-1]:
                readings = [self.read[record] for record in group]
                self.isa.keep(emit, readings, by, stream.epoch, self.layout.clock_bits)
        else:
            self.isa.stamp(emit, frame, by, offset, stream.epoch, self.layout.clock_bits)
        if op.payload is not None:
            other = emit.at(_OTHER)
            self._put(other, frame, by, offset + WORD, other.bits(op.payload))

    def _location(self, slot: int) -> LocationAttr:
        """That of a record: its slot, and which of its copies it is."""
        self.written[slot] += 1
        shared = self.layout.buffer == "shared" and not (
            self.layout.slots[slot].cursor and self.layout.strategy == "flush"
        )
        return location(SHARED_RECORD_FILE if shared else RECORD_FILE, slot + 1, self.written[slot])

    def _near(self, emit: Emitter, frame: Frame, offset: int) -> tuple[Frame, int]:
        """A frame from which the offset fits into a store."""
        offset -= frame.first
        if offset + WORD <= (reach := self.isa.reach(frame)):
            return frame, offset
        near = offset % (reach + 1) if offset % (reach + 1) + WORD <= reach else 0
        return self.isa.onward(emit, frame, emit.constant(1), offset - near), near

    def _put(self, emit: Emitter, frame: Frame, by: SSAValue, offset: int, word: SSAValue) -> None:
        frame, offset = self._near(emit, frame, offset)
        self.isa.put(emit, frame, by, offset, word)

    def _push(self, block: Block, op: PushOp) -> None:
        """Behind the last record; what does not fit is only counted."""
        stream = self.streams[op.block]
        emit = Emitter(block, op, stream.threads, self._location(op.slot.data))
        kept = None if op.iteration is None else self.kept[op.iteration]
        number = emit.constant(-1, "i64") if kept is None or kept.number is None else kept.number
        by, frame = (stream.by, stream.pushed) if kept is None else (kept.by, kept.frame)
        high = emit.binary("arith.shli", number, emit.constant(32, "i64"))
        tag = emit.binary("arith.ori", high, emit.constant(op.slot.data, "i64"))
        one = emit.constant(1, "i64")
        if kept is not None and kept.hit is not None:
            one = emit.cast(kept.hit, 64, signed=False)
        cursor = self._append(emit, stream, by, frame, op.cursor, tag, None, one)
        if op.payload is not None:
            word = emit.bits(op.payload)
            tag = emit.binary("arith.ori", tag, emit.constant(PAYLOAD_BIT, "i64"))
            cursor = self._append(emit, stream, by, frame, cursor, tag, word, one)
        op.moved.replace_all_uses_with(cursor)

    def _append(
        self,
        emit: Emitter,
        stream: Stream,
        by: SSAValue,
        frame: Frame,
        cursor: SSAValue,
        tag: SSAValue,
        word: SSAValue | None,
        one: SSAValue,
    ) -> SSAValue:
        """A tag and a word, the clock unless it is given, if there is room. The cursor moves on in any case."""
        place = self.layout.streams[stream.number]
        room = emit.compare("ult", cursor, emit.constant(place.cursor_capacity, "i64"))
        by, frame = emit.both(by, room), self.isa.only(emit, frame, room)
        frame = self.isa.onward(emit, frame, cursor, WORD * CURSOR_WORDS)
        frame, offset = self._near(emit, frame, WORD * place.cursor_base)
        self.isa.put(emit.at(_OTHER), frame, by, offset, tag)
        if word is None:
            self.isa.stamp(emit, frame, by, offset + WORD, stream.epoch, self.layout.clock_bits)
        else:
            self.isa.put(emit.at(_OTHER), frame, by, offset + WORD, word)
        return emit.add(cursor, one)


def _kept(emit: Emitter, number: SSAValue, sampling: Sampling) -> tuple[SSAValue, SSAValue]:
    """Whether the iteration with this number is kept, of a loop of which nobody knows the end, and how far it is from
    the first one."""
    offset = emit.sub(number, sampling.phase)
    exact = emit.compare("eq", emit.binary("arith.remui", offset, sampling.stride), emit.constant(0))
    hit = emit.both(exact, emit.compare("ule", offset, sampling.extent))
    return emit.both(hit, emit.compare("sge", sampling.phase, emit.constant(0))), offset


def _behind_records(loop: Operation) -> Operation:
    """The first op behind a loop and the records of its end: what is done there counts for neither."""
    after = loop.next_op
    while after is not None and after.name.startswith("record."):
        after = after.next_op
    assert after is not None  # a block ends with a terminator
    return after


def _and(emit: Emitter, hit: SSAValue | None, outer: Kept | None) -> SSAValue | None:
    around = None if outer is None else outer.hit
    if hit is None or around is None:
        return hit if around is None else around
    return emit.both(hit, around)
