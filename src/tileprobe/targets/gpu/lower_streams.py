"""Streams become GPU IR: each finds its entry of the table, writes its header, and in the end its clock.

In come `record.open`, `record.again` and `record.flush` of a module that is lowered; out go the streams that records
are put to.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from tileprobe.ir.accessors import attr_value
from tileprobe.ir.layout import PUSHED
from tileprobe.ir.record import AgainOp, FlushOp, OpenOp
from tileprobe.targets.gpu.carried import Sampling
from tileprobe.targets.gpu.emit import Emitter, Threads
from tileprobe.targets.gpu.isa import Frame, Postpones
from tileprobe.targets.gpu.lowering import FLUSH, OTHER, Lowering
from tileprobe.targets.gpu.shared_buffer import SharedBuffer
from tileprobe.targets.gpu.streams import Kept, Opened, Stream, due
from tileprobe.targets.gpu.table import BLOCK, EPOCH_WORD, FIRST_LOOP, LOOP_WORDS, WORD, entry_words, loops_of
from tileprobe.targets.gpu.waits import warps_of

_WARPS = {"warp": 1, "warp_group": 4}  # that make an instance


@dataclass
class LowersStreams(Lowering):
    def open(self, block: Block, op: OpenOp) -> None:
        """Reads the stream's entry of the table, and the clocks of its start. Where these can be stored later, nothing
        waits for the entry until something else has to."""
        stream = self.layout.streams[op.stream.data]
        warps, size = warps_of(block), attr_value(self.module, "ttg.threads-per-warp") or 32
        threads = Threads(warps, size, attr_value(self.module, "ttg.num-ctas") or 1)
        emit = Emitter(block, op, threads, OTHER)
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

    def catch_up(self, block: Block, op: Operation, held: SSAValue) -> None:
        """Stores what a stream read at its start."""
        assert isinstance(self.isa, Postpones)
        opened = self.opened.pop(held)
        emit = Emitter(block, op, opened.threads, OTHER)
        opened.words = self.isa.arrived(emit, opened.words)
        opened.loops = {loop: self.isa.arrived(emit, words) for loop, words in opened.loops.items()}
        stream = self.streams[held] = self._started(emit, opened)
        for each in opened.postponed:
            at = emit.at(each.where)
            frame, offset = self.near(at, stream.home, WORD * stream.word(each.word))
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
        # Where `while` loops carry numbers round, too, one more register of each thread is dearer than instructions.
        narrow = self.layout.clock_bits < 64 and not any(loop.endless for loop in self.layout.loops)
        beside = self.isa.beside(emit, by, epoch) if narrow else epoch
        made = Stream(stream.id, opened.threads, frame, by, beside, sampling, frame, frame)
        if self.layout.buffer == "shared":
            self._collect(emit.at(FLUSH), made, part, opened.entry)
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
        there, near = self.near(emit, frame, offset)
        there = self.isa.onward(emit, there, emit.constant(1), near)
        before = emit.cast(self.isa.fetch(emit, there, by), 32)
        high = emit.binary("arith.shli", emit.cast(epoch, 64, signed=False), emit.constant(32, "i64"))
        more = emit.cast(emit.add(before, emit.constant(1)), 64, signed=False)
        self.isa.put(emit, there, by, 0, emit.binary("arith.ori", high, more))
        return before

    def again(self, block: Block, op: AgainOp) -> None:
        """As an iteration of a loop that goes round outside of the stream."""
        stream = self.streams[op.block]
        emit = self.emitter(block, op, stream)
        loop = self.layout.loops[op.loop.data]
        assert stream.before is not None
        stride = stream.sampling[loop.id].stride
        hit, offset = stream.sampling[loop.id].keeps(emit, stream.before)
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

    def flush(self, block: Block, op: FlushOp) -> None:
        stream = self.streams[op.block]
        emit = self.emitter(block, op, stream)
        if op.cursor is not None:
            self.isa.put(emit, stream.block, stream.by, WORD * PUSHED, op.cursor)
        self.isa.end(emit, stream.block, stream.by)
        if stream.shared is not None:
            stream.shared.copy_rest(emit.at(FLUSH))
