"""Float types NumPy does not have, as arrays of their bits: to and from float32, rounding half to even.

`FORMATS` says how many bits of exponent and mantissa each has, its bias and what its largest codes mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Format:
    exponent_bits: int
    mantissa_bits: int
    bias: int
    infinities: bool  # the largest exponent means infinity and NaN, as in IEEE 754
    nan: int | None  # the one NaN of formats without infinities
    clamp: float = np.inf  # larger values are never written

    @property
    def sign(self) -> int:
        return 1 << (self.exponent_bits + self.mantissa_bits)


# OCP 8-bit floating point specification 1.0; the fnuz types from AMD's CDNA3; fp8e4b15 is Triton's own.
FORMATS = {
    "bfloat16": Format(8, 7, 127, True, None),
    "float8_e5m2": Format(5, 2, 15, True, None),
    "float8_e4m3fn": Format(4, 3, 7, False, 0x7F),
    "float8_e4m3fnuz": Format(4, 3, 8, False, 0x80),
    "float8_e5m2fnuz": Format(5, 2, 16, False, 0x80),
    "float8e4b15": Format(4, 3, 15, False, None, clamp=1.75),
}


def decode(bits: np.ndarray, name: str) -> np.ndarray:
    """The values of an array of bits, exactly, as float32."""
    form = FORMATS[name]
    codes = bits.astype(np.int64)
    if bits.itemsize == 1:
        return _table(form)[codes].astype(np.float32)
    return (codes.astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)


def encode(values: np.ndarray, name: str) -> np.ndarray:
    """The nearest codes; what is too large becomes infinity, or the largest value where there is none."""
    form = FORMATS[name]
    if name == "bfloat16":
        return _to_bfloat16(np.asarray(values))
    table = _table(form)
    half = form.sign
    magnitudes = table[:half].astype(np.float64)
    finite = np.flatnonzero(np.isfinite(magnitudes))
    steps = magnitudes[finite]
    x = np.minimum(np.abs(np.asarray(values, dtype=np.float64)), form.clamp)
    upper = np.clip(np.searchsorted(steps, x), 1, len(steps) - 1)
    below, above = x - steps[upper - 1], steps[upper] - x
    up = (above < below) | ((above == below) & (finite[upper] % 2 == 0))
    code = np.where(up, finite[upper], finite[upper - 1])
    if form.infinities:  # beyond half a step above the largest value
        limit = steps[-1] + (steps[-1] - steps[-2]) / 2
        code = np.where(x >= limit, finite[-1] + 1, code)
    negative = np.signbit(values)
    if form.nan == half:  # no negative zero either: its code is the NaN
        negative = negative & (code != 0)
    code = np.where(negative, code | half, code)
    nan = form.nan if form.nan is not None else half - 1
    return np.where(np.isnan(values), nan, code).astype(np.uint8)


def _to_bfloat16(values: np.ndarray) -> np.ndarray:
    single = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).reshape(values.shape)
    rounded = (single + 0x7FFF + ((single >> 16) & 1)) >> 16
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)


def _table(form: Format) -> np.ndarray:
    codes = np.arange(2 * form.sign)
    magnitude = codes % form.sign
    exponent = magnitude >> form.mantissa_bits
    fraction = (magnitude & ((1 << form.mantissa_bits) - 1)) / (1 << form.mantissa_bits)
    scale = np.exp2(np.maximum(exponent, 1) - form.bias)
    values = np.where(exponent > 0, 1 + fraction, fraction) * scale
    if form.infinities:
        largest = (1 << form.exponent_bits) - 1
        values = np.where(exponent == largest, np.where(fraction == 0, np.inf, np.nan), values)
    values = np.where(codes >= form.sign, -values, values)
    if form.nan is not None:
        values = np.where((magnitude == form.nan) | (codes == form.nan), np.nan, values)
    return values
