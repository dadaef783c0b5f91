"""Writes an xDSL module as the generic text that MLIR reads back.

Comes in: a module of unregistered or registered ops. Goes out: text with a location on every op and block
argument (MLIR would invent the temporary file's line for a missing one) and floats written as their bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from io import StringIO

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerType,
    StringAttr,
    UnregisteredAttr,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.printer import Printer

from tileprobe.errors import TileProbeError
from tileprobe.ir.constants import Constant
from tileprobe.ir.literals import RAW_FLOAT, float_text
from tileprobe.ir.locations import location_text

_OP_NAME = "op_name__"  # where xDSL keeps the name of an unregistered op


def write_generic(module: Operation) -> str:
    """The module in MLIR's generic form, locations included."""
    return _Writer().write(module)


@lru_cache(maxsize=8192)
def attribute_text(attribute: Attribute) -> str:
    """The text of an attribute or type as MLIR reads it."""
    stream = StringIO()
    _ExactPrinter(stream).print_attribute(attribute)
    return stream.getvalue()


class _ExactPrinter(Printer):
    """xDSL's printer with floats as bit patterns: its own decimals may round and lose NaN payloads."""

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            self.print_string(_dense_text(attribute))
        elif isinstance(attribute, FloatAttr):
            self.print_string(f"{float_text(attribute.value.data, attribute.type)} : {attribute.type}")
        elif isinstance(attribute, UnregisteredAttr) and attribute.attr_name.data == RAW_FLOAT:
            self.print_string(attribute.value.data)
        else:
            super().print_attribute(attribute)


def _dense_text(attribute: DenseIntOrFPElementsAttr) -> str:
    constant = Constant.from_attribute(attribute)
    kind = attribute.get_element_type()
    if isinstance(kind, AnyFloat):
        digits = 2 * kind.compile_time_size
        elements = [f"0x{int(bits):0{digits}X}" for bits in constant.bits_array().flat[: _count(constant)]]
    elif isinstance(kind, IntegerType) and kind.width.data == 1:
        elements = ["true" if value else "false" for value in constant.array().flat[: _count(constant)]]
    else:
        elements = [str(value) for value in constant.array().flat[: _count(constant)]]
    body = elements[0] if constant.splat else _nested(elements, attribute.get_shape())
    return f"dense<{body}> : {attribute_text(attribute.type)}"


def _count(constant: Constant) -> int | None:
    """How many elements are to be written: one of a splat, all (None) otherwise."""
    return 1 if constant.splat else None


def _nested(elements: list[str], shape: tuple[int, ...]) -> str:
    if not elements:
        return ""
    for size in reversed(shape):
        elements = [f"[{', '.join(elements[i : i + size])}]" for i in range(0, len(elements), size)]
    return elements[0]


class _Writer:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._values: dict[SSAValue, str] = {}
        self._blocks: dict[Block, str] = {}
        self._next_value = 0
        self._locations: dict[Attribute, str] = {}

    def write(self, module: Operation) -> str:
        self._name_definitions(module)
        self._op(module, "")
        aliases = [f"{name} = loc({location_text(loc)})" for loc, name in self._locations.items()]
        return "\n".join([*aliases, *self._lines, ""])

    def _name_definitions(self, op: Operation) -> None:
        """Name every value and block up front, since either may be used above its definition."""
        for region in op.regions:
            for block in region.blocks:
                self._blocks[block] = f"^bb{len(self._blocks)}"
                for argument in block.args:
                    self._values[argument] = self._new_value_name()
                for inner in block.ops:
                    self._name_results(inner)
                    if inner.regions:
                        self._name_definitions(inner)

    def _name_results(self, op: Operation) -> None:
        if not op.results:
            return
        name = self._new_value_name()
        if len(op.results) == 1:
            self._values[op.results[0]] = name
            return
        for index, result in enumerate(op.results):
            self._values[result] = f"{name}#{index}"

    def _new_value_name(self) -> str:
        self._next_value += 1
        return f"%{self._next_value - 1}"

    def _op(self, op: Operation, indent: str) -> None:
        title = _title(op)
        operands = ", ".join([self._value(operand, title) for operand in op.operands])
        head = f'{indent}{self._results(op)}"{title}"({operands})'
        if op.successors:
            head += f"[{', '.join(self._blocks[block] for block in op.successors)}]"
        if op.properties:
            head += f" <{_dictionary_text(op.properties)}>"
        if op.regions:
            self._lines.append(f"{head} ({{")
            self._regions(op.regions, indent)
            head = f"{indent}}})"
        if len(op.attributes) > (_OP_NAME in op.attributes):
            head += f" {_dictionary_text(op.attributes)}"
        signature = _signature_text(op.operand_types, op.result_types)
        self._lines.append(f"{head} : {signature} {self._location(op.location)}")

    def _results(self, op: Operation) -> str:
        if not op.results:
            return ""
        first = self._values[op.results[0]]
        return f"{first} = " if len(op.results) == 1 else f"{first[:-2]}:{len(op.results)} = "

    def _value(self, value: SSAValue, user: str) -> str:
        name = self._values.get(value)
        if name is None:
            owner = _title(value.op) if isinstance(value, OpResult) else "a block"
            raise TileProbeError(f"{user} uses a value of {owner} that is not part of the module")
        return name

    def _regions(self, regions: Iterable[Region], indent: str) -> None:
        for index, region in enumerate(regions):
            if index:
                self._lines.append(f"{indent}}}, {{")
            for block in region.blocks:
                arguments = ", ".join(self._argument(argument) for argument in block.args)
                self._lines.append(f"{indent}{self._blocks[block]}{f'({arguments})' if arguments else ''}:")
                for op in block.ops:
                    self._op(op, f"{indent}  ")

    def _argument(self, argument: BlockArgument) -> str:
        return (
            f"{self._values[argument]}: {attribute_text(argument.type)} {self._location(argument.location)}"
        )

    def _location(self, loc: Attribute) -> str:
        name = self._locations.get(loc)
        if name is None:
            name = self._locations[loc] = f"#loc{len(self._locations)}"
        return f"loc({name})"


def _title(op: Operation) -> str:
    name = op.attributes.get(_OP_NAME)
    return name.data if isinstance(name, StringAttr) else op.name


def _dictionary_text(attributes: Mapping[str, Attribute]) -> str:
    entries = (
        f"{_key_text(key)} = {attribute_text(value)}" for key, value in attributes.items() if key != _OP_NAME
    )
    return f"{{{', '.join(entries)}}}"


@lru_cache(maxsize=4096)
def _key_text(key: str) -> str:
    return attribute_text(StringAttr(key))


def _signature_text(operands: Iterable[Attribute], results: Iterable[Attribute]) -> str:
    outputs = [attribute_text(kind) for kind in results]
    single = len(outputs) == 1 and not outputs[0].startswith("(")
    return f"({', '.join([attribute_text(kind) for kind in operands])}) -> " + (
        outputs[0] if single else f"({', '.join(outputs)})"
    )
