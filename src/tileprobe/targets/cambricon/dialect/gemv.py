"""`cam.gemv`: a weight matrix times a vector, and the groups that run together."""

from __future__ import annotations

from itertools import pairwise

from xdsl.dialects.builtin import IntAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from tileprobe.targets.cambricon.attributes import BuffersAttr, ExpertsAttr, SplitAttr, TileAttr, VectorType
from tileprobe.targets.cambricon.dialect.syntax import length_of


@irdl_op_definition
class GemvOp(IRDLOperation):
    """A weight matrix times a vector. Products of one vector that stand together run together (`group`)."""

    name = "cam.gemv"
    label = prop_def(StringAttr)
    rows = prop_def(IntAttr)
    cols = prop_def(IntAttr)
    bias = opt_prop_def(UnitAttr)
    experts = opt_prop_def(ExpertsAttr)
    tile = opt_prop_def(TileAttr)
    split = opt_prop_def(SplitAttr)
    buffers = opt_prop_def(BuffersAttr)
    vector = operand_def(VectorType)
    out = result_def(VectorType)
    body = opt_region_def()
    traits = traits_def(NoTerminator())

    @staticmethod
    def of(
        label: str,
        vector: SSAValue,
        rows: int,
        cols: int,
        bias: bool = False,
        experts: ExpertsAttr | None = None,
    ) -> GemvOp:
        properties: dict[str, Attribute] = {
            "label": StringAttr(label),
            "rows": IntAttr(rows),
            "cols": IntAttr(cols),
        }
        if bias:
            properties["bias"] = UnitAttr()
        if experts is not None:
            properties["experts"] = experts
        out = rows if experts is None or experts.joined.data == 1 else rows * experts.active.data
        return GemvOp(
            operands=[vector], result_types=[VectorType.of(out)], properties=properties, regions=[[]]
        )

    @property
    def ends(self) -> tuple[int, int]:
        """Lengths of the vectors that it takes and makes."""
        cols, rows = self.cols.data, self.rows.data
        if self.experts is None:
            return cols, rows
        active, joined = self.experts.active.data, self.experts.joined.data
        return cols * (active if joined else 1), rows * (1 if joined == 1 else active)

    def verify_(self) -> None:
        if (length_of(self.vector), length_of(self.out)) != self.ends:
            raise VerifyException(
                f"{self.label.data}: {self.rows.data} x {self.cols.data} does not take a vector of "
                f"{length_of(self.vector)} "
                f"to one of {length_of(self.out)}"
            )
        stages = [self.tile, self.split, self.buffers]
        if any(b is not None for a, b in pairwise(stages) if a is None):
            raise VerifyException(f"{self.label.data}: a gemv is tiled, split and buffered in this order")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        printer.print_string("(")
        printer.print_ssa_value(self.vector)
        printer.print_string(f") {self.rows.data} x {self.cols.data}")
        printer.print_string(" bias" if self.bias is not None else "")
        for stage in (self.experts, self.tile, self.split, self.buffers):
            if stage is not None:
                printer.print_string(f" {stage.name.removeprefix('cam.')} ")
                stage.print_parameters(printer)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        if self.body is not None:
            printer.print_string(" ")
            printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> GemvOp:
        label = parser.parse_str_literal()
        parser.parse_punctuation("(")
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(")")
        rows = parser.parse_integer()
        parser.parse_keyword("x")
        cols = parser.parse_integer()
        bias = parser.parse_optional_keyword("bias") is not None
        experts, length = None, cols
        if parser.parse_optional_keyword("experts"):
            experts = ExpertsAttr.read(parser)
            length = cols * (experts.active.data if experts.joined.data else 1)
        op = GemvOp.of(
            label, parser.resolve_operand(operand, VectorType.of(length)), rows, cols, bias, experts
        )
        for stage in (TileAttr, SplitAttr, BuffersAttr):
            word = stage.name.removeprefix("cam.")
            if parser.parse_optional_keyword(word):
                op.properties[word] = stage.read(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op.attributes |= attributes.data if attributes else {}
        region = parser.parse_optional_region()
        if region is not None:
            op.add_region(region)
        return op


def groups(block: Block) -> list[list[GemvOp]]:
    """Products of one vector that stand next to each other, in program order; probes between them do not
    part them.
    """
    found: list[list[GemvOp]] = []
    apart = True
    for op in block.ops:
        if isinstance(op, GemvOp):
            if apart or found[-1][-1].vector is not op.vector:
                found.append([])
            found[-1].append(op)
            apart = False
        elif not op.name.startswith("probe."):
            apart = True
    return found
