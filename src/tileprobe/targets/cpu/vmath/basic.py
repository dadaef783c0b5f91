"""What LLVM has itself or takes a few bit operations: rounding, signs, classes, roots, min and max."""

from __future__ import annotations

import math

from .registry import register
from .values import I32, Val

for _name, _intrinsic in {
    "floor": "llvm.floor",
    "ceil": "llvm.ceil",
    "trunc": "llvm.trunc",
    "rint": "llvm.rint",
    "nearbyint": "llvm.nearbyint",
    "roundeven": "llvm.roundeven",
    "round": "llvm.round",
    "abs": "llvm.fabs",
    "sqrt": "llvm.sqrt",
    "copysign": "llvm.copysign",
    "fma": "llvm.fma",
}.items():
    register(_name)(lambda x, *rest, _i=_intrinsic: x.call(_i, *rest))


@register("rsqrt")
def rsqrt(x: Val) -> Val:
    return 1 / x.sqrt()


@register("sigmoid")
def sigmoid(x: Val) -> Val:
    from .registry import apply

    return 1 / (apply("exp", -x) + 1)


@register("fdim")
def fdim(x: Val, y: Val) -> Val:
    d = x - y
    return (x <= y).pick(0, d)


@register("saturate")
def saturate(x: Val) -> Val:
    """Into [0, 1]; NaN becomes 0, as CUDA's does."""
    return (x > 0).pick((x > 1).pick(1, x), 0)


@register("maxnum", "fmax")
def maxnum(x: Val, y: Val) -> Val:
    """The larger; a NaN loses against a number; +0 is larger than -0."""
    return x.isnan().pick(y, y.isnan().pick(x, _larger(x, y)))


@register("minnum", "fmin")
def minnum(x: Val, y: Val) -> Val:
    return x.isnan().pick(y, y.isnan().pick(x, _smaller(x, y)))


@register("maximum")
def maximum(x: Val, y: Val) -> Val:
    """The larger; a NaN wins; +0 is larger than -0."""
    return x.isnan().pick(x, y.isnan().pick(y, _larger(x, y)))


@register("minimum")
def minimum(x: Val, y: Val) -> Val:
    return x.isnan().pick(x, y.isnan().pick(y, _smaller(x, y)))


def _larger(x: Val, y: Val) -> Val:
    same = (x.as_int() & y.as_int()).as_float()
    return (x > y).pick(x, x.eq(y).pick(same, y))


def _smaller(x: Val, y: Val) -> Val:
    same = (x.as_int() | y.as_int()).as_float()
    return (x < y).pick(x, x.eq(y).pick(same, y))


@register("isnan")
def isnan(x: Val) -> Val:
    return x.isnan().cast("zext", I32)


@register("isinf")
def isinf(x: Val) -> Val:
    return x.abs().eq(math.inf).cast("zext", I32)


@register("isfinite", "finite")
def isfinite(x: Val) -> Val:
    return (x.abs() < math.inf).cast("zext", I32)


@register("signbit")
def signbit(x: Val) -> Val:
    return (x.as_int() < 0).cast("zext", I32)
