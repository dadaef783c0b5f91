"""Arithmetic on elements of any float type; f16, bf16 and fp8 are computed in f32 and rounded back.

Sums, products and quotients of f16 and bf16 are those of the format itself: f32 has more than twice their
digits, so rounding twice gives what rounding once would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.ir as ir

from tileprobe.errors import UnsupportedError

from .convert import convert
from .formats import FLOAT8
from .registry import emit, lookup
from .values import FLOAT, I32, Val, element

_BINARY: dict[str, Callable[[Val, Val], Val]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
}
_FUNCTIONS = {
    "maximum": "maximum",
    "minimum": "minimum",
    "maxnum": "maxnum",
    "minnum": "minnum",
    "rem": "fmod",
}
_ORDERED = {"oeq": "==", "ogt": ">", "oge": ">=", "olt": "<", "ole": "<=", "one": "!=", "ord": "ord"}
_UNORDERED = {"ueq": "==", "ugt": ">", "uge": ">=", "ult": "<", "ule": "<=", "une": "!=", "uno": "uno"}


def arith(builder: ir.IRBuilder, op: str, dtype: str, args: list[Any]) -> Any:
    """An arithmetic operation on elements of a float type.

    op: add sub mul div rem fma neg abs, maximum minimum (NaN wins) maxnum minnum (NaN loses), and
    cmp:<predicate> with MLIR's predicates (cmp:olt, cmp:une, ...), which gives i1. A trailing f (addf) and a
    dialect prefix (arith.addf) are accepted.
    """
    values = [Val(builder, a) for a in args]
    name = op.rpartition(".")[2]
    if name.startswith("cmp:"):
        return _compare(builder, name[4:], dtype, args)
    name = name if name == "fma" else name.removesuffix("f")
    if name in ("neg", "abs"):
        return _sign(values[0], name, dtype).v
    if dtype in ("f32", "f64"):
        return _wide(name, values, op).v
    wide = [Val(builder, convert(builder, a, dtype, "f32")) for a in args]
    result = _fma_odd(*wide) if name == "fma" else _wide(name, wide, op)
    return convert(builder, result.v, "f32", dtype)


def _wide(name: str, values: list[Val], op: str) -> Val:
    if name in _BINARY:
        return _BINARY[name](*values)
    if name == "fma":
        return values[0].fma(*values[1:])
    entry = lookup(_FUNCTIONS.get(name, ""), "f32" if element(values[0].type) == FLOAT else "f64")
    if entry is None:
        raise UnsupportedError(f"the CPU target has no arithmetic operation {op!r}")
    b = values[0].b
    return Val(b, emit(b, _FUNCTIONS[name], entry, [v.v for v in values]))


def _fma_odd(x: Val, y: Val, z: Val) -> Val:
    """x * y + z of small floats in f32, its last bit odd if anything was lost: fit for one more rounding.

    The product of two small floats is exact in f32.
    """
    p = x * y
    s = p + z
    t = s - p
    lost = (p - (s - t)) + (z - t)
    bits = s.as_int()
    # s is rounded to nearest: one step toward the lost part's opposite gives truncation, then the bit is set
    over = (lost.as_int() ^ bits) < 0
    truncated = bits - (lost.ne(0) & over).cast("zext", I32)
    odd = truncated | lost.ne(0).cast("zext", I32)
    exact = lost.eq(0) | lost.isnan()
    return exact.pick(s, odd.as_float())


def _sign(x: Val, name: str, dtype: str) -> Val:
    """Only the sign bit changes: NaNs keep their payload, zeros get their sign."""
    bits = x.as_int() if x.is_float else x
    top = 1 << (x.bits - 1)
    out = bits ^ top if name == "neg" else bits & (top - 1)
    if dtype in FLOAT8 and FLOAT8[dtype].unsigned_zero:  # 0 has no sign and 0x80 is NaN
        out = (bits & (top - 1)).eq(0).pick(bits, out)
    return out.as_float() if x.is_float else out


def _compare(builder: ir.IRBuilder, predicate: str, dtype: str, args: list[Any]) -> Any:
    if dtype not in ("f32", "f64"):
        args = [convert(builder, a, dtype, "f32") for a in args]
    if predicate in _ORDERED:
        return builder.fcmp_ordered(_ORDERED[predicate], *args)
    if predicate in _UNORDERED:
        return builder.fcmp_unordered(_UNORDERED[predicate], *args)
    raise UnsupportedError(f"unknown comparison of floats {predicate!r}")
