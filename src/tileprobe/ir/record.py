"""The `record` dialect: how it is measured. A clock is read and stored in a place known at compile time.

Portable still: a target lowers the buffer, the clock and the place. Index values say which kept iteration a
loop is in, and are -1 when that iteration is not recorded; then nothing below it is stored.

What a record without a fixed place needs to know is a value, too: how many came before it (the cursor), and
the number of an iteration that no induction variable counts. Both are carried through control flow, as is how many
iterations a loop whose records go there has had so far: it is stored once, where the stream ends.

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

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr, i64
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    OpResult,
    SSAValue,
)
from xdsl.irdl import (
    AttrSizedOperandSegments,
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
from xdsl.traits import MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from tileprobe.ir.layout_check import BUFFERS, GRANULARITIES, STRATEGIES
from tileprobe.ir.record_loops import AgainOp, EnterOp, IndexOp, NextOp, RanOp, TotalOp, TripOp
from tileprobe.ir.record_types import BUFFER, EFFECTS, SLOT, BufferType, SlotType, check_place
from tileprobe.ir.syntax import (
    operand,
    parse_place,
    print_place,
    print_values,
    resolve,
)


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
    traits = traits_def(*EFFECTS)

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
        check_place(self.name, self.indices, self.strides)


@irdl_op_definition
class ClockOp(IRDLOperation):
    """Reads the clock: `%t = record.clock 64`. Memory accesses do not move over it."""

    name = "record.clock"
    bits = prop_def(IntAttr)
    ticks = result_def(i64)
    traits = traits_def(*EFFECTS)

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
class DelayOp(IRDLOperation):
    """Goes on when so many ticks of the clock have passed: `record.delay 400`. It records nothing."""

    name = "record.delay"
    ticks = prop_def(IntAttr)
    traits = traits_def(*EFFECTS)

    def __init__(self, ticks: int) -> None:
        super().__init__(properties={"ticks": IntAttr(ticks)})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.ticks.data}")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> DelayOp:
        op = DelayOp(parser.parse_integer())
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class FenceOp(IRDLOperation):
    """Nothing behind it begins before all in front of it is done: `record.fence`. It records nothing."""

    name = "record.fence"
    traits = traits_def(*EFFECTS)
    assembly_format = "attr-dict"


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
    traits = traits_def(*EFFECTS)
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
    traits = traits_def(*EFFECTS)
    assembly_format = "$block (`at` $cursor^)? attr-dict"


def slot_of(op: Operation) -> int | None:
    """The slot of the record that an op writes."""
    if isinstance(op, PushOp):
        return op.slot.data
    if isinstance(op, StoreOp) and isinstance(op.place.owner, SlotOp):
        return op.place.owner.slot.data
    return None


def next_value(op: Operation) -> OpResult | None:
    """The cursor that an op gives on."""
    return op.moved if isinstance(op, PushOp) else None


Record = Dialect(
    "record",
    [
        *(OpenOp, SlotOp, ClockOp, DelayOp, FenceOp, StoreOp, CursorOp, PushOp, FlushOp),
        *(AgainOp, TripOp, IndexOp, EnterOp, NextOp, RanOp, TotalOp),
    ],
    [BufferType, SlotType],
)
