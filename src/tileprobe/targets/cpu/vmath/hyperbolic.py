"""tanh, sinh, cosh, in float and double: near zero a polynomial or expm1, further out exp."""

from __future__ import annotations

from . import coefficients as c
from .exponential import exp_scaled, expm1
from .registry import register
from .values import Val


@register("tanh", types=("f32",), place="function")
def tanh_f32(x: Val) -> Val:
    a = x.abs()
    z = x * x
    near = (z * a).mad(z.poly(c.TANH_F32), a)
    # 10 is past the point where tanh rounds to 1; the clamp keeps NaN
    far = 1 - 2 / (exp_scaled((a > 10).pick(10, a) * 2) + 1)
    return (a < 0.625).pick(near, far).copysign(x)


@register("tanh", types=("f64",), place="call")
def tanh_f64(x: Val) -> Val:
    a = x.abs()
    t = expm1((a > 20).pick(20, a) * 2)
    return (t / (t + 2)).copysign(x)


@register("sinh", types=("f32",), place="function")
def sinh_f32(x: Val) -> Val:
    a = x.abs()
    z = x * x
    near = (z * x).mad(z.poly(c.SINH_F32), x)
    half = exp_scaled(a, by=-1)
    return (a < 1).pick(near, (half - 0.25 / half).copysign(x))


@register("sinh", types=("f64",), place="call")
def sinh_f64(x: Val) -> Val:
    a = x.abs()
    t = expm1((a > 1).pick(1, a))
    near = (t + t / (t + 1)) * 0.5
    half = exp_scaled(a, by=-1)
    return (a < 1).pick(near, half - 0.25 / half).copysign(x)


@register("cosh", place="function")
def cosh(x: Val) -> Val:
    half = exp_scaled(x.abs(), by=-1)
    return half + 0.25 / half
