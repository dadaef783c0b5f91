"""What a record costs where it stands: replay learns by dose what one costs behind another, and a core hides of that
whatever it can do meanwhile.

Launches of one work with all records, and light ones that recorded no iteration of any loop: the same programs took
longer by the cost of the records between. What is known beforehand is that a record costs something from nothing to
what doses say, anything alike; the more programs and launches there are to be compared, the less that matters. In come
the rows of both sorts; out goes the share of the dose's cost that programs took longer by, and how sure it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tileprobe.trace.blocks import Rows
from tileprobe.trace.cursor import in_sequence, read
from tileprobe.trace.replay import Calibration, delay_records

BEFORE, UNSURE = 0.5, 12**-0.5  # mean and deviation of a share from 0 to 1 of which nothing is known
_LEAST = 0.01  # a share; below it nothing is told from nothing, and times are as they were recorded
_CUT = 0.05  # of the programs, at either end: the system was there, or a cache was cold
FEW = 2  # launches of a sort, below which nothing is known of how they differ


@dataclass(frozen=True)
class InPlace:
    """The share of what a record costs by dose, its standard deviation, and that from one run to the next."""

    share: float = BEFORE
    error: float = UNSURE
    noise: float = 0.0


@dataclass(frozen=True)
class _Took:
    """Programs of one launch: from their first record to their last, and what doses say that records took of it."""

    program: np.ndarray
    ticks: np.ndarray
    delay: np.ndarray


def in_place(probed: Sequence[Rows], light: Sequence[Rows], calibration: Calibration) -> InPlace:
    """Rows of the one stream that programs of a CPU have, several launches of one work in each."""
    all_of_it, few = (_launches(rows, calibration) for rows in (probed, light))
    if min(len(all_of_it), len(few)) < FEW:
        return InPlace()
    programs = np.unique(np.concatenate([one.program for one in few]))
    usual, delay = _table(few, programs, "ticks"), _table(few, programs, "delay")
    middle, taken = np.nanmedian(usual, axis=0), np.nanmean(delay, axis=0)
    more, expected, launch = [], [], []
    for number, one in enumerate(all_of_it):
        at = np.searchsorted(programs, one.program)
        there = (at < len(programs)) & (programs[np.minimum(at, len(programs) - 1)] == one.program)
        at = at[there]
        more.append(one.ticks[there] - middle[at])
        expected.append(one.delay[there] - taken[at])
        launch.append(np.full(len(at), number))
    found = _ratio(np.concatenate(more), np.concatenate(expected), np.concatenate(launch))
    if found is None:
        return InPlace()
    share, error, predicted = found
    pace = np.nansum(usual - middle, axis=1) / np.nansum(np.where(np.isnan(usual), np.nan, middle), axis=1)
    alike = pace.std(ddof=1) / np.sqrt(len(pace)) * middle.mean() / predicted
    return _weighed(share, float(np.hypot(error, alike)))


def _weighed(share: float, error: float) -> InPlace:
    """What was measured and what was known before, each by how sure it is."""
    weight = UNSURE**2 / (UNSURE**2 + error**2)
    found = BEFORE + weight * (share - BEFORE)
    return InPlace(max(found, _LEAST), UNSURE * np.sqrt(1.0 - weight), weight * error)


def _ratio(more: np.ndarray, expected: np.ndarray, launch: np.ndarray) -> tuple[float, float, float] | None:
    """The share of what was expected that programs took longer, its standard error from how launches differ, and what
    was expected of a program. Without the programs that are farthest off."""
    good = expected > 0
    more, expected, launch = more[good], expected[good], launch[good]
    if not len(more):
        return None
    off = more - np.median(more / expected) * expected
    low, high = np.quantile(off, [_CUT, 1 - _CUT])
    kept = (off >= low) & (off <= high)
    sums = [np.bincount(launch[kept], part[kept]) for part in (more, expected)]
    there = sums[1] > 0
    if there.sum() < FEW:
        return None
    more, expected = sums[0][there], sums[1][there]
    share = more.sum() / expected.sum()
    residual = more - share * expected
    count = len(residual)
    error = np.sqrt(count / (count - 1) * (residual**2).sum()) / expected.sum()
    return float(share), float(error), float(sums[1].sum() / kept.sum())


def _launches(streams: Sequence[Rows], calibration: Calibration) -> list[_Took]:
    found: list[_Took] = []
    for rows in streams:
        pushed = read(rows)
        delay_records(rows, pushed, calibration)
        assert rows.delays is not None
        records = in_sequence(rows, pushed)
        if not len(records.row):
            continue
        segment = np.zeros(0) if pushed.delay is None else pushed.delay
        delays = np.r_[rows.delays[rows.recorded_words], segment][records.order]
        first = np.flatnonzero(np.r_[True, np.diff(records.row) != 0])
        last = np.r_[first[1:], len(records.row)] - 1
        row = records.row[first]
        ticks, delay = records.clock[last] - records.clock[first], delays[last] - delays[first]
        for number in np.unique(rows.launch[row]):
            mine = rows.launch[row] == number
            found.append(_Took(rows.program[row][mine], ticks[mine].astype(float), delay[mine]))
    return found


def _table(launches: Sequence[_Took], programs: np.ndarray, name: str) -> np.ndarray:
    """(launches, programs), NaN where a launch has none of a program."""
    table = np.full((len(launches), len(programs)), np.nan)
    for number, one in enumerate(launches):
        table[number, np.searchsorted(programs, one.program)] = getattr(one, name)
    return table
