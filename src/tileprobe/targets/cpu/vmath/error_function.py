"""erf in float and double: a polynomial near zero, 1 - exp(polynomial) further out."""

from __future__ import annotations

import math

from . import coefficients as c
from .exponential import LN2, exp_reduced, reduce
from .registry import register
from .values import Val, power_of_two


def _erf(x: Val, split: float, end: float, near: tuple[float, ...], far: tuple[float, ...]) -> Val:
    a = x.abs()
    small = x.mad((x * x).poly(near), x)
    a = (a > end).pick(end, a)
    # log erfc lies in (-38, -1]: the short form of exp is enough
    r, n = reduce(a.poly(far), math.log2(math.e), LN2[x.bits])
    large = 1 - exp_reduced(r) * power_of_two(n)
    return (a < split).pick(small, large.copysign(x))


@register("erf", types=("f32",), place="function")
def erf_f32(x: Val) -> Val:
    return _erf(x, 0.9, 4.0, c.ERF_NEAR_F32, c.ERF_FAR_F32)


@register("erf", types=("f64",), place="call")
def erf_f64(x: Val) -> Val:
    return _erf(x, 1.0, 6.0, c.ERF_NEAR_F64, c.ERF_FAR_F64)
