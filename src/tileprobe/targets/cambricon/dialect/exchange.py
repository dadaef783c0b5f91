"""`cam.exchange`: what packages that share a step send each other."""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tileprobe.targets.cambricon.attributes import VectorType
from tileprobe.targets.cambricon.dialect.syntax import length_of, parse_types, print_types

HOW = ("reduce", "gather", "scale")


@irdl_op_definition
class ExchangeOp(IRDLOperation):
    """In a ring of packages: `reduce` adds up what each has of a vector, `gather` puts their parts behind each other,
    `scale` agrees on the largest value. `bytes` are those of the whole vector, or of the value.
    """

    name = "cam.exchange"
    how = prop_def(StringAttr)
    packages = prop_def(IntAttr)
    bytes = prop_def(IntAttr)
    value = operand_def(VectorType)
    out = result_def(VectorType)

    @staticmethod
    def of(how: str, value: SSAValue, packages: int, size: int) -> ExchangeOp:
        length = length_of(value) * (packages if how == "gather" else 1)
        return ExchangeOp(
            operands=[value],
            result_types=[VectorType.of(length)],
            properties={"how": StringAttr(how), "packages": IntAttr(packages), "bytes": IntAttr(size)},
        )

    @property
    def steps(self) -> int:
        """Times that every package sends to its neighbour."""
        return (self.packages.data - 1) * (1 if self.how.data == "gather" else 2)

    @property
    def sent(self) -> float:
        """Bytes that every package sends: a part of the vector in each step."""
        return self.steps * self.bytes.data / self.packages.data

    def verify_(self) -> None:
        if self.how.data not in HOW:
            raise VerifyException(f"packages exchange by {', '.join(HOW)}, not {self.how.data!r}")
        if self.packages.data < 2 or self.bytes.data < 1:
            raise VerifyException(f"{self.packages.data} packages exchange {self.bytes.data} bytes")
        factor = self.packages.data if self.how.data == "gather" else 1
        if length_of(self.out) != factor * length_of(self.value):
            raise VerifyException(
                f"{self.how.data} of {length_of(self.value)} values is no {length_of(self.out)}"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.how.data)
        printer.print_string("(")
        printer.print_ssa_value(self.value)
        printer.print_string(f") packages {self.packages.data} bytes {self.bytes.data}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_types(printer, [self.value], self.out)

    @classmethod
    def parse(cls, parser: Parser) -> ExchangeOp:
        how = parser.parse_str_literal()
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("packages")
        packages = parser.parse_integer()
        parser.parse_keyword("bytes")
        size = parser.parse_integer()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        inputs, _ = parse_types(parser, operands)
        op = ExchangeOp.of(how, inputs[0], packages, size)
        op.attributes |= attributes.data if attributes else {}
        return op
