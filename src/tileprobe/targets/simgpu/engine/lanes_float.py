"""Handlers of single and double precision: arithmetic, comparison, conversion and the fast functions.

Results are rounded once, NaN becomes the one NaN that GPUs answer, `flush` treats subnormal numbers as zeros.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.lanes import F32, F64, I32, I64, Lanes, handler, named, vector
from tileprobe.targets.simgpu.engine.lanes_integer import (
    COMPARE,
    EQUAL,
    GREATER,
    LESS,
    UNORDERED,
    combined,
    out_comparison,
    wanted,
)

A, B, C = at.A, at.B, at.C
ROUNDINGS = ("", "rz", "rm", "rp")


# -- sums and products ---------------------------------------------------------------------------------------------


def _arithmetic(k: Lanes, op: str, modified: bool, flush: bool, saturate: bool) -> None:
    x, y = (k.float(source, modified, flush) for source in (A, B))
    if op == "fadd":
        value = k.b.fadd(x, y)
    elif op == "fmul":
        value = k.b.fmul(x, y)
    else:
        value = k.call("llvm.fma", x, y, k.float(C, modified, flush))
    k.out_float(value, flush, saturate)


def arithmetic_name(op: str, modified: bool, flush: bool, saturate: bool) -> str:
    return op + "_mod" * modified + "_ftz" * flush + "_sat" * saturate


for _op in ("fadd", "fmul", "ffma"):
    for _modified in (False, True):
        for _flush in (False, True):
            for _saturate in (False, True):
                _what = {"op": _op, "modified": _modified, "flush": _flush, "saturate": _saturate}
                handler(arithmetic_name(**_what), partial(_arithmetic, **_what))


def _scaled(k: Lanes, flush: bool) -> None:
    """A product times two to the power I0: exact in doubles, rounded once."""
    x, y = (k.b.fpext(k.float(source, True, flush), vector(F64)) for source in (A, B))
    power = k.b.shl(k.b.add(k.b.sext(k.field(at.I0), I64), I64(1023)), I64(52))
    scale = k.splat(k.b.bitcast(power, F64))
    k.out_float(k.b.fptrunc(k.b.fmul(k.b.fmul(x, y), scale), vector(F32)), flush)


handler("fmul_scaled", partial(_scaled, flush=False))
handler("fmul_scaled_ftz", partial(_scaled, flush=True))


def _double(k: Lanes, op: str) -> None:
    x, y = k.double(A), k.double(B)
    if op == "dadd":
        value = k.b.fadd(x, y)
    elif op == "dmul":
        value = k.b.fmul(x, y)
    else:
        value = k.call("llvm.fma", x, y, k.double(C))
    k.out_double(value)


for _op in ("dadd", "dmul", "dfma"):
    handler(_op, partial(_double, op=_op))


def _exact(k: Lanes, op: str, flush: bool) -> tuple[Any, Any]:
    """A sum, product or fused product in doubles: the rounded value, and what the rounding lost of it."""
    b = k.b
    x, y = (b.fpext(k.float(source, True, flush), vector(F64)) for source in (A, B))
    first, second = (x, y) if op == "fadd" else (b.fmul(x, y), k.splat(-0.0, F64))  # a product is exact
    if op == "ffma":
        second = b.fpext(k.float(C, True, flush), vector(F64))
    total = b.fadd(first, second)
    part = b.fsub(total, first)  # Knuth's exact sum
    lost = b.fadd(b.fsub(first, b.fsub(total, part)), b.fsub(second, part))
    return total, lost


def directed(k: Lanes, total: Any, lost: Any, rounding: str) -> Any:
    """`total + lost` rounded to single precision towards zero, down or up."""
    b = k.b
    near = b.fptrunc(total, vector(F32))
    back = b.fpext(near, vector(F64))
    same = b.fcmp_ordered("==", back, total)
    zero = k.splat(0.0, F64)
    below = b.or_(b.fcmp_ordered("<", back, total), b.and_(same, b.fcmp_ordered(">", lost, zero)))
    above = b.or_(b.fcmp_ordered(">", back, total), b.and_(same, b.fcmp_ordered("<", lost, zero)))
    bits = b.bitcast(near, vector(I32))
    negative = b.icmp_signed("<", bits, k.splat(0, I32))
    up = below if rounding == "rp" else b.and_(below, negative)
    down = above if rounding == "rm" else b.and_(above, b.not_(negative))
    if rounding == "rp":
        down = k.splat(0, up.type.element)
    if rounding == "rm":
        up = k.splat(0, down.type.element)
    one, minus = k.splat(1, I32), k.splat(-1, I32)
    step_up, step_down = b.select(negative, minus, one), b.select(negative, one, minus)
    stepped = b.select(up, b.add(bits, step_up), b.select(down, b.add(bits, step_down), bits))
    # zero has two neighbours of different signs
    is_zero = b.icmp_unsigned("==", b.and_(bits, k.splat(0x7FFFFFFF, I32)), k.splat(0, I32))
    tiny = b.select(up, k.splat(1, I32), b.select(down, k.splat(-(2**31) + 1, I32), bits))
    stepped = b.select(is_zero, tiny, stepped)
    unordered = b.fcmp_unordered("uno", near, near)
    return b.bitcast(b.select(unordered, bits, stepped), vector(F32))


def _rounded(k: Lanes, op: str, rounding: str, flush: bool) -> None:
    k.out_float(directed(k, *_exact(k, op, flush), rounding), flush)


for _op in ("fadd", "fmul", "ffma"):
    for _rounding in ROUNDINGS[1:]:
        for _flush in (False, True):
            handler(
                f"{_op}_{_rounding}{'_ftz' * _flush}",
                partial(_rounded, op=_op, rounding=_rounding, flush=_flush),
            )


# -- choices and comparisons ---------------------------------------------------------------------------------------


def extreme(k: Lanes, x: Any, y: Any, smaller: Any, nan: bool) -> Any:
    """Bits of the smaller or larger of two floats by a predicate: -0 is below +0; a NaN loses, or wins if `nan`."""
    b = k.b
    first, second = (b.bitcast(value, vector(I32)) for value in (x, y))
    less = b.fcmp_ordered("<", x, y)
    equal = b.fcmp_ordered("==", x, y)
    low = b.select(equal, b.or_(first, second), b.select(less, first, second))
    high = b.select(equal, b.and_(first, second), b.select(less, second, first))
    value = b.select(smaller, low, high)
    no_x, no_y = (b.fcmp_unordered("uno", v, v) for v in (x, y))
    quiet = k.splat(0x7FFFFFFF, I32)
    if nan:
        return b.select(b.or_(no_x, no_y), quiet, value)
    value = b.select(no_y, first, b.select(no_x, second, value))
    return b.select(b.and_(no_x, no_y), quiet, value)


def _fmnmx(k: Lanes, flush: bool, nan: bool, xorsign: bool) -> None:
    b = k.b
    x, y = (k.float(source, True, flush) for source in (A, B))
    smaller = k.vector_of(k.predicate(0))
    if not xorsign:
        k.out(extreme(k, x, y, smaller, nan))
        return
    sign = b.and_(b.xor(k.row(A), k.row(B)), k.splat(-(2**31), I32))
    value = extreme(k, _magnitude(k, x), _magnitude(k, y), smaller, nan)
    k.out(b.or_(b.and_(value, k.splat(0x7FFFFFFF, I32)), sign))


def _magnitude(k: Lanes, value: Any) -> Any:
    bits = k.b.and_(k.b.bitcast(value, vector(I32)), k.splat(0x7FFFFFFF, I32))
    return k.b.bitcast(bits, vector(F32))


for _flush in (False, True):
    for _nan in (False, True):
        for _xorsign in (False, True):
            handler(
                "fmnmx" + "_ftz" * _flush + "_nan" * _nan + "_xorsign" * _xorsign,
                partial(_fmnmx, flush=_flush, nan=_nan, xorsign=_xorsign),
            )

# Ordered comparisons, the same or unordered, and whether there is a NaN at all: the outcomes that are true.
FLOAT_COMPARE = {
    **COMPARE,
    **{f"{name}U": COMPARE[name] | UNORDERED for name in ("LT", "LE", "GT", "GE", "EQ", "NE")},
    "NUM": LESS | EQUAL | GREATER,
    "NAN": UNORDERED,
}


def compared(k: Lanes, x: Any, y: Any) -> Any:
    b = k.b
    outcomes = {LESS: "<", EQUAL: "==", GREATER: ">"}
    lanes = {outcome: k.bits_of(b.fcmp_ordered(sign, x, y)) for outcome, sign in outcomes.items()}
    return wanted(k, {**lanes, UNORDERED: k.bits_of(b.fcmp_unordered("uno", x, y))})


def _fsetp(k: Lanes, flush: bool) -> None:
    out_comparison(k, compared(k, *(k.float(source, True, flush) for source in (A, B))))


def _fset(k: Lanes, flush: bool) -> None:
    """I2 where it holds (one, or all bits), else zero."""
    bits = combined(k, compared(k, *(k.float(source, True, flush) for source in (A, B))))
    k.out(k.b.and_(k.b.sext(k.vector_of(bits), vector(I32)), k.splat(k.field(at.I2))))


for _flush in (False, True):
    handler("fsetp" + "_ftz" * _flush, partial(_fsetp, flush=_flush))
    handler("fset" + "_ftz" * _flush, partial(_fset, flush=_flush))


@named("dsetp")
def dsetp(k: Lanes) -> None:
    out_comparison(k, compared(k, k.double(A), k.double(B)))


def _dsetp_extreme(k: Lanes, larger: bool) -> None:
    """First result: A is the larger (or smaller) one, or B is NaN; +0 is larger than -0. Second: both are NaN. The code
    around it chooses A by the first and makes NaN of B by the second, and the PTX ISA says what comes out."""
    b = k.b
    x, y = k.double(A), k.double(B)
    takes_x = b.fcmp_ordered(">" if larger else "<", x, y)
    sign = b.icmp_signed("<", b.bitcast(x, vector(I64)), k.splat(0, I64))
    equal = b.and_(b.fcmp_ordered("==", x, y), b.not_(sign) if larger else sign)
    none_x, none_y = b.fcmp_unordered("uno", x, x), b.fcmp_unordered("uno", y, y)
    first = k.bits_of(b.or_(b.or_(takes_x, equal), none_y))
    k.out_predicate(0, b.and_(first, k.predicate(0)))
    k.out_predicate(1, b.and_(k.bits_of(b.and_(none_x, none_y)), k.predicate(0)))


handler("dsetp_max", partial(_dsetp_extreme, larger=True))
handler("dsetp_min", partial(_dsetp_extreme, larger=False))


@named("fchk")
def fchk(k: Lanes) -> None:
    """Whether a division A / B has to go the slow way: an exponent is 0 or 255, or the quotient, the reciprocal or
    the residual of the fast way could leave the range of normal numbers."""
    b = k.b
    x, y = (b.and_(b.lshr(k.row(source), k.splat(23, I32)), k.splat(255, I32)) for source in (A, B))
    slow = b.icmp_signed("<", x, k.splat(25, I32))
    for value in (x, y):
        slow = b.or_(slow, b.icmp_signed("==", value, k.splat(255, I32)))
    slow = b.or_(slow, b.icmp_signed("==", y, k.splat(0, I32)))
    slow = b.or_(slow, b.icmp_signed(">", y, k.splat(252, I32)))
    apart = b.sub(x, y)
    slow = b.or_(slow, b.icmp_signed(">", apart, k.splat(125, I32)))
    slow = b.or_(slow, b.icmp_signed("<", apart, k.splat(-125, I32)))
    k.out_predicate(0, k.bits_of(slow))


# -- fast functions ------------------------------------------------------------------------------------------------

# 2**f for f in [-0.5, 0.5]: powers of ln 2 over factorials. The rest of the series is below 2**-33 there.
_EXP2 = (
    1.0, 0.6931471805599453, 0.24022650695910072, 0.05550410866482158, 0.009618129107628477,
    0.0013333558146428443, 0.00015403530393381608, 1.5252733804059841e-05, 1.3215486790144309e-06,
)  # fmt: skip


@named("mufu_ex2")
def mufu_ex2(k: Lanes) -> None:
    """Below 2**-22 in relative error, as documented for ex2.approx; subnormal numbers are flushed."""
    b = k.b
    x = k.float(A, True, True)
    limit = b.select(b.fcmp_ordered(">", x, k.splat(129.0, F32)), k.splat(129.0, F32), x)
    limit = b.select(b.fcmp_ordered("<", limit, k.splat(-151.0, F32)), k.splat(-151.0, F32), limit)
    whole = k.call("llvm.rint", limit)
    rest = b.fsub(limit, whole)
    value = k.splat(_EXP2[-1], F32)
    for factor in reversed(_EXP2[:-1]):
        value = k.call("llvm.fma", value, rest, k.splat(factor, F32))
    count = b.fptosi(whole, vector(I32))
    half = b.ashr(count, k.splat(1, I32))
    for part in (half, b.sub(count, half)):  # in two steps: 2**128 and 2**-150 are no floats
        power = b.shl(b.add(part, k.splat(127, I32)), k.splat(23, I32))
        value = b.fmul(value, b.bitcast(power, vector(F32)))
    unordered = b.fcmp_unordered("uno", x, x)
    k.out_float(k.flushed(b.select(unordered, x, value)))


def _mufu(k: Lanes, function: str) -> None:
    """Correctly rounded, or nearly: the documented errors are 1 to 2 units in the last place."""
    b = k.b
    x = k.float(A, True, True)
    one = k.splat(1.0, F32)
    if function == "rcp":
        value = b.fdiv(one, x)
    elif function == "sqrt":
        value = k.call("llvm.sqrt", x)
    else:
        wide = b.fpext(x, vector(F64))
        value = b.fptrunc(b.fdiv(k.splat(1.0, F64), k.call("llvm.sqrt", wide)), vector(F32))
    k.out_float(value, flush=True)


for _function in ("rcp", "sqrt", "rsq"):
    handler(f"mufu_{_function}", partial(_mufu, function=_function))


def _mufu_high(k: Lanes, root: bool) -> None:
    """Reads and writes the high word of a double: the first 20 bits of 1 / x or 1 / sqrt(x), to start Newton's
    iteration with."""
    b = k.b
    value = k.b.shl(b.zext(k.float_bits(A, True), vector(I64)), k.splat(32, I64))
    x = b.bitcast(value, vector(F64))
    result = b.fdiv(k.splat(1.0, F64), k.call("llvm.sqrt", x) if root else x)
    bits = b.lshr(b.bitcast(result, vector(I64)), k.splat(32, I64))
    k.out(b.trunc(bits, vector(I32)))


handler("mufu_rcp64h", partial(_mufu_high, root=False))
handler("mufu_rsq64h", partial(_mufu_high, root=True))


# -- conversions ---------------------------------------------------------------------------------------------------


def _i2f(k: Lanes, signed: bool, rounding: str) -> None:
    """32-bit integers; they are exact as doubles."""
    b = k.b
    value = (b.sitofp if signed else b.uitofp)(k.integer(A), vector(F64))
    if rounding:
        k.out_float(directed(k, value, k.splat(0.0, F64), rounding))
    else:
        k.out_float(b.fptrunc(value, vector(F32)))


for _signed in (False, True):
    for _rounding in ROUNDINGS:
        handler(
            f"i2f_{'s' if _signed else 'u'}32{'_' * bool(_rounding)}{_rounding}",
            partial(_i2f, signed=_signed, rounding=_rounding),
        )


@named("f64_from_f32")
def f64_from_f32(k: Lanes) -> None:
    k.out_double(k.b.fpext(k.float(A), vector(F64)))


@named("f32_from_f64")
def f32_from_f64(k: Lanes) -> None:
    k.out_float(k.b.fptrunc(k.double(A), vector(F32)))
