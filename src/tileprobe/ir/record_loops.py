"""The ops of the `record` dialect about loops: how often one runs, and which of its iterations are kept."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, Pure

from tileprobe.ir.record_types import BUFFER, EFFECTS, BufferType, check_place
from tileprobe.ir.syntax import operand, optional_operand, parse_place, print_place, print_values, resolve


@irdl_op_definition
class TripOp(IRDLOperation):
    """Computes a loop's trip count from its bounds and stores it where the decoder looks for it. Without a
    place (a loop of the cursor's) it is only computed."""

    name = "record.trip"
    block = operand_def(BufferType)
    indices = var_operand_def(i64)
    lower = operand_def()
    upper = operand_def()
    step = operand_def()
    loop = prop_def(IntAttr)
    base = opt_prop_def(IntAttr)
    strides = prop_def(ArrayAttr[IntAttr], default_value=ArrayAttr([]))
    count = result_def(i64)
    traits = traits_def(*EFFECTS)

    def print(self, printer: Printer) -> None:
        print_values(printer, " ", self.block, f", {self.loop.data}")
        if self.base is not None:
            print_place(printer, self.base, self.indices, self.strides)
        print_values(printer, " from ", self.lower, " to ", self.upper, " step ", self.step, " : ")
        printer.print_attribute(self.lower.type)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> TripOp:
        block = operand(parser, BUFFER)
        parser.parse_punctuation(",")
        properties: dict[str, Attribute] = {"loop": IntAttr(parser.parse_integer())}
        base, indices, strides = parse_place(parser, i64)
        if base is not None:
            properties |= {"base": base, "strides": strides}
        bounds = [optional_operand(parser, word) for word in ("from", "to", "step")]
        values = resolve(parser, bounds)
        op = TripOp(
            operands=[block, indices, *values],
            properties=properties,
            result_types=[i64],
            attributes=parser.parse_optional_attr_dict(),
        )
        return op

    def verify_(self) -> None:
        check_place(self.name, self.indices, self.strides)


@irdl_op_definition
class IndexOp(IRDLOperation):
    """Which kept iteration of a counted loop this is, by the sampling in force; -1 if it is not kept, or if
    the iteration `within` around it is not. For a loop of the cursor's: the iteration itself, or -1.
    `dynamic` means that sampling may change at run time; otherwise all that fit are kept."""

    name = "record.index"
    block = operand_def(BufferType)
    induction = operand_def()
    lower = operand_def()
    step = operand_def()
    count = operand_def(i64)
    within = opt_operand_def(i64)
    loop = prop_def(IntAttr)
    capacity = prop_def(IntAttr)
    cursor = opt_prop_def(UnitAttr)
    dynamic = opt_prop_def(UnitAttr)
    index = result_def(i64)
    traits = traits_def(MemoryReadEffect())

    def print(self, printer: Printer) -> None:
        print_values(
            printer, " ", self.block, f", {self.loop.data} of {self.capacity.data}, ", self.induction
        )
        print_values(printer, " from ", self.lower, " step ", self.step, " count ", self.count)
        if self.within is not None:
            print_values(printer, " in ", self.within)
        printer.print_string(" cursor" if self.cursor is not None else "")
        printer.print_string(" dynamic" if self.dynamic is not None else "")
        printer.print_string(" : ")
        printer.print_attribute(self.induction.type)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> IndexOp:
        block = operand(parser, BUFFER)
        parser.parse_punctuation(",")
        properties: dict[str, Attribute] = {"loop": IntAttr(parser.parse_integer())}
        parser.parse_keyword("of")
        properties["capacity"] = IntAttr(parser.parse_integer())
        parser.parse_punctuation(",")
        induction = parser.parse_unresolved_operand()
        bounds = [optional_operand(parser, word) for word in ("from", "step")]
        parser.parse_keyword("count")
        count = operand(parser, i64)
        within = [operand(parser, i64)] if parser.parse_optional_keyword("in") else []
        for word in ("cursor", "dynamic"):
            if parser.parse_optional_keyword(word):
                properties[word] = UnitAttr()
        first, lower, step = resolve(parser, [induction, *bounds])
        return IndexOp(
            operands=[block, first, lower, step, count, within],
            properties=properties,
            result_types=[i64],
            attributes=parser.parse_optional_attr_dict(),
        )


@irdl_op_definition
class EnterOp(IRDLOperation):
    """No iteration of a loop has run yet: 0, from which on they are counted, those of one run or of all runs."""

    name = "record.enter"
    block = operand_def(BufferType)
    loop = prop_def(IntAttr)
    number = result_def(i64)
    traits = traits_def(Pure())

    def print(self, printer: Printer) -> None:
        print_values(printer, " ", self.block, f", {self.loop.data}")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> EnterOp:
        block = operand(parser, BUFFER)
        parser.parse_punctuation(",")
        loop = IntAttr(parser.parse_integer())
        return EnterOp(
            operands=[block],
            properties={"loop": loop},
            result_types=[i64],
            attributes=parser.parse_optional_attr_dict(),
        )


@irdl_op_definition
class RanOp(IRDLOperation):
    """A loop of the cursor's has run once more, `%k` times round: `%m, %s = record.ran %block, 0 at %n, %r with %k` are
    the iterations it has had in all, `%n` before, and the runs that had any, `%r` before."""

    name = "record.ran"
    block = operand_def(BufferType)
    before = operand_def(i64)
    runs_before = operand_def(i64)
    count = operand_def(i64)
    loop = prop_def(IntAttr)
    total = result_def(i64)
    runs = result_def(i64)
    traits = traits_def(Pure())

    def __init__(
        self, block: SSAValue, loop: int, before: SSAValue, runs_before: SSAValue, count: SSAValue
    ) -> None:
        super().__init__(
            operands=[block, before, runs_before, count],
            properties={"loop": IntAttr(loop)},
            result_types=[i64, i64],
        )
        self.total.name_hint, self.runs.name_hint = "ran", "runs"

    def print(self, printer: Printer) -> None:
        print_values(printer, " ", self.block, f", {self.loop.data} at ", self.before, ", ", self.runs_before)
        print_values(printer, " with ", self.count)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> RanOp:
        block = operand(parser, BUFFER)
        parser.parse_punctuation(",")
        loop = parser.parse_integer()
        parser.parse_keyword("at")
        before = operand(parser, i64)
        parser.parse_punctuation(",")
        runs = operand(parser, i64)
        parser.parse_keyword("with")
        op = RanOp(block, loop, before, runs, operand(parser, i64))
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class TotalOp(IRDLOperation):
    """Where a stream ends: stores how many iterations a loop of the cursor's has had in it, and in the next word in how
    many runs, where the decoder looks: `record.total %block, 0 at 9, %m, %s`."""

    name = "record.total"
    block = operand_def(BufferType)
    count = operand_def(i64)
    runs = operand_def(i64)
    loop = prop_def(IntAttr)
    base = prop_def(IntAttr)
    traits = traits_def(*EFFECTS)

    def __init__(self, block: SSAValue, loop: int, base: int, count: SSAValue, runs: SSAValue) -> None:
        super().__init__(
            operands=[block, count, runs], properties={"loop": IntAttr(loop), "base": IntAttr(base)}
        )

    def print(self, printer: Printer) -> None:
        print_values(printer, " ", self.block, f", {self.loop.data} at {self.base.data}, ", self.count)
        print_values(printer, ", ", self.runs)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> TotalOp:
        block = operand(parser, BUFFER)
        parser.parse_punctuation(",")
        loop = parser.parse_integer()
        parser.parse_keyword("at")
        base = parser.parse_integer()
        parser.parse_punctuation(",")
        count = operand(parser, i64)
        parser.parse_punctuation(",")
        op = TotalOp(block, loop, base, count, operand(parser, i64))
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class AgainOp(IRDLOperation):
    """Where a stream starts that is started in a loop: how often it was before, or -1 if this time is not recorded. The
    count is kept where the decoder looks for a trip count, since nothing else outlives the stream's end."""

    name = "record.again"
    block = operand_def(BufferType)
    loop = prop_def(IntAttr)
    base = prop_def(IntAttr)
    index = result_def(i64)
    traits = traits_def(*EFFECTS)

    def print(self, printer: Printer) -> None:
        print_values(printer, " ", self.block, f", {self.loop.data} at {self.base.data}")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> AgainOp:
        block = operand(parser, BUFFER)
        parser.parse_punctuation(",")
        loop = IntAttr(parser.parse_integer())
        parser.parse_keyword("at")
        return AgainOp(
            operands=[block],
            properties={"loop": loop, "base": IntAttr(parser.parse_integer())},
            result_types=[i64],
            attributes=parser.parse_optional_attr_dict(),
        )


@irdl_op_definition
class NextOp(IRDLOperation):
    """An iteration of a loop without a trip count: takes its number, gives it or -1 if it is not recorded, and
    the number of the next one."""

    name = "record.next"
    block = operand_def(BufferType)
    number = operand_def(i64)
    within = opt_operand_def(i64)
    loop = prop_def(IntAttr)
    dynamic = opt_prop_def(UnitAttr)
    index = result_def(i64)
    following = result_def(i64)
    traits = traits_def(MemoryReadEffect())

    def print(self, printer: Printer) -> None:
        print_values(printer, " ", self.block, f", {self.loop.data} at ", self.number)
        if self.within is not None:
            print_values(printer, " in ", self.within)
        printer.print_string(" dynamic" if self.dynamic is not None else "")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> NextOp:
        block = operand(parser, BUFFER)
        parser.parse_punctuation(",")
        properties: dict[str, Attribute] = {"loop": IntAttr(parser.parse_integer())}
        parser.parse_keyword("at")
        number = operand(parser, i64)
        within = [operand(parser, i64)] if parser.parse_optional_keyword("in") else []
        if parser.parse_optional_keyword("dynamic"):
            properties["dynamic"] = UnitAttr()
        return NextOp(
            operands=[block, number, within],
            properties=properties,
            result_types=[i64, i64],
            attributes=parser.parse_optional_attr_dict(),
        )
