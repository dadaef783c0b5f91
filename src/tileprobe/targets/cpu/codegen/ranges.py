"""Cuts a vector loop into ranges: where every range-like mask holds, and the rest, which is masked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import OpResult, SSAValue

from tileprobe.ir.accessors import op_name
from tileprobe.targets.cpu.codegen.body import Bound
from tileprobe.targets.cpu.codegen.intervals import wrapped
from tileprobe.targets.cpu.codegen.types import I32, I64, Value

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.nest import NestEmitter


@dataclass
class Range:
    """Vector indices from `start` to `stop`; `true_masks` are known to hold for all lanes there."""

    start: Value
    stop: Value
    true_masks: frozenset[SSAValue]


@dataclass
class Span:
    """Where a condition holds: from `low` on, below `high` (i64, within the extent; None: no such end).

    Behind `needed` it surely does not. All three take care of sides that wrap: then nothing is known to hold.
    """

    low: Value | None
    high: Value | None
    needed: Value | None


def vector_ranges(nest: NestEmitter) -> list[Range]:
    extent = nest.dims[nest.axis]
    zero, end = ir.Constant(I32, 0), ir.Constant(I32, extent)
    known = _known_conditions(nest)
    if not known:
        return [Range(zero, end, frozenset())]
    spans = {c: _span(nest, bound, extent) for c, bound in known.items()}
    true_masks = _holding(nest, frozenset(known))
    low = _extreme(nest.b, [s.low for s in spans.values() if s.low is not None], largest=True)
    high = _extreme(nest.b, [s.high for s in spans.values() if s.high is not None], largest=False)
    b, lanes = nest.b, nest.lanes
    start = zero if low is None else _align(b, b.trunc(low, I32), lanes, up=True)
    stop = end if high is None else _align(b, b.trunc(high, I32), lanes, up=False)
    last = _last_needed(nest, spans, end)
    if low is not None:
        stop = _max(b, start, stop)
        return [
            Range(zero, start, frozenset()),
            Range(start, stop, true_masks),
            Range(stop, last, frozenset()),
        ]
    return [Range(zero, stop, true_masks), Range(stop, last, frozenset())]


def _known_conditions(nest: NestEmitter) -> dict[SSAValue, Bound]:
    """The conjuncts of the nest's masks that are ranges of the vector index, known before its loop starts."""
    later = 0
    for axis in nest.order[nest.order.index(nest.axis) + 1 :]:
        later |= 1 << axis
    found: dict[SSAValue, Bound] = {}
    for mask in nest.facts.masks(nest.axis):
        for leaf in conjuncts(mask):
            bound = nest.facts.bound(leaf, nest.axis, nest.linear)
            sides = [v for v in (bound.left, bound.right) if v is not None] if bound else []
            if bound is not None and not any(nest.facts.varies.get(v, 0) & later for v in sides):
                found[leaf] = bound
    return found


def conjuncts(mask: SSAValue) -> list[SSAValue]:
    """The conditions that together make `mask`."""
    found: dict[SSAValue, None] = {}
    todo, seen = [mask], {mask}
    while todo:
        value = todo.pop()
        if not isinstance(value, OpResult) or op_name(value.op) != "arith.andi":
            found[value] = None
            continue
        todo.extend(v for v in value.op.operands if v not in seen)
        seen.update(value.op.operands)
    return list(found)


def _holding(nest: NestEmitter, leaves: frozenset[SSAValue]) -> frozenset[SSAValue]:
    """Masks that hold where all of `leaves` do."""
    found = set(leaves)
    for op in nest.nest.body.block.ops:
        if op_name(op) == "arith.andi" and all(v in found for v in op.operands):
            found.add(op.results[0])
    return frozenset(found)


