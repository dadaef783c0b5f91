"""Matrix products: the forms in which operands are kept, accumulation in place, and scaled products.

`operand_forms` is asked before the walk, so that an operand is written in the form the product reads, by the
stage that computes it.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tileprobe.targets.cpu.codegen.dot_layout import Panel
from tileprobe.targets.cpu.codegen.dot_plan import DotPlan, plan
from tileprobe.targets.cpu.dialect import BufferType, DotOp
from tileprobe.targets.cpu.host import host
from tileprobe.targets.cpu.schedule.analysis import Form
from tileprobe.targets.cpu.schedule.convert import convert
from tileprobe.targets.cpu.schedule.lower import FunctionLowering, handler
from tileprobe.targets.cpu.schedule.nest import NestBuilder, same_memory
from tileprobe.targets.cpu.schedule.origin import properties_of
from tileprobe.targets.cpu.schedule.scaled import lower_scaled_operand
from tileprobe.targets.cpu.schedule.ttir import (
    attr_value,
    constant_of,
    element_of,
    is_virtual,
    op_name,
    operand_groups,
    owner_op,
    parse_type,
    shape_of,
)


def registers() -> int:
    """Vector registers of the host."""
    machine = host()
    return 32 if machine.vector_bytes == 64 or machine.arch == "aarch64" else 16


def plan_for(m: int, n: int, k: int, a: str, b: str, acc: str) -> DotPlan:
    return plan(m, n, k, a, b, acc, host().vector_bytes, registers(), grouped_products())


def grouped_products() -> frozenset[str]:
    """The types of which the host adds up several products in one instruction."""
    features = {"bf16": "avx512bf16", "i8": "avx512vnni"}
    return frozenset(
        kind for kind, feature in features.items() if host().has(feature) and host().has("avx512vl")
    )


def dot_plan(op: Operation) -> DotPlan:
    """The plan of a `tt.dot`; of one matrix of the batch if it has one."""
    a, b, c = op.operands[:3]
    (m, k), n = shape_of(a)[-2:], shape_of(b)[-1]
    return plan_for(m, n, k, *(str(element_of(v.type)) for v in (a, b, c)))


def layout_name(panel: Panel) -> str:
    if panel.axis == 1 and panel.width >= panel.shape[1]:
        return "row"
    return f"p{panel.axis}x{panel.width}"


def operand_forms(function: Operation) -> dict[SSAValue, list[Form]]:
    """The forms in which the products of a function want their operands, for operands that are computed tiles."""
    found: dict[SSAValue, list[Form]] = {}
    for op in function.walk():
        if op_name(op) != "tt.dot":
            continue
        chosen = dot_plan(op)
        for value, panel in zip(op.operands, (chosen.a_layout, chosen.b_layout)):
            owner = owner_op(value)
            if owner is None or not is_virtual(op_name(owner)):
                continue
            form = Form(parse_type(chosen.compute), layout_name(panel))
            forms = found.setdefault(value, [])
            if form not in forms:
                forms.append(form)
    return found


@handler("tt.dot")
def lower_dot(low: FunctionLowering, op: Operation) -> None:
    chosen = dot_plan(op)
    a = _operand(low, op.operands[0], Form(parse_type(chosen.compute), layout_name(chosen.a_layout)))
    b = _operand(low, op.operands[1], Form(parse_type(chosen.compute), layout_name(chosen.b_layout)))
    emit_dot(low, op, chosen, a, b, op.operands[2])


def emit_dot(
    low: FunctionLowering, op: Operation, chosen: DotPlan, a: SSAValue, b: SSAValue, acc: SSAValue
) -> None:
    """`result = a * b + acc`, in the accumulator's own buffer when nobody needs its old value."""
    result = op.results[0]
    own, wide = element_of(result.type), parse_type(chosen.acc)
    zero = _is_zero(acc)
    place = _accumulator(low, op, acc, wide, zero, (a, b))
    low.close()
    stage = DotOp.build(operands=[a, b, place], properties={"zero": IntAttr(int(zero)), **properties_of(op)})
    stage.location = op.location
    low.emit(stage)
    low.notes.stages[stage] = [op.operands[0], op.operands[1], acc, result]
    if own == wide:
        low.buffers[result] = place
        return
    narrow = low.alloc(shape_of(result), own)
    nest = low.nest(shape_of(result))
    nest.write(convert(nest, nest.read(place, nest.identity, of=result), own), narrow, of=result)
    nest.origin.add(op)
    low.buffers[result] = narrow
    nest.written[result] = narrow


