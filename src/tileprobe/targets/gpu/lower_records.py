"""Records become GPU IR: a clock in its place, or behind the last one of the cursor's segment.

In come `record.store` and `record.push` of a module that is lowered; out go the instructions of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Block, SSAValue

from tileprobe.ir.layout import CURSOR_WORDS, PAYLOAD_BIT
from tileprobe.ir.record import PushOp, SlotOp, StoreOp
from tileprobe.targets.gpu.emit import Emitter, location
from tileprobe.targets.gpu.isa import Frame, Gathers, Postpones, Reading
from tileprobe.targets.gpu.lowering import OTHER, RECORD_FILE, SHARED_RECORD_FILE, Lowering
from tileprobe.targets.gpu.streams import Read, Stream
from tileprobe.targets.gpu.table import WORD


@dataclass
class LowersRecords(Lowering):
    def store(self, block: Block, op: StoreOp) -> None:
        slot = op.place.owner
        assert isinstance(slot, SlotOp)
        where = self._location(slot.slot.data)
        if (opened := self.opened.get(slot.block)) is not None:
            assert isinstance(self.isa, Postpones)
            ticks = self.isa.clock_now(Emitter(block, op, opened.threads, where))
            opened.postponed.append(Read(ticks, slot.base.data, where))
            return
        stream = self.streams[slot.block]
        by, frame = self.around(slot.indices, stream)
        emit = Emitter(block, op, stream.threads, where)
        offset = WORD * stream.word(slot.base.data)
        frame, offset = self.near(emit, frame, offset)
        if isinstance(self.isa, Gathers):
            self.read[op] = Reading(self.isa.clock(emit), frame, offset, emit.where)
            group = self.groups[op]
            if op is group[-1]:
                readings = [self.read[record] for record in group]
                self.isa.keep(emit, readings, by, stream.epoch, self.layout.clock_bits)
        else:
            self.isa.stamp(emit, frame, by, offset, stream.epoch, self.layout.clock_bits)
        if op.payload is not None:
            other = emit.at(OTHER)
            self.put(other, frame, by, offset + WORD, other.bits(op.payload))

    def _location(self, slot: int) -> LocationAttr:
        """That of a record: its slot, and which of its copies it is."""
        self.written[slot] += 1
        shared = self.layout.buffer == "shared" and not (
            self.layout.slots[slot].cursor and self.layout.strategy == "flush"
        )
        return location(SHARED_RECORD_FILE if shared else RECORD_FILE, slot + 1, self.written[slot])

    def push(self, block: Block, op: PushOp) -> None:
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
        frame, offset = self.near(emit, frame, WORD * place.cursor_base)
        self.isa.put(emit.at(OTHER), frame, by, offset, tag)
        if word is None:
            self.isa.stamp(emit, frame, by, offset + WORD, stream.epoch, self.layout.clock_bits)
        else:
            self.isa.put(emit.at(OTHER), frame, by, offset + WORD, word)
        return emit.add(cursor, one)
