"""Pieces of the tile dialect's syntax: elements of buffers, typed lists, where a stage comes from."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

_INDEX = IntegerType(32)


def print_element(printer: Printer, buffer: SSAValue, indices: Sequence[SSAValue]) -> None:
    """` %b[%i, %j] : !tile.buffer<...>`."""
    printer.print_string(" ")
    printer.print_ssa_value(buffer)
    printer.print_string("[")
    printer.print_list(indices, printer.print_ssa_value)
    printer.print_string("] : ")
    printer.print_attribute(buffer.type)


def parse_element(parser: Parser) -> tuple[SSAValue, list[SSAValue]]:
    buffer = parser.parse_unresolved_operand()
    names = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
    parser.parse_punctuation(":")
    kind = parser.parse_type()
    return parser.resolve_operand(buffer, kind), [parser.resolve_operand(n, _INDEX) for n in names]


def print_typed(printer: Printer, values: Sequence[SSAValue]) -> None:
    """` %a, %b : f32, f64`; nothing for no values."""
    if not values:
        return
    printer.print_string(" ")
    printer.print_list(values, printer.print_ssa_value)
    printer.print_string(" : ")
    printer.print_list([v.type for v in values], printer.print_attribute)


def parse_typed(parser: Parser) -> list[SSAValue]:
    first = parser.parse_optional_unresolved_operand()
    if first is None:
        return []
    names = [first]
    while parser.parse_optional_punctuation(","):
        names.append(parser.parse_unresolved_operand())
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    return [parser.resolve_operand(name, kind) for name, kind in zip(names, types)]


def print_results(printer: Printer, values: Sequence[SSAValue]) -> None:
    if values:
        printer.print_string(" : ")
        printer.print_list([v.type for v in values], printer.print_attribute)


def parse_results(parser: Parser) -> list[Attribute]:
    if not parser.parse_optional_punctuation(":"):
        return []
    return parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)


def print_origin(printer: Printer, op: Operation) -> None:
    """` does "load+mul" from "kernel.py:41,42"`."""
    for word, key in (("does", "kinds"), ("from", "lines")):
        held = op.properties.get(key)
        if isinstance(held, StringAttr):
            printer.print_string(f" {word} ")
            printer.print_string_literal(held.data)


def parse_origin(parser: Parser) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for word, key in (("does", "kinds"), ("from", "lines")):
        if parser.parse_optional_keyword(word):
            found[key] = StringAttr(parser.parse_str_literal())
    return found
