"""Accesses to the user's memory and other effects within a nest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tileprobe.ir.accessors import attr, op_name
from tileprobe.targets.cpu.codegen import memory
from tileprobe.targets.cpu.codegen.types import Value, bytes_of, pointee_name

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.nest import NestEmitter

_SCALAR_ONLY = ("tt.atomic", "tt.print", "tt.assert", "tt.map_elementwise")


def is_effect(op: Operation) -> bool:
    return op_name(op).startswith(("tt.store", *_SCALAR_ONLY))


def is_scalar_only(op: Operation) -> bool:
    """Ops that are done lane by lane."""
    return op_name(op).startswith(_SCALAR_ONLY)


def emit_load(nest: NestEmitter, op: Operation, form: str) -> Value:
    pointer, mask, other = load_operands(op)
    name = pointee_name(pointer.type)
    held = mask is None or mask in nest.true_masks
    if form != "all" or nest.lanes == 1:
        address = nest.function.checked(
            nest.get(pointer, form), op, None if mask is None else nest.get(mask, form)
        )
        return memory.load_scalar(
            nest.b,
            address,
            name,
            None if mask is None or (held and form != "origin") else nest.get(mask, form),
            None if other is None else nest.get(other, form),
            nest.function.dummy,
        )
    stride = nest.stride(pointer)
    size = bytes_of(name)
    if mask is not None and not held and nest.uniform(mask) and stride == size:
        return _load_row(nest, pointer, mask, other, name)
    lanes_mask = None if mask is None or held else nest.get(mask)
    rest = None if other is None or lanes_mask is None else nest.get(other)
    if stride == size:
        return memory.load_vector(nest.b, nest.get(pointer, "first"), name, nest.lanes, lanes_mask, rest)
    if stride is not None and lanes_mask is None:
        return memory.load_strided(nest.b, nest.get(pointer, "first"), name, nest.lanes, stride)
    return memory.gather(nest.b, nest.get(pointer), name, lanes_mask, rest)


def _load_row(
    nest: NestEmitter, pointer: SSAValue, mask: SSAValue, other: SSAValue | None, name: str
) -> Value:
    """A vector whose lanes are all on or all off: one address or a dummy's."""
    b = nest.b
    on = nest.get(mask, "first")
    address = b.select(on, nest.get(pointer, "first"), nest.function.dummy)
    value = memory.load_vector(b, address, name, nest.lanes, None, None)
    rest = nest.get(other) if other is not None else ir.Constant(value.type, None)
    return b.select(on, value, rest)


def load_operands(op: Operation) -> tuple[SSAValue, SSAValue | None, SSAValue | None]:
    rest = [*op.operands[1:], None, None]
    return op.operands[0], rest[0], rest[1]


def emit(nest: NestEmitter, op: Operation) -> None:
    name = op_name(op)
    if name == "tt.store":
        _emit_store(nest, op)
        return
    args = [nest.get(v, "first") for v in op.operands]
    results = nest.function.effect(op, args)
    for old, new in zip(op.results, results):
        nest.define(old, new)


def streams(op: Operation) -> bool:
    """Whether what is stored is not wanted again (`cache_modifier=".cs"`): it then goes past the caches."""
    return op_name(op) == "tt.store" and "cache_modifier = cs" in str(attr(op, "cachePolicy") or "")


def _emit_store(nest: NestEmitter, op: Operation) -> None:
    pointer, value = op.operands[:2]
    mask = op.operands[2] if len(op.operands) > 2 else None
    name = pointee_name(pointer.type)
    held = mask is None or mask in nest.true_masks
    b = nest.b
    if nest.lanes == 1:
        condition = None if mask is None else nest.get(mask, "first")
        address = nest.function.checked(nest.get(pointer, "first"), op, condition)
        memory.store_scalar(
            b, nest.get(value), address, name, None if held else condition, nest.function.dummy
        )
        return
    stride = nest.stride(pointer)
    if mask is not None and not held and nest.uniform(mask) and stride == bytes_of(name):
        address = b.select(nest.get(mask, "first"), nest.get(pointer, "first"), nest.function.dummy)
        memory.store_vector(b, nest.get(value), address, name, None)
        return
    lanes_mask = None if held or mask is None else nest.get(mask)
    if stride == bytes_of(name) and streams(op):
        memory.stream_vector(b, nest.get(value), nest.get(pointer, "first"), name, lanes_mask)
    elif stride == bytes_of(name):
        memory.store_vector(b, nest.get(value), nest.get(pointer, "first"), name, lanes_mask)
    elif stride is not None and stride != 0 and lanes_mask is None:
        memory.store_strided(b, nest.get(value), nest.get(pointer, "first"), name, stride)
    else:
        memory.scatter(b, nest.get(value), nest.get(pointer), name, lanes_mask)
