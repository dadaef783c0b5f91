"""How `cam` ops write and read their operands and types, and how long a vector is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from tileprobe.targets.cambricon.attributes import VectorType


def length_of(value: SSAValue) -> int:
    return cast(VectorType, value.type).length.data


def print_operands(printer: Printer, values: Sequence[SSAValue]) -> None:
    printer.print_string("(")
    printer.print_list(values, printer.print_ssa_value)
    printer.print_string(")")


def print_types(printer: Printer, inputs: Sequence[SSAValue], out: SSAValue) -> None:
    printer.print_string(" : (")
    printer.print_list(inputs, lambda value: printer.print_attribute(value.type))
    printer.print_string(") -> ")
    printer.print_attribute(out.type)


def parse_types(parser: Parser, operands: list) -> tuple[list[SSAValue], VectorType]:
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    parser.parse_punctuation("->")
    out = parser.parse_type()
    if not isinstance(out, VectorType):
        parser.raise_error(f"expected a cam.vector, found {out}")
    return list(parser.resolve_operands(operands, types, parser.pos)), out
