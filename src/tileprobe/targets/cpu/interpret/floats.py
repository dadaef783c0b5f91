"""Element types as NumPy holds them, and floats from and to the types NumPy lacks.

A value is an array (or a NumPy scalar) of its type's storage: integers are signed, i1 is bool, pointers are
64-bit integers, bfloat16 and the 8-bit floats are their bits. `widen` gives what is computed with, `round_to`
goes back with one rounding, as the code generator does.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tileprobe.errors import UnsupportedError
from tileprobe.targets.cpu.vmath.formats import FLOAT8, Float8

Array = Any  # an ndarray, or a NumPy scalar of the same dtype: operations take both alike

_STORAGE = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64,
    "ptr": np.int64, "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.uint16,
    **dict.fromkeys(FLOAT8, np.uint8),
}  # fmt: skip


@cache
def storage(name: str) -> np.dtype:
    """The NumPy dtype that holds values of an element type."""
    if name not in _STORAGE:
        raise UnsupportedError(f"the interpreter has no values of type {name}")
    return np.dtype(_STORAGE[name])


def is_float(name: str) -> bool:
    return name in ("f16", "bf16", "f32", "f64") or name in FLOAT8


def widen(x: Array, name: str) -> Array:
    """The float32 (or float64) that a float of any format is, exactly."""
    if name in ("f32", "f64"):
        return x
    if name == "f16":
        return x.astype(np.float32)
    if name == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32)
    return _decoded(name)[x]


def round_to(x: Array, name: str, toward_zero: bool = False) -> Array:
    """A float32 or float64 as `name`, rounded once: to nearest even, or toward zero."""
    if name == "f64":
        return x.astype(np.float64)
    if name in ("f32", "f16"):
        near = x.astype(storage(name))
        return _step_back(near, x) if toward_zero else near
    if name == "bf16":
        return _to_bfloat(x if x.dtype == np.float32 else _odd_float(x), toward_zero)
    return _to_float8(x, name, toward_zero)


def _step_back(near: Array, exact: Array) -> Array:
    """The neighbour toward zero of what was rounded away from it."""
    bits = near.view(f"u{near.dtype.itemsize}")
    over = np.abs(near.astype(np.float64)) > np.abs(exact.astype(np.float64))
    return (bits - over.astype(bits.dtype)).view(near.dtype)


def _odd_float(x: Array) -> Array:
    """A double as a float whose last bit says whether anything was lost: rounding it again rounds the double."""
    y = _step_back(x.astype(np.float32), x)
    lost = (y.astype(np.float64) != x) & np.isfinite(x)
    return (y.view(np.uint32) | lost.astype(np.uint32)).view(np.float32)


def _to_bfloat(x: Array, toward_zero: bool) -> Array:
    bits = x.view(np.uint32)
    rounded = bits if toward_zero else bits + ((bits >> 16) & 1) + np.uint32(0x7FFF)
    # a NaN keeps a bit that survives the cut
    return (np.where(np.isnan(x), bits | 0x400000, rounded) >> 16).astype(np.uint16)


def _to_float8(x: Array, name: str, toward_zero: bool) -> Array:
    """Saturating: also infinity becomes the largest number, as in generated code."""
    form = FLOAT8[name]
    steps = _decoded(name)[: form.largest + 1].astype(np.float64)
    a = np.minimum(np.abs(x.astype(np.float64)), form.largest_value)
    a = np.where(np.isnan(x), 0.0, a)
    low = np.searchsorted(steps, a, side="right") - 1
    high = np.minimum(low + 1, form.largest)
    below, above = a - steps[low], steps[high] - a
    up = (above < below) | ((above == below) & (low % 2 == 1))
    code = low if toward_zero else np.where(up, high, low)
    sign = np.where(np.signbit(x), 0x80, 0)
    if form.unsigned_zero:
        sign = np.where(code == 0, 0, sign)
        return np.where(np.isnan(x), form.nan, code | sign).astype(np.uint8)
    return (np.where(np.isnan(x), form.nan, code) | sign).astype(np.uint8)


@cache
def _decoded(name: str) -> np.ndarray:
    """The value of every code of an 8-bit format."""
    form: Float8 = FLOAT8[name]
    codes = np.arange(256)
    magnitude = codes & 0x7F
    exponent = magnitude >> form.mantissa_bits
    fraction = (magnitude & ((1 << form.mantissa_bits) - 1)) / (1 << form.mantissa_bits)
    value = np.where(exponent > 0, 1 + fraction, fraction) * np.exp2(
        np.maximum(exponent, 1) - form.bias * 1.0
    )
    if form.infinite:
        top = (1 << form.exponent_bits) - 1
        value = np.where(exponent == top, np.where(fraction == 0, np.inf, np.nan), value)
    elif form.nan == 0x7F:
        value = np.where(magnitude == 0x7F, np.nan, value)
    value = np.where(codes & 0x80, -value, value)
    if form.unsigned_zero:
        value[0x80] = np.nan
    return value.astype(np.float32)
