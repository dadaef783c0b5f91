"""Typed questions to ask the ops and types of a bridged module.

Comes in: unregistered xDSL ops, attributes and types, as the bridge makes them. Goes out: names, Python
values, shapes and element types, so that no consumer has to know how xDSL stores what it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    UnregisteredAttr,
    UnregisteredOp,
)
from xdsl.dialects.builtin import TensorType as XdslTensorType
from xdsl.ir import Attribute, Operation, SSAValue

from tileprobe.errors import TileProbeError
from tileprobe.ir.constants import Constant
from tileprobe.ir.reader import parse_type

_OP_NAME = "op_name__"  # where xDSL keeps the name of an unregistered op


def op_name(op: Operation) -> str:
    """The op's full name, `tt.load`."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def attributes(op: Operation) -> dict[str, Attribute]:
    """Properties and attributes in one dictionary."""
    merged = {**op.attributes, **op.properties}
    merged.pop(_OP_NAME, None)
    return merged


def attr(op: Operation, key: str) -> Attribute | None:
    """A property or attribute of the op, or None."""
    found = op.properties.get(key)
    return op.attributes.get(key) if found is None else found


def value_of(attribute: Attribute | None) -> Any:
    """The Python value of an attribute.

    Integers, booleans (i1), floats, strings, symbol names, lists, dictionaries; unit is True; a dense
    constant is a `Constant`; an attribute of another dialect gives the text of its body
    (`#arith.fastmath<none>` -> "none"); a missing attribute is None.
    """
    match attribute:
        case None:
            return None
        case IntegerAttr(value=value, type=kind):
            return bool(value.data) if kind == IntegerType(1) else value.data
        case FloatAttr():
            return attribute.value.data
        case StringAttr():
            return attribute.data
        case BytesAttr():  # what xDSL makes of a string with escaped bytes beyond ASCII
            return attribute.data.decode("utf-8", "surrogateescape")
        case UnitAttr():
            return True
        case SymbolRefAttr():
            return attribute.string_value()
        case ArrayAttr():
            return [value_of(item) for item in attribute]
        case DictionaryAttr():
            return {key: value_of(item) for key, item in attribute.data.items()}
        case DenseArrayBase():
            values: list[Any] = list(attribute.get_values())  # pyright: ignore[reportAttributeAccessIssue]
            return [bool(v) for v in values] if attribute.elt_type == IntegerType(1) else values
        case DenseIntOrFPElementsAttr():
            return Constant.from_attribute(attribute)
        case UnregisteredAttr():
            return attribute.value.data
        case _:
            return attribute


def attr_value(op: Operation, key: str, default: Any = None) -> Any:
    """The Python value of one of the op's attributes, or `default`."""
    found = attr(op, key)
    return default if found is None else value_of(found)


def int_attr(op: Operation, key: str, default: int | None = None) -> int:
    """An integer attribute (enums are integers in generic form); an error if missing and without default."""
    value = attr_value(op, key, default)
    if not isinstance(value, int):
        raise TileProbeError(f"{op_name(op)} has no integer attribute {key!r} (found {value!r})")
    return int(value)


def bool_attr(op: Operation, key: str, default: bool = False) -> bool:
    """A boolean or unit attribute."""
    return bool(attr_value(op, key, default))


def str_attr(op: Operation, key: str, default: str | None = None) -> str:
    """A string attribute; an error if missing and without default."""
    value = attr_value(op, key, default)
    if not isinstance(value, str):
        raise TileProbeError(f"{op_name(op)} has no string attribute {key!r} (found {value!r})")
    return value


def int_list_attr(op: Operation, key: str) -> list[int]:
    """An integer list (`array<i32: 1, 0>` or `[1, 0]`); empty if missing."""
    return [int(v) for v in attr_value(op, key, ())]


def operand_groups(op: Operation) -> list[list[SSAValue]]:
    """The operands by `operandSegmentSizes` (optional and variadic operands); one group each without it."""
    sizes = attr_value(op, "operandSegmentSizes")
    operands = list(op.operands)
    if sizes is None:
        return [[operand] for operand in operands]
    groups: list[list[SSAValue]] = []
    for size in sizes:
        groups.append(operands[:size])
        operands = operands[size:]
    return groups


def constant_value(op: Operation) -> tuple[str, Any]:
    """Element type and value of an `arith.constant`: a Python scalar (for a splat too) or a NumPy array."""
    constant = constant_of(op)
    return constant.element, constant.scalar() if constant.splat else constant.array()


def constant_of(op: Operation) -> Constant:
    """What an `arith.constant` holds, with its exact bits."""
    value = attr(op, "value")
    if op_name(op) != "arith.constant" or value is None:
        raise TileProbeError(f"expected an arith.constant, found {op_name(op)}")
    return Constant.from_attribute(value)


@dataclass(frozen=True)
class TensorType:
    """Shape (empty for a scalar) and element type; `pointee` is set if the elements are pointers."""

    shape: tuple[int, ...]
    element: str
    pointee: str | None = None
    encoding: Attribute | None = None


@lru_cache(maxsize=4096)
def tensor_type(kind: Attribute) -> TensorType:
    """Shape and element of a tensor type; a scalar type counts as shape `()`."""
    dims, element, encoding = (), kind, None
    if isinstance(kind, XdslTensorType):
        dims, element, encoding = kind.get_shape(), kind.element_type, kind.encoding
    target = _pointee_text(element)
    return TensorType(tuple(dims), _element_text(element), target, encoding)


def shape(kind: Attribute) -> tuple[int, ...]:
    """The shape of a tensor type; `()` for anything else."""
    return tensor_type(kind).shape


def elem_type(kind: Attribute) -> str:
    """The element type of a tensor, or a scalar type's own name: 'f32', 'i1', 'f8E4M3FN', 'ptr'."""
    return tensor_type(kind).element


def is_tensor(kind: Attribute) -> bool:
    """Whether the type is a tensor (of whatever rank, 0 included)."""
    return isinstance(kind, XdslTensorType)


def is_pointer(kind: Attribute) -> bool:
    """Whether the type is a pointer or a tensor of pointers."""
    return tensor_type(kind).pointee is not None


def pointee(kind: Attribute) -> str:
    """What a pointer, or each pointer of a tensor, points at: 'f16', 'i1', 'ptr<f32>'."""
    target = tensor_type(kind).pointee
    if target is None:
        raise TileProbeError(f"expected a pointer type, found {kind}")
    return target


def dialect_type(kind: Attribute) -> tuple[str, str] | None:
    """Name and body of a type of another dialect: `!tt.ptr<f32>` -> ("tt.ptr", "f32")."""
    if not isinstance(kind, UnregisteredAttr):
        return None
    return kind.attr_name.data, kind.value.data


def descriptor_block(kind: Attribute) -> TensorType | None:
    """The block a tensor descriptor loads and stores, or None if the type is no descriptor."""
    named = dialect_type(kind)
    if named is None or named[0] != "tt.tensordesc":
        return None
    body = named[1]
    return tensor_type(parse_type(body if body.startswith("tensor<") else f"tensor<{body}>"))


def _element_text(kind: Attribute) -> str:
    if _pointee_text(kind) is not None:
        return "ptr"
    if isinstance(kind, UnregisteredAttr):
        return kind.attr_name.data
    return str(kind)


def _pointee_text(kind: Attribute) -> str | None:
    if not isinstance(kind, UnregisteredAttr) or kind.attr_name.data != "tt.ptr":
        return None
    target = kind.value.data
    if target.startswith("!tt.ptr"):
        return target[len("!tt.") :]
    return target.split(",")[0].strip()  # behind a comma stands the address space
