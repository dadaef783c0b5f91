"""Memory by its address, for code that Numba compiles: everything is a 64-bit integer or a float, nothing is an array.

`load` and `store` come in the widths that registers and memory have. Addresses are the caller's to check.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types

I8, I16, I32, I64 = (ir.IntType(n) for n in (8, 16, 32, 64))
_POINTER = ir.PointerType()
intrinsic: Any = extending.intrinsic  # what it makes is called without the typing context


def _loader(kind: Any, extend: str, result: Any = types.int64) -> Any:
    def load(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            at = builder.inttoptr(args[0], _POINTER)
            value = builder.load(at, typ=kind, align=1)
            return getattr(builder, extend)(value, I64) if extend else value

        return result(types.int64), generate

    return intrinsic(load)


def _storer(kind: Any, narrow: bool, source: Any = types.int64) -> Any:
    def store(typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            at = builder.inttoptr(args[0], _POINTER)
            value = builder.trunc(args[1], kind) if narrow else args[1]
            builder.store(value, at, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, source), generate

    return intrinsic(store)


u8, u16, u32 = (_loader(kind, "zext") for kind in (I8, I16, I32))
i8, i16, i32 = (_loader(kind, "sext") for kind in (I8, I16, I32))
i64 = _loader(I64, "")
f32 = _loader(ir.FloatType(), "", types.float32)
f64 = _loader(ir.DoubleType(), "", types.float64)
put8, put16, put32 = (_storer(kind, True) for kind in (I8, I16, I32))
put64 = _storer(I64, False)
put_f32 = _storer(ir.FloatType(), False, types.float32)
put_f64 = _storer(ir.DoubleType(), False, types.float64)


def _bits(source: Any, target: Any, arg: Any, result: Any, extend: str = "") -> Any:
    def cast(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.trunc(args[0], I32) if source is I32 else args[0]
            value = builder.bitcast(value, target)
            return getattr(builder, extend)(value, I64) if extend else value

        return result(arg), generate

    return intrinsic(cast)


def _half(typing: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        half = builder.bitcast(builder.trunc(args[0], I16), ir.HalfType())
        return builder.fpext(half, ir.FloatType())

    return types.float32(types.int64), generate


def _store_half(typing: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        half = builder.fptrunc(args[1], ir.HalfType())
        builder.store(half, builder.inttoptr(args[0], _POINTER), align=2)
        return context.get_dummy_value()

    return types.void(types.int64, types.float32), generate


half_of = intrinsic(_half)  # 16 bits as a float
put_half = intrinsic(_store_half)  # a float as 16 bits, rounded to the nearest
float_of = _bits(I32, ir.FloatType(), types.int64, types.float32)
double_of = _bits(I64, ir.DoubleType(), types.int64, types.float64)
bits_of = _bits(ir.FloatType(), I32, types.float32, types.int64, "zext")
bits_of_double = _bits(ir.DoubleType(), I64, types.float64, types.int64)


@intrinsic
def copy(typing: Any, target: Any, source: Any, size: Any) -> Any:
    """So many bytes from one address to another; they do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, _POINTER, I64, ir.IntType(1)])
        name = "llvm.memcpy.p0.p0.i64"
        known = builder.module.globals.get(name)
        function = known or ir.Function(builder.module, kind, name)
        ends = [builder.inttoptr(a, _POINTER) for a in args[:2]]
        builder.call(function, [*ends, args[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def fill(typing: Any, target: Any, byte: Any, size: Any) -> Any:
    """So many bytes of one value."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, I8, I64, ir.IntType(1)])
        name = "llvm.memset.p0.i64"
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        at = builder.inttoptr(args[0], _POINTER)
        builder.call(function, [at, builder.trunc(args[1], I8), args[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate
