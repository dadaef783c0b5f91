"""exp and its family: exp, exp2, exp10, expm1, in float and double.

x = n ln 2 + r: a polynomial gives e^r, two multiplications by powers of two give the rest, so that results
reach down to the last denormal and up to infinity with one rounding.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from . import coefficients as c
from .registry import register
from .values import Val, power_of_two


class Range(NamedTuple):
    """Where the exponential of a base is neither 0 nor infinity, generously."""

    low: float
    high: float


# ln 2 and log10 2 in two parts; the first has so few bits that n times it is exact.
LN2 = {32: (0.693145751953125, 1.428606765330187e-06), 64: (0.693147180559663, 2.8235290563031577e-13)}
LOG10_2 = {32: (0.301025390625, 4.605039066518657e-06), 64: (0.30102999566383914, 1.42050232272661e-13)}
RANGE_E = {32: Range(-104.5, 90.0), 64: Range(-746.0, 712.0)}
RANGE_2 = {32: Range(-151.0, 128.5), 64: Range(-1076.0, 1024.5)}
RANGE_10 = {32: Range(-45.5, 38.7), 64: Range(-324.5, 308.5)}


def scale(p: Val, n: Val) -> Val:
    """p * 2^n in two steps, neither of which leaves the normal exponents."""
    half = n >> 1
    return p * power_of_two(half) * power_of_two(n - half)


def reduce(x: Val, factor: float, parts: tuple[float, float]) -> tuple[Val, Val]:
    """r and n of x = n * parts + r, with n = round(x * factor)."""
    n, integer = x.scaled_round_int(factor)
    return n.mad(-parts[1], n.mad(-parts[0], x)), integer


def exp_reduced(r: Val) -> Val:
    """e^r for |r| <= ln 2 / 2."""
    g = r.poly(c.EXP_F32 if r.bits == 32 else c.EXP_F64)
    return (r * r).mad(g, r) + 1


def exp_scaled(x: Val, by: int = 0) -> Val:
    """e^x * 2^by for any x."""
    x = x.clamp(*RANGE_E[x.bits])
    r, n = reduce(x, math.log2(math.e), LN2[x.bits])
    return scale(exp_reduced(r), n + by if by else n)


@register("exp", place="function")
def exp(x: Val) -> Val:
    return exp_scaled(x)


@register("exp2", place="function")
def exp2(x: Val) -> Val:
    x = x.clamp(*RANGE_2[x.bits])
    n, integer = x.round_int()
    r = x - n
    return scale(r.mad(r.poly(c.EXP2_F32 if x.bits == 32 else c.EXP2_F64), 1), integer)


@register("exp10", place="function")
def exp10(x: Val) -> Val:
    x = x.clamp(*RANGE_10[x.bits])
    r, n = reduce(x, math.log2(10), LOG10_2[x.bits])
    return scale(r.mad(r.poly(c.EXP10_F32 if x.bits == 32 else c.EXP10_F64), 1), n)


@register("expm1", place="function")
def expm1(x: Val) -> Val:
    # below, the result is -1 to the last bit; above, infinite, with n still a normal exponent
    y = x.clamp(-20.0, 89.0) if x.bits == 32 else x.clamp(-40.0, 710.0)
    n, integer = y.scaled_round_int(math.log2(math.e))
    high, low = LN2[x.bits]
    first = n.mad(-high, y)
    r = n.mad(-low, first)
    lost = n.mad(-low, first - r)  # what rounding r lost: it matters where the result is near zero
    p = (r * r).mad(r.poly(c.EXP_F32 if x.bits == 32 else c.EXP_F64), lost) + r
    half = power_of_two(integer - 1)
    out = half.mad(p, half - 0.5) * 2
    return x.eq(0).pick(x, integer.eq(0).pick(p, out))  # keeps -0.0
