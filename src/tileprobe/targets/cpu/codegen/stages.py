"""Stages of the tile dialect other than their inner loops: each to the emitter that knows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import Operation

from tileprobe.targets.cpu.codegen import combining, dot, scanning
from tileprobe.targets.cpu.codegen.dot_plan import plan
from tileprobe.targets.cpu.codegen.lookahead import tiles_ahead
from tileprobe.targets.cpu.codegen.loops import counted_loop
from tileprobe.targets.cpu.codegen.nest import NestEmitter
from tileprobe.targets.cpu.codegen.types import I32, I64, PTR, Value, bytes_of, elem_type, memory_type
from tileprobe.targets.cpu.dialect import BufferType, DotOp, HistogramOp, NestOp
from tileprobe.targets.cpu.schedule.products import grouped_products, registers
from tileprobe.targets.cpu.schedule.scratch import buffer_elements
from tileprobe.targets.cpu.schedule.ttir import numel

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.function import FunctionEmitter


def _nest(f: FunctionEmitter, op: Operation) -> None:
    assert isinstance(op, NestOp)
    results = NestEmitter(f, op).emit()
    f.values.update(zip(op.reduced, results))


def _dot(f: FunctionEmitter, op: Operation) -> None:
    assert isinstance(op, DotOp)
    kinds = [v.type for v in (op.a, op.b, op.c)]
    a, b, c = (k for k in kinds if isinstance(k, BufferType))
    (m, k), n = a.dims[-2:], b.dims[-1]
    names = [elem_type(kind.element) for kind in (a, b, c)]
    # operands were widened when they were packed: 8-bit integers to floats, where nothing multiplies bytes
    inputs = ["i8", "i8"] if names[2][0] == "i" and names[0] == "f32" else names[:2]
    chosen = plan(m, n, k, inputs[0], inputs[1], names[2], f.vector_bytes, registers(), grouped_products())
    builder = f.builder
    sizes = [
        buffer_elements(kind) // numel(kind.dims[:-2]) * bytes_of(name)
        for kind, name in zip((a, b, c), names)
    ]

    ahead = tiles_ahead(f, op)

    def one(batch: Value) -> None:
        places = []
        for value, size in zip((op.a, op.b, op.c), sizes):
            offset = builder.mul(builder.zext(batch, I64), ir.Constant(I64, size))
            places.append(builder.inttoptr(builder.add(f.value(value), offset), PTR))
        dot.emit(builder, chosen, *places, init="zero" if op.zero.data else "accumulate", ahead=ahead)

    counted_loop(builder, ir.Constant(I32, 0), ir.Constant(I32, numel(c.dims[:-2])), 1, one)


def _histogram(f: FunctionEmitter, op: Operation) -> None:
    assert isinstance(op, HistogramOp)
    b = f.builder
    source, into = op.source.type, op.into.type
    assert isinstance(source, BufferType) and isinstance(into, BufferType)
    kind, counter = memory_type(elem_type(source.element)), memory_type(elem_type(into.element))
    bins, place = numel(into.dims), b.inttoptr(f.value(op.into), PTR)
    zero, one = ir.Constant(counter, 0), ir.Constant(counter, 1)

    def clear(i: Value) -> None:
        b.store(zero, b.gep(place, [i], source_etype=counter))

    def count(i: Value) -> None:
        held = b.load(b.gep(b.inttoptr(f.value(op.source), PTR), [i], source_etype=kind), typ=kind)
        inside = b.icmp_unsigned("<", held, ir.Constant(kind, min(bins, (1 << kind.width) - 1)))
        if bins >= 1 << kind.width:
            inside = ir.Constant(ir.IntType(1), 1)
        if op.mask is not None:
            byte = ir.IntType(8)
            mask = b.load(b.gep(b.inttoptr(f.value(op.mask), PTR), [i], source_etype=byte), typ=byte)
            inside = b.and_(inside, b.icmp_unsigned("!=", mask, ir.Constant(byte, 0)))
        with b.if_then(inside):
            index = b.zext(held, I64) if kind.width < 64 else held
            slot = b.gep(place, [index], source_etype=counter)
            b.store(b.add(b.load(slot, typ=counter), one), slot)

    counted_loop(b, ir.Constant(I64, 0), ir.Constant(I64, bins), 1, clear)
    counted_loop(b, ir.Constant(I64, 0), ir.Constant(I64, numel(source.dims)), 1, count)


EMITTERS: dict[str, Callable[[FunctionEmitter, Operation], None]] = {
    "tile.nest": _nest,
    "tile.dot": _dot,
    "tile.histogram": _histogram,
    "tile.reduce": combining.emit_reduce,
    "tile.scan": scanning.emit_scan,
}
