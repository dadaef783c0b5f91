"""Accumulators of the reductions fused into a nest.

Along the vector axis an accumulator is a vector whose lanes are combined at the end; across it, each lane is a
result of its own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from xdsl.ir import SSAValue

from tileprobe.targets.cpu import vmath
from tileprobe.targets.cpu.codegen import buffers
from tileprobe.targets.cpu.codegen.elementwise import _INT_BINARY, float_op
from tileprobe.targets.cpu.codegen.types import (
    I32,
    Value,
    bytes_of,
    constant,
    elem_type,
    is_float,
    register_type,
    vector,
)

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.nest import NestEmitter


class Accumulators:
    def __init__(self, nest: NestEmitter):
        op = nest.nest
        assert op.axis is not None and op.reduce is not None
        self.nest = nest
        self.axis = op.axis.data
        self.kinds = [kind.data for kind in op.reduce]
        last = op.body.block.last_op
        assert last is not None
        self.values: list[SSAValue] = list(last.operands)
        self.names = [elem_type(v.type) for v in self.values]
        # sums of small floats are kept in f32 and rounded once
        self.work = ["f32" if is_float(n) and bytes_of(n) < 4 else n for n in self.names]
        self.depth = nest.order.index(self.axis)
        self.along = self.axis == nest.axis
        self.slots: list[Value] = []
        self.results: list[Value] = []

    def open(self) -> None:
        """Set the accumulators to the neutral elements."""
        nest = self.nest
        if not self.slots:
            self.slots = [nest.function.local(vector(register_type(w), nest.lanes)) for w in self.work]
        for kind, work, slot in zip(self.kinds, self.work, self.slots):
            nest.b.store(neutral(kind, work, nest.lanes), slot)

    def combine(self, values: list[SSAValue]) -> None:
        nest = self.nest
        b = nest.b
        for kind, name, work, slot, value in zip(self.kinds, self.names, self.work, self.slots, values):
            item: Any = nest.get(value)
            if name != work:
                item = vmath.convert(b, item, name, work)
            held = b.load(slot, typ=item.type)
            b.store(combine(b, kind, work, held, item), slot)

    def close(self) -> None:
        """Combine the lanes if need be, and hand over the results."""
        nest = self.nest
        b = nest.b
        into = iter(nest.nest.into)
        for kind, name, work, slot in zip(self.kinds, self.names, self.work, self.slots):
            total = b.load(slot, typ=vector(register_type(work), nest.lanes))
            if self.along:
                total = across_lanes(b, kind, work, total)
            if name != work:
                total = vmath.convert(b, total, work, name)
            if len(nest.dims) == 1:
                self.results.append(total)
                continue
            buffers.write_result(nest, total, next(into), self.axis)


def combine(b: ir.IRBuilder, kind: str, work: str, x: Value, y: Value) -> Value:
    if is_float(work):
        return float_op(b, kind, [x, y], work)
    return _INT_BINARY[kind](b, x, y)


def across_lanes(b: ir.IRBuilder, kind: str, work: str, total: Value) -> Value:
    """All lanes of a vector combined, halves with halves."""
    lanes = total.type.count if isinstance(total.type, ir.VectorType) else 1
    while lanes > 1:
        half = lanes // 2
        mask = ir.VectorType(I32, half)
        low = b.shuffle_vector(total, total, ir.Constant(mask, list(range(half))))
        high = b.shuffle_vector(total, total, ir.Constant(mask, list(range(half, lanes))))
        total = combine(b, kind, work, low, high)
        lanes = half
    return b.extract_element(total, ir.Constant(I32, 0)) if isinstance(total.type, ir.VectorType) else total


def neutral(kind: str, name: str, lanes: int) -> ir.Constant:
    """The element that changes nothing when combined."""
    scalar = register_type(name)
    if is_float(name):
        number = {
            "addf": -0.0,
            "mulf": 1.0,
            "maxnumf": math.nan,
            "minnumf": math.nan,
            "maximumf": -math.inf,
            "minimumf": math.inf,
        }[kind]
        return constant(scalar, number, lanes)
    width = scalar.width
    top = (1 << (width - 1)) - 1 if width > 1 else 0
    number = {
        "addi": 0, "ori": 0, "xori": 0, "maxui": 0, "muli": 1, "andi": -1, "minui": -1,
        "maxsi": -top - 1, "minsi": top,
    }[kind]  # fmt: skip
    return constant(scalar, number & ((1 << width) - 1), lanes)
