"""What records cost where they stand: replay learns by dose what one costs behind another, and a core hides of that
whatever it can do meanwhile; and the code around them, which counts iterations, is there even for those left out.

Launches of one work with all records, and light ones that recorded no iteration of any loop: the same programs took
longer by the cost of the records between. What is known beforehand is that a record costs something from nothing to
what doses say, anything alike; the more programs and launches there are to be compared, the less that matters. In come
the rows of both sorts; out goes the share of the dose's cost that programs took longer by, and how sure it is. Light
launches against plain ones tell what the code around the records takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    """The share of what a record costs by dose, its standard deviation, and that from one run to the next. Programs
    take `code` of their time where no record is in their way, with its own deviation."""

    share: float = BEFORE
    error: float = UNSURE
    noise: float = 0.0
    code: float = 1.0
    code_error: float = 0.0


@dataclass(frozen=True)
class _Took:
    """Programs of one launch: from their first record to their last, what doses say that records took of it, and how
    long after the one before on the same unit each began (NaN for the first)."""

    program: np.ndarray
    ticks: np.ndarray
    delay: np.ndarray
    gap: np.ndarray


def in_place(
    probed: Sequence[Rows],
    light: Sequence[Rows],
    calibration: Calibration,
    durations: tuple[Sequence[float], Sequence[float]] = ((), ()),
) -> InPlace:
    """Rows of the one stream that programs of a CPU have, several launches of one work in each; `durations` are those
    of its plain launches and of the light ones."""
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
    found = _weighed(share, float(np.hypot(error, alike)))
    gaps = np.concatenate([one.gap for one in few])
    between = float(np.nanmedian(gaps)) if np.isfinite(gaps).any() else 0.0
    code, off = _code(*durations, between / middle.mean(), predicted / middle.mean())
    return replace(found, code=code, code_error=off)


def _code(plain: Sequence[float], light: Sequence[float], between: float, most: float) -> tuple[float, float]:
    """The share of a light program's time that a plain one takes, and its deviation. `between` is what lies between two
    light programs, as a share of their time: that of plain ones is something from nothing to as much. Code that counts
    iterations takes no more than records in each would, `most`. What is not beyond doubt is left as it is."""
    if min(len(plain), len(light)) < FEW:
        return 1.0, 0.0
    middle = [float(np.median(one)) for one in (plain, light)]
    errors = [1.2533 * np.std(one, ddof=1) / np.sqrt(len(one)) / m for one, m in zip((plain, light), middle)]
    slower = middle[1] / middle[0]
    found = (1.0 + between) / slower - between / 2
    error = float(np.hypot(found * np.hypot(*errors), UNSURE * between))
    off = min(error, UNSURE * most)
    return (max(found, 1.0 - most), off) if found < 1.0 - 2 * error else (1.0, off)


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
        begin, end = records.clock[first], records.clock[last]
        ticks, delay = (end - begin).astype(float), delays[last] - delays[first]
        gap = _gaps(rows.launch[row], rows.unit[row], begin, end)
        for number in np.unique(rows.launch[row]):
            mine = rows.launch[row] == number
            found.append(_Took(rows.program[row][mine], ticks[mine], delay[mine], gap[mine]))
    return found


def _gaps(launch: np.ndarray, unit: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """From the end of the program before, on the same unit in the same launch."""
    order = np.lexsort((begin, unit, launch))
    follows = (np.diff(launch[order]) == 0) & (np.diff(unit[order]) == 0)
    gap = np.full(len(order), np.nan)
    gap[order[1:]] = np.where(follows, begin[order][1:] - end[order][:-1], np.nan)
    return gap


def _table(launches: Sequence[_Took], programs: np.ndarray, name: str) -> np.ndarray:
    """(launches, programs), NaN where a launch has none of a program."""
    table = np.full((len(launches), len(programs)), np.nan)
    for number, one in enumerate(launches):
        table[number, np.searchsorted(programs, one.program)] = getattr(one, name)
    return table
