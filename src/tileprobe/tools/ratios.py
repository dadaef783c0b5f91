"""Shares with their uncertainty: a sum over a sum, from samples that stand beside each other.

The samples are places of launches (each SM of each launch); where there are fewer than a few, windows of equal time.
Comes in: numerators and denominators piece by piece. Goes out: a share and half its 95 % interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tileprobe.tools.figures import student
from tileprobe.trace.intervals import Array

FEW = 4  # samples
WINDOWS = 16


@dataclass(frozen=True)
class Ratio:
    """`error` is half the 95 % interval; None where nothing can be said."""

    value: float
    error: float | None = None


def windows(group: Array, ns: Array) -> Array:
    """To which sample each piece belongs: its group, or a window of time where there are too few of these."""
    found, number = np.unique(group, return_inverse=True)
    if len(found) >= FEW or not len(ns):
        return number
    reach = np.cumsum(ns)
    return np.minimum((reach - ns) * WINDOWS // reach[-1], WINDOWS - 1).astype(np.int64)


def ratio(part: Array, whole: Array, sample: Array, unsure: bool = True) -> Ratio:
    """The parts over the wholes. Samples of different lengths count by these."""
    total = float(whole.sum())
    if total <= 0:
        return Ratio(0.0)
    value = float(part.sum()) / total
    count = int(sample.max()) + 1
    if not unsure or count < FEW:
        return Ratio(value)
    parts, wholes = (np.bincount(sample, column, count) for column in (part, whole))
    spread = float(((parts - value * wholes) ** 2).sum()) * count / (count - 1)
    return Ratio(value, student(count - 1) * math.sqrt(spread) / total)
