"""Columns of numbers as one compressed block that a page carries as text: a few bytes an interval.

Numbers that grow are stored as differences, whole ones in as few bytes as they need; the bytes of each column are
ordered by their weight, which is what makes them compress. `unpack` in `page/data.js` is the inverse.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

GROWING = {"start", "edge_start", "offsets"}


def pack(columns: dict[str, np.ndarray]) -> tuple[bytes, list[dict[str, Any]]]:
    """The block, and for each column its name, type, count and whether it holds differences."""
    parts: list[bytes] = []
    layout: list[dict[str, Any]] = []
    for name, values in columns.items():
        growing = name in GROWING
        numbers = np.diff(values.astype(np.float64), prepend=0.0) if growing else values
        numbers = _narrow(numbers)
        layout.append(
            {"name": name, "type": numbers.dtype.str[1:], "count": len(numbers), "growing": growing}
        )
        size = numbers.dtype.itemsize
        parts.append(numbers.view(np.uint8).reshape(-1, size).T.tobytes())
    return zlib.compress(b"".join(parts), 6), layout


def _narrow(values: np.ndarray) -> np.ndarray:
    """The narrowest little-endian type that holds the values exactly."""
    if not len(values):
        return values.astype("<u1")
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.floor(values)).all()):
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    low, high = values.min(), values.max()
    for name in ("<u1", "<i1", "<u2", "<i2", "<u4", "<i4"):
        kind = np.iinfo(name)
        if kind.min <= low and high <= kind.max:
            return np.ascontiguousarray(values.astype(name))
    return np.ascontiguousarray(values.astype("<f8"))
