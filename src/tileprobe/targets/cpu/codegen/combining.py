"""Reductions with a combine function of the user's, over buffers, and what scans need of the same.

The function is applied to vectors wherever it has no control flow: across the axis lanes are independent; along
it each lane folds a stretch of its own, and neighbouring lanes are folded at the end: elements keep their order, as a
combine function has to be associative, not commutative. Where it commutes, lanes fold every lanes-th element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from xdsl.ir import Operation, Region

from tileprobe.ir.accessors import op_name
from tileprobe.targets.cpu import vmath
from tileprobe.targets.cpu.codegen import elementwise, memory
from tileprobe.targets.cpu.codegen.commuting import commutes
from tileprobe.targets.cpu.codegen.loops import counted_loop
from tileprobe.targets.cpu.codegen.types import (
    I32,
    I64,
    Value,
    bytes_of,
    elem_type,
    register_type,
    splat,
    vector,
)
from tileprobe.targets.cpu.dialect import BufferType, ReduceOp, ScanOp
from tileprobe.targets.cpu.schedule.reductions import combination_of
from tileprobe.targets.cpu.schedule.ttir import is_elementwise, numel

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.function import FunctionEmitter

_RETURNS = ("tt.reduce.return", "tt.scan.return", "tile.yield")


class Combiner:
    """Applies a combine function to vectors or scalars."""

    def __init__(self, f: FunctionEmitter, region: Region):
        self.f = f
        self.block = region.block
        ops = list(self.block.ops)
        # a running sum or product of small floats is carried in f32, and rounded only where it is stored
        kind = combination_of(self.block)
        self.widened = kind if kind in ("addf", "mulf") and _is_small(ops[0]) else None
        self.vectorises = all(
            op_name(op) in (*_RETURNS, "arith.constant") or is_elementwise(op_name(op)) for op in ops
        )

    def __call__(self, left: Sequence[Any], right: Sequence[Any]) -> list[Value]:
        f = self.f
        if self.widened is not None:
            return [elementwise.float_op(f.builder, self.widened, [left[0], right[0]], "f32", f.fuse)]
        saved = dict(f.values)
        f.values.update(zip(self.block.args, (*left, *right)))
        lanes = left[0].type.count if isinstance(left[0].type, ir.VectorType) else 1
        results: list[Value] = []
        for op in self.block.ops:
            if op_name(op) in _RETURNS:
                results = [_spread(f.builder, f.value(v), lanes) for v in op.operands]
            elif op_name(op) == "arith.constant":
                f.values[op.results[0]] = splat(f.builder, elementwise.constant_value(op), lanes)
            elif self.vectorises:
                args = [_spread(f.builder, f.value(v), lanes) for v in op.operands]
                f.values[op.results[0]] = elementwise.emit(f.builder, op, args, f.fuse)
            else:
                f.emit_op(op)
        f.values = saved
        return results


def _is_small(op: Operation) -> bool:
    return elem_type(op.results[0].type) in ("f16", "bf16")


def _spread(b: ir.IRBuilder, value: Value, lanes: int) -> Value:
    return value if isinstance(value.type, ir.VectorType) else splat(b, value, lanes)


class Strip:
    """Buffers seen as outer x axis x inner."""

    def __init__(self, f: FunctionEmitter, op: ReduceOp | ScanOp, combiner: Combiner):
        self.f = f
        self.widened = combiner.widened is not None
        self.sources = list(op.sources)
        kind = self.sources[0].type
        assert isinstance(kind, BufferType)
        self.dims = kind.dims
        axis = op.axis.data
        self.outer, self.count, self.inner = (
            numel(self.dims[:axis]),
            self.dims[axis],
            numel(self.dims[axis + 1 :]),
        )
        self.names = [elem_type(v.type.element) for v in self.sources]  # type: ignore[attr-defined]
        self.bases = [f.value(v) for v in self.sources]
        self.work = ["f32"] if self.widened else self.names

    def offset(self, outer: Value, at: Value, inner: Value) -> Value:
        b = self.f.builder
        row = b.add(b.mul(outer, ir.Constant(I64, self.count)), at)
        return b.add(b.mul(row, ir.Constant(I64, self.inner)), inner)

    def load(self, offset: Value, lanes: int, apart: int = 1) -> list[Value]:
        """Elements from `offset` on, each lane's `apart` from the one before."""
        b = self.f.builder
        found = []
        for base, name in zip(self.bases, self.names):
            address = b.add(base, b.mul(offset, ir.Constant(I64, bytes_of(name))))
            if lanes == 1:
                found.append(memory.load_scalar(b, address, name, None, None, base))
            elif apart == 1:
                found.append(memory.load_vector(b, address, name, lanes, None, None))
            else:
                found.append(memory.load_strided(b, address, name, lanes, apart * bytes_of(name)))
        if self.widened:
            found = [vmath.convert(b, value, name, "f32") for value, name in zip(found, self.names)]
        return found

    def store(self, values: Sequence[Value], bases: Sequence[Value], offset: Value) -> None:
        b = self.f.builder
        for value, base, name in zip(values, bases, self.names):
            address = b.add(base, b.mul(offset, ir.Constant(I64, bytes_of(name))))
            item: Any = vmath.convert(b, value, "f32", name) if self.widened else value
            if isinstance(item.type, ir.VectorType):
                memory.store_vector(b, item, address, name, None)
            else:
                memory.store_scalar(b, item, address, name, None, base)

    def lanes(self, extent: int, combiner: Combiner) -> int:
        if not combiner.vectorises or self.f.scalar_only:
            return 1
        lanes = max(1, 2 * self.f.vector_bytes // max(bytes_of(n) for n in self.names))
        while lanes > extent or extent % lanes:
            lanes //= 2
        return lanes


def emit_reduce(f: FunctionEmitter, op: Operation) -> None:
    assert isinstance(op, ReduceOp)
    combiner = Combiner(f, op.combine)
    strip = Strip(f, op, combiner)
    b = f.builder
    into = [f.value(v) for v in op.into]
    along = strip.inner == 1
    lanes = strip.lanes(strip.count if along else strip.inner, combiner)
    slots = [f.local(vector(register_type(name), lanes)) for name in strip.work]
    zero = ir.Constant(I64, 0)
    totals: list[Value] = []

    def fold(values: list[Any]) -> None:
        held: list[Value] = [b.load(slot, typ=value.type) for slot, value in zip(slots, values)]
        for slot, value in zip(slots, combiner(held, values)):
            b.store(value, slot)

    # Along the axis a lane folds every lanes-th element, or a stretch of neighbours.
    free = commutes(op.combine.block)
    apart = strip.count // lanes if along and not free else 1
    step = lanes if along and free else 1
    end = apart if along and not free else strip.count

    def one(outer: Value, inner: Value) -> None:
        for slot, value in zip(slots, strip.load(strip.offset(outer, zero, inner), lanes, apart)):
            b.store(value, slot)
        counted_loop(
            b, ir.Constant(I64, step), ir.Constant(I64, end), step,
            lambda at: fold(strip.load(strip.offset(outer, at, inner), lanes, apart)),
        )  # fmt: skip
        found = [b.load(slot, typ=vector(register_type(n), lanes)) for slot, n in zip(slots, strip.work)]
        if along:
            found = _across_lanes(b, combiner, found, lanes)
        if into:
            strip.store(found, into, b.add(b.mul(outer, ir.Constant(I64, strip.inner)), inner))
        else:
            totals.extend(found)

    over_strips(b, strip, 1 if along else lanes, one)
    f.values.update(zip(op.reduced, totals))


def over_strips(b: ir.IRBuilder, strip: Strip, lanes: int, one: object) -> None:
    zero = ir.Constant(I64, 0)
    counted_loop(
        b, zero, ir.Constant(I64, strip.outer), 1,
        lambda outer: counted_loop(
            b, zero, ir.Constant(I64, strip.inner), lanes, lambda inner: one(outer, inner)  # type: ignore[operator]
        ),
    )  # fmt: skip


def _across_lanes(b: ir.IRBuilder, combiner: Combiner, values: list[Value], lanes: int) -> list[Value]:
    if lanes == 1:
        return values
    while lanes > 2:
        half = lanes // 2
        even = ir.Constant(ir.VectorType(I32, half), list(range(0, lanes, 2)))
        odd = ir.Constant(ir.VectorType(I32, half), list(range(1, lanes, 2)))
        values = combiner(
            [b.shuffle_vector(v, v, even) for v in values], [b.shuffle_vector(v, v, odd) for v in values]
        )
        lanes = half
    # one lane is a scalar, never a vector of one: constants of the function are scalars there
    left, right = ([b.extract_element(v, ir.Constant(I32, lane)) for v in values] for lane in (0, 1))
    return combiner(left, right)
