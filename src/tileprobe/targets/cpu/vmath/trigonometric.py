"""sin, cos, tan and the functions of multiples of pi, in float and double.

Arguments are reduced by multiples of pi / 2: floats in double precision, doubles with pi / 2 in three parts.
Lanes beyond the reach of that go to libm, in a branch that is taken only when there are any.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from . import coefficients as c
from .libm import lanewise
from .registry import register
from .values import FLOAT, I32, Val

# pi / 2 in parts of 33 bits: n times any but the last is exact in double while n < 2^20.
PIO2 = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
REACH = 2.0**20


def _reduce(x: Val) -> tuple[Val, Val, Val | None]:
    """r in [-pi/4, pi/4] and n with x = n pi/2 + r, for |x| < REACH; of doubles also r's rounding error."""
    wide = x.f64()
    n, integer = wide.scaled_round_int(2 / math.pi)
    first = n.mad(-PIO2[0], wide)
    if x.bits == 32:
        r = n.mad(-(PIO2[1] + PIO2[2]), first)
        return r.f32(), integer.cast("trunc", I32), None
    part = n * PIO2[1]
    second = first - part
    r = n.mad(-PIO2[2], second)
    return r, integer, n.mad(-PIO2[2], second - r) + ((first - second) - part)


def sine(r: Val, error: Val | None) -> Val:
    """sin(r + error) for |r| <= pi / 4."""
    z = r * r
    g = z.poly(c.SIN_F32 if r.bits == 32 else c.SIN_F64)
    return (z * r).mad(g, r) if error is None else (z * r).mad(g, error) + r


def cosine(r: Val, error: Val | None) -> Val:
    """cos(r + error) for |r| <= pi / 4."""
    z = r * r
    g = (z * z) * z.poly(c.COS_F32 if r.bits == 32 else c.COS_F64)
    if error is None:
        return z.mad(-0.5, 1) + g
    half = z * 0.5
    big = 1 - half
    return big + (((1 - big) - half) + (g - r * error))


def _quadrant(r: Val, n: Val, error: Val | None = None) -> Val:
    """sin(r + error + n pi / 2)."""
    y = (n & 1).eq(0).pick(sine(r, error), cosine(r, error))
    sign = (n & 2) << (n.bits - 2)
    return (y.as_int() ^ sign).as_float()


def _far_to_libm(x: Val, name: str, near: Callable[[Val], Val]) -> Val:
    """near(x) where |x| < REACH (or NaN), libm's function elsewhere."""
    y = near(x)
    far = x.abs() >= REACH
    here = x.b.block
    with x.b.if_then(far.any(), likely=False):
        exact = far.pick(lanewise(name, x), y)
        there = x.b.block
    out = x.b.phi(x.type)
    out.add_incoming(y.v, here)
    out.add_incoming(exact.v, there)
    return Val(x.b, out)


@register("sin", place="call")
def sin(x: Val) -> Val:
    def near(v: Val) -> Val:
        y = _quadrant(*_reduce(v.abs()))  # the sign apart: it keeps -0.0
        sign = v.as_int() & (1 << (v.bits - 1))
        return (y.as_int() ^ sign).as_float()

    return _far_to_libm(x, "sin", near)


@register("cos", place="call")
def cos(x: Val) -> Val:
    def near(v: Val) -> Val:
        r, n, error = _reduce(v)
        return _quadrant(r, n + 1, error)

    return _far_to_libm(x, "cos", near)


@register("tan", types=("f32",), place="call")
def tan(x: Val) -> Val:
    def near(v: Val) -> Val:
        wide = v.f64()  # the division by a small t would double the error of t in float
        n, integer = wide.scaled_round_int(2 / math.pi)
        r = n.mad(-(PIO2[1] + PIO2[2]), n.mad(-PIO2[0], wide))
        z = r * r
        t = (z * r).mad(z.poly(c.TAN_F32), r)
        even = (integer & 1).eq(0)
        return (even.pick(t, -1) / even.pick(1, t)).f32()

    return _far_to_libm(x, "tan", near)


def _half_turns(x: Val) -> tuple[Val, Val]:
    """pi r and n with x = n / 2 + r; whole numbers too large for the trick are even."""
    y = (x.abs() < 2.0**x.mantissa_bits).pick(x, x * 0)
    n, integer = (y * 2).round_int()
    r = n.mad(-0.5, y)
    if x.bits == 32:
        return (r.f64() * math.pi).cast("fptrunc", FLOAT), integer
    low = 1.2246467991473532e-16  # pi - float(pi)
    return r.mad(math.pi, r * low), integer


@register("sinpi", place="call")
def sinpi(x: Val) -> Val:
    r, n = _half_turns(x)
    y = _quadrant(r, n)
    return y.eq(0).pick(y.copysign(x), y)


@register("cospi", place="call")
def cospi(x: Val) -> Val:
    r, n = _half_turns(x)
    return _quadrant(r, n + 1) + 0.0
