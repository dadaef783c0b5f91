"""Types and attributes of the `cam` dialect: a vector of activations, and what each pass decides about a
matrix.

`#cam.tile` is the shape of a request, `#cam.split` the block rows computed in flash, `#cam.buffers` how a core's
buffer is cut. Where the pages lie stands in the commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


@irdl_attr_definition
class VectorType(ParametrizedAttribute, TypeAttribute):
    """Activations of one token: `!cam.vector<4096>`."""

    name = "cam.vector"
    length: IntAttr

    @staticmethod
    def of(length: int) -> VectorType:
        return VectorType(IntAttr(length))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer())]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.length.data))

    def verify(self) -> None:
        if self.length.data < 1:
            raise VerifyException(f"a vector has at least one element, found {self.length.data}")


class _Numbers(ParametrizedAttribute):
    """Attributes that are a few named numbers: `<word number, word number>`."""

    WORDS: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, *numbers: int):
        return cls(*(IntAttr(n) for n in numbers))

    @classmethod
    def read(cls, parser: AttrParser):
        """One written without its name, where a keyword has said which it is."""
        return cls(*(IntAttr(n.data) for n in cls.parse_parameters(parser) if isinstance(n, IntAttr)))

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(p.data for p in self.parameters if isinstance(p, IntAttr))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        found = []
        with parser.in_angle_brackets():
            for n, word in enumerate(cls.WORDS):
                if n:
                    parser.parse_punctuation(",")
                parser.parse_keyword(word)
                found.append(IntAttr(parser.parse_integer()))
        return found

    def print_parameters(self, printer: Printer) -> None:
        pairs = zip(self.WORDS, self.numbers)
        with printer.in_angle_brackets():
            printer.print_string(", ".join(f"{word} {number}" for word, number in pairs))


@irdl_attr_definition
class TileAttr(_Numbers):
    """The block of a matrix that one request covers, over all channels and cores: `#cam.tile<rows 256,
    cols 2048>`.
    """

    name = "cam.tile"
    rows: IntAttr
    cols: IntAttr
    WORDS: ClassVar[tuple[str, ...]] = ("rows", "cols")

    def verify(self) -> None:
        if min(self.numbers) < 1:
            raise VerifyException(f"a tile has at least one row and column, found {self.numbers}")


@irdl_attr_definition
class SplitAttr(_Numbers):
    """Block rows computed in flash, of all: the rest streams to the NPU. `edge` are those of the last columns, which do
    not fill a request on all channels. `#cam.split<flash 48, edge 0, all 64>`.
    """

    name = "cam.split"
    flash: IntAttr
    edge: IntAttr
    all: IntAttr
    WORDS: ClassVar[tuple[str, ...]] = ("flash", "edge", "all")

    def verify(self) -> None:
        flash, edge, whole = self.numbers
        if not 0 <= min(flash, edge) <= max(flash, edge) <= whole:
            raise VerifyException(f"{flash} and {edge} of {whole} block rows in flash is no split")


@irdl_attr_definition
class BuffersAttr(_Numbers):
    """How a core's buffer is cut: input slices it holds, rows of a page whose sums fit one of two output
    buffers, and whether an input slice stays for the next request that needs it (1) or is sent again
    (0).
    """

    name = "cam.buffers"
    inputs: IntAttr
    rows: IntAttr
    keep: IntAttr
    WORDS: ClassVar[tuple[str, ...]] = ("inputs", "rows", "keep")

    def verify(self) -> None:
        if self.inputs.data < 1 or self.rows.data < 1 or self.keep.data not in (0, 1):
            raise VerifyException(f"buffers need an input slot, a row, and keep 0 or 1, found {self.numbers}")


@irdl_attr_definition
class ExpertsAttr(_Numbers):
    """A matrix that exists once for each of so many experts, of which a token takes a few. `joined` 0: all of them take
    one vector, and their results stand behind each other; 1: each takes its part of the vector, and results add up;
    2: each takes its part, and results stand behind each other (heads).
    """

    name = "cam.experts"
    of: IntAttr
    active: IntAttr
    joined: IntAttr
    WORDS: ClassVar[tuple[str, ...]] = ("of", "active", "joined")

    def verify(self) -> None:
        of, active, joined = self.numbers
        if not 1 <= active <= of or joined not in (0, 1, 2):
            raise VerifyException(f"{active} of {of} experts, joined {joined}, is no mixture")
