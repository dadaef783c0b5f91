"""More intervals than a page can hold: short ones that lie side by side become one slice that says how many it is.

Nothing is dropped: a merged slice covers the same time, counts what went into it, and has the region that took most
of it. Intervals that are longer than the shortest time that is still told apart stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl


@dataclass
class Merged:
    """`frame` as it came, with merged rows in place of those they are made of; a count and a covered time a row."""

    frame: pl.DataFrame
    counts: np.ndarray
    covered_ns: np.ndarray
    count: int = 0  # intervals that were put together with others
    shorter_than_ns: float = 0.0


def merge_short(frame: pl.DataFrame, limit: int) -> Merged:
    """`frame` is sorted by `place` (a row of the picture) and start."""
    lasted = (frame["stop_ns"] - frame["start_ns"]).to_numpy()
    if frame.height <= limit:
        return Merged(frame, np.ones(frame.height, np.uint32), lasted)
    quantum = _quantum(frame, lasted, limit)
    group = _groups(frame, lasted, quantum)
    rows = frame.with_columns(pl.Series("group", group), pl.Series("lasted", lasted))
    longest = pl.col("lasted").arg_max()  # of equal stages the longest stands for what the time goes to
    kept = [name for name in frame.columns if name not in ("start_ns", "stop_ns", "place")]
    merged = (
        rows.group_by("group", maintain_order=True)
        .agg(
            pl.col("place").first(),
            pl.col("start_ns").min(),
            pl.col("stop_ns").max(),
            *(pl.col(name).get(longest) for name in kept),
            pl.len().alias("n"),
            pl.col("lasted").sum(),
        )
        .sort("place", "start_ns", maintain_order=True)
    )
    counts = merged["n"].to_numpy().astype(np.uint32)
    return Merged(
        merged.select(frame.columns),
        counts,
        merged["lasted"].to_numpy(),
        int(counts[counts > 1].sum()),
        quantum,
    )


def _quantum(frame: pl.DataFrame, lasted: np.ndarray, limit: int) -> float:
    """The shortest time, a power of two of nanoseconds, with which few enough slices are left."""
    quantum = 2.0
    while quantum < 2.0**60 and int(_groups(frame, lasted, quantum)[-1]) + 1 > limit:
        quantum *= 2
    return quantum


def _groups(frame: pl.DataFrame, lasted: np.ndarray, quantum: float) -> np.ndarray:
    """A number for each interval, the same for those that become one slice: short, and in one row, launch and step of
    time. A long one that starts in a step ends beyond it, so that what is merged has nothing in between."""
    step = np.floor(frame["start_ns"].to_numpy() / quantum)
    place, launch = frame["place"].to_numpy(), frame["launch"].to_numpy()
    kind = frame["kind"].to_physical().to_numpy()
    short = lasted < quantum
    fresh = np.ones(len(step), bool)
    fresh[1:] = (
        ~(short[1:] & short[:-1])
        | (step[1:] != step[:-1])
        | (place[1:] != place[:-1])
        | (launch[1:] != launch[:-1])
        | (kind[1:] != kind[:-1])
    )
    return np.cumsum(fresh) - 1
