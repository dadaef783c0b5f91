"""Arithmetic and conversions with a chosen rounding: CUDA's _rn, _rz, _ru and _rd.

The result rounded to nearest is moved to its neighbour where the exact result lies on the other side. Whether
it does is known exactly: floats are computed in double with the sum's error, doubles with the error that an
fma yields.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import llvmlite.ir as ir

from .registry import register
from .saturate import to_integer
from .values import DOUBLE, FLOAT, I32, I64, Val, element

MODES = ("rn", "rz", "ru", "rd")


def two_sum(x: Val, y: Val) -> tuple[Val, Val]:
    """x + y and its rounding error."""
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


def step(r: Val, error: Val, mode: str) -> Val:
    """r moved by one unit where rounding `mode` of r + error asks for it; only the error's sign matters."""
    bits = r.as_int()
    inward = bits - 1  # of a magnitude
    if mode == "rn":
        return r
    if mode == "rz":
        beyond = ((r > 0) & (error < 0)) | ((r < 0) & (error > 0))
        return beyond.pick(inward, bits).as_float()
    up = mode == "ru"
    moves = error > 0 if up else error < 0
    outward = bits >= 0 if up else bits < 0
    moved = outward.pick(bits + 1, inward)
    least = bits.const(1 if up else (1 << (r.bits - 1)) | 1)
    return moves.pick(r.eq(0).pick(least, moved), bits).as_float()


def narrow(s: Val, error: Val | None, mode: str) -> Val:
    """The float next to the double s + error in the rounding mode."""
    r = s.cast("fptrunc", FLOAT)
    gap = s - r.cast("fpext", DOUBLE)
    return step(r, gap if error is None else gap.ne(0).pick(gap, error), mode)


def _overflow(r: Val, error: Val, *operands: Val) -> Val:
    """The error's sign where finite operands overflowed: the exact result is short of infinity."""
    finite = operands[0].abs() < math.inf
    for x in operands[1:]:
        finite = finite & (x.abs() < math.inf)
    return (r.abs().eq(math.inf) & finite).pick(-r, error)


def _zero_sign(x: Val, y: Val, r: Val, mode: str) -> Val:
    """An exact zero sum is -0 when rounding down, unless both addends are +0."""
    if mode != "rd":
        return r
    sign = (x.as_int() | y.as_int()) & (1 << (x.bits - 1))
    if r.bits < x.bits:
        sign = sign.lshr(32).cast("trunc", I32)
    return r.eq(0).pick(sign, r.as_int()).as_float()


def add(x: Val, y: Val, mode: str) -> Val:
    if mode == "rn":
        return x + y
    if x.bits == 32:
        s, error = two_sum(x.f64(), y.f64())
        return _zero_sum(x, y, s, narrow(s, error, mode), mode)
    s, error = two_sum(x, y)
    return _zero_sum(x, y, s, step(s, _overflow(s, error, x, y), mode), mode)


def _zero_sum(x: Val, y: Val, s: Val, r: Val, mode: str) -> Val:
    return s.eq(0).pick(_zero_sign(x, y, r, mode), r) if mode == "rd" else r


def mul(x: Val, y: Val, mode: str) -> Val:
    if mode == "rn":
        return x * y
    if x.bits == 32:
        return narrow(x.f64() * y.f64(), None, mode)
    r = x * y
    # near the denormals the error would underflow: scale the factors below 1 up, exactly, and the product too
    small = r.abs() < 2.0**-900
    factors, product = [], -r
    for v in (x, y):
        up = (small & (v.abs() < 1)).pick(r.const(2.0**540), 1)
        factors.append(v * up)
        product = product * up
    return step(r, factors[0].fma(factors[1], product), mode)


def div(x: Val, y: Val, mode: str) -> Val:
    if mode == "rn":
        return x / y
    if x.bits == 32:
        return narrow(x.f64() / y.f64(), None, mode)
    r = x / y
    up = (x.abs() < 2.0**-900).pick(r.const(2.0**200), 1)
    error = (-(r * up)).fma(y, x * up)
    return step(r, (y < 0).pick(-error, error), mode)


def sqrt(x: Val, mode: str) -> Val:
    if mode == "rn":
        return x.sqrt()
    if x.bits == 32:
        return narrow(x.f64().sqrt(), None, mode)
    r = x.sqrt()
    small = x < 2.0**-900
    root = r * small.pick(r.const(2.0**100), 1)
    return step(r, (-root).fma(root, x * small.pick(r.const(2.0**200), 1)), mode)


