"""How near other paths are to the critical one: by region, and by unit.

Comes in: a path with its streams. Goes out: of each region the least that its executions beside the path have to spare,
and how many units have a path that is nearly as long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tileprobe.tools.path import Path
from tileprobe.tools.slack import slack_of
from tileprobe.trace.intervals import Array

CLOSE = 0.01  # of the launch
MOST = 3_000_000  # events, beyond which slack is not computed


@dataclass(frozen=True)
class Near:
    """`spare_ns` has of each region the median and the least. Of the median launch: `close` of its `units` are within
    CLOSE of it, the one on the path among them; `next_ns` is what the nearest other unit has to spare, `share` of the
    launch."""

    spare_ns: dict[int, tuple[float, float]]
    units: int
    close: int
    next_ns: float
    share: float


def near(path: Path) -> Near | None:
    """None where it cannot be known: units without streams, or too much of it."""
    streams, handed = path.streams, path.handed
    if streams is None or handed is None or 2 * (len(streams.begin) + len(handed.to)) > MOST:
        return None
    slack = slack_of(streams, handed, path.before)
    off = slack.spare > 0.0
    region, ns, left = streams.region[slack.piece[off]], slack.ns[off], slack.spare[off]
    spare = {n: _median(left[region == n], ns[region == n]) for n in np.unique(region).tolist()}
    launch = sorted(path.lasted, key=lambda n: path.lasted[n])[(len(path.lasted) - 1) // 2]
    of = streams.number[slack.piece]
    mine = streams.key["launch"].to_numpy()[of] == launch
    units, number = np.unique(streams.key["unit"].to_numpy()[of][mine], return_inverse=True)
    least = np.full(len(units), np.inf)
    np.minimum.at(least, number, slack.spare[mine])
    on_path = path.rows.filter(pl.col("launch") == launch)["unit"].unique().to_numpy()
    least[np.isin(units, on_path)] = 0.0
    least.sort()
    lasted = path.lasted[launch]
    following = float(least[1]) if len(least) > 1 else 0.0
    close = int((least <= CLOSE * lasted).sum())
    return Near(spare, len(units), close, following, following / lasted if lasted else 0.0)


def _median(slack: Array, ns: Array) -> tuple[float, float]:
    """That half of the time has no more than, and the least."""
    order = np.argsort(slack)
    reach = np.cumsum(ns[order])
    return float(slack[order][np.searchsorted(reach, reach[-1] / 2)]), float(slack[order][0])
