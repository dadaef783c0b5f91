"""Vector math for the CPU target: emits LLVM IR for functions, conversions and small-float arithmetic.

Every entry takes an llvmlite builder and values, scalars or vectors of any lane count, and returns a value of
the same shape. Long functions are emitted once a module and called. Formats are MLIR's element types as text
(`f32`, `bf16`, `f8E4M3FN`, `i32`, ...); half is LLVM's half, bf16 an i16, fp8 an i8.
"""

from __future__ import annotations

import llvmlite.ir as ir

from tileprobe.errors import UnsupportedError

from . import (  # noqa: F401  each registers its functions
    basic,
    bessel,
    directed,
    error_function,
    exponential,
    hyperbolic,
    integer,
    inverse,
    libm,
    logarithm,
    power,
    special,
    trigonometric,
)
from .arith import arith
from .convert import convert
from .extern import extern, resolve
from .registry import emit, lookup

__all__ = ["arith", "call", "convert", "extern", "resolve"]

# MLIR's names where they differ from ours
_ALIASES = {
    "absf": "abs",
    "absi": "abs",
    "mulhiui": "umulhi",
    "powf": "pow",
    "fpowi": "powi",
    "finite": "isfinite",
}


def _canonical(name: str) -> str:
    name = name.rpartition(".")[2]
    return _ALIASES.get(name, name)


def call(builder: ir.IRBuilder, name: str, args: list[ir.Value], dtype: str) -> ir.Value:
    """A math function (`math.exp`, `exp`, `tanh`, `popc`, ...) of values whose element type is `dtype`.

    f16 and bf16 are computed in f32 and rounded back.
    """
    short = _canonical(name)
    if dtype in ("f16", "bf16"):
        wide = [convert(builder, a, dtype, "f32") for a in args]
        return convert(builder, call(builder, short, wide, "f32"), "f32", dtype)
    entry = lookup(short, dtype)
    if entry is None:
        raise UnsupportedError(f"the CPU target has no math function {name!r} for elements of type {dtype}")
    return emit(builder, short, entry, args)
