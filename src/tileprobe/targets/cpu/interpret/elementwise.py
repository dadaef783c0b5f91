"""Elementwise ops of `arith`, `math` and `tt` on NumPy values.

`prepare` reads an op's attributes once and returns a function from operands to the result; bodies of nests call
it for many points at once or for one after another. Small floats are computed in float32 and rounded back.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Attribute, Operation

from tileprobe.errors import UnsupportedError
from tileprobe.ir.accessors import attr_value, constant_of, elem_type, int_attr, op_name, pointee
from tileprobe.targets.cpu.interpret import functions
from tileprobe.targets.cpu.interpret.convert import convert
from tileprobe.targets.cpu.interpret.float_ops import (
    FLOAT_BINARY,
    Evaluate,
    absolute,
    float_binary,
    max_nan,
    max_number,
    min_nan,
    min_number,
)
from tileprobe.targets.cpu.interpret.floats import Array, round_to, storage, widen
from tileprobe.targets.cpu.interpret.integers import BINARY, COMPARE, high_product


def prepare(op: Operation) -> Evaluate:
    """What computes the op's result."""
    name = op_name(op)
    maker = _MAKERS.get(name)
    if maker is not None:
        return maker(op)
    dialect, short = name.split(".", 1)
    kind = elem_type(op.results[0].type)
    if dialect == "arith" and short in FLOAT_BINARY:
        return float_binary(short, elem_type(op.operands[0].type))
    if dialect == "arith" and short in BINARY:
        return BINARY[short]
    if dialect == "math":
        return _math(op, short)
    if name == "ub.poison":
        return lambda: storage(kind).type(0)
    raise UnsupportedError(f"the interpreter does not know the operation {name}")


def constant(op: Operation) -> Array:
    """The value of a scalar `arith.constant`, with its exact bits."""
    held = constant_of(op)
    if held.element == "i1":
        return np.bool_(held.bits)
    kind = storage(held.element)
    return np.frombuffer(held.bits.to_bytes(kind.itemsize, "little"), kind)[0]


def pointee_name(kind: Attribute) -> str:
    """The element type in memory behind a pointer type."""
    name = pointee(kind)
    return "ptr" if name.startswith("ptr") else name


# Exact in NumPy; everything else is the target's own.
_EXACT: dict[str, Callable[..., Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "roundeven": np.rint,
    "rint": np.rint,
    "sqrt": np.sqrt,
    "copysign": np.copysign,
    "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x),
}


def _math(op: Operation, name: str) -> Evaluate:
    kinds = tuple(elem_type(v.type) for v in op.operands)
    if name == "absf":
        return absolute(kinds[0])
    if name == "absi":
        return lambda x: np.where(x < 0, BINARY["subi"](x.dtype.type(0), x), x)
    if name in _EXACT:
        work = _EXACT[name]
        return lambda *args: round_to(work(*(widen(a, k) for a, k in zip(args, kinds))), kinds[0])
    result = elem_type(op.results[0].type)
    if kinds[0] not in ("f16", "bf16"):
        return functions.function(name, kinds, result)
    wide = tuple("f32" if k in ("f16", "bf16") else k for k in kinds)
    work = functions.function(name, wide, "f32")
    return lambda *args: round_to(work(*(convert(a, k, w) for a, k, w in zip(args, kinds, wide))), result)


# -- everything else -----------------------------------------------------------------------------------------


def _compare_floats(op: Operation) -> Evaluate:
    code, kind = int_attr(op, "predicate"), elem_type(op.operands[0].type)
    # The numbers 1 to 7 are sets of: equal, greater, less. 8 to 13 are 1 to 6 or unordered, 14 is unordered.
    members = code if code < 8 else {14: 8, 15: 15}.get(code, (code - 7) | 8)
    asks = [bool(members >> bit & 1) for bit in range(4)]

    def work(x: Array, y: Array) -> Array:
        x, y = widen(x, kind), widen(y, kind)
        holds = (x == y, x > y, x < y, np.isnan(x) | np.isnan(y))
        found = np.zeros(np.broadcast(x, y).shape, np.bool_)
        for asked, outcome in zip(asks, holds):
            found = found | outcome if asked else found
        return found

    return work


def _cast(signed: bool) -> Callable[[Operation], Evaluate]:
    def make(op: Operation) -> Evaluate:
        source, result = elem_type(op.operands[0].type), elem_type(op.results[0].type)
        return lambda x: convert(x, source, result, signed=signed)

    return make


def _fp_to_fp(op: Operation) -> Evaluate:
    mode = attr_value(op, "rounding", attr_value(op, "roundingmode"))
    toward_zero = mode == 0 and mode is not None and not isinstance(mode, bool)
    source, result = elem_type(op.operands[0].type), elem_type(op.results[0].type)
    return lambda x: convert(x, source, result, toward_zero=toward_zero)


def _bitcast(op: Operation) -> Evaluate:
    kind = storage(elem_type(op.results[0].type))
    return lambda x: x if x.dtype == kind else x.view(kind)


def _addptr(op: Operation) -> Evaluate:
    size = storage(pointee_name(op.operands[0].type)).itemsize
    return lambda pointer, offset: pointer + offset.astype(np.int64) * size


def _clampf(op: Operation) -> Evaluate:
    kind = elem_type(op.operands[0].type)
    nan = int_attr(op, "propagateNan", 0) != 0
    high, low = (max_nan, min_nan) if nan else (max_number, min_number)

    def work(x: Array, least: Array, most: Array) -> Array:
        x, least, most = (widen(a, kind) for a in (x, least, most))
        return round_to(low(high(x, least), most), kind)

    return work


def _sqrt(op: Operation) -> Evaluate:
    kind = elem_type(op.operands[0].type)
    return lambda x: round_to(np.sqrt(widen(x, kind)), kind)


def _extern(op: Operation) -> Evaluate:
    kinds = tuple(elem_type(v.type) for v in op.operands)
    return functions.extern(str(attr_value(op, "symbol", "")), kinds, elem_type(op.results[0].type))


def _divf(op: Operation) -> Evaluate:
    return float_binary("divf", elem_type(op.operands[0].type))


def _same(op: Operation) -> Evaluate:
    return lambda x: x


_MAKERS: dict[str, Callable[[Operation], Evaluate]] = {
    "arith.cmpi": lambda op: COMPARE[int_attr(op, "predicate")],
    "arith.cmpf": _compare_floats,
    "arith.select": lambda op: np.where,
    "arith.extsi": _cast(True),
    "arith.extui": _cast(False),
    "arith.trunci": _cast(True),
    "arith.sitofp": _cast(True),
    "arith.uitofp": _cast(False),
    "arith.fptosi": _cast(True),
    "arith.fptoui": _cast(False),
    "arith.index_cast": _cast(True),
    "arith.extf": _fp_to_fp,
    "arith.truncf": _fp_to_fp,
    "tt.fp_to_fp": _fp_to_fp,
    "arith.bitcast": _bitcast,
    "tt.bitcast": _bitcast,
    "tt.addptr": _addptr,
    "tt.int_to_ptr": _same,
    "tt.ptr_to_int": _same,
    "tt.clampf": _clampf,
    "tt.precise_sqrt": _sqrt,
    "tt.precise_divf": _divf,
    "tt.approx_divf": _divf,
    "tt.mulhiui": lambda op: high_product,
    "tt.extern_elementwise": _extern,
}
