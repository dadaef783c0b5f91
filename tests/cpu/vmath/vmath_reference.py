"""Reference arithmetic the tests compare with: exact tables of the small formats, and distances in ulps."""

from __future__ import annotations

from functools import cache

import numpy as np

# name -> exponent bits, mantissa bits, bias, number of finite magnitudes, NaN codes, codes of infinity
SMALL = {
    "f16": (5, 10, 15, 0x7C00),
    "bf16": (8, 7, 127, 0x7F80),
    "f8E5M2": (5, 2, 15, 0x7C),
    "f8E4M3FN": (4, 3, 7, 0x7F),
    "f8E4M3FNUZ": (4, 3, 8, 0x80),
    "f8E5M2FNUZ": (5, 2, 16, 0x80),
    "f8E4M3B15": (4, 3, 15, 0x80),
}
HAS_INFINITY = ("f16", "bf16", "f8E5M2")
FNUZ = ("f8E4M3FNUZ", "f8E5M2FNUZ")


def bits_of(dtype: str) -> int:
    return 8 if dtype.startswith("f8") else 16


@cache
def magnitudes(dtype: str) -> np.ndarray:
    """The finite magnitudes of a format in order: index = code."""
    _, m, bias, count = SMALL[dtype]
    code = np.arange(count)
    exponent, fraction = code >> m, (code & ((1 << m) - 1)) / (1 << m)
    return np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))


def decode(code: np.ndarray, dtype: str) -> np.ndarray:
    """Codes as float64."""
    bits, count = bits_of(dtype), SMALL[dtype][3]
    sign, magnitude = code >> (bits - 1), code & ((1 << (bits - 1)) - 1)
    table = np.full(1 << (bits - 1), np.nan)
    table[:count] = magnitudes(dtype)
    if dtype in HAS_INFINITY:
        table[count] = np.inf
    out = np.where(sign == 1, -table[magnitude], table[magnitude])
    return np.where(code == 0x80, np.nan, out) if dtype in FNUZ else out


def encode(x: np.ndarray, dtype: str, rounding: str, saturate: bool) -> np.ndarray:
    """float64 as codes by searching the table; NaN is -1."""
    table = magnitudes(dtype)
    if dtype == "f8E4M3B15":
        table = table[:0x7F]  # conversions stop at 1.75
    a = np.abs(x)
    below = np.clip(np.searchsorted(table, a, side="right") - 1, 0, table.size - 1)
    above = np.minimum(below + 1, table.size - 1)
    if rounding == "rtne":
        middle = (table[below] + table[above]) / 2
        up = (a > middle) | ((a == middle) & (below % 2 == 1))
        magnitude = np.where(up & (a > table[below]), above, below)
    else:
        magnitude = below
    magnitude = _overflow(a, magnitude, table, dtype, rounding, saturate)
    negative = np.signbit(x) & ~((magnitude == 0) & (dtype in FNUZ))
    code = magnitude | (negative.astype(np.int64) << (bits_of(dtype) - 1))
    return np.where(np.isnan(x), -1, code)


def _overflow(a, magnitude, table, dtype, rounding, saturate):
    if saturate or dtype not in HAS_INFINITY:
        return magnitude
    step = table[-1] - table[-2]
    limit = table[-1] + step / 2 if rounding == "rtne" else np.inf
    return np.where(a >= limit, table.size, magnitude)


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|got - exact| in units of got's last place; 0 where both are the same infinity or NaN, else inf."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(got.dtype)
        unit = np.spacing(np.abs(rounded)).astype(exact.dtype)
        distance = np.abs(got.astype(exact.dtype) - exact) / unit
    same = (np.isnan(got) & np.isnan(rounded)) | (got == rounded)
    return np.where(np.isfinite(rounded) & np.isfinite(got), distance, np.where(same, 0, np.inf))
