"""Atomics, prints, assertions and bounds checks on scalars, in nests and outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from xdsl.ir import Operation

from tileprobe.ir.accessors import attr_value, int_attr, op_name
from tileprobe.targets.cpu.codegen import atomics, memory, printing
from tileprobe.targets.cpu.codegen.types import (
    I1,
    I32,
    I64,
    PTR,
    Kind,
    Value,
    bytes_of,
    elem_type,
    pointee_name,
    register_type,
)

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.function import FunctionEmitter

CLOCK_MONOTONIC = 1  # of Linux, on every architecture
_NAMES = (
    "tt.atomic_rmw",
    "tt.atomic_cas",
    "tt.atomic_load",
    "tt.atomic_store",
    "tt.atomic_poll",
    "tt.print",
    "tt.assert",
    "tt.map_elementwise",
)


def handles(name: str) -> bool:
    return name in _NAMES


def emit(f: FunctionEmitter, op: Operation, args: list[Value]) -> list[Value]:
    """Emit an op with effects; returns its results."""
    return _EMITTERS[op_name(op)](f, op, args)


def _guarded(f: FunctionEmitter, mask: Value | None, kind: Kind, work: object) -> Value:
    """`work()` where the mask is set, zero where it is not."""
    b = f.builder
    if mask is None:
        return work()  # type: ignore[operator]
    before = b.block
    inside, after = f.function.append_basic_block("masked"), f.function.append_basic_block("unmasked")
    b.cbranch(mask, inside, after)
    b.position_at_end(inside)
    value = work()  # type: ignore[operator]
    came_from = b.block
    b.branch(after)
    b.position_at_end(after)
    phi = b.phi(kind)
    phi.add_incoming(ir.Constant(kind, None), before)
    phi.add_incoming(value, came_from)
    return phi


def _rmw(f: FunctionEmitter, op: Operation, args: list[Value]) -> list[Value]:
    name = pointee_name(op.operands[0].type)
    mask = args[2] if len(args) > 2 else None
    address = f.checked(args[0], op, mask)
    code, order = int_attr(op, "atomic_rmw_op"), int_attr(op, "sem", 4)

    def work() -> Value:
        return atomics.read_modify_write(f.builder, code, address, args[1], name, order)

    return [_guarded(f, mask, register_type(name), work)]


def _cas(f: FunctionEmitter, op: Operation, args: list[Value]) -> list[Value]:
    name = pointee_name(op.operands[0].type)
    mask = args[3] if len(args) > 3 else None
    address = f.checked(args[0], op, mask)

    def work() -> Value:
        return atomics.compare_and_swap(f.builder, address, args[1], args[2], name)

    return [_guarded(f, mask, register_type(name), work)]


def _load(f: FunctionEmitter, op: Operation, args: list[Value]) -> list[Value]:
    name = pointee_name(op.operands[0].type)
    mask = args[1] if len(args) > 1 else None
    address = f.checked(args[0], op, mask)

    def work() -> Value:
        bits = ir.IntType(8 * bytes_of(name))
        place = memory.pointer(f.builder, address)
        loaded = f.builder.load_atomic(place, "acquire", bytes_of(name), typ=bits)
        return memory.to_register(f.builder, loaded, name)

    value = _guarded(f, mask, register_type(name), work)
    if mask is not None and len(args) > 2:
        value = f.builder.select(mask, value, args[2])
    return [value]


def _store(f: FunctionEmitter, op: Operation, args: list[Value]) -> list[Value]:
    name = pointee_name(op.operands[0].type)
    mask = args[2] if len(args) > 2 else None
    address = f.checked(args[0], op, mask)

    def work() -> Value:
        bits = f.builder.bitcast(memory.to_memory(f.builder, args[1], name), ir.IntType(8 * bytes_of(name)))
        f.builder.atomic_rmw("xchg", memory.pointer(f.builder, address), bits, "acq_rel")
        return ir.Constant(I1, 0)

    _guarded(f, mask, I1, work)
    return []


def _poll(f: FunctionEmitter, op: Operation, args: list[Value]) -> list[Value]:
    """Wait until memory holds the expected value, or until the time is up; was it seen?"""
    b = f.builder
    name = pointee_name(op.operands[0].type)
    bits = ir.IntType(8 * bytes_of(name))
    place = memory.pointer(b, f.checked(args[0], op, None))
    expected = b.bitcast(args[1], bits)
    start = _nanoseconds(f) if len(args) > 2 else None
    loop, wait, done = (f.function.append_basic_block(n) for n in ("poll", "wait", "polled"))
    b.branch(loop)
    b.position_at_end(loop)
    seen = b.icmp_signed("==", b.load_atomic(place, "acquire", bytes_of(name), typ=bits), expected)
    b.cbranch(seen, done, wait)
    b.position_at_end(wait)
    if start is None:
        # The program waited for may need this core.
        b.call(_libc(f, "sched_yield", []), [])
        b.branch(loop)
    else:
        b.cbranch(b.icmp_unsigned("<", b.sub(_nanoseconds(f), start), args[2]), loop, done)
    b.position_at_end(done)
    return [seen]


def _libc(f: FunctionEmitter, name: str, arguments: list[ir.Type]) -> Value:
    """A function of the C library that returns an int."""
    module = f.module.llvm
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(I32, arguments), name)


def _nanoseconds(f: FunctionEmitter) -> Value:
    """The monotonic clock."""
    b = f.builder
    with b.goto_entry_block():
        slot = b.alloca(ir.ArrayType(I64, 2))
    b.call(_libc(f, "clock_gettime", [I32, PTR]), [ir.Constant(I32, CLOCK_MONOTONIC), slot])
    seconds = b.load(slot, typ=I64)
    part = b.load(b.gep(slot, [ir.Constant(I64, 1)], source_etype=I64), typ=I64)
    return b.add(b.mul(seconds, ir.Constant(I64, 1_000_000_000)), part)


def _print(f: FunctionEmitter, op: Operation, args: list[Value]) -> list[Value]:
    f.module.prints = True
    printing.emit(f, op, args)
    return []


def _assert(f: FunctionEmitter, op: Operation, args: list[Value]) -> list[Value]:
    b = f.builder
    site = f.module.site("assert", op, str(attr_value(op, "message", "")))
    bad, good = f.function.append_basic_block("assert"), f.function.append_basic_block("holds")
    b.cbranch(args[0], good, bad)
    b.position_at_end(bad)
    f.module.record_failure(f, site, args[1:])
    b.branch(f.fail_block())
    b.position_at_end(good)
    return []


def _map(f: FunctionEmitter, op: Operation, args: list[Value]) -> list[Value]:
    """Emit a scalar function inline; it may have control flow of its own."""
    region = op.regions[0]
    b = f.builder
    blocks = list(region.blocks)
    after = f.function.append_basic_block("mapped")
    f.values.update(zip(blocks[0].args, args))
    for block in blocks[1:]:
        f.blocks[block] = f.function.append_basic_block("map")
    saved = b.block
    for block in blocks[1:]:
        b.position_at_end(f.blocks[block])
        for arg in block.args:
            f.values[arg] = b.phi(register_type(elem_type(arg.type)))
    b.position_at_end(saved)
    exits: list[tuple[Any, list[Value]]] = []
    for number, block in enumerate(blocks):
        if number:
            b.position_at_end(f.blocks[block])
        for inner in block.ops:
            if op_name(inner) == "tt.map_elementwise.return":
                exits.append((b.block, [f.value(v) for v in inner.operands]))
                b.branch(after)
            else:
                f.emit_op(inner)
    b.position_at_end(after)
    results = []
    for number, result in enumerate(op.results):
        phi = b.phi(register_type(elem_type(result.type)))
        for block, values in exits:
            phi.add_incoming(values[number], block)
        results.append(phi)
    return results


def checked_address(f: FunctionEmitter, address: Value, op: Operation, mask: Value | None) -> Value:
    """`address`, or a dummy's if the access is outside every known tensor; the first such access is recorded."""
    b = f.builder
    access = {"tt.load": "load", "tt.store": "store"}.get(op_name(op), "atomic")
    site = f.module.site("bounds", op, "", access=access)
    size = bytes_of(pointee_name(op.operands[0].type))
    active = mask if mask is not None else ir.Constant(I1, 1)
    program = f.module.linear_program(f)
    function = f.module.bounds_function()
    return b.call(
        function,
        [f.launch, address, ir.Constant(I64, size), ir.Constant(I32, site), program, active, f.dummy],
    )


_EMITTERS = {
    "tt.atomic_rmw": _rmw,
    "tt.atomic_cas": _cas,
    "tt.atomic_load": _load,
    "tt.atomic_store": _store,
    "tt.atomic_poll": _poll,
    "tt.print": _print,
    "tt.assert": _assert,
    "tt.map_elementwise": _map,
}
