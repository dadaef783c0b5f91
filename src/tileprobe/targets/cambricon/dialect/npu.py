"""What the NPU does alone: `cam.special` and `cam.attention`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_region_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from tileprobe.targets.cambricon.attributes import VectorType
from tileprobe.targets.cambricon.dialect.syntax import length_of, parse_types, print_operands, print_types


@irdl_op_definition
class SpecialOp(IRDLOperation):
    """A special function on the NPU: `passes` over the elements of its result, `reads` bytes of gains or
    biases.
    """

    name = "cam.special"
    label = prop_def(StringAttr)
    passes = prop_def(IntAttr)
    reads = prop_def(IntAttr)
    inputs = var_operand_def(VectorType)
    out = result_def(VectorType)

    @staticmethod
    def of(label: str, inputs: Sequence[SSAValue], length: int, passes: int = 1, reads: int = 0) -> SpecialOp:
        properties = {"label": StringAttr(label), "passes": IntAttr(passes), "reads": IntAttr(reads)}
        return SpecialOp(operands=[inputs], result_types=[VectorType.of(length)], properties=properties)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        print_operands(printer, self.inputs)
        printer.print_string(f" passes {self.passes.data} reads {self.reads.data}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_types(printer, self.inputs, self.out)

    @classmethod
    def parse(cls, parser: Parser) -> SpecialOp:
        label = parser.parse_str_literal()
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("passes")
        passes = parser.parse_integer()
        parser.parse_keyword("reads")
        reads = parser.parse_integer()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        inputs, out = parse_types(parser, operands)
        op = SpecialOp.of(label, inputs, out.length.data, passes, reads)
        op.attributes |= attributes.data if attributes else {}
        return op


@irdl_op_definition
class AttentionOp(IRDLOperation):
    """Attention on the NPU's array over the KV cache in DRAM, and over the oldest `flash` tokens of it in flash, whose
    pages the body reads. `window` is how far it sees (0: all). With `latent` n, one vector of `dim` values is key and,
    in its first n, value for all heads.
    """

    name = "cam.attention"
    heads = prop_def(IntAttr)
    kv_heads = prop_def(IntAttr)
    head_dim = prop_def(IntAttr)
    window = prop_def(IntAttr)
    flash = prop_def(IntAttr)
    latent = prop_def(IntAttr)
    inputs = var_operand_def(VectorType)
    out = result_def(VectorType)
    body = opt_region_def()
    traits = traits_def(NoTerminator())
    WORDS: ClassVar[dict[str, str]] = {
        "heads": "heads", "kv": "kv_heads", "dim": "head_dim", "window": "window", "flash": "flash", "latent": "latent"
    }  # fmt: skip

    @staticmethod
    def of(
        inputs: Sequence[SSAValue], heads: int, kv_heads: int, head_dim: int, window: int = 0, flash: int = 0,
        latent: int = 0,
    ) -> AttentionOp:  # fmt: skip
        numbers = zip(AttentionOp.WORDS.values(), (heads, kv_heads, head_dim, window, flash, latent))
        properties: dict[str, Attribute] = {name: IntAttr(number) for name, number in numbers}
        out = VectorType.of(heads * (latent or head_dim))
        return AttentionOp(operands=[inputs], result_types=[out], properties=properties, regions=[[]])

    @property
    def cached_values(self) -> int:
        """Values that it keeps of each token."""
        return self.head_dim.data if self.latent.data else 2 * self.kv_heads.data * self.head_dim.data

    def seen(self, context: int) -> int:
        """Tokens of a context that it sees."""
        return min(context, self.window.data) if self.window.data else context

    def verify_(self) -> None:
        heads, kv, dim = self.heads.data, self.kv_heads.data, self.head_dim.data
        if heads % kv:
            raise VerifyException(f"{heads} heads cannot share {kv} key and value heads evenly")
        if self.latent.data > dim or (self.latent.data and kv != 1):
            raise VerifyException(f"a latent part of {self.latent.data} in {kv} vectors of {dim} is none")
        lengths = [length_of(value) for value in self.inputs]
        expected = [heads * dim, dim] if self.latent.data else [heads * dim, kv * dim, kv * dim]
        if lengths != expected:
            raise VerifyException(f"attention takes q, k, v of {expected}, found {lengths}")

    def print(self, printer: Printer) -> None:
        print_operands(printer, self.inputs)
        for n, (word, name) in enumerate(self.WORDS.items()):
            number = self.properties[name].data  # pyright: ignore
            if n < 3 or number:
                printer.print_string(f" {word} {number}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_types(printer, self.inputs, self.out)
        if self.body is not None and self.body.blocks:
            printer.print_string(" ")
            printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> AttentionOp:
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        numbers = []
        for n, word in enumerate(cls.WORDS):
            if n < 3:
                parser.parse_keyword(word)
            numbers.append(parser.parse_integer() if n < 3 or parser.parse_optional_keyword(word) else 0)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        inputs, _ = parse_types(parser, operands)
        op = AttentionOp.of(inputs, *numbers)
        op.attributes |= attributes.data if attributes else {}
        region = parser.parse_optional_region()
        if region is not None:
            op.add_region(region)
        return op