def fma(x: Val, y: Val, z: Val, mode: str) -> Val:
    if mode == "rn":
        return x.fma(y, z)
    if x.bits == 32:
        product, addend = x.f64() * y.f64(), z.f64()
        s, error = two_sum(product, addend)
        return _zero_sum(product, addend, s, narrow(s, error, mode), mode)
    r = x.fma(y, z)
    product = x * y
    s, e1 = two_sum(product, z)
    high, low = two_sum(e1, x.fma(y, -product))
    rest = (s - r) + high
    error = _overflow(r, rest.ne(0).pick(rest, low), x, y, z)
    return _zero_sum(product, z, r, step(r, error, mode), mode)


def _register_arithmetic() -> None:
    table: dict[str, Callable[..., Val]] = {"add": add, "mul": mul, "div": div, "sqrt": sqrt, "fma": fma}
    table["sub"] = lambda x, y, mode: add(x, -y, mode)
    table["rcp"] = lambda x, mode: div(x.const(1), x, mode)
    for name, function in table.items():
        for mode in MODES:
            register(f"{name}_{mode}")(lambda *args, _f=function, _m=mode: _f(*args, _m))


@register("rsqrt_rn", types=("f32",))
def rsqrt_rn(x: Val) -> Val:
    return (1 / x.f64().sqrt()).f32()


# ---- conversions: double2float_rz, float2int_rd, ull2float_ru, ...
_TO_INTEGRAL = {"rn": "llvm.rint", "rz": "llvm.trunc", "ru": "llvm.ceil", "rd": "llvm.floor"}
_INTEGERS = {"int": (I32, True), "uint": (I32, False), "ll": (I64, True), "ull": (I64, False)}


def _to_integer(x: Val, e: ir.IntType, signed: bool, mode: str) -> Val:
    return to_integer(x.call(_TO_INTEGRAL[mode]), e.width, signed)


def from_integer(x: Val, e: ir.Type, signed: bool, mode: str) -> Val:
    """A 32- or 64-bit integer as float or double in a rounding mode."""
    kind = "sitofp" if signed else "uitofp"
    if mode == "rn":
        return x.cast(kind, e)
    if x.bits == 32:
        exact = x.cast(kind, DOUBLE)
        return exact if e == DOUBLE else narrow(exact, None, mode)
    high = (x & -(1 << 32)).cast(kind, DOUBLE)
    s, error = two_sum(high, (x & ((1 << 32) - 1)).cast("uitofp", DOUBLE))
    return step(s, error, mode) if e == DOUBLE else narrow(s, error, mode)


def _register_conversions() -> None:
    for mode in MODES:
        register(f"double2float_{mode}", types=("f64",))(lambda x, _m=mode: narrow(x, None, _m))
        for name, (e, signed) in _INTEGERS.items():
            for wide, dtype in (("float", "f32"), ("double", "f64")):
                register(f"{wide}2{name}_{mode}", types=(dtype,))(
                    lambda x, _e=e, _s=signed, _m=mode: _to_integer(x, _e, _s, _m)
                )
                target = FLOAT if wide == "float" else DOUBLE
                register(f"{name}2{wide}_{mode}", types=("i32" if e == I32 else "i64",))(
                    lambda x, _e=target, _s=signed, _m=mode: from_integer(x, _e, _s, _m)
                )


_register_arithmetic()
_register_conversions()


# ---- bits
@register("float_as_int", "float_as_uint", types=("f32",))
@register("double_as_longlong", types=("f64",))
def as_integer(x: Val) -> Val:
    return x.as_int()


@register("int_as_float", "uint_as_float", types=("i32",))
@register("longlong_as_double", types=("i64",))
def as_float(x: Val) -> Val:
    return x.as_float()


@register("hiloint2double", types=("i32",))
def hiloint2double(high: Val, low: Val) -> Val:
    return ((high.cast("zext", I64) << 32) | low.cast("zext", I64)).as_float()


@register("double2loint", types=("f64",))
def double2loint(x: Val) -> Val:
    return x.as_int().cast("trunc", I32)


@register("double2hiint", types=("f64",))
def double2hiint(x: Val) -> Val:
    return x.as_int().lshr(32).cast("trunc", I32)


@register("rcp64h", types=("f64",))
def rcp64h(x: Val) -> Val:
    """1 / x in the high word alone."""
    assert element(x.type) == DOUBLE
    return ((1 / x).as_int() & -(1 << 32)).as_float()
