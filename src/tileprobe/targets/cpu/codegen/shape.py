"""The shape of a nest's loops: which axis is the vector, how many lanes, in which order the axes run."""

from __future__ import annotations

from dataclasses import dataclass

from tileprobe.ir.accessors import op_name
from tileprobe.targets.cpu.codegen import effects
from tileprobe.targets.cpu.codegen.body import BodyFacts
from tileprobe.targets.cpu.codegen.types import bytes_of, elem_type, pointee_name
from tileprobe.targets.cpu.dialect import BufferType, NestOp, ReadOp, WriteOp

# Vectors of light bodies hold several registers: that many chains run at once. Heavy ones would spill.
_LIGHT_REGISTERS, _HEAVY_REGISTERS = 4, 2
_HEAVY_BODY = 24


@dataclass(frozen=True)
class LoopShape:
    order: tuple[int, ...]  # axes, the outermost first
    axis: int  # the vector axis
    lanes: int
    turn: int | None = None  # axis along which the result lies in memory, if that is another one


def choose(facts: BodyFacts, nest: NestOp, vector_bytes: int, scalar_only: bool) -> LoopShape:
    dims = nest.dims
    axis = _vector_axis(facts, nest)
    scalar = scalar_only or any(effects.is_scalar_only(op) for op in nest.body.block.ops)
    lanes = 1 if scalar else _lanes(facts, nest, axis, vector_bytes)
    reduced = nest.axis.data if nest.axis is not None else None
    rest = tuple(d for d in range(len(dims)) if d not in (axis, reduced))
    if not scalar and reduced is None:
        turned = _turned(facts, nest, axis, vector_bytes)
        if turned is not None:
            rest = tuple(d for d in rest if d != turned[0])
            return LoopShape((*rest, axis, turned[0]), axis, turned[1], turned[0])
    if reduced is None or reduced == axis:
        return LoopShape((*rest, axis), axis, lanes)
    return LoopShape((*rest, axis, reduced), axis, lanes)


def _vector_axis(facts: BodyFacts, nest: NestOp) -> int:
    """The axis with the most accesses side by side in memory; the last one if there is a tie."""
    dims = nest.dims
    best, best_score = len(dims) - 1, -1.0
    for axis in range(len(dims)):
        if dims[axis] == 1 and len(dims) > 1:
            continue
        score = 0.0
        for op in nest.body.block.ops:
            score += _contiguous(facts, op, axis)
        score *= min(dims[axis], 8) / 8  # too short an axis wastes lanes
        if score > best_score or (score == best_score and dims[axis] > 1):
            best, best_score = axis, score
    return best


def _turned(facts: BodyFacts, nest: NestOp, axis: int, vector_bytes: int) -> tuple[int, int] | None:
    """The axis and width of squares to transpose in registers, for a nest that loads along one axis of a buffer
    and writes along another; None for any other nest."""
    effects_ = facts.effects()
    write = effects_[0] if len(effects_) == 1 else None
    if not isinstance(write, WriteOp) or list(write.indices) != list(nest.body.block.args):
        return None
    kind = write.buffer.type
    assert isinstance(kind, BufferType)
    other = len(kind.dims) - 2 + kind.panel[0] if kind.panel else len(kind.dims) - 1
    size = bytes_of(elem_type(kind.element))
    side = vector_bytes // size
    loads = any(_contiguous(facts, op, axis) for op in nest.body.block.ops if op is not write)
    if (
        other == axis
        or size < 4
        or side < 2
        or not loads
        or facts.remainders(other)
        or facts.unsigned_indices(other)
    ):
        return None
    fits = nest.dims[axis] % side == 0 and nest.dims[other] % side == 0
    fits = fits and (kind.panel is None or kind.panel[1] % side == 0)
    return (other, side) if fits else None


def _contiguous(facts: BodyFacts, op: object, axis: int) -> float:
    if isinstance(op, ReadOp | WriteOp):
        kind = op.buffer.type
        assert isinstance(kind, BufferType)
        last = kind.panel[0] + len(kind.dims) - 2 if kind.panel else len(kind.dims) - 1
        index = op.indices[last] if kind.dims else None
        return 1.0 if index is not None and facts.stride(index, axis) == 1 else 0.0
    name = op_name(op)  # type: ignore[arg-type]
    if name not in ("tt.load", "tt.store"):
        return 0.0
    pointer = op.operands[0]  # type: ignore[attr-defined]
    linear = frozenset([*facts.remainders(axis), *facts.unsigned_indices(axis)])
    return 1.5 if facts.stride(pointer, axis, linear) == bytes_of(pointee_name(pointer.type)) else 0.0


def _lanes(facts: BodyFacts, nest: NestOp, axis: int, vector_bytes: int) -> int:
    widest, weight = 1, 0
    for op in nest.body.block.ops:
        name = op_name(op)
        weight += 8 if name.startswith("math.") or name == "tt.extern_elementwise" else 1
        for value in (*op.operands, *op.results):
            kind = elem_type(value.type) if not isinstance(value.type, BufferType) else ""
            if kind in ("", "ptr", "index", "i1") or not facts.depends(value, axis):
                continue
            size = bytes_of(kind)
            if kind[0] == "i" and facts.stride(value, axis) is not None:
                continue  # an index: never a vector in the common case
            if kind in ("f16", "bf16") or kind.startswith("f8"):
                size = 4  # computed in f32
            widest = max(widest, size)
    registers = _HEAVY_REGISTERS if weight > _HEAVY_BODY else _LIGHT_REGISTERS
    lanes = max(1, vector_bytes // widest) * registers
    lanes = min(lanes, 64)
    extent = nest.dims[axis]
    while lanes > extent or extent % lanes:
        lanes //= 2
    for op in nest.body.block.ops:  # a vector must not run over the end of a panel
        if (
            isinstance(op, ReadOp | WriteOp)
            and isinstance(op.buffer.type, BufferType)
            and op.buffer.type.panel
        ):
            while lanes > 1 and op.buffer.type.panel[1] % lanes:
                lanes //= 2
    return max(1, lanes)
