"""Integer arithmetic as generated code does it: it wraps, and nothing traps.

Division truncates toward zero; by zero it divides by one. A shift by the width or more gives zero, or the sign.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tileprobe.targets.cpu.interpret.convert import as_signed, as_unsigned, fit
from tileprobe.targets.cpu.interpret.floats import Array

Binary = Callable[[Array, Array], Array]


def _in(read: Callable[[Array], Array], work: Binary) -> Binary:
    """`work` on operands read as signed or unsigned numbers, its low bits as the result."""
    return lambda x, y: fit(work(read(x), read(y)), x.dtype)


def _safe(x: Array, y: Array) -> Array:
    """A divisor that cannot trap: zero, and -1 under the least integer, become one."""
    bad = y == 0
    if x.dtype.kind == "i":
        bad = bad | ((y == -1) & (x == np.iinfo(x.dtype).min))
    return np.where(bad, x.dtype.type(1), y)


def _quotient(x: Array, y: Array) -> Array:
    y = _safe(x, y)
    q = x // y
    # NumPy rounds down
    return q + ((q < 0) & (q * y != x)) if x.dtype.kind == "i" else q


def _remainder(x: Array, y: Array) -> Array:
    return np.fmod(x, _safe(x, y))


def _shift_left(x: Array, y: Array) -> Array:
    width = 8 * x.dtype.itemsize
    return np.where(y < width, x << np.minimum(y, width - 1), x.dtype.type(0))


def _shift_right(x: Array, y: Array) -> Array:
    width = 8 * x.dtype.itemsize
    return np.where(y < width, x >> np.minimum(y, width - 1), x.dtype.type(0))


def _shift_arithmetic(x: Array, y: Array) -> Array:
    top = 8 * x.dtype.itemsize - 1
    amount = np.minimum(as_unsigned(y), top).astype(x.dtype)
    return as_signed(x) >> amount


def high_product(x: Array, y: Array) -> Array:
    """The upper half of the product of two unsigned integers."""
    width = 8 * x.dtype.itemsize
    a, b = as_unsigned(x).astype(np.uint64), as_unsigned(y).astype(np.uint64)
    if width < 64:
        return ((a * b) >> np.uint64(width)).astype(x.dtype)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + ((a0 * b0) >> half)
    carry = a0 * b1 + (middle & low)
    return (a1 * b1 + (middle >> half) + (carry >> half)).astype(np.int64)


BINARY: dict[str, Binary] = {
    "addi": _in(as_unsigned, lambda x, y: x + y),
    "subi": _in(as_unsigned, lambda x, y: x - y),
    "muli": _in(as_unsigned, lambda x, y: x * y),
    "andi": lambda x, y: x & y,
    "ori": lambda x, y: x | y,
    "xori": lambda x, y: x ^ y,
    "shli": _in(as_unsigned, _shift_left),
    "shrui": _in(as_unsigned, _shift_right),
    "shrsi": lambda x, y: fit(_shift_arithmetic(x, y), x.dtype),
    "divsi": _in(as_signed, _quotient),
    "divui": _in(as_unsigned, _quotient),
    "remsi": _in(as_signed, _remainder),
    "remui": _in(as_unsigned, _remainder),
    "maxsi": _in(as_signed, np.maximum),
    "minsi": _in(as_signed, np.minimum),
    "maxui": _in(as_unsigned, np.maximum),
    "minui": _in(as_unsigned, np.minimum),
}

# by the number of arith.cmpi's predicate
COMPARE: list[Binary] = [
    lambda x, y: x == y,
    lambda x, y: x != y,
    lambda x, y: as_signed(x) < as_signed(y),
    lambda x, y: as_signed(x) <= as_signed(y),
    lambda x, y: as_signed(x) > as_signed(y),
    lambda x, y: as_signed(x) >= as_signed(y),
    lambda x, y: as_unsigned(x) < as_unsigned(y),
    lambda x, y: as_unsigned(x) <= as_unsigned(y),
    lambda x, y: as_unsigned(x) > as_unsigned(y),
    lambda x, y: as_unsigned(x) >= as_unsigned(y),
]
