"""Cuts a vector loop into ranges: where every range-like mask holds, and the rest, which is masked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import SSAValue

from tileprobe.ir.accessors import op_name
from tileprobe.targets.cpu.codegen.body import Bound
from tileprobe.targets.cpu.codegen.types import I32, I64

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.nest import NestEmitter


@dataclass
class Range:
    """Vector indices from `start` to `stop`; `true_masks` are known to hold for all lanes there."""

    start: ir.Value
    stop: ir.Value
    true_masks: frozenset[SSAValue]


def vector_ranges(nest: NestEmitter) -> list[Range]:
    extent = nest.dims[nest.axis]
    zero, end = ir.Constant(I32, 0), ir.Constant(I32, extent)
    masks = {m: nest.facts.bounds(m, nest.axis, nest.linear) for m in nest.facts.masks(nest.axis)}
    known = {m: bounds for m, bounds in masks.items() if bounds is not None}
    if not known:
        return [Range(zero, end, frozenset())]
    spans = {m: _span(nest, bounds, extent) for m, bounds in known.items()}
    true_masks = frozenset(known) | _parts(known)
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


def _parts(known: dict[SSAValue, list[Bound] | None]) -> frozenset[SSAValue]:
    """The conjuncts of masks that hold, hold too."""
    found: set[SSAValue] = set()
    todo = list(known)
    while todo:
        op = todo.pop().owner
        if hasattr(op, "operands") and op_name(op) == "arith.andi":  # type: ignore[arg-type]
            found.update(op.operands)  # type: ignore[union-attr]
            todo.extend(op.operands)  # type: ignore[union-attr]
    return frozenset(found)


def _span(
    nest: NestEmitter, bounds: list[Bound], extent: int
) -> tuple[ir.Value | None, ir.Value | None]:
    """Lowest and highest index (i64, within the extent) for which all bounds hold."""
    from tileprobe.targets.cpu.codegen.nest import ORIGIN

    b = nest.b
    lows: list[ir.Value] = []
    highs: list[ir.Value] = []
    for bound in bounds:
        if bound.kind == "uniform":
            condition = nest.get(bound.left, ORIGIN)
            highs.append(b.select(condition, ir.Constant(I64, extent), ir.Constant(I64, 0)))
            continue
        assert bound.right is not None
        widen = b.zext if bound.unsigned else b.sext
        left, right = (nest.get(v, ORIGIN) for v in (bound.left, bound.right))
        left, right = (v if v.type == I64 else widen(v, I64) for v in (left, right))
        limit = b.add(b.sub(right, left), ir.Constant(I64, bound.extra))
        limit = _max(b, ir.Constant(I64, 0), _min(b, limit, ir.Constant(I64, extent)))
        (highs if bound.kind == "less" else lows).append(limit)
    return _extreme(b, lows, largest=True), _extreme(b, highs, largest=False)


def _last_needed(
    nest: NestEmitter, spans: dict[SSAValue, tuple[ir.Value | None, ir.Value | None]], end: ir.Value
) -> ir.Value:
    """Where the loop may stop: if all a nest does is store, behind the last lane that is stored."""
    if nest.accumulators is not None:
        return end
    masks = []
    for op in nest.facts.effects():
        if op_name(op) != "tt.store" or len(op.operands) < 3 or op.operands[2] not in spans:
            return end
        masks.append(op.operands[2])
    highs = [high for m in masks if (high := spans[m][1]) is not None]
    if not masks or len(highs) < len(masks):
        return end
    last = _extreme(nest.b, highs, largest=True)
    assert last is not None
    return _align(nest.b, nest.b.trunc(last, I32), nest.lanes, up=True)


def _align(b: ir.IRBuilder, value: ir.Value, lanes: int, up: bool) -> ir.Value:
    if lanes == 1:
        return value
    if up:
        value = b.add(value, ir.Constant(I32, lanes - 1))
    return b.and_(value, ir.Constant(I32, -lanes))


def _min(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed("<", x, y), x, y)


def _max(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed(">", x, y), x, y)


def _extreme(b: ir.IRBuilder, values: list[ir.Value], largest: bool) -> ir.Value | None:
    if not values:
        return None
    result = values[0]
    for value in values[1:]:
        result = _max(b, result, value) if largest else _min(b, result, value)
    return result
