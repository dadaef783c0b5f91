"""A value of LLVM IR with Python's operators, scalar or vector alike: what the emitters are written in.

A `Val` knows the builder it emits through. Numbers mix freely with values and become constants of the value's
type, splatted over its lanes. Integers are signed unless a method says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import llvmlite.ir as ir

Operand: TypeAlias = "Val | int | float"

HALF, FLOAT, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
_SHORT = {HALF: "f16", FLOAT: "f32", DOUBLE: "f64"}
_MANTISSA = {HALF: 10, FLOAT: 23, DOUBLE: 52}
_EXPONENT = {HALF: 5, FLOAT: 8, DOUBLE: 11}


def lanes(t: ir.Type) -> int:
    """How many lanes a type has; 0 for a scalar."""
    return t.count if isinstance(t, ir.VectorType) else 0


def element(t: ir.Type) -> ir.Type:
    return t.element if isinstance(t, ir.VectorType) else t


def like(t: ir.Type, e: ir.Type) -> ir.Type:
    """The type of `t`'s shape with elements `e`."""
    return ir.VectorType(e, t.count) if isinstance(t, ir.VectorType) else e


def short(t: ir.Type) -> str:
    """LLVM's mangled name of a type: f32, v8f32, v4i64."""
    e = element(t)
    name = _SHORT.get(e) or f"i{e.width}"  # type: ignore[attr-defined]
    return f"v{t.count}{name}" if isinstance(t, ir.VectorType) else name


class Splat(ir.Constant):
    """One constant in every lane, written so: it keeps the text of wide vectors short."""

    def __init__(self, t: ir.VectorType, one: ir.Constant):
        super().__init__(t, ir.Undefined)
        self.one = one

    def get_reference(self) -> str:
        return f"splat ({self.one})"


def constant(t: ir.Type, value: int | float) -> ir.Constant:
    e = element(t)
    if isinstance(e, ir.IntType):
        value = int(value) & ((1 << e.width) - 1)
        value = bool(value) if e.width == 1 else value
    else:
        value = float(value)
    return Splat(t, ir.Constant(e, value)) if isinstance(t, ir.VectorType) else ir.Constant(t, value)


def declare(module: ir.Module, name: str, result: ir.Type, arguments: Sequence[ir.Type]) -> ir.Function:
    """The module's declaration of an external function or intrinsic, made on first use."""
    found = module.globals.get(name)
    return found or ir.Function(module, ir.FunctionType(result, list(arguments)), name)


