"""Inverse trigonometric and hyperbolic functions of floats, and atan2; doubles go to libm."""

from __future__ import annotations

import math

from . import coefficients as c
from .registry import apply, register
from .values import Val

_F32 = ("f32",)
# Below it asin is a polynomial; above, pi / 2 less twice the asin of a smaller number, which is then less
# than 1 and so no coarser than the result.
SPLIT = 0.5625


def _atan_core(x: Val) -> Val:
    """atan x for 0 <= x <= 1."""
    z = x * x
    return (z * x).mad(z.poly(c.ATAN_F32), x)


@register("atan", types=_F32, place="function")
def atan(x: Val) -> Val:
    a = x.abs()
    large = a > 1
    y = _atan_core(large.pick(1 / a, a))
    # pi / 2 in two parts: the first rounded up, the rest folded into y
    y = large.pick(math.pi / 2 - (y + 4.371139000186241e-08), y)
    return y.copysign(x)


def _asin_core(x: Val, z: Val) -> Val:
    """asin x for |x| <= SPLIT, with z = x^2."""
    return (z * x).mad(z.poly(c.ASIN_F32), x)


@register("asin", types=_F32, place="function")
def asin(x: Val) -> Val:
    a = x.abs()
    large = a > SPLIT
    z = large.pick((1 - a) * 0.5, a * a)
    r = large.pick(z.sqrt(), a)
    y = _asin_core(r, z)
    y = large.pick(math.pi / 2 - (y * 2 + 4.371139000186241e-08), y)
    return y.copysign(x)


@register("acos", types=_F32, place="function")
def acos(x: Val) -> Val:
    a = x.abs()
    large = a > SPLIT
    z = large.pick((1 - a) * 0.5, a * a)
    y = _asin_core(large.pick(z.sqrt(), x), z)
    near = math.pi / 2 - (y + 4.371139000186241e-08)
    twice = y * 2
    far = (x < 0).pick(math.pi - (twice + 8.742278000372482e-08), twice)
    return large.pick(far, near)


@register("atan2", types=_F32, place="call")
def atan2(y: Val, x: Val) -> Val:
    """In double, where the quotient neither overflows nor loses digits."""
    ax, ay = x.abs().f64(), y.abs().f64()
    swap = ay > ax
    small, large = swap.pick(ax, ay), swap.pick(ay, ax)
    q = small / large
    q = large.eq(0).pick(0, q)
    q = small.eq(math.inf).pick(1, q)  # both are infinite: a diagonal
    r = _atan_core(q)
    r = swap.pick(math.pi / 2 - r, r)
    r = (x.as_int() < 0).pick(math.pi - r, r)
    out = r.f32().copysign(y)
    return (x.isnan() | y.isnan()).pick(x + y, out)


@register("asinh", types=_F32, place="call")
def asinh(x: Val) -> Val:
    a = x.abs().f64()
    z = a * a
    y = apply("log1p", a + z / (1 + (z + 1).sqrt())).f32()
    return a.eq(math.inf).pick(x, y.copysign(x))


@register("acosh", types=_F32, place="call")
def acosh(x: Val) -> Val:
    t = x.f64() - 1
    y = apply("log1p", t + (t * (t + 2)).sqrt()).f32()
    return (x < 1).pick(math.nan, y)


@register("atanh", types=_F32, place="call")
def atanh(x: Val) -> Val:
    a = x.abs().f64()
    y = apply("log1p", a * 2 / (1 - a)) * 0.5
    return y.f32().copysign(x)
