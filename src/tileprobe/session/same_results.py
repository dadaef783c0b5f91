"""Whether a launch that was changed computes the same: tensors held against those of the launch as it is.

In come tensors by name, before and after. Goes out: what differs by more than rounding, in a sentence; nothing if all
are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# How far results may be off, as a share of the largest, in units of the last place of their type: sums in another
# order, of some thousands of terms, stay within it
_LAST_PLACES = 256
_NARROW = 2**-7  # of types of two bytes and less
_FAR = 1 / 16  # of its own value: no rounding, but for what is left of a difference of large numbers
_FEW = 0.1  # of the elements may be such


@dataclass(frozen=True)
class Tensor:
    """An argument as it was found: `bits` of an element in memory, which `values` may hold in more; None where nobody
    knows what they mean, and `values` are bytes."""

    name: str
    values: np.ndarray
    bits: int | None


def different(expected: Sequence[Tensor], found: Sequence[Tensor]) -> str:
    for before, after in zip(expected, found, strict=True):
        wrong = _differs(before, after)
        if wrong:
            return f"{before.name} {wrong}"
    return ""


def _differs(before: Tensor, after: Tensor) -> str:
    old, new = before.values, after.values
    if old.dtype.kind not in "fc":
        count = int((old != new).sum())
        what = "other bytes" if before.bits is None else "other values"
        return f"has {what} in {count:,} of {old.size:,} places" if count else ""
    kept = np.isfinite(old)
    if not np.array_equal(old[~kept], new[~kept], equal_nan=True) or not np.isfinite(new[kept]).all():
        return "is not finite in other places"
    wide = np.complex128 if old.dtype.kind == "c" else np.float64
    size, off = np.abs(old[kept].astype(wide)), np.abs(old[kept].astype(wide) - new[kept])
    largest, most = float(size.max(initial=0.0)), float(off.max(initial=0.0))
    if most > largest * tolerance(before):
        return f"differs by up to {most:.3g}, where its largest value is {largest:.3g}"
    far = int((off > _FAR * size).sum())
    if far > _FEW * old.size:
        return f"differs by more than a sixteenth of their own value in {far:,} of {old.size:,} places"
    return ""


def tolerance(one: Tensor) -> float:
    """As a share of the largest value."""
    if one.bits is not None and one.bits <= 16:
        return _NARROW
    return _LAST_PLACES * float(np.finfo(one.values.dtype).eps)
