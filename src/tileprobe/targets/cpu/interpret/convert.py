"""Conversions between element types: what `arith`'s casts and `tt.fp_to_fp` mean on the CPU target.

Floats outside an integer's range become the nearest integer in it and NaN becomes 0, as on an NVIDIA GPU.
"""

from __future__ import annotations

import numpy as np

from tileprobe.targets.cpu.interpret.floats import Array, is_float, round_to, storage, widen


def convert(x: Array, source: str, result: str, *, signed: bool = True, toward_zero: bool = False) -> Array:
    """`x` of one element type as another. `signed` says how the integer side is read: a signed i1 is 0 or -1."""
    if source == result:
        return x
    if is_float(source) and is_float(result):
        return round_to(widen(x, source), result, toward_zero)
    if is_float(source):
        return _to_integer(widen(x, source), result, signed)
    if is_float(result):
        return _from_integer(as_signed(x) if signed else as_unsigned(x), result)
    return _resize(as_signed(x) if signed else as_unsigned(x), result)


def as_signed(x: Array) -> Array:
    """An integer as the number its bits are with a sign; i1 is 0 or -1."""
    return -x.astype(np.int8) if x.dtype == np.bool_ else x


def as_unsigned(x: Array) -> Array:
    return x.astype(np.uint8) if x.dtype == np.bool_ else x.view(f"u{x.dtype.itemsize}")


def fit(x: Array, like: np.dtype) -> Array:
    """The low bits of an integer result as a value of the storage `like`."""
    return (x & 1).astype(np.bool_) if like == np.bool_ else x.astype(like)


def _resize(x: Array, result: str) -> Array:
    return fit(x, storage(result))


def _to_integer(x: Array, result: str, signed: bool) -> Array:
    if result == "i1":
        return x != 0
    kind = storage(result)
    bits = 8 * kind.itemsize
    wide = np.trunc(np.where(np.isnan(x), 0, x).astype(np.float64))
    low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
    held = kind if signed else np.dtype(f"u{kind.itemsize}")
    limits = np.iinfo(held)
    inside = np.where((wide >= low) & (wide < high), wide, 0).astype(held)
    out = np.where(wide >= high, held.type(limits.max), np.where(wide < low, held.type(limits.min), inside))
    return out.astype(held).view(kind)


def _from_integer(x: Array, result: str) -> Array:
    if result in ("f32", "f64"):
        return x.astype(storage(result))
    if result != "bf16" or x.dtype.itemsize <= 2:
        # an integer that f32 cannot hold is infinite in f16 and fp8: rounding it twice does no harm
        return round_to(x.astype(np.float32), result)
    return round_to(_odd_double(x) if x.dtype.itemsize == 8 else x.astype(np.float64), result)


def _odd_double(x: Array) -> Array:
    """A 64-bit integer as a double whose last bit says whether anything was lost."""
    low = x & 0x7FF
    kept = (x - low) | np.where(low != 0, 0x800, 0).astype(x.dtype)
    large = (np.abs(x.astype(np.float64)) >= 2.0**53) | (x == np.iinfo(x.dtype).min)
    return np.where(large & (x != 0), kept, x).astype(np.float64)
