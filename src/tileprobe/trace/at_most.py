"""Records cannot have cost programs more than launches became longer by them.

A record that is written where a warp waits anyway costs less than doses say, which are learnt from what stands between
two records. Launches with records and launches of the same work without any say how much there is of it in all: the
costs by dose are cut to that share. In come the rows of launches in which every program was recorded, with durations;
out goes the share, 1 where the durations do not say that it is less.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tileprobe.trace.blocks import Rows
from tileprobe.trace.cursor import Pushed, in_sequence
from tileprobe.trace.replay import Calibration

_SURE = 2.0  # standard errors


def share_at_most(
    recorded: Sequence[tuple[Rows, Pushed]],
    calibration: Calibration,
    probed_ns: Sequence[float],
    plain_ns: Sequence[float],
) -> float:
    """Of what records cost by dose in a program, the share that launches of its work leave room for. Where programs
    follow one another on a multiprocessor each has its part of what the launch became longer."""
    if not probed_ns or not plain_ns or not recorded:
        return 1.0
    probed, plain = float(np.median(probed_ns)), float(np.median(plain_ns))
    longer = probed - plain + _SURE * float(np.hypot(_error(probed_ns), _error(plain_ns)))
    cost, lasted = np.array([_of_programs(rows, pushed, calibration) for rows, pushed in recorded]).sum(0)
    if cost <= 0 or lasted <= 0 or probed <= 0:
        return 1.0
    room = max(longer, 0.0) / probed * lasted
    return float(np.clip(room / cost, 0.0, 1.0))


def _error(durations: Sequence[float]) -> float:
    """Of the median, from the median deviation: one launch with cold caches among them says nothing of the others."""
    spread = 1.4826 * float(np.median(np.abs(np.asarray(durations) - np.median(durations))))
    return spread / float(np.sqrt(len(durations)))


def _of_programs(rows: Rows, pushed: Pushed, calibration: Calibration) -> tuple[float, float]:
    """What records cost by dose, and how long programs were from their first one to their last: all rows, in ticks."""
    records = in_sequence(rows, pushed)
    if not len(records.row):
        return 0.0, 0.0
    first = np.r_[True, np.diff(records.row) != 0]
    last = np.r_[first[1:], True]
    cost = calibration.costs(rows.layout)[records.slot][~first].sum()
    return float(cost), float((records.clock[last] - records.clock[first]).sum())
