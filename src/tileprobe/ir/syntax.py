"""Small helpers for the custom syntax of the portable dialects: operands behind keywords, affine places."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer


def operand(parser: Parser, kind: Attribute) -> SSAValue:
    """An operand whose type is known."""
    return parser.resolve_operand(parser.parse_unresolved_operand(), kind)


def optional_operand(parser: Parser, keyword: str) -> UnresolvedOperand:
    """An operand behind a keyword, its type still to come."""
    parser.parse_keyword(keyword)
    return parser.parse_unresolved_operand()


def resolve(parser: Parser, operands: Sequence[UnresolvedOperand]) -> list[SSAValue]:
    """Reads `: type` and gives all operands that type."""
    parser.parse_punctuation(":")
    kind = parser.parse_type()
    return [parser.resolve_operand(item, kind) for item in operands]


def print_values(printer: Printer, *parts: str | SSAValue) -> None:
    for part in parts:
        if isinstance(part, str):
            printer.print_string(part)
        else:
            printer.print_ssa_value(part)


def print_place(
    printer: Printer, base: IntAttr, indices: Sequence[SSAValue], strides: ArrayAttr[IntAttr]
) -> None:
    """` at 9 [%k * 5, %j * 2]`."""
    printer.print_string(f" at {base.data}")
    if not indices:
        return
    for n, (index, stride) in enumerate(zip(indices, strides)):
        print_values(printer, ", " if n else " [", index, f" * {stride.data}")
    printer.print_string("]")


def parse_place(parser: Parser, kind: Attribute) -> tuple[IntAttr | None, list[SSAValue], ArrayAttr[IntAttr]]:
    """The inverse of `print_place`; no base when there is no `at`."""
    if not parser.parse_optional_keyword("at"):
        return None, [], ArrayAttr([])
    base = IntAttr(parser.parse_integer())

    def term() -> tuple[SSAValue, IntAttr]:
        index = operand(parser, kind)
        parser.parse_punctuation("*")
        return index, IntAttr(parser.parse_integer())

    terms = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, term) or []
    return base, [index for index, _ in terms], ArrayAttr([stride for _, stride in terms])
