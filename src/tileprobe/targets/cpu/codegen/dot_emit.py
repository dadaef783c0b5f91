"""The pieces of LLVM IR the dot micro-kernels are built from.

Counted loops, typed loads and stores at a constant distance from a pointer, multiply-add, and the
conversion of finished sums into the accumulator's type. All functions append to the builder they are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

# llvmlite has no types of its own: every value and type it builds is dynamic to a checker.
Value = Any
POINTER = ir.PointerType()
I64 = ir.IntType(64)


@contextmanager
def repeat(builder: ir.IRBuilder, count: int, steps: dict[Value, int]) -> Iterator[list[Value]]:
    """Emit a loop of `count` rounds; yields the values of `steps`, each moved on by its step a round
    (pointers by bytes).

    Pointers advance by themselves instead of being computed from an index, so that every address in the
    body is a register plus a constant, with or without LLVM's loop passes.
    """
    assert count >= 1, "a loop body runs at least once"
    if count == 1:
        yield list(steps)
        return
    entry = builder.block
    body = builder.append_basic_block("body")
    after = builder.append_basic_block("after")
    builder.branch(body)
    builder.position_at_end(body)
    left = builder.phi(I64)
    left.add_incoming(ir.Constant(I64, count), entry)
    moving = []
    for start in steps:
        value = builder.phi(start.type)
        value.add_incoming(start, entry)
        moving.append(value)
    yield moving
    for value, step in zip(moving, steps.values()):
        value.add_incoming(_advance(builder, value, step), builder.block)
    fewer = builder.sub(left, ir.Constant(I64, 1))
    left.add_incoming(fewer, builder.block)
    again = builder.icmp_unsigned("!=", fewer, ir.Constant(I64, 0))
    builder.cbranch(again, body, after)
    builder.position_at_end(after)


def _advance(builder: ir.IRBuilder, value: Value, step: int) -> Value:
    if value.type == POINTER:
        return at(builder, value, step)
    return builder.add(value, ir.Constant(value.type, step))


def at(builder: ir.IRBuilder, pointer: Value, distance: int) -> Value:
    """The pointer `distance` bytes further on."""
    if distance == 0:
        return pointer
    return builder.gep(pointer, [ir.Constant(I64, distance)], inbounds=True, source_etype=ir.IntType(8))


def vector(element: ir.Type, lanes: int) -> ir.Type:
    """The type of `lanes` elements: a scalar when there is one."""
    return element if lanes == 1 else ir.VectorType(element, lanes)


def load(builder: ir.IRBuilder, pointer: Value, typ: ir.Type, distance: int, align: int) -> Value:
    return builder.load(at(builder, pointer, distance), typ=typ, align=align)


def splat(builder: ir.IRBuilder, scalar: Value, lanes: int) -> Value:
    if lanes == 1:
        return scalar
    typ = ir.VectorType(scalar.type, lanes)
    single = builder.insert_element(ir.Constant(typ, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(single, ir.Constant(typ, ir.Undefined), zeros)


def multiply_add(builder: ir.IRBuilder, a: Value, b: Value, c: Value) -> Value:
    """a * b + c: one fused instruction where the machine has it, two where it has not."""
    typ = a.type
    if is_integer(typ):
        return builder.add(builder.mul(a, b), c)
    # llvm.fma would turn into a library call a lane on a machine without the instruction.
    function = intrinsic(builder, f"llvm.fmuladd.{_suffix(typ)}", typ, [typ, typ, typ])
    return builder.call(function, [a, b, c])


def add_products(builder: ir.IRBuilder, a: Value, b: Value, sums: Value) -> Value:
    """Each sum plus the products of the pair of bf16, or of the four bytes, that lie in its lane of `a` and `b`.

    Bytes of `a` are unsigned and those of `b` signed.
    """
    if is_integer(sums.type):
        names = {4: "avx512.vpdpbusd.128", 8: "avx512.vpdpbusd.256", 16: "avx512.vpdpbusd.512"}
        operands = ir.VectorType(ir.IntType(8), 4 * sums.type.count)
    else:
        names = {4: "avx512bf16.dpbf16ps.128", 8: "avx512bf16.dpbf16ps.256", 16: "avx512bf16.dpbf16ps.512"}
        operands = ir.VectorType(_BFloat(), 2 * sums.type.count)
    name = f"llvm.x86.{names[sums.type.count]}"
    function = intrinsic(builder, name, sums.type, [sums.type, operands, operands])
    return builder.call(function, [sums, *(builder.bitcast(value, operands) for value in (a, b))])


def interleave(builder: ir.IRBuilder, rows: list[Value]) -> Value:
    """Two or four vectors as one: the first elements of all, then the second ones."""
    count, lanes = len(rows), rows[0].type.count
    while len(rows) > 2:
        rows = [
            _shuffle(builder, left, right, range(2 * lanes)) for left, right in zip(rows[::2], rows[1::2])
        ]
    order = [row * lanes + lane for lane in range(lanes) for row in range(count)]
    return _shuffle(builder, rows[0], rows[1], order)


def _shuffle(builder: ir.IRBuilder, left: Value, right: Value, order: Sequence[int]) -> Value:
    places = ir.Constant(ir.VectorType(ir.IntType(32), len(order)), list(order))
    return builder.shuffle_vector(left, right, places)


class _BFloat(ir.Type):
    """LLVM's type for bf16, for which llvmlite has none; only the operands of an intrinsic have it."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


def intrinsic(builder: ir.IRBuilder, name: str, result: ir.Type, params: list[ir.Type]) -> ir.Function:
    known = builder.module.globals.get(name)
    if known is not None:
        return known
    return ir.Function(builder.module, ir.FunctionType(result, params), name)


def zero(typ: ir.Type) -> ir.Constant:
    return ir.Constant(typ, None)


def settle(builder: ir.IRBuilder, total: Value, acc: ir.Type) -> Value:
    """Finished sums in the accumulator's element type; exact, or the plan would not ask for it."""
    if element(total.type) == acc:
        return total
    return builder.fptosi(total, vector(acc, lanes_of(total.type)))


def plus(builder: ir.IRBuilder, left: Value, right: Value) -> Value:
    return builder.add(left, right) if is_integer(left.type) else builder.fadd(left, right)


def element(typ: ir.Type) -> ir.Type:
    return typ.element if isinstance(typ, ir.VectorType) else typ


def lanes_of(typ: ir.Type) -> int:
    return typ.count if isinstance(typ, ir.VectorType) else 1


def is_integer(typ: ir.Type) -> bool:
    return isinstance(element(typ), ir.IntType)


def pieces(total: int, lanes: int) -> list[tuple[int, int]]:
    """Cut `total` elements into (start, lanes) vectors: full ones, then halves, quarters, ... of one."""
    cuts = []
    start = 0
    while start < total:
        while lanes > total - start:
            lanes //= 2
        cuts.append((start, lanes))
        start += lanes
    return cuts


def _suffix(typ: ir.Type) -> str:
    scalar = {ir.FloatType: "f32", ir.DoubleType: "f64"}[type(element(typ))]
    return scalar if not isinstance(typ, ir.VectorType) else f"v{typ.count}{scalar}"
