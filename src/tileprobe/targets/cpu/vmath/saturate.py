"""Float to integer with saturation, in vector operations: LLVM's own intrinsic falls apart into scalars."""

from __future__ import annotations

import llvmlite.ir as ir

from .values import Val


def to_integer(x: Val, width: int, signed: bool) -> Val:
    """f32 or f64 truncated to an integer; what is out of range becomes the nearest one, NaN becomes 0."""
    digits = x.mantissa_bits + 1
    top = width - 1 if signed else width
    exact = top <= digits  # the greatest integer is itself a float
    high = 2.0**top - (1 if exact else 2.0 ** (top - digits))
    y = x.clamp(-(2.0**top), high) if signed else (x > 0).pick((x > high).pick(high, x), 0)
    if signed:
        y = x.isnan().pick(0, y)
    # narrow integers by way of 32 bits, the width machines convert to
    wide = ir.IntType(max(width, 32))
    out = y.cast("fptosi" if signed or width < 32 else "fptoui", wide)
    if not exact:
        out = (x >= 2.0**top).pick(out.const((1 << top) - 1), out)
    return out if width >= 32 else out.cast("trunc", ir.IntType(width))
