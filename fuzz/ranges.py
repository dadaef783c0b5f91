"""Bounds of values, so that generated kernels index inside their tensors and keep float sums exact.

An integer that may overflow has all values of its type. A float has bounds only while it is known to be a whole
number that its type holds exactly; otherwise None, "any float".
"""

from __future__ import annotations

from fuzz.program import Range
from fuzz.types import TYPES


def whole(dtype: str, low: int, high: int) -> Range:
    """Bounds of a result that the type may or may not hold."""
    kind = TYPES[dtype]
    if kind.kind == "f":
        return (low, high) if max(abs(low), abs(high)) <= kind.exact else None
    smallest, largest = kind.range
    return (low, high) if smallest <= low and high <= largest else kind.range


def everything(dtype: str) -> Range:
    return None if TYPES[dtype].kind == "f" else TYPES[dtype].range


def union(a: Range, b: Range) -> Range:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def inside(a: Range, low: int, high: int) -> bool:
    return a is not None and low <= a[0] and a[1] <= high


def _bits(high: int) -> int:
    return (1 << max(high, 0).bit_length()) - 1


def binary(symbol: str, dtype: str, a: Range, b: Range) -> Range:
    """Bounds of `a symbol b`."""
    if a is None or b is None:
        return everything(dtype)
    if symbol == "+":
        return whole(dtype, a[0] + b[0], a[1] + b[1])
    if symbol == "-":
        return whole(dtype, a[0] - b[1], a[1] - b[0])
    if symbol == "*":
        corners = [x * y for x in a for y in b]
        return whole(dtype, min(corners), max(corners))
    if symbol == "maximum":
        return max(a[0], b[0]), max(a[1], b[1])
    if symbol == "minimum":
        return min(a[0], b[0]), min(a[1], b[1])
    if TYPES[dtype].kind == "f":
        return None
    return _integer(symbol, dtype, a, b)


def _integer(symbol: str, dtype: str, a: tuple[int, int], b: tuple[int, int]) -> Range:
    positive = a[0] >= 0 and b[0] >= 0
    if symbol == "&" and (a[0] >= 0 or b[0] >= 0):
        return 0, min(x[1] for x in (a, b) if x[0] >= 0)
    if symbol in "|^" and positive:
        return whole(dtype, 0, _bits(max(a[1], b[1])))
    if symbol == ">>":
        return min(a[0], 0), max(a[1], 0)
    if symbol == "//" and b[0] > 0:
        return min(a[0], 0), max(a[1] // b[0], 0)
    if symbol == "%" and b[0] > 0:
        return (0 if a[0] >= 0 else 1 - b[1]), b[1] - 1
    if symbol == "<<" and positive:
        return whole(dtype, 0, a[1] << min(b[1], 64))
    return TYPES[dtype].range


def cast(to: str, a: Range) -> Range:
    if a is None:
        return everything(to)
    return whole(to, *a)
