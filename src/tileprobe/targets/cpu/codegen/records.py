"""Lowers the `record` dialect for the CPU: the time-stamp counter, stored where the layout says.

Comes in: record ops among the stages of a kernel. Goes out: LLVM that reads the parameter block of the launch
(`tileprobe.trace.sampling`), finds the program's block of words (`tileprobe.trace.layout`) and stores clocks
there; without a parameter block one branch at the start of the program, and one a record.

A clock stands between two fences that only the compiler sees: no load or store moves over it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tileprobe.errors import UnsupportedError
from tileprobe.ir import record
from tileprobe.targets.cpu.codegen.types import F64, I32, I64, PTR
from tileprobe.targets.cpu.host import host
from tileprobe.trace import sampling
from tileprobe.trace.layout import BEGIN, CURSOR_WORDS, EPOCH, PAYLOAD_BIT, PUSHED, UNIT, Layout

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.function import FunctionEmitter

PARAMETERS = 4  # slot of the launch block with the address of the parameter block, or 0
NONE = ir.Constant(I64, -1)


def _int(number: int) -> ir.Constant:
    return ir.Constant(I64, number)


class Recorder:
    """What one function knows of its records: its block (0 if it has none), epoch, parameters and counters."""

    def __init__(self, f: FunctionEmitter, op: record.OpenOp) -> None:
        if op.clock_bits.data != 64 or op.granularity.data != "program" or op.buffer.data != "global":
            raise UnsupportedError("the CPU records programs with 64-bit clocks into global memory")
        self.f = f
        self.layout = Layout.from_json(json.loads(op.layout.data if op.layout is not None else "{}"))
        self.cursor = f.local(I64)
        self.counters: dict[int, ir.Value] = {}
        self.loops: dict[int, tuple[ir.Value, ir.Value, ir.Value]] = {}
        self._open()

    def _open(self) -> None:
        """Finds the block, then writes its header. Later ops read parameters without asking whether there
        are any: `self.parameters` is a table of zeros then."""
        f, b = self.f, self.f.builder
        given = self._load(b.ptrtoint(f.launch, I64), PARAMETERS)
        self.parameters = b.select(b.icmp_unsigned("!=", given, _int(0)), given, self._nothing())
        self.epoch = self._load(self.parameters, sampling.LAUNCH_EPOCH)
        program = f.module.linear_program(f)
        offset = b.sub(program, self._load(self.parameters, sampling.PROGRAM_PHASE))
        stride = self._load(self.parameters, sampling.PROGRAM_STRIDE)
        index = b.udiv(offset, stride)
        fits = b.icmp_unsigned("<", index, self._load(self.parameters, sampling.PROGRAM_LIMIT))
        regular = b.select(b.and_(fits, b.icmp_unsigned("==", b.mul(index, stride), offset)), index, NONE)
        index = self._mapped(program, regular)
        place = b.add(
            self._load(self.parameters, sampling.BUFFER), b.mul(index, _int(self.layout.block_bytes))
        )
        self.block = b.select(b.icmp_signed(">=", index, _int(0)), place, _int(0))
        with b.if_then(self.alive(None)):
            clock, unit = self._clock_and_core()
            for word, value in ((EPOCH, self.epoch), (UNIT, unit), (PUSHED, _int(0)), (BEGIN, clock)):
                self.store(value, b.add(self.block, _int(8 * word)))
        b.store(_int(0), self.cursor)

    def _mapped(self, program: ir.Value, regular: ir.Value) -> ir.Value:
        """The block's number from the table of chosen programs, if there is one."""
        b = self.f.builder
        table = self._load(self.parameters, sampling.PROGRAM_MAP)
        before = b.block
        with b.if_then(b.icmp_unsigned("!=", table, _int(0))):
            at = b.inttoptr(b.add(table, b.mul(program, _int(4))), PTR)
            chosen = b.sext(b.load(at, typ=I32, align=4), I64)
            inside = b.block
        index = b.phi(I64)
        index.add_incoming(regular, before)
        index.add_incoming(chosen, inside)
        return index

    def _nothing(self) -> ir.Value:
        """A parameter block that records nothing."""
        words = sampling.FIRST_LOOP + sampling.LOOP_WORDS * len(self.layout.loops)
        module = self.f.module.llvm
        table = module.globals.get("tile.no_records")
        if table is None:
            kind = ir.ArrayType(I64, words)
            table = ir.GlobalVariable(module, kind, "tile.no_records")
            table.linkage, table.global_constant = "internal", True
            strides = {sampling.PROGRAM_STRIDE, *range(sampling.FIRST_LOOP, words, sampling.LOOP_WORDS)}
            table.initializer = ir.Constant(kind, [1 if n in strides else 0 for n in range(words)])
        return self.f.builder.ptrtoint(table, I64)

    # -- memory and clocks -----------------------------------------------------------------------------------

    def _load(self, address: ir.Value, word: int) -> ir.Value:
        b = self.f.builder
        return b.load(b.inttoptr(b.add(address, _int(8 * word)), PTR), typ=I64, align=8)

    def store(self, value: ir.Value, address: ir.Value) -> None:
        b = self.f.builder
        b.store(value, b.inttoptr(address, PTR), align=8)

    def clock(self) -> ir.Value:
        b = self.f.builder
        b.fence("seq_cst", targetscope="singlethread")
        ticks = (
            b.call(self._intrinsic("llvm.readcyclecounter", I64, []), []) if _is_x86() else _counter_arm(b)
        )
        b.fence("seq_cst", targetscope="singlethread")
        return ticks

    def _clock_and_core(self) -> tuple[ir.Value, ir.Value]:
        b = self.f.builder
        if not _is_x86():
            core = b.call(self._intrinsic("sched_getcpu", I32, []), [])
            return self.clock(), b.zext(core, I64)
        pair = b.call(self._intrinsic("llvm.x86.rdtscp", ir.LiteralStructType([I64, I32]), []), [])
        core = b.and_(b.extract_value(pair, 1), ir.Constant(I32, 0xFFF))  # Linux keeps the node above bit 12
        return b.extract_value(pair, 0), b.zext(core, I64)

    def _intrinsic(self, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
        known = self.f.module.llvm.globals.get(name)
        if known is not None:
            return known
        return ir.Function(self.f.module.llvm, ir.FunctionType(result, arguments), name)

    # -- places ----------------------------------------------------------------------------------------------

    def alive(self, index: ir.Value | None) -> ir.Value:
        """Whether something is recorded here: in the kept iteration `index`, or at all."""
        b = self.f.builder
        if index is None:
            return b.icmp_unsigned("!=", self.block, _int(0))
        return b.icmp_signed(">=", index, _int(0))  # an index is -1 when the program has no block

    def address(self, base: int, indices: list[ir.Value], strides: list[int]) -> ir.Value:
        b = self.f.builder
        at = b.add(self.block, _int(8 * base))
        for index, stride in zip(indices, strides):
            at = b.add(at, b.mul(index, _int(8 * stride)))
        return at

    def counter(self, loop: int) -> ir.Value:
        if loop not in self.counters:
            self.counters[loop] = self.f.local(I64)
        return self.counters[loop]

    def kept(self, loop: int, number: ir.Value, count: ir.Value | None, dynamic: bool, capacity: int) -> Any:
        """(the place among the kept iterations, whether it is kept), before asking for what is around it."""
        b = self.f.builder
        if not dynamic:
            return number, b.icmp_signed("<", number, _int(capacity))
        at = sampling.FIRST_LOOP + sampling.LOOP_WORDS * loop
        stride, phase, room = (self._load(self.parameters, at + n) for n in range(3))
        first = phase
        if count is not None:
            from_end = b.add(count, phase)
            from_end = b.select(b.icmp_signed("<", from_end, _int(0)), _int(0), from_end)
            first = b.select(b.icmp_signed("<", phase, _int(0)), from_end, phase)
        offset = b.sub(number, first)
        # 32 bits are enough for an iteration, and dividing them is quick.
        index = b.zext(b.udiv(b.trunc(offset, I32), b.trunc(stride, I32)), I64)
        exact = b.icmp_unsigned("==", b.mul(index, stride), offset)
        return index, b.and_(exact, b.icmp_signed("<", index, room))


def _is_x86() -> bool:
    return host().triple.startswith(("x86_64", "i686"))


def _counter_arm(b: ir.IRBuilder) -> ir.Value:
    return b.asm(ir.FunctionType(I64, []), "mrs $0, cntvct_el0", "=r", [], True)


# -- ops -----------------------------------------------------------------------------------------------------


def _recorder(f: FunctionEmitter) -> Recorder:
    return f.recorder  # pyright: ignore[reportAttributeAccessIssue]


def _open(f: FunctionEmitter, op: Any) -> None:
    f.recorder = Recorder(f, op)  # pyright: ignore[reportAttributeAccessIssue]


def _wide(f: FunctionEmitter, value: SSAValue) -> ir.Value:
    found = f.value(value)
    return found if found.type == I64 else f.builder.sext(found, I64)


def _trip(f: FunctionEmitter, op: record.TripOp) -> None:
    b, r = f.builder, _recorder(f)
    lower, upper, step = (_wide(f, v) for v in (op.lower, op.upper, op.step))
    span = b.add(b.sub(upper, lower), b.sub(step, _int(1)))
    count = b.select(b.icmp_signed("<", lower, upper), b.sdiv(span, step), _int(0))
    f.values[op.count] = count
    if op.base is None:
        return
    indices = [f.value(v) for v in op.indices]
    with b.if_then(r.alive(indices[-1] if indices else None)):
        word = b.or_(b.shl(r.epoch, _int(32)), b.and_(count, _int(0xFFFFFFFF)))
        r.store(word, r.address(op.base.data, indices, [s.data for s in op.strides]))


def _index(f: FunctionEmitter, op: record.IndexOp) -> None:
    b, r = f.builder, _recorder(f)
    number = b.sdiv(b.sub(_wide(f, op.induction), _wide(f, op.lower)), _wide(f, op.step))
    index, kept = r.kept(op.loop.data, number, f.value(op.count), op.dynamic is not None, op.capacity.data)
    f.values[op.index] = _guard(f, number if op.cursor is not None else index, kept, op.within)


def _guard(f: FunctionEmitter, index: ir.Value, kept: ir.Value, within: SSAValue | None) -> ir.Value:
    b, r = f.builder, _recorder(f)
    around = r.alive(f.value(within) if within is not None else None)
    return b.select(b.and_(kept, around), index, NONE)


def _enter(f: FunctionEmitter, op: record.EnterOp) -> None:
    f.builder.store(_int(0), _recorder(f).counter(op.loop.data))


def _next(f: FunctionEmitter, op: record.NextOp) -> None:
    b, r = f.builder, _recorder(f)
    counter = r.counter(op.loop.data)
    number = b.load(counter, typ=I64)
    b.store(b.add(number, _int(1)), counter)
    _, kept = r.kept(op.loop.data, number, None, op.dynamic is not None, sampling.ALL)
    f.values[op.index] = _guard(f, number, kept, op.within)


def _slot(f: FunctionEmitter, op: record.SlotOp) -> None:
    b, r = f.builder, _recorder(f)
    indices = [f.value(v) for v in op.indices]
    place = r.address(op.base.data, indices, [s.data for s in op.strides])
    f.values[op.place] = b.select(r.alive(indices[-1] if indices else None), place, _int(0))


def _clock(f: FunctionEmitter, op: record.ClockOp) -> None:
    """Nothing yet: the clock is read where it is stored, and only if it is."""


def _bits(f: FunctionEmitter, payload: SSAValue) -> ir.Value:
    b, value = f.builder, f.value(payload)
    if isinstance(value.type, (ir.HalfType, ir.FloatType)):
        value = b.fpext(value, F64)
    if isinstance(value.type, ir.DoubleType):
        return b.bitcast(value, I64)
    if str(payload.type) == "bf16":  # kept as its 16 bits
        wide = b.bitcast(b.shl(b.zext(value, I32), ir.Constant(I32, 16)), ir.FloatType())
        return b.bitcast(b.fpext(wide, F64), I64)
    return value if value.type == I64 else b.sext(value, I64)


def _store(f: FunctionEmitter, op: record.StoreOp) -> None:
    b, r = f.builder, _recorder(f)
    place = f.value(op.place)
    with b.if_then(b.icmp_unsigned("!=", place, _int(0))):
        r.store(r.clock(), place)
        if op.payload is not None:
            r.store(_bits(f, op.payload), b.add(place, _int(8)))


def _push(f: FunctionEmitter, op: record.PushOp) -> None:
    b, r = f.builder, _recorder(f)
    iteration = f.value(op.iteration) if op.iteration is not None else None
    with b.if_then(r.alive(iteration)):
        high = b.shl(NONE if iteration is None else iteration, _int(32))
        _append(f, r, b.or_(high, _int(op.slot.data)), None)
        if op.payload is not None:
            _append(f, r, b.or_(high, _int(op.slot.data | PAYLOAD_BIT)), _bits(f, op.payload))


def _append(f: FunctionEmitter, r: Recorder, tag: ir.Value, word: ir.Value | None) -> None:
    """Tag and word (the clock, if none is given) at the cursor; a full segment only counts on."""
    b = f.builder
    count = b.load(r.cursor, typ=I64)
    with b.if_then(b.icmp_unsigned("<", count, _int(r.layout.cursor_capacity))):
        at = r.address(r.layout.cursor_base, [count], [CURSOR_WORDS])
        r.store(tag, at)
        r.store(r.clock() if word is None else word, b.add(at, _int(8)))
    b.store(b.add(count, _int(1)), r.cursor)


def _flush(f: FunctionEmitter, op: record.FlushOp) -> None:
    b, r = f.builder, _recorder(f)
    if not r.layout.cursor_capacity:
        return
    with b.if_then(r.alive(None)):
        r.store(b.load(r.cursor, typ=I64), b.add(r.block, _int(8 * PUSHED)))


EMITTERS: dict[str, Callable[[FunctionEmitter, Any], None]] = {
    "record.open": _open,
    "record.trip": _trip,
    "record.index": _index,
    "record.enter": _enter,
    "record.next": _next,
    "record.slot": _slot,
    "record.clock": _clock,
    "record.store": _store,
    "record.push": _push,
    "record.flush": _flush,
}


def emits(op: Operation) -> bool:
    return op.name in EMITTERS
