"""What a core hid of the records' cost goes back to the work that it did meanwhile.

Between two records the clock shows what a record takes, whatever the core does beside it: that much is taken out. A
program as a whole takes no longer by what was hidden, so that part is given back, record by record, to the work before
and behind it by how long each took: a long stage was under way while the counter was read, and not the few instructions
on the other side. What the code around records takes, everywhere alike as far as is known, is taken out of all times.
In come rows with the delays of their records, in order; the delays are changed in place.
"""

from __future__ import annotations

import numpy as np

from tileprobe.trace.blocks import Rows
from tileprobe.trace.cursor import Pushed, in_sequence
from tileprobe.trace.replay import Calibration


def give_back(rows: Rows, pushed: Pushed, calibration: Calibration) -> None:
    """Leaves of each row's delays the share that records cost in place."""
    records = in_sequence(rows, pushed)
    if (calibration.share, calibration.code) == (1.0, 1.0) or not len(records.row) or rows.delays is None:
        return
    segment = np.zeros(0) if pushed.delay is None else pushed.delay
    delays = np.r_[rows.delays[rows.recorded_words], segment][records.order]
    first = np.r_[True, np.diff(records.row) != 0]
    cost = np.where(first, 0.0, calibration.costs(rows.layout)[records.slot])
    work = np.where(first, 0.0, np.r_[0.0, np.diff(records.clock - delays)])
    behind = np.where(np.r_[first[1:], True], 0.0, np.r_[work[1:], 0.0])
    both = work + behind
    before = np.divide(work, both, out=np.full(len(both), 0.5), where=both > 0)
    before = np.where(np.r_[first[1:], True], 1.0, before)
    hidden = cost * _missing(records.row, records.clock, delays, cost, calibration.share)
    more = hidden * before + np.r_[0.0, (hidden * (1.0 - before))[:-1]]
    delays = delays - _sums(np.where(first, 0.0, more), first)
    ticks = _sums(np.where(first, 0.0, np.r_[0.0, np.diff(records.clock)]), first)
    delays = ticks - calibration.code * (ticks - delays)
    back = np.empty(len(delays))
    back[records.order] = delays
    count = len(delays) - len(pushed.row)
    rows.delays[rows.recorded_words] = back[:count]
    pushed.delay = back[count:]


def _missing(
    row: np.ndarray, clock: np.ndarray, delays: np.ndarray, cost: np.ndarray, share: float
) -> np.ndarray:
    """Of each record: the part of its cost that is given back, so that its row is as long as it was but for the share
    of the cost. Where records were more than there was to take out, less of it was."""
    size = int(row.max()) + 1
    first = np.r_[True, np.diff(row) != 0]
    last = np.r_[first[1:], True]
    whole = np.bincount(row, cost, size)
    taken = np.zeros(size)
    taken[row[last]] = delays[last] - delays[first]
    ticks = np.zeros(size)
    ticks[row[last]] = clock[last] - clock[first]
    wanted = np.minimum(share * whole, ticks)
    return np.divide(taken - wanted, whole, out=np.zeros(size), where=whole > 0).clip(0.0, 1.0)[row]


def _sums(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Running sums, from nothing at each first one."""
    total = np.cumsum(values)
    start = np.flatnonzero(first)
    return total - np.repeat(total[start] - values[start], np.diff(np.r_[start, len(values)]))
