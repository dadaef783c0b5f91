"""Powers and norms: pow, powi, cbrt, rcbrt, ldexp, hypot and its relatives.

Floats are computed in double, which makes their results right to the last bit or nearly so.
"""

from __future__ import annotations

import math

from . import coefficients as c
from .libm import lanewise
from .logarithm import normalise, split
from .registry import register
from .values import DOUBLE, FLOAT, I32, I64, Val, power_of_two

_F32, _F64 = ("f32",), ("f64",)


def _size(x: Val, y: Val) -> Val:
    """|x|^y for a float x and a double y, to about 2^-28: enough for a float.

    x's exponent and fraction are taken apart as floats; neither logarithm nor power can overflow in double.
    """
    a = x.abs()
    normal, extra = normalise(a)
    f, e = split(normal)
    f = f.f64()
    s = f / (f + 2)
    z = s * s
    log2 = s.mad(z.poly(c.POW_LOG2_F32), (e + extra).f64())
    log2 = a.eq(0).pick(-math.inf, a.eq(math.inf).pick(math.inf, log2))
    exponent = (y * log2).clamp(-200, 200)  # beyond, the float is 0 or infinite
    n, integer = exponent.round_int()
    r = exponent - n
    return (r.mad(r.poly(c.POW_EXP2_F32), 1) * power_of_two(integer)).f32()


@register("pow", types=_F32, place="call")
def pow_(x: Val, y: Val) -> Val:
    size = _size(x, y.f64())
    whole = y.eq(y.call("llvm.trunc"))
    half = y * 0.5
    odd = whole & half.ne(half.call("llvm.trunc"))
    sign = (x.as_int() & odd.cast("sext", I32)) & (1 << 31)
    out = (size.as_int() | sign).as_float()
    out = ((x < 0) & (x > -math.inf) & ~whole).pick(math.nan, out)
    out = (x.isnan() | y.isnan()).pick(x + y, out)
    one = x.eq(1) | y.eq(0) | (x.eq(-1) & y.abs().eq(math.inf))
    return one.pick(1, out)


@register("powi", types=_F32, place="call")
def powi_f32(x: Val, n: Val) -> Val:
    """An integer may have more digits than a float: parity and size are taken from the integer itself."""
    size = _size(x, n.cast("sitofp", DOUBLE))
    sign = (x.as_int() & (n << 31)) & (1 << 31)
    out = (size.as_int() | sign).as_float()
    out = x.isnan().pick(x, out)
    return (x.eq(1) | n.eq(0)).pick(1, out)


@register("powi", types=_F64, place="call")
def powi_f64(x: Val, n: Val) -> Val:
    return lanewise("pow", x, n.cast("sitofp", DOUBLE))


def _cbrt_guess(x: Val) -> Val:
    """The cube root of a positive, normal number to a few percent: a third of its bits."""
    high = x.as_int() if x.bits == 32 else x.as_int().lshr(32).cast("trunc", I32)
    third = Val(x.b, x.b.udiv(high.v, high.const(3).v))
    if x.bits == 32:
        return (third + 0x2A514067).as_float()
    return ((third + 0x2A9F7893).cast("zext", I64) << 32).as_float()


def _halley(y: Val, quarter: Val) -> Val:
    """Halley's step for y^3 = 4 quarter, which cannot overflow."""
    cube = y * 0.25 * y * y
    return y - y * ((cube - quarter) / (cube * 2 + quarter))


def _cbrt_double(x: Val) -> Val:
    """The cube root of a finite, nonzero |x| in double."""
    a = x.abs()
    tiny = a < 2.0 ** (8 - x.bias)  # so that a quarter is not denormal either
    up = 24 if x.bits == 32 else 54
    scaled = tiny.pick(a * 2.0**up, a)
    y = _halley(_cbrt_guess(scaled), scaled * 0.25)
    if x.bits == 64:
        y = _halley(y, scaled * 0.25)
    y = _halley(y.f64(), scaled.f64() * 0.25)
    return y * tiny.pick(y.const(2.0 ** -(up // 3)), 1)


@register("cbrt", place="function")
def cbrt(x: Val) -> Val:
    y = _cbrt_double(x)
    y = (y.f32() if x.bits == 32 else y).copysign(x)
    return ((x.abs() < math.inf) & x.ne(0)).pick(y, x)


@register("rcbrt", place="function")
def rcbrt(x: Val) -> Val:
    y = 1 / _cbrt_double(x)
    y = (y.f32() if x.bits == 32 else y).copysign(x)
    return ((x.abs() < math.inf) & x.ne(0)).pick(y, 1 / x)


@register("ldexp", "scalbn", types=_F32)
def ldexp(x: Val, n: Val) -> Val:
    """Exact in double; 2^n beyond 2^300 overflows or vanishes whatever x is."""
    n = (n > 300).pick(n.const(300), n)
    n = (n < -300).pick(n.const(-300), n)
    return (x.f64() * power_of_two(n.cast("sext", I64))).cast("fptrunc", FLOAT)


# ---- norms: infinity wins over NaN
def _norm(*args: Val) -> tuple[Val, Val]:
    """The root of the sum of squares as a double, and where any argument is infinite."""
    total = None
    infinite = None
    for x in args:
        square = x.f64() * x.f64()
        total = square if total is None else total + square
        here = x.abs().eq(math.inf)
        infinite = here if infinite is None else infinite | here
    assert total is not None
    assert infinite is not None
    return total.sqrt(), infinite


def _norm_f32(*args: Val) -> Val:
    norm, infinite = _norm(*args)
    return infinite.pick(math.inf, norm.f32())


def _rnorm_f32(*args: Val) -> Val:
    norm, infinite = _norm(*args)
    return infinite.pick(0, (1 / norm).f32())


def _norm_f64(*args: Val) -> Val:
    """Scaled by a power of two near the largest, so that no square overflows or vanishes."""
    sizes = [x.abs() for x in args]
    largest = sizes[0]
    for a in sizes[1:]:
        largest = (a > largest).pick(a, largest)
    exponent = largest.as_int().lshr(52)
    exponent = (exponent > 2044).pick(exponent.const(2044), exponent)
    up = ((2046 - exponent) << 52).as_float()
    total = None
    for a in sizes:
        scaled = a * up
        total = scaled * scaled if total is None else scaled.mad(scaled, total)
    assert total is not None
    out = total.sqrt() / up
    for a in sizes:
        out = a.eq(math.inf).pick(math.inf, out)
    return out


def _rnorm_f64(*args: Val) -> Val:
    return 1 / _norm_f64(*args)


register("hypot", "norm3d", "norm4d", types=_F32)(_norm_f32)
register("rhypot", "rnorm3d", "rnorm4d", types=_F32)(_rnorm_f32)
register("hypot", "norm3d", "norm4d", types=_F64, place="call")(_norm_f64)
register("rhypot", "rnorm3d", "rnorm4d", types=_F64, place="call")(_rnorm_f64)
