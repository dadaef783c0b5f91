"""order-programs: programs do each other's work, so that they come in another order. No program's work changes.

In comes Triton's IR; out goes the same with the numbers of programs permuted along the first two axes of the grid. What
runs first, which run side by side, and which find what others have brought into a cache is another thing then.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import attr_value, op_name
from tileprobe.ir.reader import op_class

REVERSED, COLUMNS, GROUPED, DEALT = ORDERS = ("reversed", "columns", "grouped", "dealt")


@dataclass(frozen=True)
class OrderProgramsPass(ModulePass):
    """`reversed`: the last first. `columns`: the second axis of the grid varies first. `grouped`: `size` of the second
    axis, then the next of the first, so that tiles of both are used again soon. `dealt`: as many hands of the first
    axis as `size` says take turns, so that neighbours are far apart."""

    name = "order-programs"

    order: str = REVERSED
    size: int = 8

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.order not in ORDERS:
            raise TileProbeError(f"programs can be {', '.join(ORDERS)}, not {self.order!r}")
        if self.size < 1:
            raise TileProbeError(f"a group has 1 program or more, not {self.size}")
        for function in [each for each in op.walk() if op_name(each) == "tt.func"]:
            asked = [each for each in function.walk() if op_name(each) == "tt.get_program_id"]
            first = function.regions[0].blocks.first
            if asked and first is not None:
                self._permute(first, asked)

    def _permute(self, first: Block, asked: list[Operation]) -> None:
        make = _Maker(first, asked[0])
        x, y = (make.one("tt.get_program_id", axis=axis) for axis in (0, 1))
        columns, rows = (make.one("tt.get_num_programs", axis=axis) for axis in (0, 1))
        found = self._numbers(make, x, y, columns, rows)
        for op in asked:
            axis = int(attr_value(op, "axis"))
            if axis < len(found):
                op.results[0].replace_all_uses_with(found[axis])
                op.detach()
                op.erase()

    def _numbers(
        self, make: _Maker, x: SSAValue, y: SSAValue, columns: SSAValue, rows: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """What a program has to take itself for; each pair is met once."""
        if self.order == REVERSED:
            last = make.number(1)
            return (
                make.sub(make.sub(columns, last), x),
                make.sub(make.sub(rows, last), y),
            )
        size = make.number(self.size)
        if self.order == DEALT:  # hands of n / size, the first of them one longer where that leaves a rest
            place, hand = make.div(x, size), make.rem(x, size)
            each, rest = make.div(columns, size), make.rem(columns, size)
            before = make.add(make.mul(hand, each), make.least(hand, rest))
            return make.add(before, place), y
        at = make.add(make.mul(y, columns), x)
        if self.order == COLUMNS:
            return make.div(at, rows), make.rem(at, rows)
        whole = make.mul(size, columns)
        begin = make.mul(make.div(at, whole), size)
        height = make.least(make.sub(rows, begin), size)
        inside = make.rem(at, whole)
        return make.div(inside, height), make.add(begin, make.rem(inside, height))


class _Maker:
    """Makes ops one behind the other at the beginning of a block."""

    def __init__(self, block: Block, like: Operation) -> None:
        self._block, self._location = block, like.location
        self._before = block.first_op

    def one(self, name: str, *operands: SSAValue, axis: int | None = None, **more: IntegerAttr) -> SSAValue:
        properties = more if axis is None else {"axis": IntegerAttr(axis, i32)}
        made = op_class(name).create(operands=operands, result_types=[i32], properties=dict(properties))
        made.location = self._location
        if self._before is None:
            self._block.add_op(made)
        else:
            self._block.insert_op_before(made, self._before)
        return made.results[0]

    def number(self, value: int) -> SSAValue:
        return self.one("arith.constant", value=IntegerAttr(value, i32))

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.one("arith.addi", a, b)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.one("arith.subi", a, b)

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.one("arith.muli", a, b)

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.one("arith.divsi", a, b)

    def rem(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.one("arith.remsi", a, b)

    def least(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.one("arith.minsi", a, b)