def _span(nest: NestEmitter, bound: Bound, extent: int) -> Span:
    """The range of the index for which a bound holds."""
    from tileprobe.targets.cpu.codegen.nest import ORIGIN

    b = nest.b
    whole, none = ir.Constant(I64, extent), ir.Constant(I64, 0)
    if bound.kind == "uniform":
        high = b.select(nest.get(bound.left, ORIGIN), whole, none)
        return Span(None, high, high)
    assert bound.right is not None
    widen = b.zext if bound.unsigned else b.sext
    sides = [nest.get(v, ORIGIN) for v in (bound.left, bound.right)]
    left, right = (v if v.type == I64 else widen(v, I64) for v in sides)
    limit = b.add(b.sub(right, left), ir.Constant(I64, bound.extra))
    limit = _max(b, none, _min(b, limit, whole))
    straight = _neither_wraps(nest, bound, sides, extent)
    if bound.kind == "less":
        return Span(None, b.select(straight, limit, none), b.select(straight, limit, whole))
    return Span(b.select(straight, limit, whole), None, None)


def _neither_wraps(nest: NestEmitter, bound: Bound, sides: list[Value], extent: int) -> Value:
    """Do both sides of a comparison move along the tile without wrapping round the end of their type?"""
    b = nest.b
    result: Value = ir.Constant(ir.IntType(1), 1)
    for value, side, slope in zip((bound.left, bound.right), sides, bound.slopes):
        assert value is not None
        width = side.type.width
        if width == 64:
            # Far from both ends there is room for the tile, and for the difference of the two sides.
            quarter = ir.Constant(I64, 1 << 62)
            if bound.unsigned:
                near = b.icmp_unsigned("<", side, quarter)
            else:
                near = b.icmp_signed(">=", b.add(side, quarter), ir.Constant(I64, 0))
            result = b.and_(result, near)
            continue
        known = nest.facts.intervals.unsigned if bound.unsigned else nest.facts.intervals.signed
        if slope == 0 or known(value) is not None:
            continue
        least = 0 if bound.unsigned else -(1 << (width - 1))
        most = least + (1 << width) - 1
        reach = abs(slope) * (extent - 1)
        if reach > most - least:
            return ir.Constant(ir.IntType(1), 0)
        compare = b.icmp_unsigned if bound.unsigned else b.icmp_signed
        if slope > 0:
            result = b.and_(result, compare("<=", side, ir.Constant(side.type, wrapped(most - reach, width))))
        else:
            result = b.and_(
                result, compare(">=", side, ir.Constant(side.type, wrapped(least + reach, width)))
            )
    return result


def _last_needed(nest: NestEmitter, spans: dict[SSAValue, Span], end: Value) -> Value:
    """Where the loop may stop: if all a nest does is store, behind the last lane that is stored."""
    if nest.accumulators is not None:
        return end
    highs: list[Value] = []
    for op in nest.facts.effects():
        if op_name(op) != "tt.store" or len(op.operands) < 3:
            return end
        own = [spans[leaf].needed for leaf in conjuncts(op.operands[2]) if leaf in spans]
        high = _extreme(nest.b, [h for h in own if h is not None], largest=False)
        if high is None:
            return end
        highs.append(high)
    last = _extreme(nest.b, highs, largest=True)
    assert last is not None
    return _align(nest.b, nest.b.trunc(last, I32), nest.lanes, up=True)


def _align(b: ir.IRBuilder, value: Value, lanes: int, up: bool) -> Value:
    if lanes == 1:
        return value
    if up:
        value = b.add(value, ir.Constant(I32, lanes - 1))
    return b.and_(value, ir.Constant(I32, -lanes))


def _min(b: ir.IRBuilder, x: Value, y: Value) -> Value:
    return b.select(b.icmp_signed("<", x, y), x, y)


def _max(b: ir.IRBuilder, x: Value, y: Value) -> Value:
    return b.select(b.icmp_signed(">", x, y), x, y)


def _extreme(b: ir.IRBuilder, values: list[Value], largest: bool) -> Value | None:
    if not values:
        return None
    result = values[0]
    for value in values[1:]:
        result = _max(b, result, value) if largest else _min(b, result, value)
    return result
