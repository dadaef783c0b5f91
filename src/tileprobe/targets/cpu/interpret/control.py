"""Walks a function: structured and unstructured control flow, calls, and each op to what runs it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, Region

from tileprobe.ir.accessors import attr_value, bool_attr, op_name
from tileprobe.targets.cpu.dialect import AllocOp, ViewOp
from tileprobe.targets.cpu.interpret import atomics, effects, elementwise, messages
from tileprobe.targets.cpu.interpret.convert import as_unsigned
from tileprobe.targets.cpu.interpret.effects import Lanes
from tileprobe.targets.cpu.interpret.errors import InterpretError, describe
from tileprobe.targets.cpu.interpret.floats import Array
from tileprobe.targets.cpu.interpret.machine import Frame, scratch_bytes

TERMINATORS = frozenset(
    [
        "scf.yield",
        "scf.condition",
        "cf.br",
        "cf.cond_br",
        "tt.return",
        "tile.yield",
        "tt.reduce.return",
        "tt.scan.return",
        "tt.map_elementwise.return",
    ]
)
_ONE = np.zeros(1, np.int64)
_PATIENCE = 1_000_000  # turns of a `while`: minutes

Handler = Callable[[Frame, Operation], None]
# op name -> what runs it; the modules of the stages add theirs
HANDLERS: dict[str, Handler] = {}


def handler(name: str) -> Callable[[Handler], Handler]:
    def register(function: Handler) -> Handler:
        HANDLERS[name] = function
        return function

    return register


def run_region(frame: Frame, region: Region, args: list[Any]) -> list[Any]:
    """Run blocks from the first until one of them returns; its values."""
    block = region.blocks[0]
    frame.values.update(zip(block.args, args))
    while True:
        last = run_block(frame, block)
        name = op_name(last)
        values = [frame.values[v] for v in last.operands]
        if name == "cf.br":
            block = last.successors[0]
        elif name == "cf.cond_br":
            condition, *values = values
            first = len(last.successors[0].args)
            values = values[:first] if condition else values[first:]
            block = last.successors[0 if condition else 1]
        else:
            return values
        frame.values.update(zip(block.args, values))


def run_block(frame: Frame, block: Block) -> Operation:
    """Run the ops of a block; returns the one that ends it."""
    for op in block.ops:
        name = op_name(op)
        if name in TERMINATORS:
            return op
        found = HANDLERS.get(name)
        if found is not None:
            found(frame, op)
        elif name in SERIAL:
            args = [frame.values[v] for v in op.operands]
            effects.tell_one(frame, op, args)
            frame.values.update(zip(op.results, SERIAL[name](frame, op, args)))
        elif not name.startswith(("probe.", "record.")):
            evaluate = frame.machine.evaluator(op)
            frame.values[op.results[0]] = evaluate(*[frame.values[v] for v in op.operands])
        if frame.machine.after is not None:
            frame.machine.after(op)
    raise AssertionError("a block without an end")


def call(frame: Frame, function: Operation, base: int, args: list[Any]) -> list[Any]:
    return run_region(Frame(frame.machine, function, base), function.regions[0], args)


# -- structured ----------------------------------------------------------------------------------------------


def _for(frame: Frame, op: Operation) -> None:
    body = op.regions[0].block
    index, stop, step = (frame.values[v] for v in op.operands[:3])
    carried = [frame.values[v] for v in op.operands[3:]]
    read = as_unsigned if bool_attr(op, "unsignedCmp") else (lambda x: x)
    while read(index) < read(stop):
        frame.values.update(zip(body.args, [index, *carried]))
        last = run_block(frame, body)
        carried = [frame.values[v] for v in last.operands]
        index = index + step
    frame.values.update(zip(op.results, carried))


def _if(frame: Frame, op: Operation) -> None:
    region = op.regions[0 if frame.values[op.operands[0]] else 1]
    if region.blocks and region.block.ops:
        last = run_block(frame, region.block)
        frame.values.update(zip(op.results, [frame.values[v] for v in last.operands]))


def _while(frame: Frame, op: Operation) -> None:
    before, after = op.regions[0].block, op.regions[1].block
    carried = [frame.values[v] for v in op.operands]
    for turn in itertools.count():
        if turn == _PATIENCE:
            raise InterpretError(
                f"{describe(op)} went round {turn} times; a loop that waits for another program never ends here, "
                "where programs run one after another"
            )
        frame.values.update(zip(before.args, carried))
        condition, *passed = (frame.values[v] for v in run_block(frame, before).operands)
        if not condition:
            break
        frame.values.update(zip(after.args, passed))
        carried = [frame.values[v] for v in run_block(frame, after).operands]
    frame.values.update(zip(op.results, passed))


def _call(frame: Frame, op: Operation) -> None:
    """The scratch of the function called begins behind ours."""
    callee = frame.machine.functions[str(attr_value(op, "callee"))]
    base = frame.base + scratch_bytes(frame.function)
    results = call(frame, callee, base, [frame.values[v] for v in op.operands])
    frame.values.update(zip(op.results, results))


# -- single ops ----------------------------------------------------------------------------------------------


def _alloc(frame: Frame, op: Operation) -> None:
    assert isinstance(op, AllocOp)
    frame.values[op.buffer] = frame.machine.allocate(op, frame.base)


def _view(frame: Frame, op: Operation) -> None:
    assert isinstance(op, ViewOp)
    frame.values[op.buffer] = frame.values[op.source]


def _table(frame: Frame, op: Operation) -> None:
    frame.values[op.results[0]] = frame.machine.table(op)


def _constant(frame: Frame, op: Operation) -> None:
    frame.values[op.results[0]] = elementwise.constant(op)


def _scalar(work: Callable[[Lanes, Any], Any]) -> Handler:
    """An access by a scalar op, which is one with a single point."""

    def run(frame: Frame, op: Operation) -> None:
        found = work(Lanes(frame, {}, _ONE), op)
        if op.results:
            frame.values[op.results[0]] = found[0]

    return run


def _defines(work: Callable[[Frame, Operation], Any]) -> Handler:
    def run(frame: Frame, op: Operation) -> None:
        frame.values[op.results[0]] = work(frame, op)

    return run


def _nothing(frame: Frame, op: Operation) -> None:
    """tl.assume: a hint."""


def _map(frame: Frame, op: Operation, args: list[Array]) -> list[Array]:
    return run_region(frame, op.regions[0], args)


# Ops done for one point after another, on scalars.
SERIAL: dict[str, effects.Serial] = {
    **atomics.SERIAL,
    "tt.print": messages.message,
    "tt.assert": messages.assertion,
    "tt.map_elementwise": _map,
}
HANDLERS.update(
    {
        "scf.for": _for,
        "scf.if": _if,
        "scf.while": _while,
        "tt.call": _call,
        "tile.alloc": _alloc,
        "tile.view": _view,
        "tile.table": _table,
        "arith.constant": _constant,
        "llvm.intr.assume": _nothing,
        "tt.load": _scalar(effects.load),
        "tt.store": _scalar(effects.store),
        "tile.read": _scalar(effects.read),
        "tt.get_program_id": _defines(effects.program_id),
        "tt.get_num_programs": _defines(effects.program_count),
    }
)
