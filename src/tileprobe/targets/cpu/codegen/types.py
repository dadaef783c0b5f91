"""Element types as LLVM sees them: in registers, and in memory where that differs."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from xdsl.ir import Attribute

from tileprobe.ir.accessors import elem_type as elem_type  # most of code generation asks for it here
from tileprobe.ir.accessors import pointee

# llvmlite has no types for what a value or a type can do
Value = Any
Kind = Any

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()
VOID = ir.VoidType()

_FLOATS: dict[str, Kind] = {"f16": F16, "f32": F32, "f64": F64, "bf16": I16}


def register_type(name: str) -> Kind:
    """The LLVM scalar of an element type's name; pointers are integers of their width."""
    if name == "ptr":
        return I64
    if name == "index":
        return I64
    if name in _FLOATS:
        return _FLOATS[name]
    if name.startswith("f8"):
        return I8
    return ir.IntType(int(name[1:]))


def memory_type(name: str) -> Kind:
    """The LLVM type an element has in memory: a bool takes a byte."""
    return I8 if name == "i1" else register_type(name)


def bytes_of(name: str) -> int:
    if name in ("f64", "ptr", "i64", "index"):
        return 8
    if name in ("f32", "i32"):
        return 4
    if name in ("f16", "bf16", "i16"):
        return 2
    return 1


def is_float(name: str) -> bool:
    return name in _FLOATS or name.startswith("f8")


def vector(kind: Kind, lanes: int) -> Kind:
    return kind if lanes == 1 else ir.VectorType(kind, lanes)


def lanes_of(value: Value) -> int:
    return value.type.count if isinstance(value.type, ir.VectorType) else 1


def splat(builder: ir.IRBuilder, value: Value, lanes: int) -> Value:
    """`value` in every lane."""
    if lanes == 1:
        return value
    kind = ir.VectorType(value.type, lanes)
    if isinstance(value, ir.Constant):
        return ir.Constant(kind, [value] * lanes)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def constant(kind: Kind, number: int | float, lanes: int = 1) -> ir.Constant:
    one = ir.Constant(kind, number)
    return one if lanes == 1 else ir.Constant(ir.VectorType(kind, lanes), [one] * lanes)


def pointee_name(kind: Attribute) -> str:
    """Element type in memory behind a pointer type."""
    name = pointee(kind)
    return "ptr" if name.startswith("ptr") else name
