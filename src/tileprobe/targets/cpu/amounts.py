"""What a stage of the scheduled IR computes and moves, counted from the sizes of its tiles."""

from __future__ import annotations

import math
from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region

from tileprobe.ir.accessors import elem_type, op_name
from tileprobe.ir.amounts import Amount
from tileprobe.targets.cpu.codegen.body import BodyFacts
from tileprobe.targets.cpu.codegen.types import bytes_of, is_float, pointee_name
from tileprobe.targets.cpu.costs import extent, points
from tileprobe.targets.cpu.dialect import BufferType, DotOp, NestOp, ReduceOp, ScanOp, YieldOp

_MEMORY = {"tt.load": 1, "tt.store": 1, "tt.atomic_rmw": 2, "tt.atomic_cas": 2}  # how often it goes to memory
_TWO = ("math.fma",)
# Floats come out of them, and nothing is computed.
_NONE = frozenset(["arith.constant", "arith.select", "tile.read", "tt.load", "tt.bitcast", "arith.bitcast"])
_CONVERSIONS = ("tt.fp_to_fp", "arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp")


def amount(op: Operation) -> Amount | None:
    """Of one execution; None where that depends on what is not in the IR, as with a call."""
    if isinstance(op, DotOp):
        a, c = op.a.type, op.c.type
        assert isinstance(a, BufferType)
        assert isinstance(c, BufferType)
        return Amount(flops=2.0 * math.prod(c.dims) * a.dims[-1])
    if isinstance(op, NestOp):
        return _nest(op)
    if isinstance(op, ReduceOp | ScanOp):
        sizes = [math.prod(v.type.dims) for v in op.operands if isinstance(v.type, BufferType)]
        return Amount(flops=float(max(sizes, default=1) * _computing(op.regions)))
    if op_name(op) in ("tt.call", "tt.elementwise_inline_asm"):
        return None
    if op_name(op) in _MEMORY:  # of a single element
        return Amount(bytes=float(_MEMORY[op_name(op)] * bytes_of(pointee_name(op.operands[0].type))))
    return Amount()


def _nest(nest: NestOp) -> Amount | None:
    """What does not vary along an axis of the nest is computed, and asked for, once for it."""
    facts = BodyFacts(nest)
    found = Amount()
    for op in nest.body.block.ops:
        if isinstance(op, YieldOp):
            combined = [
                extent(nest, facts.varies.get(value, 0)) for value in op.values if _floats(value.type)
            ]
            found += Amount(flops=sum(combined))
            continue
        name = op_name(op)
        if name == "tt.elementwise_inline_asm":
            return None
        if name in _MEMORY:
            times = points(nest, facts, op)
            found += Amount(bytes=times * _MEMORY[name] * bytes_of(pointee_name(op.operands[0].type)))
        else:
            found += Amount(flops=flops_of(nest, facts, op))
    return found


def flops_of(nest: NestOp, facts: BodyFacts, op: Operation) -> float:
    """Of an operation of a nest that is no access and no end of it."""
    return points(nest, facts, op) * (_computing(op.regions) if op.regions else _flops(op))


def _computing(regions: Iterable[Region]) -> int:
    """Floating-point operations in a combine function."""
    return sum(_flops(op) for region in regions for op in region.walk() if not isinstance(op, ModuleOp))


def _flops(op: Operation) -> int:
    name = op_name(op)
    if name in _NONE or name in _CONVERSIONS or not op.results:
        return 0
    if not any(_floats(value.type) for value in (*op.results, *op.operands)):
        return 0
    return 2 if name in _TWO else 1


def _floats(kind: object) -> bool:
    return is_float(elem_type(kind))  # type: ignore[arg-type]
