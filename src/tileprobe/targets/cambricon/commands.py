"""The commands of the `cam` dialect: what a mapped matrix does, as loops over affine page maps.

    cam.loop %j = 2 {
      cam.loop %i = 12 {
        cam.broadcast bytes 256
        cam.read_compute (%j, %i) page affine_map<(j, i)[channel, core] -> (...)> sums 64 x 3 parts 1
      }
    }

A map gives (channel, chip, die, plane, page) for every channel and core; pages past the matrix's edge are
not commanded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, region_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class LoopOp(IRDLOperation):
    """A loop whose trip count is known: `cam.loop %j = 12 { ... }`."""

    name = "cam.loop"
    trip = prop_def(IntAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    @staticmethod
    def of(trip: int) -> LoopOp:
        return LoopOp(properties={"trip": IntAttr(trip)}, regions=[Region(Block(arg_types=[IndexType()]))])

    @property
    def index(self) -> SSAValue:
        return self.body.block.args[0]

    def verify_(self) -> None:
        if self.trip.data < 1:
            raise VerifyException(f"a loop runs at least once, found {self.trip.data}")
        if len(self.body.block.args) != 1:
            raise VerifyException("a loop has one induction variable")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.index)
        printer.print_string(f" = {self.trip.data} ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> LoopOp:
        name = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        trip = parser.parse_integer()
        body = parser.parse_region([name.resolve(IndexType())])
        return LoopOp(properties={"trip": IntAttr(trip)}, regions=[body])


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """The slice of the input vector that a request needs, sent to all cores of each channel."""

    name = "cam.broadcast"
    bytes = prop_def(IntAttr)

    @staticmethod
    def of(size: int) -> BroadcastOp:
        return BroadcastOp(properties={"bytes": IntAttr(size)})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" bytes {self.bytes.data}")

    @classmethod
    def parse(cls, parser: Parser) -> BroadcastOp:
        parser.parse_keyword("bytes")
        return BroadcastOp.of(parser.parse_integer())


class _PageOp(IRDLOperation):
    """A command that reads one page on every channel and core (or die): where is an affine map of the
    loops.
    """

    WORDS: ClassVar[tuple[str, ...]] = ()
    indices = var_operand_def(IndexType)
    page = prop_def(AffineMapAttr)

    @classmethod
    def make(cls, indices: Sequence[SSAValue], page: AffineMap, *numbers: int):
        properties: dict[str, Attribute] = {word: IntAttr(n) for word, n in zip(cls.WORDS, numbers)}
        return cls(operands=[indices], properties={"page": AffineMapAttr(page), **properties})

    def verify_(self) -> None:
        shape = self.page.data
        if shape.num_dims != len(self.indices) or shape.num_symbols != 2 or len(shape.results) != 5:
            raise VerifyException(
                "a page map takes the loops' indices and [channel, core] to (channel, chip, die, plane, page)"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" (")
        printer.print_list(self.indices, printer.print_ssa_value)
        printer.print_string(") ")
        printer.print_attribute(self.page)
        for word in self.WORDS:
            printer.print_string(f" {word} {self.properties[word].data}")  # pyright: ignore

    @classmethod
    def parse(cls, parser: Parser):
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        indices = [parser.resolve_operand(operand, IndexType()) for operand in operands]
        page = parser.parse_attribute()
        if not isinstance(page, AffineMapAttr):
            parser.raise_error(f"expected an affine_map, found {page}")
        numbers = []
        for word in cls.WORDS:
            parser.parse_keyword(word)
            numbers.append(parser.parse_integer())
        return cls.make(indices, page.data, *numbers)


@irdl_op_definition
class ReadComputeOp(_PageOp):
    """Read a page, multiply it where it lies, return `rows` partial sums of `width` bytes in `parts`
    transfers.
    """

    name = "cam.read_compute"
    rows = prop_def(IntAttr)
    width = prop_def(IntAttr)
    parts = prop_def(IntAttr)
    WORDS: ClassVar[tuple[str, ...]] = ("rows", "width", "parts")


@irdl_op_definition
class PageReadOp(_PageOp):
    """Read a page and send it to the NPU, in `slices` (1: whole) of at most `bytes`."""

    name = "cam.page_read"
    slices = prop_def(IntAttr)
    bytes = prop_def(IntAttr)
    WORDS: ClassVar[tuple[str, ...]] = ("slices", "bytes")


COMMANDS = (LoopOp, BroadcastOp, ReadComputeOp, PageReadOp)
