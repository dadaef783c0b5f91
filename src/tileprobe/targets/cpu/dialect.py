"""The `tile` dialect: a kernel as stages that run one after another, each over tiles in scratch buffers.

A stage is a loop nest with a scalar body (`tile.nest`), a reduction or scan with a combine function of the
user's, a matrix product, a histogram. Bodies hold scalar ops of Triton's dialects (`arith`, `math`, `tt`);
the vectors are made when LLVM is. Values of tensor type do not exist here: a tile is a buffer, or it is
recomputed where it is used.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerType, StringAttr
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from tileprobe.targets.cpu import dialect_syntax as syntax


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """A tile in scratch memory: `!tile.buffer<[64, 32], f32>`, or with a layout `!tile.buffer<[32, 64], f32, p1x16>`.

    Layouts: `row` is dense and row-major; `pAxN` cuts axis A (0 or 1) of the last two dimensions into panels of
    N elements, as a matrix product reads its operands.
    """

    name = "tile.buffer"
    shape: ArrayAttr[IntAttr]
    element: Attribute
    layout: StringAttr

    @staticmethod
    def of(shape: Sequence[int], element: Attribute, layout: str = "row") -> BufferType:
        return BufferType(ArrayAttr([IntAttr(d) for d in shape]), element, StringAttr(layout))

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(d.data for d in self.shape)

    @property
    def panel(self) -> tuple[int, int] | None:
        """(axis, width) of the panels; None for a row-major buffer."""
        text = self.layout.data
        if text == "row":
            return None
        axis, width = text[1:].split("x")
        return int(axis), int(width)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<[{', '.join(map(str, self.dims))}], ")
        printer.print_attribute(self.element)
        if self.layout.data != "row":
            printer.print_string(f", {self.layout.data}")
        printer.print_string(">")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dims = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_negative=False)
            )
            parser.parse_punctuation(",")
            element = parser.parse_type()
            layout = parser.parse_identifier() if parser.parse_optional_punctuation(",") else "row"
        return [ArrayAttr([IntAttr(d) for d in dims]), element, StringAttr(layout)]


@irdl_op_definition
class AllocOp(IRDLOperation):
    """A buffer in the scratch memory of the program. `offset` is its place there, once assigned."""

    name = "tile.alloc"
    offset = opt_prop_def(IntAttr)
    buffer = result_def(BufferType)

    def print(self, printer: Printer) -> None:
        if self.offset is not None:
            printer.print_string(f" at {self.offset.data}")
        printer.print_string(" : ")
        printer.print_attribute(self.buffer.type)

    @classmethod
    def parse(cls, parser: Parser) -> AllocOp:
        offset = parser.parse_integer() if parser.parse_optional_keyword("at") else None
        parser.parse_punctuation(":")
        properties: dict[str, Attribute] = {} if offset is None else {"offset": IntAttr(offset)}
        return AllocOp.create(result_types=[parser.parse_type()], properties=properties)


@irdl_op_definition
class ViewOp(IRDLOperation):
    """The same dense buffer seen with another shape."""

    name = "tile.view"
    source = operand_def(BufferType)
    buffer = result_def(BufferType)
    traits = traits_def(Pure())


@irdl_op_definition
class ReadOp(IRDLOperation):
    """One element of a buffer."""

    name = "tile.read"
    buffer = operand_def(BufferType)
    indices = var_operand_def()
    value = result_def()

    def print(self, printer: Printer) -> None:
        syntax.print_element(printer, self.buffer, self.indices)

    @classmethod
    def parse(cls, parser: Parser) -> ReadOp:
        buffer, indices = syntax.parse_element(parser)
        assert isinstance(buffer.type, BufferType)
        return ReadOp.create(operands=[buffer, *indices], result_types=[buffer.type.element])


@irdl_op_definition
class WriteOp(IRDLOperation):
    """Set one element of a buffer."""

    name = "tile.write"
    value = operand_def()
    buffer = operand_def(BufferType)
    indices = var_operand_def()

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(",")
        syntax.print_element(printer, self.buffer, self.indices)

    @classmethod
    def parse(cls, parser: Parser) -> WriteOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        buffer, indices = syntax.parse_element(parser)
        assert isinstance(buffer.type, BufferType)
        element = parser.resolve_operand(value, buffer.type.element)
        return WriteOp.create(operands=[element, buffer, *indices])


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a body: the values to reduce, or the result of a combine function."""

    name = "tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())

    def print(self, printer: Printer) -> None:
        syntax.print_typed(printer, self.values)

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        return YieldOp.create(operands=syntax.parse_typed(parser))


