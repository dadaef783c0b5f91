"""What every figure is made of: how long an interval lasted, what it stands for, and how sure a sum of them is.

A total is scaled to all that ran: an interval stands for `weight` executions within its launch, and a launch for
`ran / probed` launches of its work. The recorded launches of a work are a sample of what the work costs, and so are
the programs of a launch: their spread says how far a total may be off. Comes in: totals of launches or programs. Goes
out: variances, and 95 % intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

# of one execution, interruptions left out; what was taken is kept as a narrower float, and no time is below zero
LASTED = (pl.col("stop_ns") - pl.col("start_ns") - pl.col("taken_ns")).clip(lower_bound=0.0)
STANDS = pl.col("weight").cast(pl.Float64)  # executions within the launch
TIME = LASTED * STANDS * pl.col("fit")  # of all that it stands for within the launch

# Student's t, 97.5 %, by degrees of freedom from 1 on; beyond them the first terms of its expansion are exact enough.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
NORMAL = 1.959964
BATCHES = 8  # of launches that are neighbours in time
DRIFTS = 2.1  # times the variance that independent launches would have: one in twenty has that much by chance (F, 7)


def student(freedom: float) -> float:
    """How many standard errors a 95 % interval reaches either way."""
    if not freedom >= 1:
        return math.inf
    if freedom < len(_T):
        low = int(freedom)
        return _T[low - 1] + (freedom - low) * (_T[low] - _T[low - 1])
    z = NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


@dataclass
class Spread:
    """Variances of some totals and their degrees of freedom; infinite where nothing can be said."""

    variance: np.ndarray
    freedom: np.ndarray

    def half_width(self) -> np.ndarray:
        """Of the 95 % interval."""
        return np.array(
            [student(f) * math.sqrt(v) if v else 0.0 for v, f in zip(self.variance, self.freedom)]
        )


def spread_of_total(samples: np.ndarray, *, in_order: bool = False) -> Spread:
    """How sure the sum of the samples is, a row a total and a column a sample. The samples are
    as likely as any others: launches of one work, or programs of a launch. Where they are `in_order` of time their
    neighbours may be alike, because the machine (other programs, the pace of its memory) changes slowly: then batches
    of neighbours differ by more than so many independent samples would, and how batches differ is what counts."""
    rows, count = samples.shape
    if count < 2:
        return Spread(np.full(rows, math.inf), np.zeros(rows))
    variance = samples.var(axis=1, ddof=1)
    freedom = np.full(rows, count - 1.0)
    if in_order and count >= 2 * BATCHES:
        each = count // BATCHES
        batches = samples[:, : each * BATCHES].reshape(rows, BATCHES, each).mean(axis=2)
        slow = each * batches.var(axis=1, ddof=1)
        drifts = slow > DRIFTS * variance
        variance, freedom = np.where(drifts, slow, variance), np.where(drifts, BATCHES - 1.0, freedom)
    return Spread(count * variance, freedom)


def together(parts: Sequence[Spread]) -> Spread:
    """Of a sum of independent totals; the degrees of freedom are those of Welch and Satterthwaite."""
    variance = np.sum([part.variance for part in parts], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.sum([part.variance**2 / part.freedom for part in parts if part.freedom.any()], axis=0)
        freedom = np.where(variance > 0, variance**2 / share, 1.0)
    known = np.isfinite(variance)
    return Spread(np.where(known, variance, math.inf), np.where(known, freedom, 0.0))


def weighted_quantile(values: str, weights: str, share: float) -> pl.Expr:
    """The smallest value up to which at least this share of the weights lies, within a group."""
    summed = pl.col(weights).sort_by(values).cum_sum()
    # rounding must not move it to the next value
    return pl.col(values).sort().filter(summed >= share * pl.col(weights).sum() * (1 - 1e-9)).first()
