"""Reductions, scans and histograms as stages."""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, Operation, SSAValue

from tileprobe.targets.cpu.dialect import HistogramOp, ReduceOp, ScanOp
from tileprobe.targets.cpu.schedule.lower import FunctionLowering, handler
from tileprobe.targets.cpu.schedule.nest import NestBuilder
from tileprobe.targets.cpu.schedule.origin import properties_of
from tileprobe.targets.cpu.schedule.ttir import bool_attr, element_of, int_attr, is_tensor, op_name, shape_of

# Combinations with a neutral element: these join the nest that computes what is reduced.
_SIMPLE = frozenset(
    f"arith.{n}"
    for n in [
        "addf",
        "mulf",
        "maxnumf",
        "minnumf",
        "maximumf",
        "minimumf",
        "addi",
        "muli",
        "maxsi",
        "minsi",
        "maxui",
        "minui",
        "andi",
        "ori",
        "xori",
    ]
)


def simple_reduction(op: Operation) -> str | None:
    """The combination of a reduction of one operand, `addf` or `maxnumf`; None for any other."""
    kind = combination_of(op.regions[0].block)
    return kind if f"arith.{kind}" in _SIMPLE else None


def combination_of(block: Block) -> str | None:
    """What a combine function does to its two operands, if that is a single op of `arith`; None if it does more."""
    ops = list(block.ops)
    if len(block.args) != 2 or len(ops) != 2 or not op_name(ops[0]).startswith("arith."):
        return None
    if set(ops[0].operands) != set(block.args) or list(ops[1].operands) != [ops[0].results[0]]:
        return None
    return op_name(ops[0]).removeprefix("arith.")


@handler("tt.reduce")
def lower_reduce(low: FunctionLowering, op: Operation) -> None:
    kind = simple_reduction(op)
    if kind is None:
        _lower_general(low, op)
        return
    source, result, axis = op.operands[0], op.results[0], int_attr(op, "axis")

    def work(nest: NestBuilder) -> None:
        nest.value(source)

    nest = low.into_nest(shape_of(source), work, axis=axis)
    nest.axis = axis
    nest.origin.add(op)
    buffer = low.alloc(shape_of(result), result.type.element_type) if is_tensor(result) else None  # type: ignore[attr-defined]
    nest.pending[result] = len(nest.reductions)
    nest.reductions.append((kind, nest.value(source), buffer))
    nest.reduced_at.append(op.location)
    if buffer is not None:
        low.buffers[result] = buffer
        nest.written[result] = buffer


def _lower_general(low: FunctionLowering, op: Operation) -> None:
    sources = [low.dense(v) for v in op.operands]
    low.close()
    into: list[SSAValue] = []
    for result in op.results:
        if is_tensor(result):
            low.buffers[result] = low.alloc(shape_of(result), element_of(result.type))
            into.append(low.buffers[result])
    stage = ReduceOp.build(
        operands=[sources, into],
        properties={"axis": IntAttr(int_attr(op, "axis")), **properties_of(op)},
        regions=[low.region(op.regions[0])],
        result_types=[[r.type for r in op.results if not is_tensor(r)]],
    )
    stage.location = op.location
    low.emit(stage)
    low.notes.stages[stage] = [*op.operands, *(r for r in op.results if is_tensor(r))]
    for old, new in zip([r for r in op.results if not is_tensor(r)], stage.results):
        low.scalars[old] = new


@handler("tt.scan")
def lower_scan(low: FunctionLowering, op: Operation) -> None:
    sources = [low.dense(v) for v in op.operands]
    low.close()
    into = [low.alloc(shape_of(r), element_of(r.type)) for r in op.results]
    stage = ScanOp.build(
        operands=[sources, into],
        properties={
            "axis": IntAttr(int_attr(op, "axis")),
            "reverse": IntAttr(int(bool_attr(op, "reverse"))),
            **properties_of(op),
        },
        regions=[low.region(op.regions[0])],
    )
    stage.location = op.location
    low.emit(stage)
    low.notes.stages[stage] = [*op.operands, *op.results]
    low.buffers.update(zip(op.results, into))


@handler("tt.histogram")
def lower_histogram(low: FunctionLowering, op: Operation) -> None:
    buffers = [low.dense(v) for v in op.operands]
    low.close()
    result = op.results[0]
    into = low.alloc(shape_of(result), element_of(result.type))
    stage = HistogramOp.build(operands=[buffers[0], buffers[1:2], into], properties=properties_of(op))
    stage.location = op.location
    low.emit(stage)
    low.notes.stages[stage] = [*op.operands, result]
    low.buffers[result] = into
