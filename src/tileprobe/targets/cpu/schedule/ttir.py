"""Reading TTIR as the bridge gives it: names and attributes of unregistered ops, and which op is of which sort."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, OpResult, Region, SSAValue

from tileprobe.ir.accessors import (
    attr,
    attr_value,
    bool_attr,
    constant_of,
    int_attr,
    int_list_attr,
    op_name,
    operand_groups,
)
from tileprobe.ir.reader import op_class, parse_attribute, parse_type

I1, I8, I32, I64 = IntegerType(1), IntegerType(8), IntegerType(32), IntegerType(64)

# Pure ops that work element by element and have no operand or result of another shape.
_ELEMENTWISE_TT = frozenset(
    [
        "int_to_ptr",
        "ptr_to_int",
        "bitcast",
        "fp_to_fp",
        "clampf",
        "precise_sqrt",
        "precise_divf",
        "approx_divf",
        "mulhiui",
        "addptr",
        "extern_elementwise",
        "elementwise_inline_asm",
    ]
)
SHAPE_OPS = frozenset(
    f"tt.{n}"
    for n in [
        "splat",
        "expand_dims",
        "broadcast",
        "trans",
        "reshape",
        "join",
        "split",
        "cat",
        "make_range",
        "gather",
    ]
)
# Computing these again costs more than keeping the result.
_HEAVY_ARITH = frozenset(["arith.divf", "arith.remf"])
_CHEAP_MATH = frozenset(["math.absf", "math.absi", "math.fma", "math.floor", "math.ceil"])
ATOMICS = frozenset(["tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_store", "tt.atomic_poll"])
# Ops after which memory may hold something else.
_CLOBBERS = ATOMICS | {"tt.store", "tt.call"}


def is_clobber(name: str) -> bool:
    return name in _CLOBBERS or name.endswith("barrier")


def is_tensor(value_or_type: SSAValue | Attribute) -> bool:
    kind = value_or_type.type if isinstance(value_or_type, SSAValue) else value_or_type
    return isinstance(kind, TensorType)


def shape_of(value: SSAValue) -> tuple[int, ...]:
    return tuple(value.type.get_shape()) if isinstance(value.type, TensorType) else ()


def element_of(kind: Attribute) -> Attribute:
    return kind.element_type if isinstance(kind, TensorType) else kind


def numel(shape: Iterable[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def is_elementwise(name: str) -> bool:
    if name.startswith("arith."):
        return name != "arith.constant"
    if name.startswith("math."):
        return True
    return name.startswith("tt.") and name[3:] in _ELEMENTWISE_TT


def is_virtual(name: str) -> bool:
    """Can an element of the result be computed again at any place where the operands are known?"""
    return name in SHAPE_OPS or name in ("arith.constant", "tt.load") or is_elementwise(name)


def is_heavy(name: str) -> bool:
    if name.startswith("math."):
        return name not in _CHEAP_MATH
    return name in _HEAVY_ARITH or name in (
        "tt.precise_sqrt",
        "tt.precise_divf",
        "tt.approx_divf",
        "tt.extern_elementwise",
        "tt.fp_to_fp",
        "tt.gather",
    )


def make(
    name: str,
    operands: Sequence[SSAValue],
    result_types: Sequence[Attribute],
    attributes: dict[str, Attribute] | None = None,
    regions: Sequence[Region] = (),
    like: Operation | None = None,
) -> Operation:
    """An op of Triton's or MLIR's dialects; `like` gives the source location."""
    op = op_class(name).create(
        operands=list(operands),
        result_types=list(result_types),
        properties=dict(attributes or {}),
        regions=list(regions),
    )
    if like is not None:
        op.location = like.location
    return op


def constant(value: int, kind: Attribute = I32) -> Operation:
    assert isinstance(kind, IntegerType)
    return make("arith.constant", [], [kind], {"value": IntegerAttr(value, kind)})


def owner_op(value: SSAValue) -> Operation | None:
    return value.owner if isinstance(value, OpResult) else None


__all__ = [
    "ATOMICS",
    "I1",
    "I8",
    "I32",
    "I64",
    "SHAPE_OPS",
    "attr",
    "attr_value",
    "bool_attr",
    "constant",
    "constant_of",
    "element_of",
    "int_attr",
    "int_list_attr",
    "is_clobber",
    "is_elementwise",
    "is_heavy",
    "is_tensor",
    "is_virtual",
    "make",
    "numel",
    "op_name",
    "operand_groups",
    "owner_op",
    "parse_attribute",
    "parse_type",
    "shape_of",
]
