"""Atomic operations on one element, really atomic across programs and cores."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tileprobe.targets.cpu.codegen.elementwise import _INT_BINARY, float_op
from tileprobe.targets.cpu.codegen.memory import pointer
from tileprobe.targets.cpu.codegen.types import Value, bytes_of, is_float, register_type

# RMWOp of the tt dialect
_OPS = dict(enumerate(["and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "xchg"], 1))
_INTS = {"add": "addi", "max": "maxsi", "min": "minsi", "umax": "maxui", "umin": "minui"}
_ORDER = {1: "monotonic", 2: "acquire", 3: "release", 4: "acq_rel"}


def read_modify_write(
    b: ir.IRBuilder, code: int, address: Value, value: Value, name: str, order: int
) -> Value:
    """The old value at `address`, which becomes its combination with `value`."""
    kind = _OPS[code]
    ordering = _ORDER.get(order, "acq_rel")
    if not is_float(name) and bytes_of(name) >= 1 and name != "i1":
        return b.atomic_rmw(kind, pointer(b, address), value, ordering)
    if kind == "xchg":
        bits = b.bitcast(value, ir.IntType(8 * bytes_of(name)))
        old = b.atomic_rmw("xchg", pointer(b, address), bits, ordering)
        return b.bitcast(old, register_type(name))

    def combine(old: Value) -> Value:
        if not is_float(name):
            return _INT_BINARY[_INTS.get(kind, f"{kind}i")](b, old, value)
        if kind == "fadd":
            return float_op(b, "addf", [old, value], name)
        return float_op(b, "maxnumf" if kind in ("max", "umax") else "minnumf", [old, value], name)

    return _retry(b, address, name, combine)


def _retry(b: ir.IRBuilder, address: Value, name: str, combine: Callable[[Value], Value]) -> Value:
    """Compare and swap until nobody came between."""
    bits = ir.IntType(8 * bytes_of(name))
    place = pointer(b, address)
    start = b.load(place, align=bytes_of(name), typ=bits)
    before = b.block
    loop, done = b.append_basic_block("retry"), b.append_basic_block("swapped")
    b.branch(loop)
    b.position_at_end(loop)
    old = b.phi(bits)
    old.add_incoming(start, before)
    new = combine(b.bitcast(old, register_type(name)))
    pair = b.cmpxchg(place, old, b.bitcast(new, bits), "acq_rel", "monotonic")
    old.add_incoming(b.extract_value(pair, 0), b.block)
    b.cbranch(b.extract_value(pair, 1), done, loop)
    b.position_at_end(done)
    return b.bitcast(old, register_type(name))


def compare_and_swap(b: ir.IRBuilder, address: Value, expected: Value, value: Value, name: str) -> Value:
    bits = ir.IntType(8 * bytes_of(name))
    want, put = (b.bitcast(v, bits) for v in (expected, value))
    pair = b.cmpxchg(pointer(b, address), want, put, "acq_rel", "acquire")
    return b.bitcast(b.extract_value(pair, 0), register_type(name))
