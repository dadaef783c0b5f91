"""All lanes of a warp at once: how a handler reads its operands and writes its result, in LLVM's vectors of 32.

A handler is a function of a `Lanes`; `handler` puts it into `HANDLERS` under the names that micro-ops call it by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from tileprobe.targets.simgpu.engine import layout as at

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
POINTER = ir.PointerType()
QUIET_NAN = 0x7FFFFFFF  # what every float instruction answers for NaN (PTX ISA, "canonical NaN")
QUIET_NAN_64 = 0x7FF8000000000000  # f64 keeps payloads in general; a fresh NaN is this
_SHORT = {
    "i1": "i1",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "half": "f16",
    "float": "f32",
    "double": "f64",
}

Emit = Callable[["Lanes"], None]
HANDLERS: dict[str, Emit] = {}


def handler(name: str, emit: Emit) -> None:
    assert name not in HANDLERS, name
    HANDLERS[name] = emit


def named(name: str) -> Callable[[Emit], Emit]:
    """Decorates the handler of one name."""

    def keep(emit: Emit) -> Emit:
        handler(name, emit)
        return emit

    return keep


def vector(kind: Any) -> Any:
    return ir.VectorType(kind, at.LANES)


class Lanes:
    """The operands of one micro-op, while its handler is being made."""

    def __init__(
        self, builder: Any, uop: Any, warp: Any, constants: Any, mask: Any, scratch: Any = None
    ) -> None:
        self.b, self.uop, self.warp, self.constants, self.mask = builder, uop, warp, constants, mask
        self.scratch = scratch  # a place that handlers may leave something in

    # -- fields and rows ------------------------------------------------------------------------------------------

    def field(self, number: int) -> Any:
        place = self.b.add(self.uop, I64(4 * number))
        return self.b.load(self.b.inttoptr(place, POINTER), typ=I32, align=4)

    def address(self, number: int) -> Any:
        """Of the first row of an operand."""
        b = self.b
        offset = b.sext(self.field(number), I64)
        constant = b.icmp_signed("<", offset, I64(0))
        return b.select(constant, b.sub(self.constants, offset), b.add(self.warp, offset))

    def row(self, number: int, row: int = 0) -> Any:
        place = self.b.add(self.address(number), I64(at.ROW * row))
        return self.b.load(self.b.inttoptr(place, POINTER), typ=vector(I32), align=4)

    def splat(self, value: Any, kind: Any = None) -> Any:
        """A scalar, or a Python number of a kind, in all lanes."""
        if not isinstance(value, ir.Value):
            return ir.Constant(vector(kind), [ir.Constant(kind, value)] * at.LANES)
        scalar: Any = value
        empty = ir.Constant(vector(scalar.type), ir.Undefined)
        one = self.b.insert_element(empty, scalar, I32(0))
        return self.b.shuffle_vector(one, empty, ir.Constant(vector(I32), [I32(0)] * at.LANES))

    def chosen(self) -> Any:
        """The lanes that execute, as a vector."""
        return self.vector_of(self.mask)

    def vector_of(self, bits: Any) -> Any:
        return self.b.bitcast(bits, vector(I1))

    def bits_of(self, lanes: Any) -> Any:
        return self.b.bitcast(lanes, I32)

    # -- operands -------------------------------------------------------------------------------------------------

    def modifier(self, bit: int) -> Any:
        """A bit of the modifiers, as a scalar 0 or 1."""
        return self.b.and_(self.b.lshr(self.field(at.MODS), I32(bit)), I32(1))

    def negation(self, source: int) -> Any:
        """All ones in all lanes if a source is negated, else zeros."""
        return self.splat(self.b.neg(self.modifier(at.NEGATE + source - at.A)))

    def inverted(self, source: int) -> Any:
        """A source, its bits inverted where the modifiers say so."""
        flip = self.splat(self.b.neg(self.modifier(at.INVERT + source - at.A)))
        return self.b.xor(self.row(source), flip)

    def integer(self, source: int) -> Any:
        """A source that may be negated or inverted."""
        sign = self.negation(source)
        return self.b.sub(self.b.xor(self.inverted(source), sign), sign)

    def wide(self, source: int, row: int = 0) -> Any:
        """Two rows as 64-bit integers."""
        low, high = (self.b.zext(self.row(source, row + n), vector(I64)) for n in (0, 1))
        return self.b.or_(low, self.b.shl(high, self.splat(32, I64)))

    def float_bits(self, source: int, modified: bool) -> Any:
        row = self.row(source)
        if not modified:
            return row
        b, n = self.b, source - at.A
        keep = b.xor(b.shl(self.modifier(at.ABSOLUTE + n), I32(31)), I32(-1))
        flip = b.shl(self.modifier(at.NEGATE + n), I32(31))
        return b.xor(b.and_(row, self.splat(keep)), self.splat(flip))

    def float(self, source: int, modified: bool = True, flush: bool = False) -> Any:
        value = self.b.bitcast(self.float_bits(source, modified), vector(F32))
        return self.flushed(value) if flush else value

    def double(self, source: int, modified: bool = True) -> Any:
        value, n = self.wide(source), source - at.A
        if modified:
            b = self.b
            keep = b.xor(b.shl(b.zext(self.modifier(at.ABSOLUTE + n), I64), I64(63)), I64(-1))
            flip = b.shl(b.zext(self.modifier(at.NEGATE + n), I64), I64(63))
            value = b.xor(b.and_(value, self.splat(keep)), self.splat(flip))
        return self.b.bitcast(value, vector(F64))

    def predicate(self, number: int) -> Any:
        """The first or second predicate operand: 32 bits."""
        b = self.b
        code = b.and_(b.lshr(self.field(at.PS), I32(at.SECOND * number)), I32(0xFF))
        return b.xor(self.slot(b.and_(code, I32(31))), b.neg(b.and_(b.lshr(code, I32(5)), I32(1))))

    def slot(self, number: Any) -> Any:
        place = self.b.add(
            self.warp, self.b.add(I64(at.W_PRED), self.b.shl(self.b.zext(number, I64), I64(2)))
        )
        return self.b.load(self.b.inttoptr(place, POINTER), typ=I32, align=4)

    # -- results --------------------------------------------------------------------------------------------------

    def out(self, value: Any, row: int = 0, target: int = at.D) -> None:
        """Writes a row where lanes execute."""
        b = self.b
        place = b.inttoptr(b.add(self.address(target), I64(at.ROW * row)), POINTER)
        with b.if_else(b.icmp_signed("==", self.mask, I32(-1))) as (whole, part):
            with whole:
                b.store(value, place, align=4)
            with part:
                before = b.load(place, typ=vector(I32), align=4)
                b.store(b.select(self.chosen(), value, before), place, align=4)

    def out_float(self, value: Any, flush: bool = False, saturate: bool = False) -> None:
        if flush:
            value = self.flushed(value)
        if saturate:
            value = self.saturated(value)
        bits = self.b.bitcast(value, vector(I32))
        nan = self.b.fcmp_unordered("uno", value, value)
        self.out(self.b.select(nan, self.splat(QUIET_NAN, I32), bits))

    def out_wide(self, value: Any, row: int = 0) -> None:
        """64-bit integers into two rows. Both are computed before either is written."""
        low = self.b.trunc(value, vector(I32))
        high = self.b.trunc(self.b.lshr(value, self.splat(32, I64)), vector(I32))
        self.out(low, row)
        self.out(high, row + 1)

    def out_double(self, value: Any) -> None:
        self.out_wide(self.b.bitcast(value, vector(I64)))

    def out_predicate(self, number: int, bits: Any) -> None:
        """Writes the first or second predicate result where lanes execute."""
        b = self.b
        code = b.and_(b.lshr(self.field(at.PD), I32(at.SECOND * number)), I32(0xFF))
        place = b.add(self.warp, b.add(I64(at.W_PRED), b.shl(b.zext(code, I64), I64(2))))
        place = b.inttoptr(place, POINTER)
        before = b.load(place, typ=I32, align=4)
        b.store(b.or_(b.and_(before, b.xor(self.mask, I32(-1))), b.and_(bits, self.mask)), place, align=4)

    # -- arithmetic -----------------------------------------------------------------------------------------------

    def call(self, name: str, *values: Any) -> Any:
        """One of LLVM's functions on vectors, such as `llvm.fma`."""
        kind = values[0].type
        full = f"{name}.v{at.LANES}{_SHORT[str(kind.element)]}"
        function = self.b.module.globals.get(full)
        if function is None:
            function = ir.Function(
                self.b.module, ir.FunctionType(kind, [value.type for value in values]), full
            )
        return self.b.call(function, values)

    def flushed(self, value: Any) -> Any:
        """Subnormal numbers become zeros of their sign."""
        b = self.b
        bits = b.bitcast(value, vector(I32))
        tiny = b.icmp_unsigned("==", b.and_(bits, self.splat(0x7F800000, I32)), self.splat(0, I32))
        sign = b.and_(bits, self.splat(-(2**31), I32))
        return b.bitcast(b.select(tiny, sign, bits), vector(F32))

    def saturated(self, value: Any) -> Any:
        """Between 0 and 1; NaN becomes 0."""
        b, zero, one = self.b, self.splat(0.0, F32), self.splat(1.0, F32)
        value = b.select(b.fcmp_ordered(">", value, zero), value, zero)
        return b.select(b.fcmp_ordered("<", value, one), value, one)
