"""The `record` dialect: how it is measured. A clock is read and stored in a place known at compile time.

Portable still: a target lowers the buffer, the clock and the place. Index values say which kept iteration a
loop is in, and are -1 when that iteration is not recorded; then nothing below it is stored.

What a record without a fixed place needs to know is a value, too: how many came before it (the cursor), and
the number of an iteration that no induction variable counts. Both are carried through control flow.

    %b = record.open program global exact 64 bits 16 words
    %n = record.trip %b, 0 at 8 from %lb to %ub step %one : i32
    scf.for %i = %lb to %ub step %one : i32 {
      %k = record.index %b, 0, %i from %lb step %one of %n : i32
      %s = record.slot %b, 0 at 9 [%k * 2]
      %t = record.clock 64
      record.store %t, %s
    }
    %c = record.cursor %b
    %t = record.clock 64
    %d = record.push %t, %b, 1 at %c
    record.flush %b at %d
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr, UnitAttr, i64
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    OpResult,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
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
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from tileprobe.ir.layout_check import BUFFERS, GRANULARITIES, STRATEGIES
from tileprobe.ir.syntax import (
    operand,
    optional_operand,
    parse_place,
    print_place,
    print_values,
    resolve,
)


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """The block of words that a program records into."""

    name = "record.buffer"


@irdl_attr_definition
class SlotType(ParametrizedAttribute, TypeAttribute):
    """The place of one record in a block; none when the record is sampled away."""

    name = "record.slot"


BUFFER, SLOT = BufferType(), SlotType()
_EFFECTS = (MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class OpenOp(IRDLOperation):
    """Finds the block of a stream, `block_words` for each instance (none if the program is not sampled), and
    writes its header. On that of the program's own stream, which is 0, `layout` is the whole `Layout` as JSON,
    for whoever decodes, and `unpaired` says what asynchronous operations lack an end."""

    name = "record.open"
    granularity = prop_def(StringAttr)
    buffer = prop_def(StringAttr)
    strategy = prop_def(StringAttr)
    clock_bits = prop_def(IntAttr)
    block_words = prop_def(IntAttr)
    stream = prop_def(IntAttr, default_value=IntAttr(0))
    layout = opt_prop_def(StringAttr)
    unpaired = opt_prop_def(ArrayAttr[StringAttr])
    block = result_def(BufferType)
    traits = traits_def(*_EFFECTS)

    def __init__(
        self,
        block_words: int,
        *,
        granularity: str = "program",
        buffer: str = "global",
        strategy: str = "exact",
        clock_bits: int = 64,
        stream: int = 0,
        layout: str | None = None,
        unpaired: Sequence[str] = (),
    ) -> None:
        properties: dict[str, Attribute] = {
            "granularity": StringAttr(granularity),
            "buffer": StringAttr(buffer),
            "strategy": StringAttr(strategy),
            "clock_bits": IntAttr(clock_bits),
            "block_words": IntAttr(block_words),
            "stream": IntAttr(stream),
        }
        if layout is not None:
            properties["layout"] = StringAttr(layout)
        if unpaired:
            properties["unpaired"] = ArrayAttr([StringAttr(text) for text in unpaired])
        super().__init__(properties=properties, result_types=[BUFFER])

    def verify_(self) -> None:
        for value, allowed in (
            (self.granularity.data, GRANULARITIES),
            (self.buffer.data, BUFFERS),
            (self.strategy.data, STRATEGIES),
            (self.clock_bits.data, (*range(1, 33), 64)),
        ):
            if value not in allowed:
                raise VerifyException(f"record.open: {value} is none of {', '.join(map(str, allowed))}")
        if self.strategy.data == "flush" and self.buffer.data == "global":
            raise VerifyException("record.open: a global buffer is never flushed to global memory")

    def print(self, printer: Printer) -> None:
        words = (self.granularity.data, self.buffer.data, self.strategy.data)
        printer.print_string(f" {' '.join(words)} {self.clock_bits.data} bits {self.block_words.data} words")
        if self.stream.data:
            printer.print_string(f" stream {self.stream.data}")
        if self.layout is not None:
            printer.print_string(" layout ")
            printer.print_string_literal(self.layout.data)
        if self.unpaired is not None:
            printer.print_string(" unpaired ")
            printer.print_attribute(self.unpaired)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> OpenOp:
        names = [parser.parse_identifier() for _ in range(3)]
        bits = parser.parse_integer()
        parser.parse_keyword("bits")
        words = parser.parse_integer()
        parser.parse_keyword("words")
        stream = parser.parse_integer() if parser.parse_optional_keyword("stream") else 0
        layout = parser.parse_str_literal() if parser.parse_optional_keyword("layout") else None
        unpaired: list[str] = []
        if parser.parse_optional_keyword("unpaired"):
            unpaired = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_str_literal)
        granularity, buffer, strategy = names
        op = OpenOp(
            words,
            granularity=granularity,
            buffer=buffer,
            strategy=strategy,
            clock_bits=bits,
            stream=stream,
            layout=layout,
            unpaired=unpaired,
        )
        op.attributes |= parser.parse_optional_attr_dict()
        return op


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
    traits = traits_def(*_EFFECTS)

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
        _check_place(self.name, self.indices, self.strides)


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
    """A loop without a trip count is about to run: the number of its first iteration, 0."""

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


@irdl_op_definition
class SlotOp(IRDLOperation):
    """The place `base + sum(index * stride)` of a record; none when an index is -1."""

    name = "record.slot"
    block = operand_def(BufferType)
    indices = var_operand_def(i64)
    slot = prop_def(IntAttr)
    base = prop_def(IntAttr)
    strides = prop_def(ArrayAttr[IntAttr])
    place = result_def(SlotType)
    traits = traits_def(Pure())

    def print(self, printer: Printer) -> None:
        print_values(printer, " ", self.block, f", {self.slot.data}")
        print_place(printer, self.base, self.indices, self.strides)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> SlotOp:
        block = operand(parser, BUFFER)
        parser.parse_punctuation(",")
        slot = IntAttr(parser.parse_integer())
        base, indices, strides = parse_place(parser, i64)
        if base is None:
            parser.raise_error("a slot has a place: `at BASE [%index * STRIDE]`")
        return SlotOp(
            operands=[block, indices],
            properties={"slot": slot, "base": base, "strides": strides},
            result_types=[SLOT],
            attributes=parser.parse_optional_attr_dict(),
        )

    def verify_(self) -> None:
        _check_place(self.name, self.indices, self.strides)


@irdl_op_definition
class ClockOp(IRDLOperation):
    """Reads the clock: `%t = record.clock 64`. Memory accesses do not move over it."""

    name = "record.clock"
    bits = prop_def(IntAttr)
    ticks = result_def(i64)
    traits = traits_def(*_EFFECTS)

    def __init__(self, bits: int = 64) -> None:
        super().__init__(properties={"bits": IntAttr(bits)}, result_types=[i64])

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.bits.data}")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> ClockOp:
        op = ClockOp(parser.parse_integer())
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Writes a record, and its payload into the word after it."""

    name = "record.store"
    ticks = operand_def(i64)
    place = operand_def(SlotType)
    payload = opt_operand_def()
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$ticks `,` $place (`payload` $payload^ `:` type($payload))? attr-dict"


