"""Loops become GPU IR: trip counts are stored, and what goes round with a loop says which iteration has which frame.

In come `record.trip`, `.index`, `.next` and what counts `while` loops, of a module that is lowered; out go iterations,
each with the threads that record it and its frame.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import Block, Operation, SSAValue

from tileprobe.ir.layout import Loop
from tileprobe.ir.record import CursorOp, EnterOp, IndexOp, NextOp, RanOp, TotalOp, TripOp
from tileprobe.targets.gpu.carried import Carried
from tileprobe.targets.gpu.emit import Emitter
from tileprobe.targets.gpu.isa import Frame, Paces
from tileprobe.targets.gpu.lowering import FLUSH, OTHER, Lowering
from tileprobe.targets.gpu.streams import Kept, Stream
from tileprobe.targets.gpu.table import WORD


@dataclass
class LowersLoops(Lowering):
    def trip(self, block: Block, op: TripOp) -> None:
        """The trip count, stored for the decoder."""
        stream = self.streams[op.block]
        emit = self.emitter(block, op, stream)
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
            by, frame = self.around(op.indices, stream)
            self._put_count(emit, stream, by, frame, op.base.data, trip)

    def index(self, block: Block, op: IndexOp) -> None:
        loop = block.parent_op()
        assert loop is not None
        assert loop.parent is not None
        stream = self.streams[op.block]
        carried = Carried(loop, Emitter(loop.parent, loop, stream.threads, OTHER))
        outer = None if op.within is None else self.kept[op.within]
        if op.cursor is not None:
            self._counted(block, op, stream, carried, outer)
            return
        number = op.loop.data
        by, frame = (stream.by, stream.home) if outer is None else (outer.by, outer.frame)
        place = self.layout.loops[number]
        emit = self.emitter(block, op, stream)
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
            behind = Emitter(loop.parent, _behind_records(loop), stream.threads, FLUSH)
            carried.behind = carried.behind.at(FLUSH)
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
        emit = self.emitter(block, op, stream)
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

    def zero(self, block: Block, op: CursorOp | EnterOp) -> None:
        emit = self.emitter(block, op, self.streams[op.block])
        op.results[0].replace_all_uses_with(emit.constant(0, "i64"))

    def next(self, block: Block, op: NextOp) -> None:
        """An iteration of a loop without a trip count. A phase from the end keeps nothing: there is no end."""
        stream = self.streams[op.block]
        emit = self.emitter(block, op, stream)
        op.following.replace_all_uses_with(emit.add(op.number, emit.constant(1, "i64")))
        outer = None if op.within is None else self.kept[op.within]
        hit = None
        if op.dynamic is not None:
            hit, _ = stream.sampling[op.loop.data].keeps(emit, emit.cast(op.number, 32))
        self._numbered(emit, op.index, op.number, _and(emit, hit, outer), stream)

    def ran(self, block: Block, op: RanOp) -> None:
        emit = self.emitter(block, op, self.streams[op.block])
        once = emit.cast(emit.compare("ne", op.count, emit.constant(0, "i64")), 64, signed=False)
        op.total.replace_all_uses_with(emit.add(op.before, op.count))
        op.runs.replace_all_uses_with(emit.add(op.runs_before, once))

    def total(self, block: Block, op: TotalOp) -> None:
        stream = self.streams[op.block]
        emit = self.emitter(block, op, stream)
        for n, count in enumerate((op.count, op.runs)):
            self._put_count(emit, stream, stream.by, stream.home, op.base.data + n, count)

    def _put_count(
        self, emit: Emitter, stream: Stream, by: SSAValue, frame: Frame, word: int, count: SSAValue
    ) -> None:
        """A number of iterations, under the launch's epoch."""
        high = emit.binary("arith.shli", emit.cast(stream.epoch, 64, signed=False), emit.constant(32, "i64"))
        self.put(emit, frame, by, WORD * stream.word(word), emit.binary("arith.ori", high, count))


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