class Val:
    """An IR value with operators."""

    __slots__ = ("b", "v")

    def __init__(self, builder: ir.IRBuilder, value: Any):  # llvmlite has no types of its own to name
        self.b = builder
        self.v = value

    # ---- types and constants
    @property
    def type(self) -> ir.Type:
        return self.v.type

    @property
    def is_float(self) -> bool:
        return element(self.type) in _SHORT

    @property
    def bits(self) -> int:
        e = element(self.type)
        return {HALF: 16, FLOAT: 32, DOUBLE: 64}.get(e) or e.width  # type: ignore[attr-defined]

    @property
    def mantissa_bits(self) -> int:
        return _MANTISSA[element(self.type)]

    @property
    def bias(self) -> int:
        return (1 << (_EXPONENT[element(self.type)] - 1)) - 1

    def const(self, value: int | float) -> Val:
        return Val(self.b, constant(self.type, value))

    def of(self, other: Operand) -> Val:
        return other if isinstance(other, Val) else self.const(other)

    def int_type(self) -> ir.Type:
        """The integer type of the same shape and width."""
        return like(self.type, ir.IntType(self.bits))

    # ---- arithmetic
    def _op(self, other: Operand, f: str, i: str) -> Val:
        name = f if self.is_float else i
        return Val(self.b, getattr(self.b, name)(self.v, self.of(other).v))

    def __add__(self, o: Operand) -> Val:
        return self._op(o, "fadd", "add")

    def __radd__(self, o: Operand) -> Val:
        return self.of(o) + self

    def __sub__(self, o: Operand) -> Val:
        return self._op(o, "fsub", "sub")

    def __rsub__(self, o: Operand) -> Val:
        return self.of(o) - self

    def __mul__(self, o: Operand) -> Val:
        return self._op(o, "fmul", "mul")

    def __rmul__(self, o: Operand) -> Val:
        return self.of(o) * self

    def __truediv__(self, o: Operand) -> Val:
        return self._op(o, "fdiv", "sdiv")

    def __rtruediv__(self, o: Operand) -> Val:
        return self.of(o) / self

    def __neg__(self) -> Val:
        return Val(self.b, self.b.fneg(self.v)) if self.is_float else self.const(0) - self

    def __and__(self, o: Operand) -> Val:
        return Val(self.b, self.b.and_(self.v, self.of(o).v))

    def __or__(self, o: Operand) -> Val:
        return Val(self.b, self.b.or_(self.v, self.of(o).v))

    def __xor__(self, o: Operand) -> Val:
        return Val(self.b, self.b.xor(self.v, self.of(o).v))

    def __invert__(self) -> Val:
        return self ^ -1

    def __lshift__(self, o: Operand) -> Val:
        return Val(self.b, self.b.shl(self.v, self.of(o).v))

    def __rshift__(self, o: Operand) -> Val:
        return Val(self.b, self.b.ashr(self.v, self.of(o).v))

    def lshr(self, o: Operand) -> Val:
        return Val(self.b, self.b.lshr(self.v, self.of(o).v))

    # ---- comparisons (ordered: false for NaN; `ne` is true for NaN)
    def _cmp(self, o: Operand, op: str) -> Val:
        if self.is_float:
            make = self.b.fcmp_unordered if op == "!=" else self.b.fcmp_ordered
        else:
            make = self.b.icmp_signed
        return Val(self.b, make(op, self.v, self.of(o).v))

    def __lt__(self, o: Operand) -> Val:
        return self._cmp(o, "<")

    def __le__(self, o: Operand) -> Val:
        return self._cmp(o, "<=")

    def __gt__(self, o: Operand) -> Val:
        return self._cmp(o, ">")

    def __ge__(self, o: Operand) -> Val:
        return self._cmp(o, ">=")

    def eq(self, o: Operand) -> Val:
        return self._cmp(o, "==")

    def ne(self, o: Operand) -> Val:
        return self._cmp(o, "!=")

    def ult(self, o: Operand) -> Val:
        return Val(self.b, self.b.icmp_unsigned("<", self.v, self.of(o).v))

    def isnan(self) -> Val:
        return Val(self.b, self.b.fcmp_unordered("uno", self.v, self.v))

    def pick(self, yes: Operand, no: Operand) -> Val:
        """Lane by lane `yes` where this i1 is set, else `no`; at least one is a value."""
        model = yes if isinstance(yes, Val) else no
        assert isinstance(model, Val)
        return Val(self.b, self.b.select(self.v, model.of(yes).v, model.of(no).v))

    # ---- bits and conversions
    def as_int(self) -> Val:
        return Val(self.b, self.b.bitcast(self.v, self.int_type()))

    def as_float(self) -> Val:
        """The same bits as half, float or double."""
        return Val(
            self.b, self.b.bitcast(self.v, like(self.type, {16: HALF, 32: FLOAT, 64: DOUBLE}[self.bits]))
        )

    def cast(self, kind: str, e: ir.Type) -> Val:
        """One of LLVM's casts (sext, fptrunc, sitofp, ...) to elements of type `e`."""
        return Val(self.b, getattr(self.b, kind)(self.v, like(self.type, e)))

    def f32(self) -> Val:
        return self._resize(FLOAT, 32)

    def f64(self) -> Val:
        return self._resize(DOUBLE, 64)

    def _resize(self, e: ir.Type, bits: int) -> Val:
        if element(self.type) == e:
            return self
        return self.cast("fpext" if self.bits < bits else "fptrunc", e)

    # ---- functions
    def call(self, name: str, *arguments: Operand, result: ir.Type | None = None) -> Val:
        """Call an overloaded intrinsic; its name gets this value's type."""
        values = [self.v, *(self.of(a).v for a in arguments)]
        out = result or self.type
        suffix = short(self.type) if result is None else f"{short(result)}.{short(self.type)}"
        f = declare(self.b.module, f"{name}.{suffix}", out, [v.type for v in values])
        return Val(self.b, self.b.call(f, values))

    def fma(self, y: Operand, z: Operand) -> Val:
        """x * y + z rounded once, on every machine."""
        return self.call("llvm.fma", y, z)

    def mad(self, y: Operand, z: Operand) -> Val:
        """x * y + z, fused where the machine can."""
        return self.call("llvm.fmuladd", y, z)

    def abs(self) -> Val:
        return self.call("llvm.fabs") if self.is_float else (self < 0).pick(-self, self)

    def copysign(self, sign: Operand) -> Val:
        return self.call("llvm.copysign", sign)

    def sqrt(self) -> Val:
        return self.call("llvm.sqrt")

    def poly(self, coefficients: Sequence[float]) -> Val:
        """Horner's rule, coefficients from the constant up."""
        out = self.const(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            out = out.mad(self, c)
        return out

    def clamp(self, low: float, high: float) -> Val:
        """Into [low, high]; NaN stays NaN."""
        x = (self > high).pick(high, self)
        return (x < low).pick(low, x)

    def any(self) -> ir.Value:
        """One i1: whether any lane of this i1 is set."""
        if not lanes(self.type):
            return self.v
        f = declare(self.b.module, f"llvm.vector.reduce.or.{short(self.type)}", I1, [self.type])
        return self.b.call(f, [self.v])

    def round_int(self) -> tuple[Val, Val]:
        """The nearest integer as a float and as an integer of the same width, for |x| < 2^(mantissa - 2).

        Adding 1.5 * 2^mantissa leaves the rounded integer in the low bits of the sum.
        """
        magic = self.const(1.5 * 2.0**self.mantissa_bits)
        return self._shifted(self + magic, magic)

    def scaled_round_int(self, factor: float) -> tuple[Val, Val]:
        """round_int(x * factor) in one operation fewer."""
        magic = self.const(1.5 * 2.0**self.mantissa_bits)
        return self._shifted(self.mad(factor, magic), magic)

    def _shifted(self, big: Val, magic: Val) -> tuple[Val, Val]:
        return big - magic, big.as_int() - magic.as_int()


def power_of_two(n: Val) -> Val:
    """2^n as float or double of n's width, for n within the normal exponents."""
    mantissa, bias = (23, 127) if n.bits == 32 else (52, 1023)
    return ((n + bias) << mantissa).as_float()
