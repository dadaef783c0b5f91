"""Corrected times stay in order: no interval gets shorter than nothing, and what nests goes on nesting.

The cost of a record is known in the mean. Between two records that follow each other at once it may be more than the
time that passed, and the later one would come first. Such records are moved together: each to the middle between the
latest time before it and the earliest behind it, which leaves sums over more than a few of them as they were; the
whole stays as long as it was. In come rows with the delays of their records; the delays are changed in place, and out
goes what could not be taken out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileprobe.trace.blocks import Rows
from tileprobe.trace.cursor import Pushed, in_sequence


@dataclass(frozen=True)
class Residual:
    """The correction by replay in all, and what of it was more than there was: ticks, and records concerned."""

    corrected_ticks: float = 0.0
    residual_ticks: float = 0.0
    records: int = 0

    def __add__(self, other: Residual) -> Residual:
        return Residual(
            self.corrected_ticks + other.corrected_ticks,
            self.residual_ticks + other.residual_ticks,
            self.records + other.records,
        )

    def to_json(self) -> dict[str, float]:
        """As a kernel's calibration keeps it."""
        return {"residual_share": self.share, "residual_records": self.records} if self.records else {}

    @property
    def share(self) -> float:
        """Of the correction."""
        return self.residual_ticks / self.corrected_ticks if self.corrected_ticks else 0.0


def keep_order(rows: Rows, pushed: Pushed) -> Residual:
    """Moves delays of rows and of their cursor's records so that time never goes back within a row."""
    assert rows.delays is not None
    records = in_sequence(rows, pushed)
    mine, ticks, order = records.row, records.clock, records.order
    if not len(mine):
        return Residual()
    segment = np.zeros(0) if pushed.delay is None else pushed.delay
    delays = np.r_[rows.delays[rows.recorded_words], segment][order]
    first = np.r_[True, mine[1:] != mine[:-1]]
    begin = ticks[first][np.cumsum(first) - 1]
    time = (ticks - begin) - delays
    back = np.where(first[1:], 0.0, np.maximum(-np.diff(time), 0.0))
    last = np.r_[first[1:], True]
    total = Residual(float(np.abs(delays[last]).sum()), float(back.sum()), int((back > 0).sum()))
    if total.records:
        moved = _in_order(time, mine, np.unique(mine[1:][back > 0]))
        fixed = np.empty(len(order))
        fixed[order] = (ticks - begin) - moved
        count = len(order) - len(pushed.row)
        rows.delays[rows.recorded_words] = fixed[:count]
        pushed.delay = fixed[count:]
    return total


def _in_order(time: np.ndarray, row: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """The times of these rows (ascending), none before the one ahead of it."""
    moved = time.copy()
    starts, ends = np.searchsorted(row, wrong, "left"), np.searchsorted(row, wrong, "right")
    for start, end in zip(starts, ends):
        mine = time[start:end]
        latest = np.maximum.accumulate(mine)
        earliest = np.minimum.accumulate(mine[::-1])[::-1]
        moved[start:end] = np.clip((latest + earliest) / 2, mine[0], max(mine[0], mine[-1]))
    return moved