@irdl_op_definition
class CursorOp(IRDLOperation):
    """How many records a program has pushed before its first one: 0."""

    name = "record.cursor"
    block = operand_def(BufferType)
    count = result_def(i64)
    traits = traits_def(Pure())
    assembly_format = "$block attr-dict"


@irdl_op_definition
class PushOp(IRDLOperation):
    """Appends a record with the tag (slot, iteration) to the cursor's segment, or only counts it if that is
    full; nothing when `iteration` is -1. Takes the cursor and gives it, moved on."""

    name = "record.push"
    ticks = operand_def(i64)
    block = operand_def(BufferType)
    cursor = operand_def(i64)
    iteration = opt_operand_def(i64)
    payload = opt_operand_def()
    slot = prop_def(IntAttr)
    moved = result_def(i64)
    traits = traits_def(*_EFFECTS)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def print(self, printer: Printer) -> None:
        print_values(printer, " ", self.ticks, ", ", self.block, f", {self.slot.data} at ", self.cursor)
        if self.iteration is not None:
            print_values(printer, " in ", self.iteration)
        if self.payload is not None:
            print_values(printer, " payload ", self.payload, " : ")
            printer.print_attribute(self.payload.type)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> PushOp:
        ticks = operand(parser, i64)
        parser.parse_punctuation(",")
        block = operand(parser, BUFFER)
        parser.parse_punctuation(",")
        slot = IntAttr(parser.parse_integer())
        parser.parse_keyword("at")
        cursor = operand(parser, i64)
        iteration = [operand(parser, i64)] if parser.parse_optional_keyword("in") else []
        payload: list[SSAValue] = []
        if parser.parse_optional_keyword("payload"):
            payload = resolve(parser, [parser.parse_unresolved_operand()])
        return PushOp(
            operands=[ticks, block, cursor, iteration, payload],
            properties={"slot": slot},
            result_types=[i64],
            attributes=parser.parse_optional_attr_dict(),
        )


@irdl_op_definition
class FlushOp(IRDLOperation):
    """The program is over: the header gets the number of pushed records, a buffer on chip is copied out."""

    name = "record.flush"
    block = operand_def(BufferType)
    cursor = opt_operand_def(i64)
    traits = traits_def(*_EFFECTS)
    assembly_format = "$block (`at` $cursor^)? attr-dict"


def next_value(op: Operation) -> OpResult | None:
    """The value that an op gives on: the cursor of a push, the number of a next iteration."""
    if isinstance(op, PushOp):
        return op.moved
    return op.following if isinstance(op, NextOp) else None


def _check_place(name: str, indices: Sequence[SSAValue], strides: ArrayAttr[IntAttr]) -> None:
    if len(indices) != len(strides):
        raise VerifyException(f"{name}: {len(indices)} indices and {len(strides)} strides")


Record = Dialect(
    "record",
    [OpenOp, TripOp, IndexOp, EnterOp, NextOp, SlotOp, ClockOp, StoreOp, CursorOp, PushOp, FlushOp],
    [BufferType, SlotType],
)
