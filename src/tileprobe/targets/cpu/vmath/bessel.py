"""The modified Bessel functions I0 and I1: their series up to 25, the asymptotic expansion beyond."""

from __future__ import annotations

import math

import llvmlite.ir as ir

from .registry import apply, register
from .values import I64, Val, constant

_SPLIT = 25.0
_SERIES_TERMS = 64  # at 25 the 64th term is below 1e-40 of the sum
_ASYMPTOTIC_TERMS = 30  # beyond 25 the 30th is below 1e-19


def _sum(x: Val, count: int, ratio) -> Val:
    """1 + r(1) + r(1) r(2) + ..., with ratio(k) giving r from the index as a double of x's shape."""
    b = x.b
    before = b.block
    loop, after = b.append_basic_block("series"), b.append_basic_block("sum")
    b.branch(loop)
    b.position_at_end(loop)
    k, term, total = b.phi(I64), b.phi(x.type), b.phi(x.type)
    index = b.uitofp(k, ir.DoubleType())
    if isinstance(x.type, ir.VectorType):
        first = b.insert_element(ir.Constant(x.type, ir.Undefined), index, I64(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), x.type.count), [0] * x.type.count)
        index = b.shuffle_vector(first, ir.Constant(x.type, ir.Undefined), zeros)
    grown = Val(b, term) * ratio(Val(b, index))
    added = Val(b, total) + grown
    following = b.add(k, I64(1))
    for phi, start, step in ((k, I64(1), following), (term, constant(x.type, 1), grown.v)):
        phi.add_incoming(start, before)
        phi.add_incoming(step, loop)
    total.add_incoming(constant(x.type, 1), before)
    total.add_incoming(added.v, loop)
    b.cbranch(b.icmp_signed("<=", following, I64(count)), loop, after)
    b.position_at_end(after)
    return added


def _bessel(x: Val, order: int) -> Val:
    a = x.abs()
    far = a > _SPLIT
    near_a = far.pick(1, a)
    q = near_a * near_a * 0.25
    series = _sum(q, _SERIES_TERMS, lambda k: q / (k * (k + order)))
    large = far.pick(a, 100)
    mu = 4.0 * order * order
    expansion = _sum(large, _ASYMPTOTIC_TERMS, lambda k: ((k * 2 - 1) * (k * 2 - 1) - mu) / (k * 8 * large))
    root = apply("exp", large * 0.5)  # e^a in two factors: it overflows before the function does
    beyond = root * (expansion / (large * (2 * math.pi)).sqrt()) * root
    beyond = a.eq(math.inf).pick(math.inf, beyond)
    y = far.pick(beyond, series * near_a * 0.5 if order else series)
    return x.isnan().pick(x, y.copysign(x) if order else y)


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
