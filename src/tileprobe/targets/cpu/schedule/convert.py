"""Conversions a schedule adds on its own: an operand of a product widened to the type it is computed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import Float32Type, Float64Type, FloatAttr, IntegerType
from xdsl.ir import Attribute, SSAValue

from tileprobe.targets.cpu.schedule.ttir import make

if TYPE_CHECKING:
    from tileprobe.targets.cpu.schedule.nest import NestBuilder

F32, F64 = Float32Type(), Float64Type()


def convert(nest: NestBuilder, value: SSAValue, kind: Attribute) -> SSAValue:
    """`value` as `kind`, by the op Triton itself would use."""
    if value.type == kind:
        return value
    have_int, want_int = isinstance(value.type, IntegerType), isinstance(kind, IntegerType)
    if have_int and want_int:
        wider = kind.width.data > value.type.width.data  # pyright: ignore[reportAttributeAccessIssue]
        name = "arith.extsi" if wider else "arith.trunci"
    elif have_int:
        name = "arith.sitofp"
    elif want_int:
        name = "arith.fptosi"
    else:
        name = "tt.fp_to_fp"
    return nest.emit(make(name, [value], [kind]))


def zero(nest: NestBuilder, kind: Attribute) -> SSAValue:
    from tileprobe.targets.cpu.schedule.ttir import constant

    if isinstance(kind, IntegerType):
        return nest.emit(constant(0, kind))
    return nest.emit(make("arith.constant", [], [kind], {"value": FloatAttr(0.0, kind)}))  # type: ignore[arg-type]
