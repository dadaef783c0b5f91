"""Logarithms: log, log2, log10, log1p, in float and double.

x = 2^e m with m in [sqrt 1/2, sqrt 2): the logarithm of m as a leading part plus a small correction, to which
e's part is added in two pieces. Zero, infinity, NaN and negative numbers are mended at the end.
"""

from __future__ import annotations

import math

from . import coefficients as c
from .exponential import LN2, LOG10_2
from .registry import register
from .values import Val, element

# 1 / ln 2 and 1 / ln 10 in two parts, for float and double
LOG2_E = {32: (1.4426950216293335, 1.925963033500011e-08), 64: (1.4426950408889634, 2.0355273740931033e-17)}
LOG10_E = {32: (0.4342944920063019, -1.0103049952192578e-08), 64: (0.4342944819032518, 1.098319650216765e-17)}

_ROOT = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}  # the bits of sqrt 1/2


def split(x: Val) -> tuple[Val, Val]:
    """f and e of a positive, normal x = 2^e (1 + f), with 1 + f in [sqrt 1/2, sqrt 2)."""
    m, bits = x.mantissa_bits, x.as_int()
    k = (bits - _ROOT[x.bits]) >> m
    f = (bits - (k << m)).as_float() - 1
    return f, k.cast("sitofp", element(x.type))


def normalise(x: Val) -> tuple[Val, Val]:
    """A normal number and the exponent to add, for a positive x that may be denormal."""
    up = x.mantissa_bits + 2
    tiny = x < 2.0 ** (1 - x.bias)
    return tiny.pick(x * 2.0**up, x), tiny.pick(x.const(-up), x.const(0))


def log_parts(f: Val) -> tuple[Val, Val]:
    """log(1 + f) as f plus a correction."""
    if f.bits == 32:
        z = f * f
        return f, (z * f).mad(f.poly(c.LOG_F32), z * -0.5)
    s = f / (f + 2)
    z = s * s
    # 2 s = f - f s: the rest of the series times s, less f^2 / 2 in the form that loses nothing
    half = f * f * 0.5
    return f, s.mad(half + z * z.poly(c.LOG_F64), -half)


def _finish(x: Val, y: Val) -> Val:
    y = (x < math.inf).pick(y, x)  # +inf and NaN are their own logarithm
    y = x.eq(0).pick(-math.inf, y)
    return (x < 0).pick(math.nan, y)


def _reduced(x: Val) -> tuple[Val, Val, Val]:
    normal, extra = normalise(x)
    f, e = split(normal)
    return *log_parts(f), e + extra


@register("log", place="function")
def log(x: Val) -> Val:
    high, low, e = _reduced(x)
    parts = LN2[x.bits]
    return _finish(x, e.mad(parts[0], e.mad(parts[1], low) + high))


def _other_base(x: Val, base: tuple[float, float], two: tuple[float, float]) -> Val:
    """log(x) times a constant in two parts, with e's part (log of 2 in that base) in two parts."""
    high, low, e = _reduced(x)
    small = high.mad(base[1], low * base[0])
    # e times two[0] is exact: adding the largest parts last keeps the error below an ulp
    return _finish(x, e.mad(two[0], high.mad(base[0], e.mad(two[1], small))))


@register("log2", place="function")
def log2(x: Val) -> Val:
    return _other_base(x, LOG2_E[x.bits], (1.0, 0.0))


@register("log10", place="function")
def log10(x: Val) -> Val:
    return _other_base(x, LOG10_E[x.bits], LOG10_2[x.bits])


@register("log1p", place="function")
def log1p(x: Val) -> Val:
    """1 + x = 2^e (1 + f) with f rounded once: 2^-e x + (2^-e - 1)."""
    m = x.mantissa_bits
    # where 2^-e would be denormal, work on x 2^-down: the 1 is lost there anyway
    huge, down = (2.0**100, 50) if x.bits == 32 else (2.0**1000, 500)
    y = (x > huge).pick(x * 2.0**-down, x)
    k = ((y + 1).as_int() - _ROOT[x.bits]) >> m
    shrink = (x.const(1.0).as_int() - (k << m)).as_float()
    f = shrink.mad(y, shrink - 1)
    e = k.cast("sitofp", element(x.type)) + (x > huge).pick(x.const(down), 0)
    high, low = log_parts(f)
    parts = LN2[x.bits]
    y = e.mad(parts[0], e.mad(parts[1], low) + high)
    y = (x < math.inf).pick(y, x)
    y = x.eq(-1).pick(-math.inf, y)
    y = (x < -1).pick(math.nan, y)
    return x.eq(0).pick(x, y)
