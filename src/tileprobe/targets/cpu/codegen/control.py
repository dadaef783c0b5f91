"""Structured and unstructured control flow, calls and returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tileprobe.ir.accessors import attr_value, bool_attr
from tileprobe.targets.cpu.codegen.types import I32, I64, Value, elem_type, register_type

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.function import FunctionEmitter


def _for(f: FunctionEmitter, op: Operation) -> None:
    b = f.builder
    body = op.regions[0].block
    start, stop, step = (f.value(v) for v in op.operands[:3])
    inits = [f.value(v) for v in op.operands[3:]]
    head, inside, after = (f.function.append_basic_block(n) for n in ("for", "for.body", "for.end"))
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    index = b.phi(start.type)
    index.add_incoming(start, before)
    carried = [b.phi(v.type) for v in inits]
    for phi, init in zip(carried, inits):
        phi.add_incoming(init, before)
    compare = b.icmp_unsigned if bool_attr(op, "unsignedCmp") else b.icmp_signed
    b.cbranch(compare("<", index, stop), inside, after)
    b.position_at_end(inside)
    f.values.update(zip(body.args, [index, *carried]))
    f.emit_block(body)
    last = body.last_op
    assert last is not None
    for phi, value in zip(carried, last.operands):
        phi.add_incoming(f.value(value), b.block)
    index.add_incoming(b.add(index, step), b.block)
    b.branch(head)
    b.position_at_end(after)
    f.values.update(zip(op.results, carried))


def _if(f: FunctionEmitter, op: Operation) -> None:
    b = f.builder
    after = f.function.append_basic_block("if.end")
    arms = [f.function.append_basic_block("if") for _ in range(2)]
    b.cbranch(f.value(op.operands[0]), arms[0], arms[1])
    incoming: list[tuple[Any, list[Value]]] = []
    for arm, region in zip(arms, op.regions):
        b.position_at_end(arm)
        values: list[Value] = []
        if region.blocks:
            f.emit_block(region.block)
            last = region.block.last_op
            values = [f.value(v) for v in last.operands] if last is not None else []
        incoming.append((b.block, values))
        b.branch(after)
    if len(op.regions) < 2:
        b.position_at_end(arms[1])
        b.branch(after)
    b.position_at_end(after)
    for number, result in enumerate(op.results):
        phi = b.phi(register_type(elem_type(result.type)))
        for block, values in incoming:
            phi.add_incoming(values[number], block)
        f.values[result] = phi


def _while(f: FunctionEmitter, op: Operation) -> None:
    b = f.builder
    before, after = op.regions[0].block, op.regions[1].block
    head, inside, done = (f.function.append_basic_block(n) for n in ("while", "while.body", "while.end"))
    came_from = b.block
    inits = [f.value(v) for v in op.operands]
    b.branch(head)
    b.position_at_end(head)
    carried = [b.phi(v.type) for v in inits]
    for phi, init in zip(carried, inits):
        phi.add_incoming(init, came_from)
    f.values.update(zip(before.args, carried))
    f.emit_block(before)
    condition = before.last_op
    assert condition is not None
    passed = [f.value(v) for v in condition.operands[1:]]
    b.cbranch(f.value(condition.operands[0]), inside, done)
    f.values.update(zip(after.args, passed))
    f.values.update(zip(op.results, passed))
    b.position_at_end(inside)
    f.emit_block(after)
    last = after.last_op
    assert last is not None
    for phi, value in zip(carried, last.operands):
        phi.add_incoming(f.value(value), b.block)
    b.branch(head)
    b.position_at_end(done)


def _nothing(f: FunctionEmitter, op: Operation) -> None:
    """Terminators of structured regions are read by the op around them."""


def _jump(f: FunctionEmitter, source: Any, target: object, values: list[SSAValue]) -> None:
    for arg, value in zip(target.args, values):  # type: ignore[attr-defined]
        f.values[arg].add_incoming(f.value(value), source)  # type: ignore[attr-defined]


def _br(f: FunctionEmitter, op: Operation) -> None:
    target = op.successors[0]
    _jump(f, f.builder.block, target, list(op.operands))
    f.builder.branch(f.blocks[target])


def _cond_br(f: FunctionEmitter, op: Operation) -> None:
    first, second = op.successors
    values = list(op.operands[1:])
    count = len(first.args)
    if first is second:  # a block may come from another one only once: the values are chosen before the jump
        condition = f.value(op.operands[0])
        for arg, yes, no in zip(first.args, values[:count], values[count:]):
            chosen = f.builder.select(condition, f.value(yes), f.value(no))
            f.values[arg].add_incoming(chosen, f.builder.block)  # type: ignore[attr-defined]
        f.builder.branch(f.blocks[first])
        return
    _jump(f, f.builder.block, first, values[:count])
    _jump(f, f.builder.block, second, values[count:])
    f.builder.cbranch(f.value(op.operands[0]), f.blocks[first], f.blocks[second])


def _return(f: FunctionEmitter, op: Operation) -> None:
    kind = f.function.function_type.return_type
    if isinstance(kind, ir.IntType):
        f.builder.ret(ir.Constant(I32, 0))
        return
    result: Value = ir.Constant(kind, None)
    for number, value in enumerate(op.operands):
        result = f.builder.insert_value(result, f.value(value), number + 1)
    f.builder.ret(result)


def _call(f: FunctionEmitter, op: Operation) -> None:
    """Call another function of the module; its scratch begins behind ours."""
    b = f.builder
    callee = f.module.functions[str(attr_value(op, "callee"))]
    own = f.module.scratch_of(f.op)
    scratch = b.inttoptr(b.add(f.base, ir.Constant(I64, own)), f.scratch.type)
    args = [f.value(v) for v in op.operands]
    outcome = b.call(callee, [f.launch, scratch, *f.program, *args])
    status = outcome if isinstance(outcome.type, ir.IntType) else b.extract_value(outcome, 0)
    good = f.function.append_basic_block("called")
    b.cbranch(b.icmp_signed("==", status, ir.Constant(I32, 0)), good, f.fail_block())
    b.position_at_end(good)
    for number, result in enumerate(op.results):
        f.values[result] = b.extract_value(outcome, number + 1)


EMITTERS: dict[str, Callable[[FunctionEmitter, Operation], None]] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "scf.yield": _nothing,
    "scf.condition": _nothing,
    "cf.br": _br,
    "cf.cond_br": _cond_br,
    "tt.return": _return,
    "tt.call": _call,
}
