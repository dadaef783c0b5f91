"""The commands of the `cam` dialect: what a mapped matrix does, as loops over affine page maps.

    cam.loop %j = 2 {
      cam.loop %i = 12 {
        cam.broadcast bytes 256
        cam.read_compute (%j, %i) page affine_map<...> block affine_map<...> first 0 end 48 rows 64 cols 256 ...
      }
    }

The engine runs what stands here and knows no other layout (`expand.py`).
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
    """A command that reads one page on every channel and core (or die). Two affine maps of the loops say which: `page`
    the place of it, `block` the block of the matrix that lies there. Blocks outside of the matrix, or of the block
    rows `first` to `end`, are not commanded.
    """

    WORDS: ClassVar[tuple[str, ...]] = ()
    indices = var_operand_def(IndexType)
    page = prop_def(AffineMapAttr)
    block = prop_def(AffineMapAttr)

    @classmethod
    def make(cls, indices: Sequence[SSAValue], page: AffineMap, block: AffineMap, *numbers: int):
        properties: dict[str, Attribute] = {word: IntAttr(n) for word, n in zip(cls.WORDS, numbers)}
        maps = {"page": AffineMapAttr(page), "block": AffineMapAttr(block)}
        return cls(operands=[indices], properties={**maps, **properties})

    def verify_(self) -> None:
        page, block, loops = self.page.data, self.block.data, len(self.indices)
        if (page.num_dims, page.num_symbols, len(page.results)) != (loops, 4, 5):
            raise VerifyException(
                f"a page map takes {loops} loops and [channel, unit, layer, expert] to "
                "(channel, chip, die, plane, page)"
            )
        if (block.num_dims, block.num_symbols, len(block.results)) != (loops, 2, 2):
            raise VerifyException(
                f"a block map takes {loops} loops and [channel, unit] to (block row, block column)"
            )
        for word in self.WORDS:
            if self.properties[word].data < (0 if word in ("first", "end") else 1):  # pyright: ignore
                raise VerifyException(f"{self.name}: {word} is {self.properties[word].data}")  # pyright: ignore

    def print(self, printer: Printer) -> None:
        printer.print_string(" (")
        printer.print_list(self.indices, printer.print_ssa_value)
        printer.print_string(") page ")
        printer.print_attribute(self.page)
        printer.print_string(" block ")
        printer.print_attribute(self.block)
        for word in self.WORDS:
            printer.print_string(f" {word} {self.properties[word].data}")  # pyright: ignore

    @classmethod
    def parse(cls, parser: Parser):
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        indices = [parser.resolve_operand(operand, IndexType()) for operand in operands]
        maps = []
        for word in ("page", "block"):
            parser.parse_keyword(word)
            found = parser.parse_attribute()
            if not isinstance(found, AffineMapAttr):
                parser.raise_error(f"expected an affine_map, found {found}")
            maps.append(found.data)
        numbers = []
        for word in cls.WORDS:
            parser.parse_keyword(word)
            numbers.append(parser.parse_integer())
        return cls.make(indices, *maps, *numbers)


@irdl_op_definition
class ReadComputeOp(_PageOp):
    """Read a page of `rows` x `cols` weights, multiply it where it lies by the vectors of `tokens`, return partial sums
    of `width` bytes in `parts` transfers for each. One execution is one request: a page on each channel and core.
    """

    name = "cam.read_compute"
    first = prop_def(IntAttr)
    end = prop_def(IntAttr)
    rows = prop_def(IntAttr)
    cols = prop_def(IntAttr)
    width = prop_def(IntAttr)
    parts = prop_def(IntAttr)
    tokens = prop_def(IntAttr)
    WORDS: ClassVar[tuple[str, ...]] = ("first", "end", "rows", "cols", "width", "parts", "tokens")


@irdl_op_definition
class PageReadOp(_PageOp):
    """Read a page of `rows` x `cols` weights and send its `bytes` to the NPU, in slices of `slice` bytes."""

    name = "cam.page_read"
    first = prop_def(IntAttr)
    end = prop_def(IntAttr)
    rows = prop_def(IntAttr)
    cols = prop_def(IntAttr)
    bytes = prop_def(IntAttr)
    slice = prop_def(IntAttr)
    WORDS: ClassVar[tuple[str, ...]] = ("first", "end", "rows", "cols", "bytes", "slice")


COMMANDS = (LoopOp, BroadcastOp, ReadComputeOp, PageReadOp)
