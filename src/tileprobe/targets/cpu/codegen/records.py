"""Records as LLVM: a block for each recorded program, and in it a clock at a place known at compile time.

Programs without a block go to the plain kernel, whose address the parameter block holds: they run the code
they would run without a session. What is decided at run time (programs, every n-th iteration) is read from
the launch's parameter block once a program.

A clock stands between two memory barriers of the compiler, so no load or store crosses it; the scalars that
the stage before it made are tied to it, since arithmetic in registers would be free to sink below.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tileprobe.ir.accessors import elem_type, op_name
from tileprobe.ir.layout import BEGIN, EPOCH, PAYLOAD_BIT, PUSHED, UNIT, Layout
from tileprobe.ir.record import (
    CursorOp,
    DelayOp,
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
from tileprobe.ir.sampling import (
    FIRST_LOOP,
    LAUNCH_EPOCH,
    LOOP_COUNT,
    LOOP_PHASE,
    LOOP_STRIDE,
    LOOP_WORDS,
)
from tileprobe.targets.cpu.codegen import clock
from tileprobe.targets.cpu.codegen.record_blocks import load_word, parameters_of
from tileprobe.targets.cpu.codegen.types import F32, F64, I32, I64, PTR, Value, is_float
from tileprobe.targets.cpu.structure import TileStructure
from tileprobe.targets.cpu.target import CpuTarget

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.function import FunctionEmitter

_HOW = TileStructure()


def layout_in(kernel: Operation) -> Layout | None:
    """The layout of a kernel with records, if it is one that can be written here."""
    for op in kernel.walk():
        if isinstance(op, OpenOp) and op.layout is not None:
            layout = Layout.from_json(json.loads(op.layout.data))
            CpuTarget.capabilities.check(layout, CpuTarget.name)
            return layout
    return None


class _Loop:
    """Counters of a counted loop, on the stack until LLVM puts them into registers. They say what its
    induction variable says, without a division."""

    def __init__(self, f: FunctionEmitter) -> None:
        self.iteration, self.next, self.kept = (f.local(I64) for _ in range(3))


class Recorder:
    """Emits the record ops of one function whose program owns the block at `block`."""

    def __init__(self, f: FunctionEmitter, layout: Layout, block: Value) -> None:
        self.f, self.layout, self.block = f, layout, block
        self.stream = layout.streams[0]
        self.loops: dict[int, _Loop] = {}
        self.emitters = {
            OpenOp: self._open,
            TripOp: self._trip,
            IndexOp: self._index,
            EnterOp: self._enter,
            NextOp: self._next,
            RanOp: self._ran,
            TotalOp: self._total,
            StoreOp: self._store,
            PushOp: self._push,
            CursorOp: self._cursor,
            FlushOp: self._flush,
        }

    def emit(self, op: Operation) -> None:
        emitter = self.emitters.get(type(op))  # clock and slot are emitted by the op that stores
        if emitter is not None:
            emitter(op)

    # -- words -----------------------------------------------------------------------------------------------

    def _const(self, value: int) -> ir.Constant:
        return ir.Constant(I64, value)

    def _address(self, words: Value) -> Value:
        return self.f.builder.gep(self.f.builder.inttoptr(self.block, PTR), [words], source_etype=I64)

    def _put(self, value: Value, words: Value) -> None:
        self.f.builder.store(value, self._address(words), align=8)

    def _place(self, base: int, indices: list[Value], strides: list[int]) -> Value:
        b, place = self.f.builder, self._const(base)
        for index, stride in zip(indices, strides):
            place = b.add(place, b.mul(index, self._const(stride)))
        return place

    # -- a program -------------------------------------------------------------------------------------------

    def _open(self, op: OpenOp) -> None:
        b = self.f.builder
        parameters = parameters_of(b, self.f.launch, self.layout)
        epoch = load_word(b, parameters, LAUNCH_EPOCH)
        self.high = b.shl(epoch, self._const(32))
        self.sampling = {
            loop.id: tuple(
                load_word(b, parameters, FIRST_LOOP + LOOP_WORDS * loop.id + part)
                for part in (LOOP_STRIDE, LOOP_PHASE, LOOP_COUNT)
            )
            for loop in self.layout.loops
        }
        header = [(EPOCH, epoch), (UNIT, clock.core(b)), (PUSHED, self._const(0))]
        if self.layout.clock_bits == 32:  # narrow clocks are widened from here
            header.append((BEGIN, clock.read(b)))
        for word, value in header:
            self._put(value, self._const(word))

    def _cursor(self, op: CursorOp) -> None:
        self.f.values[op.count] = self._const(0)

    def _flush(self, op: FlushOp) -> None:
        if op.cursor is not None:
            self._put(self.f.value(op.cursor), self._const(PUSHED))

    # -- loops -----------------------------------------------------------------------------------------------

    def _trip(self, op: TripOp) -> None:
        """The trip count, stored for the decoder, and the loop's counters made ready."""
        b = self.f.builder
        low, up, step = (_wide(b, self.f.value(v)) for v in (op.lower, op.upper, op.step))
        span = b.sub(up, low)
        one = self._const(1)
        trip = b.sdiv(b.add(span, b.sub(step, one)), step)
        trip = b.select(b.icmp_signed(">", span, self._const(0)), trip, self._const(0))
        self.f.values[op.count] = trip
        if op.base is not None:
            indices = [self.f.value(v) for v in op.indices]
            place = self._place(op.base.data, indices, [s.data for s in op.strides])
            self._when(indices[-1:], lambda: self._put(b.or_(self.high, trip), place))
        self._start(op.loop.data, trip)

    def _start(self, number: int, trip: Value) -> None:
        b = self.f.builder
        loop = self.loops.setdefault(number, _Loop(self.f))
        _, phase, _ = self.sampling[number]
        zero = self._const(0)
        back = b.add(trip, phase)  # a phase from the end
        back = b.select(b.icmp_signed(">", back, zero), back, zero)
        phase = b.select(b.icmp_signed("<", phase, zero), back, phase)
        for slot, value in ((loop.iteration, zero), (loop.kept, zero), (loop.next, phase)):
            b.store(value, slot)

    def _index(self, op: IndexOp) -> None:
        """Is this iteration kept? Counting on from the last kept one needs no division."""
        number = op.loop.data
        b, loop = self.f.builder, self.loops[number]
        stride, _, count = self.sampling[number]
        here, due, kept = (b.load(slot, typ=I64) for slot in (loop.iteration, loop.next, loop.kept))
        hit = b.and_(b.icmp_signed("==", here, due), b.icmp_signed("<", kept, count))
        one = self._const(1)
        b.store(b.add(here, one), loop.iteration)
        b.store(b.select(hit, b.add(due, stride), due), loop.next)
        b.store(b.select(hit, b.add(kept, one), kept), loop.kept)
        self._keep(op.index, hit, kept if op.cursor is None else here, op.within)

    def _enter(self, op: EnterOp) -> None:
        self.f.values[op.number] = self._const(0)

    def _next(self, op: NextOp) -> None:
        """Is this iteration kept? Its number is all there is; it is divided only where some are left out."""
        b = self.f.builder
        here = self.f.value(op.number)
        stride, phase, count = self.sampling[op.loop.data]
        offset = b.sub(here, phase)  # without an end there is no phase from the end: it keeps nothing
        every = b.block
        with b.if_then(b.icmp_signed("!=", stride, self._const(1))):
            quotient = b.udiv(offset, stride)
            exact = b.icmp_unsigned("==", b.mul(quotient, stride), offset)
            some = b.block
            divided = b.select(exact, quotient, self._const(-1))
        kept = b.phi(I64)
        kept.add_incoming(offset, every)
        kept.add_incoming(divided, some)
        hit = b.icmp_unsigned("<", kept, count)
        hit = b.and_(hit, b.icmp_signed(">=", phase, self._const(0)))
        self.f.values[op.following] = b.add(here, self._const(1))
        self._keep(op.index, hit, here, op.within)

    def _ran(self, op: RanOp) -> None:
        b, count = self.f.builder, self.f.value(op.count)
        self.f.values[op.total] = b.add(self.f.value(op.before), count)
        once = b.zext(b.icmp_signed("!=", count, self._const(0)), I64)
        self.f.values[op.runs] = b.add(self.f.value(op.runs_before), once)

    def _total(self, op: TotalOp) -> None:
        for n, count in enumerate((op.count, op.runs)):
            self._put(self.f.builder.or_(self.high, self.f.value(count)), self._const(op.base.data + n))

    def _keep(self, result: SSAValue, hit: Value, index: Value, within: SSAValue | None) -> None:
        """The index if the iteration is kept and the one around it is, -1 otherwise."""
        b = self.f.builder
        if within is not None:
            hit = b.and_(hit, b.icmp_signed(">=", self.f.value(within), self._const(0)))
        self.f.values[result] = b.select(hit, index, self._const(-1))

    # -- records ---------------------------------------------------------------------------------------------

    def _store(self, op: StoreOp) -> None:
        slot = op.place.owner
        assert isinstance(slot, SlotOp)
        indices = [self.f.value(v) for v in slot.indices]
        strides = [s.data for s in slot.strides]

        def record() -> None:
            place = self._place(slot.base.data, indices, strides)
            self._put(self._clock(op), place)
            clock.barrier(self.f.builder)
            if op.payload is not None:
                self._put(self._payload(op.payload), self.f.builder.add(place, self._const(1)))

        self._when(indices[-1:], record)

    def _push(self, op: PushOp) -> None:
        """Behind the last record; what does not fit is only counted, and no clock is read for it."""
        b = self.f.builder
        iteration = self._const(-1) if op.iteration is None else self.f.value(op.iteration)
        tag = b.or_(b.shl(iteration, self._const(32)), self._const(op.slot.data))
        cursor = moved = self.f.value(op.cursor)
        before = recorded = b.block

        def record() -> None:
            nonlocal moved, recorded
            moved = self._append(cursor, tag, lambda: self._clock(op))
            if op.payload is not None:
                payload = self._payload(op.payload)
                moved = self._append(moved, b.or_(tag, self._const(PAYLOAD_BIT)), lambda: payload)
            recorded = b.block

        if op.iteration is None:
            record()
            self.f.values[op.moved] = moved
            return
        self._when([iteration], record)
        after = b.phi(I64)
        after.add_incoming(cursor, before)
        after.add_incoming(moved, recorded)
        self.f.values[op.moved] = after

    def _append(self, cursor: Value, tag: Value, word: Callable[[], Value]) -> Value:
        """Writes one pair of words if there is room; the cursor moves on in any case."""
        b = self.f.builder
        with b.if_then(b.icmp_unsigned("<", cursor, self._const(self.stream.cursor_capacity))):
            at = b.add(b.shl(cursor, self._const(1)), self._const(self.stream.cursor_base))
            value = word()
            self._put(tag, at)
            self._put(value, b.add(at, self._const(1)))
            clock.barrier(b)
        return b.add(cursor, self._const(1))

    def _clock(self, op: Operation) -> Value:
        b = self.f.builder
        clock.barrier(b, self._ties(op))
        ticks = clock.read(b)
        if self.layout.clock_bits == 64:
            return ticks
        return b.or_(self.high, b.and_(ticks, self._const(0xFFFFFFFF)))

    def _ties(self, op: Operation) -> list[Value]:
        """The scalars that the stage before a record made: they must be there when the clock is read."""
        before = op.prev_op
        while before is not None and (op_name(before).startswith("record.") or _HOW.is_free(before)):
            before = before.prev_op
        if before is None:
            return []
        found = [self.f.values.get(result) for result in before.results]
        return [v for v in found if v is not None and not isinstance(v, ir.Constant)]

    def _payload(self, value: SSAValue) -> Value:
        b: Value = self.f.builder
        held, name = self.f.value(value), elem_type(value.type)
        if name == "bf16":  # kept as its bits: the upper half of an fp32
            held = b.bitcast(b.shl(b.zext(held, I32), ir.Constant(I32, 16)), F32)
        if is_float(name):
            wide = held if held.type == F64 else b.fpext(held, F64)
            return b.bitcast(wide, I64)
        return _wide(b, held)

    def _when(self, index: list[Value], record) -> None:
        """Runs `record` when the iteration is kept; always outside of loops."""
        if not index:
            record()
            return
        with self.f.builder.if_then(self.f.builder.icmp_signed(">=", index[0], self._const(0))):
            record()


def _wide(b: Value, value: Value) -> Value:
    return value if value.type == I64 else b.sext(value, I64)


def fence(f: FunctionEmitter) -> None:
    clock.barrier(f.builder)
    if clock.is_x86():
        kind = ir.FunctionType(ir.VoidType(), [])
        f.builder.call(ir.InlineAsm(kind, "lfence", "~{memory}", True), [])


def delay(f: FunctionEmitter, op: DelayOp) -> None:
    """Reads the clock until so many ticks have passed; memory accesses stay before or behind. The clock may be read
    before earlier instructions are done, so that a short delay could pass beside long ones (roots, divisions) that are
    still under way. On x86 `lfence` rules that out: nothing behind it begins before all in front of it is done, except
    that stores may still be on their way to memory. On other processors nothing does, and slopes may be too small."""
    b = f.builder
    fence(f)
    begun = clock.read(b)
    again, after = (f.builder.function.append_basic_block(name) for name in ("delay", "delayed"))
    b.branch(again)
    b.position_at_end(again)
    passed = b.sub(clock.read(b), begun)
    b.cbranch(b.icmp_unsigned("<", passed, ir.Constant(I64, op.ticks.data)), again, after)
    b.position_at_end(after)
    clock.barrier(b)
