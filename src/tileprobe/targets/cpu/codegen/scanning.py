"""Scans with a combine function of the user's, over buffers.

Across the axis lanes are independent. Along it a vector of neighbours is scanned in registers, by steps of one, two,
four, ... lanes, and what came before it is combined with all of it at once; elements keep their order, as a combine
function has to be associative, not commutative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import Operation

from tileprobe.ir.accessors import op_name
from tileprobe.targets.cpu.codegen.combining import Combiner, Strip, over_strips
from tileprobe.targets.cpu.codegen.loops import counted_loop
from tileprobe.targets.cpu.codegen.types import I32, I64, Value, bytes_of, register_type, splat, vector
from tileprobe.targets.cpu.dialect import ScanOp

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.function import FunctionEmitter

# The function is emitted some ten times: longer ones are compiled once, and go element by element.
_MOST_OPS = 24
# Steps combine lanes whose results nobody uses, which must not trap.
_TRAPS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui")


def emit_scan(f: FunctionEmitter, op: Operation) -> None:
    assert isinstance(op, ScanOp)
    combiner = Combiner(f, op.combine)
    strip = Strip(f, op, combiner)
    wide = _lanes_along(strip, combiner)
    if wide > 1:
        _scan_along(f, op, combiner, strip, wide)
        return
    b = f.builder
    into = [f.value(v) for v in op.into]
    lanes = strip.lanes(strip.inner, combiner) if strip.inner > 1 else 1
    slots = [f.local(vector(register_type(name), lanes)) for name in strip.work]
    last = ir.Constant(I64, strip.count - 1)

    def position(at: Value) -> Value:
        return b.sub(last, at) if op.reverse.data else at

    def one(outer: Value, inner: Value) -> None:
        first = strip.offset(outer, position(ir.Constant(I64, 0)), inner)
        values = strip.load(first, lanes)
        strip.store(values, into, first)
        for slot, value in zip(slots, values):
            b.store(value, slot)

        def step(at: Value) -> None:
            place = strip.offset(outer, position(at), inner)
            items = strip.load(place, lanes)
            held = [b.load(slot, typ=item.type) for slot, item in zip(slots, items)]
            results = combiner(held, items)
            for slot, value in zip(slots, results):
                b.store(value, slot)
            strip.store(results, into, place)

        counted_loop(b, ir.Constant(I64, 1), ir.Constant(I64, strip.count), 1, step)

    over_strips(b, strip, lanes, one)


def _lanes_along(strip: Strip, combiner: Combiner) -> int:
    """How many neighbours are scanned at once; 1 where the function allows no more."""
    names = [op_name(op) for op in combiner.block.ops]
    if strip.inner > 1 or len(names) > _MOST_OPS or any(name in _TRAPS for name in names):
        return 1
    return min(
        strip.lanes(strip.count, combiner), strip.f.vector_bytes // max(bytes_of(n) for n in strip.work)
    )


def _scan_along(f: FunctionEmitter, op: ScanOp, combiner: Combiner, strip: Strip, lanes: int) -> None:
    b = f.builder
    into = [f.value(v) for v in op.into]
    slots = [f.local(register_type(name)) for name in strip.work]
    zero, reverse = ir.Constant(I64, 0), bool(op.reverse.data)
    end = ir.Constant(I64, lanes - 1)

    def place(outer: Value, at: Value) -> Value:
        return strip.offset(outer, b.sub(ir.Constant(I64, strip.count - lanes), at) if reverse else at, zero)

    def turned(values: list[Value]) -> list[Value]:
        return _moved(b, values, list(reversed(range(lanes)))) if reverse else values

    def keep(values: list[Value], where: Value) -> None:
        for slot, value in zip(slots, values):
            b.store(b.extract_element(value, end), slot)
        strip.store(turned(values), into, where)

    def one(outer: Value, _: Value) -> None:
        first = place(outer, zero)
        keep(_scanned(b, combiner, turned(strip.load(first, lanes)), lanes), first)

        def step(at: Value) -> None:
            where = place(outer, at)
            values = _scanned(b, combiner, turned(strip.load(where, lanes)), lanes)
            held = [b.load(slot, typ=register_type(name)) for slot, name in zip(slots, strip.work)]
            keep(combiner([splat(b, value, lanes) for value in held], values), where)

        counted_loop(b, ir.Constant(I64, lanes), ir.Constant(I64, strip.count), lanes, step)

    over_strips(b, strip, 1, one)


def _scanned(b: ir.IRBuilder, combiner: Combiner, values: list[Value], lanes: int) -> list[Value]:
    """Each lane with all before it, in log2(lanes) steps."""
    apart = 1
    while apart < lanes:
        before = _moved(b, values, [max(lane - apart, 0) for lane in range(lanes)])
        has_one = ir.Constant(vector(ir.IntType(1), lanes), [int(lane >= apart) for lane in range(lanes)])
        values = [b.select(has_one, both, value) for both, value in zip(combiner(before, values), values)]
        apart *= 2
    return values


def _moved(b: ir.IRBuilder, values: list[Value], order: list[int]) -> list[Value]:
    places = ir.Constant(ir.VectorType(I32, len(order)), order)
    return [b.shuffle_vector(value, value, places) for value in values]
