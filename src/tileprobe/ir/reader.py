"""Reads the generic form that MLIR prints into an xDSL module, fast.

Comes in: text in which every op but one with regions stands on one line (MLIR's printer keeps to that).
Goes out: a ModuleOp of unregistered ops with locations, attribute aliases expanded, dense literals exact.
xDSL's own parser works token by token; here lines are cut up and each distinct attribute or type text is
parsed by xDSL once per process, since reading is part of every compilation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from tileprobe.errors import TileProbeError
from tileprobe.ir.literals import dense_attribute, exact_literals
from tileprobe.ir.locations import LocationReader

_ALIAS = re.compile(r"([#!][A-Za-z_][\w$]*) = (.*)")
_ALIAS_USE = re.compile(r'"(?:[^"\\]|\\.)*"|[#!][A-Za-z_][\w$.]*')
_OP = re.compile(r'(?:(%[\w$.-]+)(?::(\d+))? = )?"([\w$.-]+)"\(([^)]*)\)')
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|->|[<>(){}\[\]]')
_SPLIT = re.compile(r'"(?:[^"\\]|\\.)*"|->|[<>(){}\[\],]')
# What a constant op holds; xDSL takes milliseconds to check the type of each dense literal it parses.
_CONSTANT = re.compile(r"\{value = dense<([^<>]*)> : (tensor<[^\n]*>)\}")
_LABEL = re.compile(r"\^([\w$.-]+)")
_ARGUMENT = re.compile(r"%([\w$.-]+): ")
_HINT = re.compile(r"[A-Za-z_$.-][\w$.-]*$")
# Ops whose regions see no name from outside: MLIR numbers values anew in them, so names may repeat.
_ISOLATED = frozenset(
    {"builtin.module", "tt.func", "func.func", "llvm.func", "ttg.warp_specialize.partitions"}
)

_CONTEXT = Context(allow_unregistered=True)
_CONTEXT.load_dialect(Builtin)


class ForwardValue(SSAValue[Attribute]):
    """Stands for a value used before its definition (blocks need not be printed in dominance order)."""

    @property
    def owner(self) -> Operation | Block:
        raise ValueError("a forward reference has no owner")


def op_class(name: str) -> type[Operation]:
    """The class of unregistered ops called `name`; the same class for every module."""
    return _CONTEXT.get_op(name)


@lru_cache(maxsize=16384)
def parse_type(text: str) -> Attribute:
    """The type written `text`, free of aliases."""
    return Parser(_CONTEXT, text).parse_type()


@lru_cache(maxsize=16384)
def parse_attributes(text: str) -> dict[str, Attribute]:
    """The attribute dictionary written `text`, braces included, free of aliases. Do not change the result."""
    if constant := _CONSTANT.fullmatch(text):
        return {"value": dense_attribute(constant[1], parse_type(constant[2]))}
    return dict(Parser(_CONTEXT, exact_literals(text)).parse_optional_dictionary_attr_dict())


def parse_attribute(text: str) -> Attribute:
    """The attribute written `text`, free of aliases: `16 : i32`, `dense<0xFF800000> : tensor<4xf32>`."""
    return parse_attributes(f"{{value = {text}}}")["value"]


def read_generic(text: str) -> ModuleOp:
    """Read a module printed in generic form."""
    lines = text.split("\n")
    reader = _Reader(_aliases(lines))
    line = ""
    try:
        for line in lines:
            reader.read_line(line)
    except (ParseError, KeyError, IndexError, ValueError, AttributeError) as error:
        reason = str(error).strip()[-300:] or type(error).__name__
        raise TileProbeError(
            f"the bridge cannot read this line of the module:\n  {line.strip()[:300]}\n({reason})"
        ) from error
    return reader.finish()


def _aliases(lines: list[str]) -> dict[str, str]:
    found = (_ALIAS.match(line) for line in lines if line[:1] in ("#", "!"))
    return {match[1]: match[2] for match in found if match}


def _balanced_end(text: str, start: int) -> int:
    """The position behind the bracket that closes the one at `start`."""
    depth = 0
    for match in _BRACKET.finditer(text, start):
        token = match[0]
        if token in "<({[":
            depth += 1
        elif token in ">)}]":
            depth -= 1
            if not depth:
                return match.end()
    raise ValueError("a bracket is not closed")


def _split_commas(text: str) -> list[str]:
    """Split at the commas outside all brackets and strings."""
    if not text:
        return []
    pieces, depth, start = [], 0, 0
    for match in _SPLIT.finditer(text):
        token = match[0]
        if token in "<({[":
            depth += 1
        elif token in ">)}]":
            depth -= 1
        elif token == "," and not depth:
            pieces.append(text[start : match.start()].strip())
            start = match.end()
    pieces.append(text[start:].strip())
    return pieces


@dataclass
class _Open:
    """An op whose head was read and whose regions are being read."""

    name: str
    result: str | None
    operand_names: list[str]
    successors: list[Block]
    properties: dict[str, Attribute]
    outer_values: dict[str, SSAValue]
    outer_block: Block | None
    outer_blocks: dict[str, Block]
    regions: list[Region] = field(default_factory=lambda: [Region()])


class _Reader:
    def __init__(self, aliases: dict[str, str]):
        self._aliases = {name: body for name, body in aliases.items() if not body.startswith("loc(")}
        self._locations = LocationReader({n: b[4:-1] for n, b in aliases.items() if b.startswith("loc(")})
        self._expanded: dict[str, str] = {}
        self._signatures: dict[str, tuple[list[Attribute], list[Attribute]]] = {}
        self._open: list[_Open] = []
        self._values: dict[str, SSAValue] = {}
        self._forward: dict[str, ForwardValue] = {}
        self._block: Block | None = None
        self._blocks: dict[str, Block] = {}
        self._module: ModuleOp | None = None

    def finish(self) -> ModuleOp:
        if self._module is None or self._open:
            raise TileProbeError(
                "the bridge expected a complete builtin.module in generic form and did not find one"
            )
        if self._forward:
            names = ", ".join(sorted(self._forward))
            raise TileProbeError(f"the bridge met values that are used but never defined: {names}")
        return self._module

    def read_line(self, line: str) -> None:
        line = line.strip()
        if not line or line[0] in "#!" or line.startswith("//"):
            return
        if line[0] == "^":
            self._read_label(line)
        elif line[0] == "}":
            self._read_close(line)
        elif line.startswith("{-#"):
            raise TileProbeError("the bridge does not carry dialect resources ({-# ... #-}) over")
        else:
            self._read_op(line)

    def _read_op(self, line: str) -> None:
        head = _OP.match(line)
        if head is None:
            raise ValueError("expected an operation in generic form")
        result, _, name, operands = head.groups()
        position = head.end()
        successors: list[Block] = []
        if line.startswith("[", position):
            end = line.index("]", position)
            successors = [self._named_block(label) for label in _LABEL.findall(line[position:end])]
            position = end + 1
        properties: dict[str, Attribute] = {}
        if line.startswith(" <{", position):
            end = _balanced_end(line, position + 1)
            properties = self._dictionary(line[position + 2 : end - 1])
            position = end
        operand_names = operands.split(", ") if operands else []
        if not line.startswith(" ({", position):
            self._finish_op(name, result, operand_names, successors, properties, [], line, position)
            return
        opened = _Open(
            name, result, operand_names, successors, properties, self._values, self._block, self._blocks
        )
        self._open.append(opened)
        self._enter_region(opened)

    def _read_close(self, line: str) -> None:
        opened = self._open[-1]
        if line.startswith("}, {"):
            opened.regions.append(Region())
            self._enter_region(opened)
            return
        self._open.pop()
        self._values, self._block, self._blocks = opened.outer_values, opened.outer_block, opened.outer_blocks
        o = opened
        self._finish_op(o.name, o.result, o.operand_names, o.successors, o.properties, o.regions, line, 2)

    def _enter_region(self, opened: _Open) -> None:
        self._values = {} if opened.name in _ISOLATED else dict(opened.outer_values)
        self._block, self._blocks = None, {}

    def _finish_op(
        self,
        name: str,
        result: str | None,
        operand_names: list[str],
        successors: list[Block],
        properties: dict[str, Attribute],
        regions: list[Region],
        line: str,
        position: int,
    ) -> None:
        """Make the op from what was read of it and from the rest of `line`: attributes, types, location."""
        attributes: dict[str, Attribute] = {}
        if line.startswith(" {", position):
            end = _balanced_end(line, position + 1)
            attributes = self._dictionary(line[position + 1 : end])
            position = end
        if not line.startswith(" : ", position):
            raise ValueError("expected the types of the operation")
        type_end = line.rindex(" loc(")
        operand_types, result_types = self._signature(line[position + 3 : type_end])
        arguments = {
            "operands": [self._value(n, t) for n, t in zip(operand_names, operand_types, strict=True)],
            "result_types": result_types,
            "properties": properties,
            "attributes": attributes,
            "location": self._locations.read(line[type_end + 5 : -1]),
            "successors": successors,
            "regions": regions,
        }
        if name == "builtin.module" and not self._open:
            self._module = ModuleOp.create(**arguments)
            return
        op = op_class(name).create(**arguments)
        self._current_block().add_op(op)
        if result is not None:
            self._define_results(result, op)

    def _define_results(self, name: str, op: Operation) -> None:
        if len(op.results) == 1:
            self._define(name, op.results[0], name)
            return
        for index, value in enumerate(op.results):
            self._define(f"{name}#{index}", value, name)

    def _define(self, name: str, value: SSAValue, hint: str) -> None:
        self._values[name] = value
        if _HINT.match(hint, 1):
            value.name_hint = hint[1:]
            value._name = value._name or None  # xDSL cuts `_0` down to a name it refuses itself
        if name in self._forward:
            self._forward.pop(name).replace_all_uses_with(value)

    def _value(self, name: str, kind: Attribute) -> SSAValue:
        value = self._values.get(name)
        if value is not None:
            return value
        return self._forward.setdefault(name, ForwardValue(kind))

    def _current_block(self) -> Block:
        if self._block is None:
            self._block = Block()
            self._open[-1].regions[-1].add_block(self._block)
        return self._block

    def _named_block(self, label: str) -> Block:
        return self._blocks.setdefault(label, Block())

    def _read_label(self, line: str) -> None:
        label = _LABEL.match(line)
        assert label is not None
        block = self._named_block(label[1])
        self._open[-1].regions[-1].add_block(block)
        self._block = block
        position = label.end() + 1
        while match := _ARGUMENT.match(line, position):
            type_end = line.index(" loc(", match.end())
            end = _balanced_end(line, type_end + 4)
            argument: BlockArgument = block.insert_arg(
                self._type(line[match.end() : type_end]),
                len(block.args),
                self._locations.read(line[type_end + 5 : end - 1]),
            )
            self._define(f"%{match[1]}", argument, f"%{match[1]}")
            position = end + 2

    def _signature(self, text: str) -> tuple[list[Attribute], list[Attribute]]:
        known = self._signatures.get(text)
        if known is not None:
            return known
        middle = _balanced_end(text, 0)
        results = text[middle + 4 :]
        # `-> (a, b)` lists results; a single function type as a result is printed in parentheses too
        listed = results.startswith("(") and _balanced_end(results, 0) == len(results)
        operand_types = [self._type(t) for t in _split_commas(text[1 : middle - 1])]
        result_types = [self._type(t) for t in (_split_commas(results[1:-1]) if listed else [results])]
        self._signatures[text] = operand_types, result_types
        return operand_types, result_types

    def _type(self, text: str) -> Attribute:
        return parse_type(self._expand(text))

    def _dictionary(self, text: str) -> dict[str, Attribute]:
        return parse_attributes(self._expand(text))

    def _expand(self, text: str) -> str:
        """Replace alias names by what they stand for, so that the text means the same everywhere."""
        if not self._aliases or ("#" not in text and "!" not in text):
            return text
        known = self._expanded.get(text)
        if known is None:
            known = _ALIAS_USE.sub(self._alias_body, text)
            self._expanded[text] = known
        return known

    def _alias_body(self, match: re.Match[str]) -> str:
        body = self._aliases.get(match[0])
        return match[0] if body is None else self._expand(body)
