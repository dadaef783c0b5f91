"""The `tile` dialect: a kernel as stages that run one after another, each over tiles in scratch buffers.

A stage is a loop nest with a scalar body (`tile.nest`), a reduction or scan with a combine function of the
user's, a matrix product, a histogram. Bodies hold scalar ops of Triton's dialects (`arith`, `math`, `tt`);
the vectors are made when LLVM is. Values of tensor type do not exist here: a tile is a buffer, or it is
recomputed where it is used.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
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
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException


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


@irdl_op_definition
class WriteOp(IRDLOperation):
    """Set one element of a buffer."""

    name = "tile.write"
    value = operand_def()
    buffer = operand_def(BufferType)
    indices = var_operand_def()


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a body: the values to reduce, or the result of a combine function."""

    name = "tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())


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


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """Copy a dense buffer into one with its last two dimensions exchanged (any layout)."""

    name = "tile.transpose"
    source = operand_def(BufferType)
    into = operand_def(BufferType)
    kinds = opt_prop_def(StringAttr)
    lines = opt_prop_def(StringAttr)


@irdl_op_definition
class HistogramOp(IRDLOperation):
    """Count how often each value occurs among the elements whose mask is set."""

    name = "tile.histogram"
    source = operand_def(BufferType)
    mask = opt_operand_def(BufferType)
    into = operand_def(BufferType)
    kinds = opt_prop_def(StringAttr)
    lines = opt_prop_def(StringAttr)


STAGES = (NestOp, ReduceOp, ScanOp, DotOp, TransposeOp, HistogramOp)

Tile = Dialect(
    "tile",
    [AllocOp, ViewOp, ReadOp, WriteOp, YieldOp, NestOp, ReduceOp, ScanOp, DotOp, TransposeOp, HistogramOp],
    [BufferType],
)
