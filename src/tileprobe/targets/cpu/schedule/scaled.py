"""Operands of scaled products (microscaling formats): each element times the scale of its group along K."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import Float32Type, FloatAttr, IntegerType
from xdsl.ir import Operation, SSAValue

from tileprobe.targets.cpu.schedule.convert import convert
from tileprobe.targets.cpu.schedule.lower import FunctionLowering
from tileprobe.targets.cpu.schedule.nest import Index, Indices, NestBuilder, compare, select
from tileprobe.targets.cpu.schedule.ttir import I32, constant, element_of, make, parse_type, shape_of

F32 = Float32Type()
E4M3, E5M2, E2M1 = 0, 1, 4  # ScaleDotElemType


def lower_scaled_operand(
    low: FunctionLowering,
    op: Operation,
    value: SSAValue,
    scale: SSAValue | None,
    kind: int,
    shape: tuple[int, ...],
    left: bool,
    k_packed: bool,
    layout: str,
) -> SSAValue:
    """A buffer with the operand unpacked, widened to f32 and scaled. `left`: K is the last axis, else the first."""
    k_axis = len(shape) - 1 if left else len(shape) - 2
    packed_axis = k_axis if k_packed else (2 * len(shape) - 3 - k_axis)
    place = low.alloc(shape, F32, layout)
    sources = [low.dense(v) for v in (value, scale) if v is not None]
    low.close()
    nest = low.nest(shape)
    point = nest.identity
    element = _element(nest, value, sources[0], kind, point, packed_axis)
    if scale is not None:
        element = _scaled(nest, element, scale, sources[1], shape, k_axis)
    nest.origin.add(op)
    nest.write(element, place, of=value)
    low.close()
    return place


def _element(
    nest: NestBuilder, value: SSAValue, buffer: SSAValue, kind: int, point: Indices, packed_axis: int
) -> SSAValue:
    if kind != E2M1:
        element = nest.read(buffer, point, of=value)
        if isinstance(element.type, IntegerType):
            name = {E4M3: "f8E4M3FN", E5M2: "f8E5M2"}[kind]
            element = nest.emit(make("tt.bitcast", [element], [parse_type(name)]))
        return convert(nest, element, F32)
    where = list(point)
    where[packed_axis] = nest.binary("divui", point[packed_axis], 2)
    byte = nest.emit(make("arith.extui", [nest.read(buffer, tuple(where), of=value)], [I32]))
    shift = nest.binary("muli", nest.binary("remui", point[packed_axis], 2), 4)
    return _from_e2m1(nest, nest.emit(make("arith.shrui", [byte, nest.index(shift)], [I32])))


def _from_e2m1(nest: NestBuilder, bits: SSAValue) -> SSAValue:
    """The float of a 4-bit number: sign, two exponent bits, one mantissa bit."""

    def op(name: str, a: SSAValue, b: int) -> SSAValue:
        return nest.emit(make(f"arith.{name}", [a, nest.emit(constant(b))], [I32]))

    magnitude = op("andi", bits, 7)
    normal = op("addi", op("shli", magnitude, 22), 126 << 23)
    tiny = op("muli", magnitude, 126 << 23)  # 0 or 0.5
    chosen = select(nest, compare(nest, "ult", magnitude, 2), tiny, normal)
    sign = op("shli", op("andi", bits, 8), 28)
    both = nest.emit(make("arith.ori", [chosen, sign], [I32]))
    return nest.emit(make("tt.bitcast", [both], [F32]))


def _scaled(
    nest: NestBuilder,
    element: SSAValue,
    scale: SSAValue,
    buffer: SSAValue,
    shape: tuple[int, ...],
    k_axis: int,
) -> SSAValue:
    group = shape[k_axis] // shape_of(scale)[-1]
    other = 2 * len(shape) - 3 - k_axis
    where: list[Index] = list(nest.identity[:-2])
    where += [nest.identity[other], nest.binary("divui", nest.identity[k_axis], group)]
    factor = nest.read(buffer, tuple(where), of=scale)
    if not isinstance(element_of(scale.type), IntegerType):
        return nest.emit(make("arith.mulf", [element, convert(nest, factor, F32)], [F32]))
    # E8M0: a bare exponent; 255 is NaN
    exponent = nest.emit(make("arith.extui", [factor], [I32]))
    bits = nest.emit(make("arith.shli", [exponent, nest.emit(constant(23))], [I32]))
    power = nest.emit(make("tt.bitcast", [bits], [F32]))
    nan = nest.emit(make("arith.constant", [], [F32], {"value": FloatAttr(math.nan, F32)}))
    power = select(nest, compare(nest, "eq", exponent, 255), nan, power)
    return nest.emit(make("arith.mulf", [element, power], [F32]))
