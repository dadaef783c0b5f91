"""The modified Bessel functions I0 and I1: e^x times a polynomial in x up to 8, in 1/x beyond."""

from __future__ import annotations

import math

from . import coefficients as c
from .registry import apply, register
from .values import Val


def _bessel(x: Val, order: int) -> Val:
    a = x.abs()
    far = a > 8
    near = (a * 0.25 - 1).poly(c.I1_NEAR if order else c.I0_NEAR)
    if order:
        near = near * a
    beyond = (16 / a - 1).poly(c.I1_FAR if order else c.I0_FAR) / a.sqrt()
    root = apply("exp", a * 0.5)  # e^a in two factors: it overflows before the function does
    whole = apply("exp", (a > 700).pick(700, a))
    y = (a > 700).pick(root * beyond * root, far.pick(beyond, near) * whole)
    y = a.eq(math.inf).pick(math.inf, y)
    return y.copysign(x) if order else y


@register("cyl_bessel_i0", types=("f64",), place="call")
def i0(x: Val) -> Val:
    return _bessel(x, 0)


@register("cyl_bessel_i1", types=("f64",), place="call")
def i1(x: Val) -> Val:
    return _bessel(x, 1)


@register("cyl_bessel_i0", types=("f32",), place="call")
def i0_f32(x: Val) -> Val:
    return _bessel(x.f64(), 0).f32()


@register("cyl_bessel_i1", types=("f32",), place="call")
def i1_f32(x: Val) -> Val:
    return _bessel(x.f64(), 1).f32()