@irdl_op_definition
class NestOp(IRDLOperation):
    """A fused loop nest over `shape`. The body sees one point of it; its yielded values are reduced along `axis`.

    `reduce` names the combination of each yielded value. In one dimension the results are scalars; otherwise
    they are written to `into`.
    """

    name = "tile.nest"
    into = var_operand_def(BufferType)
    shape = prop_def(ArrayAttr[IntAttr])
    axis = opt_prop_def(IntAttr)
    reduce = opt_prop_def(ArrayAttr[StringAttr])
    kinds = opt_prop_def(StringAttr)
    lines = opt_prop_def(StringAttr)
    body = region_def("single_block")
    reduced = var_result_def()

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(d.data for d in self.shape)

    def print(self, printer: Printer) -> None:
        args = self.body.block.args
        printer.print_string(" (")
        printer.print_list(args, printer.print_ssa_value)
        printer.print_string(f") in [{', '.join(map(str, self.dims))}]")
        if self.axis is not None and self.reduce is not None:
            printer.print_string(f" reduce {self.axis.data} by {', '.join(k.data for k in self.reduce)}")
        if self.into:
            printer.print_string(" into")
            syntax.print_typed(printer, self.into)
        syntax.print_origin(printer, self)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        syntax.print_results(printer, self.reduced)

    @classmethod
    def parse(cls, parser: Parser) -> NestOp:
        names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("in")
        dims = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        properties: dict[str, Attribute] = {"shape": ArrayAttr([IntAttr(d) for d in dims])}
        if parser.parse_optional_keyword("reduce"):
            properties["axis"] = IntAttr(parser.parse_integer())
            parser.parse_keyword("by")
            kinds = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_identifier)
            properties["reduce"] = ArrayAttr([StringAttr(k) for k in kinds])
        into = syntax.parse_typed(parser) if parser.parse_optional_keyword("into") else []
        properties.update(syntax.parse_origin(parser))
        arguments = [parser.Argument(name.span, IntegerType(32)) for name in names]
        body = parser.parse_region(arguments)
        types = syntax.parse_results(parser)
        return NestOp.create(operands=into, result_types=types, properties=properties, regions=[body])

    def verify_(self) -> None:
        block = self.body.block
        if len(block.args) != len(self.dims):
            raise VerifyException(f"a nest over {len(self.dims)} dimensions needs as many indices")
        count = len(self.reduce) if self.reduce is not None else 0
        last = block.last_op
        if not isinstance(last, YieldOp) or len(last.values) != count:
            raise VerifyException("a nest yields one value for each reduction")
        if count and self.axis is None:
            raise VerifyException("a nest with reductions names their axis")
        if len(self.into) + len(self.reduced) != count:
            raise VerifyException("each reduction has one place for its result")


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Reduce buffers along `axis` with a combine function: block arguments are accumulators, then elements."""

    name = "tile.reduce"
    sources = var_operand_def(BufferType)
    into = var_operand_def(BufferType)
    axis = prop_def(IntAttr)
    kinds = opt_prop_def(StringAttr)
    lines = opt_prop_def(StringAttr)
    combine = region_def("single_block")
    reduced = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Scan buffers along `axis`, forwards or in reverse, with a combine function."""

    name = "tile.scan"
    sources = var_operand_def(BufferType)
    into = var_operand_def(BufferType)
    axis = prop_def(IntAttr)
    reverse = prop_def(IntAttr)
    kinds = opt_prop_def(StringAttr)
    lines = opt_prop_def(StringAttr)
    combine = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class DotOp(IRDLOperation):
    """`c += a * b` on buffers, or `c = a * b` when `zero` is set. Leading dimensions are a batch."""

    name = "tile.dot"
    a = operand_def(BufferType)
    b = operand_def(BufferType)
    c = operand_def(BufferType)
    zero = prop_def(IntAttr)
    kinds = opt_prop_def(StringAttr)
    lines = opt_prop_def(StringAttr)

    def print(self, printer: Printer) -> None:
        if self.zero.data:
            printer.print_string(" zero")
        syntax.print_typed(printer, self.operands)
        syntax.print_origin(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> DotOp:
        zero = IntAttr(int(parser.parse_optional_keyword("zero") is not None))
        operands = syntax.parse_typed(parser)
        return DotOp.create(operands=operands, properties={"zero": zero, **syntax.parse_origin(parser)})


@irdl_op_definition
class HistogramOp(IRDLOperation):
    """Count how often each value occurs among the elements whose mask is set."""

    name = "tile.histogram"
    source = operand_def(BufferType)
    mask = opt_operand_def(BufferType)
    into = operand_def(BufferType)
    kinds = opt_prop_def(StringAttr)
    lines = opt_prop_def(StringAttr)


STAGES = (NestOp, ReduceOp, ScanOp, DotOp, HistogramOp)

Tile = Dialect(
    "tile",
    [AllocOp, ViewOp, ReadOp, WriteOp, YieldOp, NestOp, ReduceOp, ScanOp, DotOp, HistogramOp],
    [BufferType],
)
