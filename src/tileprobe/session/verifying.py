"""What was recorded against what is true, for launches that a simulated machine ran from the same state without probes,
with probes that take no time, and with real ones.

In come the decoded intervals of such launches and the words of the free records; out goes, for a kernel, what probes
cost it, told apart by where that comes from, and how far the corrected time of each region is from the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tileprobe.session.recorded import Recorded

Columns = Mapping[str, np.ndarray]


class Verifying:
    """Sums over the verified launches of a kernel."""

    def __init__(self) -> None:
        self.launches = 0
        self._ns = {"plain_ns": 0.0, "free_ns": 0.0, "probed_ns": 0.0}
        self._regions: dict[int, dict[str, float]] = {}

    def add(
        self,
        runs: Sequence[Recorded],
        ids: Sequence[int],
        columns: Columns,
        decoded: Callable[[Sequence[Recorded], Sequence[int]], Columns],
    ) -> None:
        """`columns` are the intervals of `runs`, corrected; `decoded` makes intervals of other words of theirs."""
        mine = [(run, number) for run, number in zip(runs, ids) if run.verified is not None]
        if not mine:
            return
        truth = decoded([run for run, _ in mine], [number for _, number in mine])
        for run, _ in mine:
            assert run.verified is not None
            self._ns["plain_ns"] += run.verified.plain_ns
            self._ns["free_ns"] += run.verified.free_ns
            self._ns["probed_ns"] += run.duration_ns
            for region, plain in run.verified.plain.items():
                row = self._regions.setdefault(region, {})
                row["plain"] = row.get("plain", 0.0) + plain.ticks
                row["others"] = row.get("others", 0.0) + plain.others
                if plain.count is not None:
                    row["plain_count"] = row.get("plain_count", 0) + plain.count
        self.launches += len(mine)
        here = np.isin(columns["launch"], [number for _, number in mine])
        self._sum(columns, here, "recorded", "start_corrected", "stop_corrected")
        self._sum(columns, here, "raw", "start", "stop")
        self._sum(truth, np.ones(len(truth["region"]), bool), "true", "start", "stop")

    def _sum(self, columns: Columns, here: np.ndarray, name: str, start: str, stop: str) -> None:
        regions = columns["region"][here].astype(np.int64)
        lasted = (columns[stop][here] - columns[start][here]).astype(np.float64)
        counts, sums = np.bincount(regions), np.bincount(regions, lasted)
        for region in np.flatnonzero(counts).tolist():
            row = self._regions.setdefault(region, {})
            row[name] = row.get(name, 0.0) + float(sums[region])
            row[f"{name}_count"] = row.get(f"{name}_count", 0) + int(counts[region])

    def to_json(self, hz: float) -> dict[str, Any]:
        """Regions by their number within the kernel. Nothing where nothing was verified."""
        if not self.launches:
            return {}
        to_ns = 1e9 / hz
        rows = [
            {
                "region": number,
                "count": int(row["true_count"]),
                "true_ns": row["true"] * to_ns,
                "raw_ns": row["raw"] * to_ns,
                "corrected_ns": row["recorded"] * to_ns,
                **_plain(row, to_ns),
            }
            for number, row in sorted(self._regions.items())
            if row.get("true_count") and row.get("true_count") == row.get("recorded_count")
        ]
        return {
            "launches": self.launches,
            **self._ns,
            "regions": rows,
            "not_compared": len(self._regions) - len(rows),
        }


def _plain(row: Mapping[str, float], to_ns: float) -> dict[str, float]:
    """By lines of the plain run, where it passed there as often: the compiler may have unrolled a loop."""
    if not row.get("plain") or row.get("plain_count", row["true_count"]) != row["true_count"]:
        return {}
    return {"plain_ns": row["plain"] * to_ns, "interleaved_percent": 100.0 * row["others"] / row["plain"]}