def _operand(low: FunctionLowering, value: SSAValue, form: Form) -> SSAValue:
    kept = low.packed.get((value, form))
    if kept is not None:
        return kept
    own = low.buffers.get(value)
    if own is not None and isinstance(own.type, BufferType):
        if Form(own.type.element, own.type.layout.data) == form:
            return own
    place = low.alloc(shape_of(value), form.element, form.layout)

    def work(nest: NestBuilder) -> None:
        nest.value(value)

    nest = low.into_nest(shape_of(value), work)
    nest.write(convert(nest, nest.value(value), form.element), place, of=value)
    low.packed[(value, form)] = place
    return place


def _is_zero(acc: SSAValue) -> bool:
    op = owner_op(acc)
    if op is None or op_name(op) != "arith.constant":
        return False
    held = constant_of(op)
    return held.splat and held.bits == 0


def _accumulator(
    low: FunctionLowering,
    op: Operation,
    acc: SSAValue,
    wide: Attribute,
    zero: bool,
    factors: tuple[SSAValue, SSAValue],
) -> SSAValue:
    """The buffer a product adds to, holding `acc` unless that is zero. Never one that a factor lies in."""
    result = op.results[0]

    def usable(place: SSAValue) -> bool:
        return _same_type(place, wide) and not any(same_memory(place, factor) for factor in factors)

    target = low.preferred.get(result)
    if target is not None and not (usable(target) and low.free(target, op)):
        target = None
    if zero:
        return target if target is not None else low.alloc(shape_of(acc), wide)
    own = low.buffers.get(acc)
    if own is not None and usable(own) and low.free(own, op) and _made_here(low, acc, op):
        return own

    def work(nest: NestBuilder) -> None:
        nest.value(acc)

    nest = low.into_nest(shape_of(acc), work)
    element = convert(nest, nest.value(acc), wide)
    if target is None or nest.reads_elsewhere(target):
        target = low.alloc(shape_of(acc), wide)
    nest.write(element, target, of=acc)
    return target


def _same_type(buffer: SSAValue, kind: Attribute) -> bool:
    return isinstance(buffer.type, BufferType) and buffer.type.element == kind


def _made_here(low: FunctionLowering, value: SSAValue, op: Operation) -> bool:
    """Is the tile `value` there for `op` alone: made anew each time `op` runs, and not the caller's?"""
    owner = value.owner
    block = owner if not isinstance(owner, Operation) else owner.parent
    return block is op.parent and owner is not low.function.regions[0].blocks[0]


@handler("tt.dot_scaled")
def lower_dot_scaled(low: FunctionLowering, op: Operation) -> None:
    (a,), (b,), (c,), a_scales, b_scales = operand_groups(op)
    a_scale, b_scale = (group[0] if group else None for group in (a_scales, b_scales))
    result = op.results[0]
    (m, n) = shape_of(result)[-2:]
    lhs_pack, rhs_pack = bool(attr_value(op, "lhs_k_pack", True)), bool(attr_value(op, "rhs_k_pack", True))
    k = shape_of(a)[-1] * (2 if attr_value(op, "a_elem_type") == 4 and lhs_pack else 1)
    chosen = plan_for(m, n, k, "f32", "f32", str(element_of(c.type)))
    batch = shape_of(result)[:-2]
    left = lower_scaled_operand(
        low,
        op,
        a,
        a_scale,
        int(attr_value(op, "a_elem_type")),
        (*batch, m, k),
        True,
        lhs_pack,
        layout_name(chosen.a_layout),
    )
    right = lower_scaled_operand(
        low,
        op,
        b,
        b_scale,
        int(attr_value(op, "b_elem_type")),
        (*batch, k, n),
        False,
        rhs_pack,
        layout_name(chosen.b_layout),
    )
    emit_dot(low, op, chosen, left, right, c)
