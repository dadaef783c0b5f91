"""Elementwise ops of `arith`, `math` and `tt` as LLVM instructions, on scalars or vectors alike.

`emit` takes an op (for its name and attributes), LLVM operands of one lane count, and returns the results. Types
are MLIR's names. Small floats are computed in f32 and rounded back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from xdsl.ir import Operation

from tileprobe.errors import UnsupportedError
from tileprobe.ir.accessors import attr_value, constant_of, int_attr, op_name
from tileprobe.targets.cpu import vmath
from tileprobe.targets.cpu.codegen.types import (
    F64,
    I1,
    I64,
    Kind,
    Value,
    bytes_of,
    constant,
    elem_type,
    lanes_of,
    pointee_name,
    register_type,
    vector,
)

Emitter = Callable[[ir.IRBuilder, Operation, list[Value], str, str], Value]
_CMPI = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
_CMPF = [
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
]
_ORDER = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def emit(builder: ir.IRBuilder, op: Operation, args: Sequence[Value], fuse: bool = True) -> Value:
    """The result of an elementwise op. `fuse` allows a product and a sum to round once."""
    name = op_name(op)
    source = elem_type(op.operands[0].type) if op.operands else ""
    result = elem_type(op.results[0].type)
    found = _TABLE.get(name)
    if found is not None:
        return found(builder, op, list(args), source, result)
    if name == "ub.poison":
        return ir.FormattedConstant(register_type(result), "poison")
    short = name.split(".", 1)[1]
    if name.startswith("arith.") and short in _FLOAT_BINARY:
        if short in ("addf", "subf") and source in ("f32", "f64"):
            return _sum(builder, op, short, list(args), fuse)
        return float_op(builder, short, list(args), source, fuse)
    if name.startswith("arith.") and short in _INT_BINARY:
        return _INT_BINARY[short](builder, args[0], args[1])
    if name.startswith("math."):
        return _math(builder, short, list(args), source)
    raise UnsupportedError(f"the CPU target does not know the operation {name}")


def constant_value(op: Operation) -> ir.Constant:
    """An `arith.constant` on a scalar, with its exact bits."""
    held = constant_of(op)
    return bits_constant(held.element, held.bits)


def bits_constant(name: str, bits: int) -> ir.Constant:
    kind = register_type(name)
    if isinstance(kind, ir.IntType):
        return ir.Constant(kind, bits)
    import struct

    code = {2: "<e", 4: "<f", 8: "<d"}[bytes_of(name)]
    number = struct.unpack(code, bits.to_bytes(bytes_of(name), "little"))[0]
    return ir.Constant(kind, number)


# -- floats --------------------------------------------------------------------------------------------------


_FLOAT_BINARY: dict[str, Callable[..., Any]] = {
    "addf": lambda b, x, y, flags: b.fadd(x, y, flags=flags),
    "subf": lambda b, x, y, flags: b.fsub(x, y, flags=flags),
    "mulf": lambda b, x, y, flags: b.fmul(x, y, flags=flags),
    "divf": lambda b, x, y, flags: b.fdiv(x, y),
    "remf": lambda b, x, y, flags: b.frem(x, y),
    "maxnumf": lambda b, x, y, flags: maxnum(b, x, y, True),
    "minnumf": lambda b, x, y, flags: maxnum(b, x, y, False),
    "maximumf": lambda b, x, y, flags: maximum(b, x, y, True),
    "minimumf": lambda b, x, y, flags: maximum(b, x, y, False),
    "negf": lambda b, x, flags: b.fneg(x),
}


def _sum(builder: ir.IRBuilder, op: Operation, name: str, args: list[Value], fuse: bool) -> Value:
    """A sum, rounded once together with a product that nothing else uses. That is decided here and not left to LLVM,
    which does it in some copies of the code and not in others: elements would depend on their place in a tile."""
    for n in (0, 1) if fuse else ():
        product = op.operands[n].owner
        if (
            isinstance(product, Operation)
            and op_name(product) == "arith.mulf"
            and len(list(op.operands[n].uses)) == 1
            and getattr(args[n], "opname", "") == "fmul"
        ):
            (x, y), other = args[n].operands, args[1 - n]
            if name == "subf":
                x, other = (x, builder.fneg(other)) if n == 0 else (builder.fneg(x), other)
            return intrinsic(builder, "llvm.fmuladd", args[n].type, [x, y, other])
    return _FLOAT_BINARY[name](builder, *args, ())


def float_op(builder: ir.IRBuilder, name: str, args: list[Value], kind: str, fuse: bool = True) -> Value:
    work = _FLOAT_BINARY[name]
    flags = ("contract",) if fuse else ()
    if name == "negf" and kind not in ("f32", "f64"):
        return _flip_sign(builder, args[0], kind)
    if kind in ("f32", "f64"):
        return work(builder, *args, flags)
    wide = [vmath.convert(builder, a, kind, "f32") for a in args]
    return vmath.convert(builder, work(builder, *wide, ()), "f32", kind)


def _flip_sign(builder: ir.IRBuilder, value: Value, kind: str) -> Value:
    bits = ir.IntType(8 * bytes_of(kind))
    lanes = lanes_of(value)
    raw = builder.bitcast(value, vector(bits, lanes))
    flipped = builder.xor(raw, constant(bits, 1 << (bits.width - 1), lanes))
    return builder.bitcast(flipped, value.type)


def maxnum(b: ir.IRBuilder, x: Value, y: Value, largest: bool) -> Value:
    """The larger (or smaller) one; a NaN counts only if both are."""
    better = b.fcmp_ordered(">" if largest else "<", x, y)
    chosen = b.select(better, x, y)  # one max instruction; y when either is NaN
    return b.select(b.fcmp_unordered("uno", y, y), x, chosen)


def maximum(b: ir.IRBuilder, x: Value, y: Value, largest: bool) -> Value:
    """The larger (or smaller) one; NaN if either is."""
    better = b.fcmp_ordered(">" if largest else "<", x, y)
    chosen = b.select(better, x, y)
    return b.select(b.fcmp_unordered("uno", x, x), x, chosen)


def _math(builder: ir.IRBuilder, name: str, args: list[Value], kind: str) -> Value:
    if name == "absf":
        return _abs(builder, args[0], kind)
    if name == "absi":
        zero = constant(register_type(kind), 0, lanes_of(args[0]))
        return builder.select(builder.icmp_signed("<", args[0], zero), builder.sub(zero, args[0]), args[0])
    if name == "fma" and kind in ("f32", "f64"):
        return intrinsic(builder, "llvm.fma", args[0].type, args)
    return vmath.call(builder, f"math.{name}", args, kind)


def _abs(builder: ir.IRBuilder, value: Value, kind: str) -> Value:
    bits = ir.IntType(8 * bytes_of(kind))
    lanes = lanes_of(value)
    raw = builder.bitcast(value, vector(bits, lanes))
    return builder.bitcast(builder.and_(raw, constant(bits, (1 << (bits.width - 1)) - 1, lanes)), value.type)


def intrinsic(
    builder: ir.IRBuilder, name: str, result: Kind, args: Sequence[Value], suffix: str | None = None
) -> Any:
    """Call an LLVM intrinsic, named after the result type unless `suffix` is given."""
    full = f"{name}.{type_suffix(result) if suffix is None else suffix}" if suffix != "" else name
    module = builder.module
    function = module.globals.get(full)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result, [a.type for a in args]), full)
    return builder.call(function, list(args))


def type_suffix(kind: Kind) -> str:
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{type_suffix(kind.element)}"
    if isinstance(kind, ir.IntType):
        return f"i{kind.width}"
    if isinstance(kind, ir.PointerType):
        return "p0"
    return {"half": "f16", "float": "f32", "double": "f64"}[str(kind)]


# -- integers ------------------------------------------------------------------------------------------------


def _divide(signed: bool, remainder: bool) -> Callable[[ir.IRBuilder, Value, Value], Value]:
    def work(b: ir.IRBuilder, x: Value, y: Value) -> Value:
        scalar = x.type.element if isinstance(x.type, ir.VectorType) else x.type
        y = _never_zero(b, y)
        if isinstance(x.type, ir.VectorType) and scalar.width <= 32 and not _is_constant(y):
            return _divide_by_double(b, x, y, signed, remainder)
        if signed:
            # the one quotient that does not fit must not trap
            lanes = lanes_of(x)
            overflow = b.and_(
                b.icmp_signed("==", y, constant(scalar, -1, lanes)),
                b.icmp_signed("==", x, constant(scalar, -(1 << (scalar.width - 1)), lanes)),
            )
            if not _is_constant(y):
                y = b.select(overflow, constant(scalar, 1, lanes), y)
            result = b.srem(x, y) if remainder else b.sdiv(x, y)
            return result
        return b.urem(x, y) if remainder else b.udiv(x, y)

    return work


def _is_constant(value: Value) -> bool:
    return isinstance(value, ir.Constant)


def _never_zero(b: ir.IRBuilder, y: Value) -> Value:
    """Division by zero is undefined in Triton; it must not kill the process."""
    if _is_constant(y):
        return y
    scalar = y.type.element if isinstance(y.type, ir.VectorType) else y.type
    zero = b.icmp_signed("==", y, constant(scalar, 0, lanes_of(y)))
    return b.select(zero, constant(scalar, 1, lanes_of(y)), y)


def _divide_by_double(b: ir.IRBuilder, x: Value, y: Value, signed: bool, remainder: bool) -> Value:
    """Vectors have no integer division; doubles divide 32-bit integers exactly once truncated."""
    wide = ir.VectorType(F64, lanes_of(x))
    to, back = (b.sitofp, b.fptosi) if signed else (b.uitofp, b.fptoui)
    longer = ir.VectorType(I64, lanes_of(x))
    quotient = b.fdiv(to(x, wide), to(y, wide))
    q = b.trunc(back(quotient, longer), x.type) if x.type.element.width < 64 else back(quotient, longer)
    return b.sub(x, b.mul(q, y)) if remainder else q


def _shift(name: str) -> Callable[[ir.IRBuilder, Value, Value], Value]:
    """Shifts by the width or more give 0 (or the sign), as on the machines Triton is written for."""

    def work(b: ir.IRBuilder, x: Value, y: Value) -> Value:
        scalar = x.type.element if isinstance(x.type, ir.VectorType) else x.type
        lanes = lanes_of(x)
        top = constant(scalar, scalar.width - 1, lanes)
        if _is_constant(y):
            return getattr(b, name)(x, y)
        inside = b.icmp_unsigned("<=", y, top)
        safe = b.select(inside, y, top)
        shifted = getattr(b, name)(x, safe)
        return shifted if name == "ashr" else b.select(inside, shifted, constant(scalar, 0, lanes))

    return work


def _pick(predicate: str, signed: bool) -> Callable[[ir.IRBuilder, Value, Value], Value]:
    def work(b: ir.IRBuilder, x: Value, y: Value) -> Value:
        compare = b.icmp_signed if signed else b.icmp_unsigned
        return b.select(compare(predicate, x, y), x, y)

    return work


_INT_BINARY: dict[str, Callable[[ir.IRBuilder, Value, Value], Value]] = {
    "addi": lambda b, x, y: b.add(x, y),
    "subi": lambda b, x, y: b.sub(x, y),
    "muli": lambda b, x, y: b.mul(x, y),
    "andi": lambda b, x, y: b.and_(x, y),
    "ori": lambda b, x, y: b.or_(x, y),
    "xori": lambda b, x, y: b.xor(x, y),
    "shli": _shift("shl"),
    "shrsi": _shift("ashr"),
    "shrui": _shift("lshr"),
    "divsi": _divide(True, False),
    "divui": _divide(False, False),
    "remsi": _divide(True, True),
    "remui": _divide(False, True),
    "maxsi": _pick(">", True),
    "minsi": _pick("<", True),
    "maxui": _pick(">", False),
    "minui": _pick("<", False),
}


# -- everything else -----------------------------------------------------------------------------------------


def _cmpi(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
    predicate = _CMPI[int_attr(op, "predicate")]
    if predicate in ("eq", "ne"):
        return b.icmp_signed(_ORDER[predicate], *args)
    compare = b.icmp_signed if predicate[0] == "s" else b.icmp_unsigned
    return compare(_ORDER[predicate[1:]], *args)


def _cmpf(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
    predicate = _CMPF[int_attr(op, "predicate")]
    if source not in ("f32", "f64"):
        args = [vmath.convert(b, a, source, "f32") for a in args]
    lanes = lanes_of(args[0])
    if predicate in ("false", "true"):
        return constant(I1, int(predicate == "true"), lanes)
    if predicate in ("ord", "uno"):
        return b.fcmp_ordered("ord", *args) if predicate == "ord" else b.fcmp_unordered("uno", *args)
    compare = b.fcmp_ordered if predicate[0] == "o" else b.fcmp_unordered
    return compare(_ORDER[predicate[1:]], *args)


def _select(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
    return b.select(*args)


def _convert(signed: bool) -> Emitter:
    def work(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
        return vmath.convert(b, args[0], source, result, signed=signed)

    return work


def _fp_to_fp(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
    mode = attr_value(op, "rounding", attr_value(op, "roundingmode"))
    rounding = "rtz" if mode == 0 and mode is not None and not isinstance(mode, bool) else "rtne"
    return vmath.convert(b, args[0], source, result, rounding=rounding)


def _bitcast(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
    kind = vector(register_type(result), lanes_of(args[0]))
    if args[0].type == kind:
        return args[0]
    return b.bitcast(args[0], kind)


def _addptr(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
    pointer, offset = args
    lanes = lanes_of(pointer)
    scalar = offset.type.element if isinstance(offset.type, ir.VectorType) else offset.type
    if scalar.width < 64:
        offset = b.sext(offset, vector(I64, lanes))
    elif scalar.width > 64:
        offset = b.trunc(offset, vector(I64, lanes))
    size = bytes_of(pointee_name(op.operands[0].type))
    if size > 1:
        offset = b.mul(offset, constant(I64, size, lanes))
    return b.add(pointer, offset)


def _same(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
    return args[0]


def _clampf(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
    nan = int_attr(op, "propagateNan", 0) != 0
    wide = args if source in ("f32", "f64") else [vmath.convert(b, a, source, "f32") for a in args]
    x, low, high = wide
    pick = maximum if nan else maxnum
    y = pick(b, pick(b, x, low, True), high, False)
    return y if source in ("f32", "f64") else vmath.convert(b, y, "f32", source)


def _sqrt(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
    return vmath.call(b, "math.sqrt", args, source)


def _divf(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
    return float_op(b, "divf", args, source)


def _mulhi(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
    width = bytes_of(source) * 8
    lanes = lanes_of(args[0])
    wide = vector(ir.IntType(2 * width), lanes)
    product = b.mul(b.zext(args[0], wide), b.zext(args[1], wide))
    high = b.lshr(product, constant(ir.IntType(2 * width), width, lanes))
    return b.trunc(high, args[0].type)


def _extern(b: ir.IRBuilder, op: Operation, args: list[Value], source: str, result: str) -> Value:
    symbol = str(attr_value(op, "symbol", ""))
    types = [elem_type(v.type) for v in op.operands]
    return vmath.extern(b, symbol, args, types)


_TABLE: dict[str, Emitter] = {
    "arith.cmpi": _cmpi,
    "arith.cmpf": _cmpf,
    "arith.select": _select,
    "arith.extsi": _convert(True),
    "arith.extui": _convert(False),
    "arith.trunci": _convert(True),
    "arith.sitofp": _convert(True),
    "arith.uitofp": _convert(False),
    "arith.fptosi": _convert(True),
    "arith.fptoui": _convert(False),
    "arith.extf": _fp_to_fp,
    "arith.truncf": _fp_to_fp,
    "arith.index_cast": _convert(True),
    "arith.bitcast": _bitcast,
    "tt.bitcast": _bitcast,
    "tt.fp_to_fp": _fp_to_fp,
    "tt.addptr": _addptr,
    "tt.int_to_ptr": _same,
    "tt.ptr_to_int": _same,
    "tt.clampf": _clampf,
    "tt.precise_sqrt": _sqrt,
    "tt.precise_divf": _divf,
    "tt.approx_divf": _divf,
    "tt.mulhiui": _mulhi,
    "tt.extern_elementwise": _extern,
}
