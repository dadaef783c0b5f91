"""Cuts a vector loop into ranges: where every range-like mask holds, and the rest, which is masked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import OpResult, SSAValue

from tileprobe.ir.accessors import op_name
from tileprobe.targets.cpu.codegen.body import Bound
from tileprobe.targets.cpu.codegen.types import I32, I64, Value

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.nest import NestEmitter


@dataclass
class Range:
    """Vector indices from `start` to `stop`; `true_masks` are known to hold for all lanes there."""

    start: Value
    stop: Value
    true_masks: frozenset[SSAValue]


def vector_ranges(nest: NestEmitter) -> list[Range]:
    extent = nest.dims[nest.axis]
    zero, end = ir.Constant(I32, 0), ir.Constant(I32, extent)
    known = _known_conditions(nest)
    if not known:
        return [Range(zero, end, frozenset())]
    spans = {c: _span(nest, bound, extent) for c, bound in known.items()}
    true_masks = _holding(nest, frozenset(known))
    low = _extreme(nest.b, [s[0] for s in spans.values() if s[0] is not None], largest=True)
    high = _extreme(nest.b, [s[1] for s in spans.values() if s[1] is not None], largest=False)
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
    if isinstance(mask, OpResult) and op_name(mask.op) == "arith.andi":
        return [leaf for operand in mask.op.operands for leaf in conjuncts(operand)]
    return [mask]


def _holding(nest: NestEmitter, leaves: frozenset[SSAValue]) -> frozenset[SSAValue]:
    """Masks that hold where all of `leaves` do."""
    found = set(leaves)
    for op in nest.nest.body.block.ops:
        if op_name(op) == "arith.andi" and all(v in found for v in op.operands):
            found.add(op.results[0])
    return frozenset(found)


def _span(nest: NestEmitter, bound: Bound, extent: int) -> tuple[Value | None, Value | None]:
    """Lowest and highest index (i64, within the extent) for which a bound holds."""
    from tileprobe.targets.cpu.codegen.nest import ORIGIN

    b = nest.b
    if bound.kind == "uniform":
        condition = nest.get(bound.left, ORIGIN)
        return None, b.select(condition, ir.Constant(I64, extent), ir.Constant(I64, 0))
    assert bound.right is not None
    widen = b.zext if bound.unsigned else b.sext
    left, right = (nest.get(v, ORIGIN) for v in (bound.left, bound.right))
    left, right = (v if v.type == I64 else widen(v, I64) for v in (left, right))
    limit = b.add(b.sub(right, left), ir.Constant(I64, bound.extra))
    limit = _max(b, ir.Constant(I64, 0), _min(b, limit, ir.Constant(I64, extent)))
    return (None, limit) if bound.kind == "less" else (limit, None)


def _last_needed(
    nest: NestEmitter, spans: dict[SSAValue, tuple[Value | None, Value | None]], end: Value
) -> Value:
    """Where the loop may stop: if all a nest does is store, behind the last lane that is stored."""
    if nest.accumulators is not None:
        return end
    highs: list[Value] = []
    for op in nest.facts.effects():
        if op_name(op) != "tt.store" or len(op.operands) < 3:
            return end
        own = [spans[leaf][1] for leaf in conjuncts(op.operands[2]) if leaf in spans]
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
