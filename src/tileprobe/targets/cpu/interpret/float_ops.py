"""Float arithmetic as generated code does it: which of two zeros and NaNs wins, and small floats by way of f32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tileprobe.targets.cpu.interpret.floats import Array, round_to, storage, widen

Evaluate = Callable[..., Array]


def max_number(x: Array, y: Array) -> Array:
    """A NaN counts only if both are; of two equal zeros the second wins, as in generated code."""
    return np.where(np.isnan(y), x, np.where(x > y, x, y))


def min_number(x: Array, y: Array) -> Array:
    return np.where(np.isnan(y), x, np.where(x < y, x, y))


def max_nan(x: Array, y: Array) -> Array:
    """NaN if either is: one in y is what the comparison leaves."""
    return np.where(np.isnan(x), x, np.where(x > y, x, y))


def min_nan(x: Array, y: Array) -> Array:
    return np.where(np.isnan(x), x, np.where(x < y, x, y))


FLOAT_BINARY: dict[str, Callable[..., Array]] = {
    "addf": lambda x, y: x + y,
    "subf": lambda x, y: x - y,
    "mulf": lambda x, y: x * y,
    "divf": lambda x, y: x / y,
    "remf": np.fmod,
    "maxnumf": max_number,
    "minnumf": min_number,
    "maximumf": max_nan,
    "minimumf": min_nan,
    "negf": lambda x: -x,
}


def float_binary(name: str, kind: str) -> Evaluate:
    """`arith.<name>` on floats of a type."""
    work = FLOAT_BINARY[name]
    if kind in ("f32", "f64"):
        return work
    if name == "negf":
        sign = storage(f"i{8 * storage(kind).itemsize}")
        top = np.iinfo(sign).min
        return lambda x: (x.view(sign) ^ top).view(x.dtype)
    return lambda *args: round_to(work(*(widen(a, kind) for a in args)), kind)


def absolute(kind: str) -> Evaluate:
    bits = storage(f"i{8 * storage(kind).itemsize}")
    return lambda x: (x.view(bits) & np.iinfo(bits).max).view(x.dtype)
