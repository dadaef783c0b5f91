"""The error function's relatives: erfc, erfcx, erfinv, erfcinv, normcdf, normcdfinv.

All are computed in double. For floats a polynomial is enough; for doubles libm's erf and erfc mend its last
digits by one step of Halley's method.
"""

from __future__ import annotations

import math

from . import coefficients as c
from .libm import lanewise
from .registry import apply, register
from .values import Val

_F32, _F64 = ("f32",), ("f64",)
_SQRT_HALF, _SQRT_HALF_LOW = 0.7071067811865476, -4.833646656726457e-17


def _erfcx_positive(a: Val, coefficients: tuple[float, ...]) -> Val:
    """exp(a^2) erfc(a) for a >= 0."""
    t = (a - 4) / (a + 4)
    t = a.eq(math.inf).pick(1, t)
    return t.poly(coefficients) / (a * 2 + 1)


@register("erfc", types=_F32, place="call")
def erfc(x: Val) -> Val:
    wide = x.f64()
    a = wide.abs()
    a = (a > 15).pick(15, a)  # where the result has long been 0 or 2
    y = apply("exp", -(a * a)) * _erfcx_positive(a, c.ERFCX_F32)
    return (wide < 0).pick(2 - y, y).f32()


def _erfcx(x: Val, coefficients: tuple[float, ...]) -> Val:
    a = x.abs()
    y = _erfcx_positive(a, coefficients)
    square = a * a
    lost = a.fma(a, -square)  # what the square's rounding lost: exp makes it matter
    grown = apply("exp", square)
    below = grown.mad((square < math.inf).pick(lost, 0), grown) * 2 - y
    below = grown.eq(math.inf).pick(math.inf, below)
    return (x < 0).pick(below, y)


@register("erfcx", types=_F32, place="call")
def erfcx_f32(x: Val) -> Val:
    return _erfcx(x.f64(), c.ERFCX_F32).f32()


@register("erfcx", types=_F64, place="call")
def erfcx_f64(x: Val) -> Val:
    return _erfcx(x, c.ERFCX_F64)


def _inverse(x: Val, product: Val) -> Val:
    """erfinv(x) to about 1e-8, given (1 - x) (1 + x)."""
    w = -apply("log", product)
    s = w.sqrt()
    y = (s - 3).poly(c.ERFINV_MIDDLE)
    y = (w < 5).pick(w.poly(c.ERFINV_NEAR), y)
    y = (s > 4).pick((s - 7).poly(c.ERFINV_FAR), y)
    y = (s > 10.25).pick((s - 18).poly(c.ERFINV_LAST), y)
    return (product > 0).pick(y * x, math.nan)


@register("erfinv", types=_F32, place="call")
def erfinv_f32(x: Val) -> Val:
    wide = x.f64()
    y = _inverse(wide, (1 - wide) * (1 + wide)).f32()
    return x.abs().eq(1).pick(x * math.inf, y)


def _erfcinv_f32(y: Val) -> Val:
    out = _inverse(1 - y, y * (2 - y))
    out = y.eq(0).pick(math.inf, out)
    return y.eq(2).pick(-math.inf, out)


@register("erfcinv", types=_F32, place="call")
def erfcinv_f32(x: Val) -> Val:
    return _erfcinv_f32(x.f64()).f32()


@register("normcdfinv", types=_F32, place="call")
def normcdfinv_f32(x: Val) -> Val:
    return (_erfcinv_f32(x.f64() * 2) * -math.sqrt(2)).f32()


@register("normcdf", types=_F32, place="call")
def normcdf_f32(x: Val) -> Val:
    wide = x.f64() * -_SQRT_HALF
    a = wide.abs()
    a = (a > 15).pick(15, a)
    y = apply("exp", -(a * a)) * _erfcx_positive(a, c.ERFCX_F32) * 0.5
    return (wide < 0).pick(1 - y, y).f32()


# ---- double
def _halley(y: Val, residual: Val) -> Val:
    """One step of Halley's method for erf(y) = x, given erf(y) - x."""
    u = residual * (math.sqrt(math.pi) / 2) * apply("exp", y * y)
    return y - u / y.mad(u, 1)


def _erfinv_near(x: Val) -> Val:
    """For |x| <= 1/2."""
    y = _inverse(x, (1 - x) * (1 + x))
    return _halley(y, lanewise("erf", y) - x)


def _erfcinv_tail(z: Val) -> Val:
    """For 0 < z <= 1/2; beyond exp's range the start is all there is, and exact to 2e-8."""
    y = _inverse(1 - z, z * (2 - z))
    better = _halley(y, z - lanewise("erfc", y))
    return (z < 1e-300).pick(y, better)


@register("erfinv", types=_F64, place="call")
def erfinv_f64(x: Val) -> Val:
    a = x.abs()
    near = a < 0.5
    y = near.pick(_erfinv_near(near.pick(x, 0)), _erfcinv_tail(near.pick(0.5, 1 - a)).copysign(x))
    y = a.eq(1).pick(x * math.inf, y)
    return (a <= 1).pick(y, math.nan)


@register("erfcinv", types=_F64, place="call")
def erfcinv_f64(x: Val) -> Val:
    small = (x > 1).pick(2 - x, x)
    near = small > 0.5
    side = (x > 1).pick(x.const(-1), 1)
    y = near.pick(_erfinv_near(near.pick(1 - small, 0)), _erfcinv_tail(near.pick(0.5, small))) * side
    y = x.eq(0).pick(math.inf, y)
    y = x.eq(2).pick(-math.inf, y)
    return ((x >= 0) & (x <= 2)).pick(y, math.nan)


@register("normcdfinv", types=_F64, place="call")
def normcdfinv_f64(x: Val) -> Val:
    return apply("erfcinv", x * 2) * -math.sqrt(2)


@register("normcdf", types=_F64, place="call")
def normcdf_f64(x: Val) -> Val:
    """erfc(-x / sqrt 2) / 2, with what the argument's rounding lost as a first-order term."""
    t = x * -_SQRT_HALF
    lost = x.fma(-_SQRT_HALF, -t) + x * -_SQRT_HALF_LOW
    slope = apply("exp", -(t * t)) * (-2 / math.sqrt(math.pi))
    y = lanewise("erfc", t)
    return (slope.eq(0) | lost.isnan()).pick(y, slope.mad(lost, y)) * 0.5
