"""Reading and writing elements of scratch buffers, row-major or in panels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import SSAValue

from tileprobe.targets.cpu.codegen import memory
from tileprobe.targets.cpu.codegen.dot_layout import Panel
from tileprobe.targets.cpu.codegen.types import (
    I64,
    Value,
    bytes_of,
    constant,
    elem_type,
    lanes_of,
    splat,
    vector,
)
from tileprobe.targets.cpu.dialect import BufferType, ReadOp, WriteOp

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.nest import NestEmitter


def emit_read(nest: NestEmitter, op: ReadOp, form: str) -> Value:
    kind = op.buffer.type
    assert isinstance(kind, BufferType)
    name = elem_type(kind.element)
    base = nest.function.buffer_address(op.buffer)
    indices = list(op.indices)
    if form != "all":
        offset = linear(nest.b, kind, [nest.get(i, form) for i in indices])
        return memory.load_scalar(nest.b, _at(nest.b, base, offset, name), name, None, None, base)
    stride = lane_stride(nest, kind, indices)
    if stride is None:
        offsets = linear(nest.b, kind, [nest.get(i) for i in indices])
        return memory.gather(nest.b, _at(nest.b, base, offsets, name), name, None, None)
    first = _at(nest.b, base, linear(nest.b, kind, [nest.get(i, "first") for i in indices]), name)
    if stride == 1:
        return memory.load_vector(nest.b, first, name, nest.lanes, None, None)
    return memory.load_strided(nest.b, first, name, nest.lanes, stride * bytes_of(name))


def emit_write(nest: NestEmitter, op: WriteOp) -> None:
    kind = op.buffer.type
    assert isinstance(kind, BufferType)
    name = elem_type(kind.element)
    base = nest.function.buffer_address(op.buffer)
    indices = list(op.indices)
    value = nest.get(op.value)
    if nest.lanes == 1:
        offset = linear(nest.b, kind, [nest.get(i, "first") for i in indices])
        memory.store_scalar(nest.b, value, _at(nest.b, base, offset, name), name, None, base)
        return
    stride = lane_stride(nest, kind, indices)
    if stride is None:
        offsets = linear(nest.b, kind, [nest.get(i) for i in indices])
        memory.scatter(nest.b, value, _at(nest.b, base, offsets, name), name, None)
        return
    first = _at(nest.b, base, linear(nest.b, kind, [nest.get(i, "first") for i in indices]), name)
    if stride == 1:
        memory.store_vector(nest.b, value, first, name, None)
    else:
        memory.store_strided(nest.b, value, first, name, stride * bytes_of(name))


def store_column(nest: NestEmitter, value: Value, op: WriteOp, point: list[Value]) -> None:
    """Store a vector that lies side by side in the buffer, from `point` on."""
    kind = op.buffer.type
    assert isinstance(kind, BufferType)
    name = elem_type(kind.element)
    base = nest.function.buffer_address(op.buffer)
    memory.store_vector(nest.b, value, _at(nest.b, base, linear(nest.b, kind, point), name), name, None)


def write_result(nest: NestEmitter, value: Value, buffer: SSAValue, axis: int) -> None:
    """Store the result of a reduction along `axis` at the nest's other indices."""
    kind = buffer.type
    assert isinstance(kind, BufferType)
    name = elem_type(kind.element)
    base = nest.function.buffer_address(buffer)
    args: list[SSAValue] = [a for d, a in enumerate(nest.nest.body.block.args) if d != axis]
    first = _at(nest.b, base, linear(nest.b, kind, [nest.get(a, "first") for a in args]), name)
    if lanes_of(value) == 1:
        memory.store_scalar(nest.b, value, first, name, None, base)
        return
    stride = lane_stride(nest, kind, args)
    assert stride is not None
    if stride == 1:
        memory.store_vector(nest.b, value, first, name, None)
    else:
        memory.store_strided(nest.b, value, first, name, stride * bytes_of(name))


def lane_stride(nest: NestEmitter, kind: BufferType, indices: list[SSAValue]) -> int | None:
    """Elements between neighbouring lanes; None if it is no constant."""
    steps = [nest.stride(i) for i in indices]
    if any(step is None for step in steps):
        return None
    scales = _scales(kind)
    if kind.panel is not None:
        axis, width = kind.panel
        along = -2 if axis == 0 else -1
        if steps[along]:
            inside = steps[along] == 1 and not any(s for d, s in enumerate(steps) if d != len(steps) + along)
            return 1 if inside and width % nest.lanes == 0 and _aligned(nest, indices[along]) else None
    return sum(step * scale for step, scale in zip(steps, scales))  # type: ignore[operator]


def _aligned(nest: NestEmitter, index: SSAValue) -> bool:
    """Does a vector start at a multiple of its lanes? The nest's own index does."""
    return index in set(nest.nest.body.block.args)


def _scales(kind: BufferType) -> list[int]:
    """Elements between neighbours along each axis (within a panel)."""
    dims = kind.dims
    if kind.panel is None:
        scales, step = [], 1
        for extent in reversed(dims):
            scales.append(step)
            step *= extent
        return scales[::-1]
    panel = Panel((dims[-2], dims[-1]), *kind.panel)
    inner = [panel.width, 1] if panel.axis == 1 else [1, panel.width]
    scales, step = [], panel.elems
    for extent in reversed(dims[:-2]):
        scales.append(step)
        step *= extent
    return scales[::-1] + inner


def linear(b: ir.IRBuilder, kind: BufferType, indices: list[Value]) -> Value:
    """Element offset (i64) of an element, or of one per lane."""
    lanes = max((lanes_of(i) for i in indices), default=1)
    wide = [_widen(b, i, lanes) for i in indices]
    scales = _scales(kind)
    if kind.panel is None:
        return _sum(b, wide, scales, lanes)
    panel = Panel((kind.dims[-2], kind.dims[-1]), *kind.panel)
    total = _sum(b, wide[:-2], scales[:-2], lanes)
    along, across = wide[-2 + panel.axis], wide[-1 - panel.axis]
    width = constant(I64, panel.width, lanes)
    number, inside = b.udiv(along, width), b.urem(along, width)
    row = b.add(b.mul(number, constant(I64, panel.other, lanes)), across)
    return b.add(total, b.add(b.mul(row, width), inside))


def _sum(b: ir.IRBuilder, indices: list[Value], scales: list[int], lanes: int) -> Value:
    total: Value = constant(I64, 0, lanes)
    for index, scale in zip(indices, scales):
        total = b.add(total, index if scale == 1 else b.mul(index, constant(I64, scale, lanes)))
    return total


def _widen(b: ir.IRBuilder, index: Value, lanes: int) -> Value:
    scalar = index.type.element if isinstance(index.type, ir.VectorType) else index.type
    if scalar.width < 64:
        index = b.zext(index, vector(I64, lanes_of(index)))
    return splat(b, index, lanes) if lanes_of(index) < lanes else index


def _at(b: ir.IRBuilder, base: Value, offset: Value, name: str) -> Value:
    lanes = lanes_of(offset)
    size = bytes_of(name)
    scaled = offset if size == 1 else b.mul(offset, constant(I64, size, lanes))
    return b.add(splat(b, base, lanes), scaled)
