"""A step and its loop over layers: `cam.step`, `cam.layers`, and what ends their bodies."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator
from xdsl.utils.exceptions import VerifyException

from tileprobe.targets.cambricon.attributes import VectorType
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT
from tileprobe.targets.cambricon.precision import PRECISIONS


@irdl_op_definition
class StepOp(IRDLOperation):
    """One step of a model: a token decoded, or a prompt of `tokens` prefilled."""

    name = "cam.step"
    sym_name = prop_def(StringAttr)
    kind = prop_def(StringAttr)
    tokens = prop_def(IntAttr)
    sequences = opt_prop_def(
        IntAttr
    )  # that the tokens belong to, each with a cache of its own; 1 when not given
    context = prop_def(IntAttr)
    weights = prop_def(StringAttr)
    mode = prop_def(StringAttr)
    sliced = opt_prop_def(UnitAttr)
    body = region_def("single_block")

    @property
    def batch(self) -> int:
        return 1 if self.sequences is None else self.sequences.data

    def verify_(self) -> None:
        if self.kind.data not in ("decode", "prefill"):
            raise VerifyException(f"a step is a decode or a prefill, not {self.kind.data!r}")
        if self.weights.data not in PRECISIONS:
            raise VerifyException(f"weights are {' or '.join(PRECISIONS)}, not {self.weights.data!r}")
        if self.mode.data not in (SPLIT, FLASH_ONLY, NPU_ONLY):
            raise VerifyException(f"mode is {SPLIT}, {FLASH_ONLY} or {NPU_ONLY}, not {self.mode.data!r}")
        if self.batch < 1 or self.tokens.data % self.batch:
            raise VerifyException(f"{self.tokens.data} tokens do not belong to {self.batch} sequences evenly")
        if self.tokens.data < 1 or self.context.data < 0:
            raise VerifyException("a step has at least one token and no negative context")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(
            f" {self.kind.data} tokens {self.tokens.data}"
            + (f" sequences {self.batch}" if self.batch > 1 else "")
            + f" context {self.context.data} weights "
        )
        printer.print_string_literal(self.weights.data)
        printer.print_string(" mode ")
        printer.print_string_literal(self.mode.data)
        printer.print_string(" sliced" if self.sliced is not None else "")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> StepOp:
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        properties["kind"] = StringAttr(parser.parse_identifier())
        parser.parse_keyword("tokens")
        properties["tokens"] = IntAttr(parser.parse_integer())
        if parser.parse_optional_keyword("sequences"):
            properties["sequences"] = IntAttr(parser.parse_integer())
        parser.parse_keyword("context")
        properties["context"] = IntAttr(parser.parse_integer())
        for word in ("weights", "mode"):
            parser.parse_keyword(word)
            properties[word] = StringAttr(parser.parse_str_literal())
        if parser.parse_optional_keyword("sliced"):
            properties["sliced"] = UnitAttr()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = StepOp(properties=properties, regions=[parser.parse_region()])
        op.attributes |= attributes.data if attributes else {}
        return op


@irdl_op_definition
class LayersOp(IRDLOperation):
    """The decoder layers, one after the other: every layer's output is the next one's input."""

    name = "cam.layers"
    count = prop_def(IntAttr)
    routes = opt_prop_def(ArrayAttr)  # the experts of each layer; -1 - n: expert n, which is in DRAM
    init = operand_def(VectorType)
    out = result_def(VectorType)
    body = region_def("single_block")

    @staticmethod
    def of(
        count: int, init: SSAValue, body: Region, routes: Sequence[Sequence[int]] | None = None
    ) -> LayersOp:
        properties: dict[str, Attribute] = {"count": IntAttr(count)}
        if routes is not None:
            properties["routes"] = ArrayAttr(
                [ArrayAttr([IntegerAttr(e, i64) for e in one]) for one in routes]
            )
        return LayersOp(operands=[init], result_types=[init.type], properties=properties, regions=[body])

    def experts(self, layer: int, active: int) -> list[int]:
        """The experts that a token meets in a layer, counted within this loop."""
        if self.routes is None:
            return list(range(active))
        return [e.value.data for e in self.routes.data[layer].data]  # pyright: ignore

    def verify_(self) -> None:
        if self.count.data < 1:
            raise VerifyException(f"a model has at least one layer, found {self.count.data}")
        if self.routes is not None and len(self.routes.data) != self.count.data:
            raise VerifyException(f"{len(self.routes.data)} routes for {self.count.data} layers")
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("the body of cam.layers ends with cam.yield")
        if self.body.block.last_op.value.type != self.init.type:
            raise VerifyException("a layer yields a vector as long as the one it takes")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.count.data} (")
        printer.print_ssa_value(self.init)
        printer.print_string(")")
        if self.routes is not None:
            printer.print_string(" routes ")
            printer.print_attribute(self.routes)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> LayersOp:
        count = parser.parse_integer()
        parser.parse_punctuation("(")
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(")")
        routes = parser.parse_attribute() if parser.parse_optional_keyword("routes") else None
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        kind = body.block.args[0].type
        op = LayersOp.of(count, parser.resolve_operand(operand, kind), body)
        if routes is not None:
            op.properties["routes"] = routes
        op.attributes |= attributes.data if attributes else {}
        return op


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a layer with the vector for the next one."""

    name = "cam.yield"
    value = operand_def(VectorType)
    traits = traits_def(IsTerminator(), HasParent(LayersOp))
    assembly_format = "$value attr-dict `:` type($value)"


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a step."""

    name = "cam.return"
    traits = traits_def(IsTerminator(), HasParent(StepOp))
    assembly_format = "attr-dict"
