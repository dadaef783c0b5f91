"""What of the limits of stages is whose line's: of the chain that a stage waits for, of its operations, of its unit.

In come regions with their flows and the limits of these; out goes a row for each source line, over all stages and
executions of a kernel: its operations, its part of the chains, and its part of what holds its stages up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tileprobe.ir.flows import Costs, Flow
from tileprobe.tools.result import Column

LINES = [
    Column("line", "text", "line"),
    Column("part_ns", "ns", "of the limits"),
    Column("share", "share", "of all of them"),
    Column("limit", "text", "mostly"),
    Column("chain_ns", "ns", "of chains"),
    Column("issue_ns", "ns", "issue"),
    Column("unit_ns", "ns", "unit"),
    Column("unit", "text", ""),
    Column("operations", "number", "operations"),
]
_SCHEMA = {
    **dict.fromkeys(("line", "limit", "unit", "file"), pl.String),
    **dict.fromkeys(("part_ns", "share", "chain_ns", "issue_ns", "unit_ns", "operations"), pl.Float64),
    "number": pl.Int64,
}


@dataclass
class _Line:
    operations: float = 0.0
    chain_ns: float = 0.0
    issue_ns: float = 0.0
    units: dict[str, float] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)  # by what holds the stage up


class Lines:
    """Sums over stages, each as often as it ran."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._found: dict[tuple[str, int], _Line] = {}

    def add(self, file: str, runs: float, flow: Flow, limit: str, least_ns: float) -> None:
        """A flow that ran so often, and takes `least_ns` at the least because of its `limit`."""
        whole = self._weight(flow.work, flow.chain, limit)
        for number, (work, chain) in flow.lines.items():
            mine = self._found.setdefault((file, number), _Line())
            count = sum(work.values())
            mine.operations += runs * count
            mine.chain_ns += runs * self._chain(chain)
            mine.issue_ns += runs * count * self._costs.issue_ns
            for name, many in work.items():
                known = self._costs.classes[name]
                mine.units[known.unit] = mine.units.get(known.unit, 0.0) + runs * many * known.interval_ns
            part = self._weight(work, chain, limit) / whole if whole else 0.0
            mine.parts[limit] = mine.parts.get(limit, 0.0) + runs * least_ns * part

    def _chain(self, chain: Any) -> float:
        return sum(count * self._costs.classes[name].latency_ns for name, count in chain.items())

    def _weight(self, work: Any, chain: Any, limit: str) -> float:
        """How much of what limits there is."""
        if limit == "latency":
            return self._chain(chain)
        if limit == "issue":
            return sum(work.values())
        known = self._costs.classes
        return sum(n * known[name].interval_ns for name, n in work.items() if known[name].unit == limit)

    def frame(self) -> pl.DataFrame:
        """The line with the largest part first."""
        rows: Sequence[dict[str, Any]] = [
            _row(file, number, mine) for (file, number), mine in self._found.items() if number
        ]
        whole = sum(sum(mine.parts.values()) for mine in self._found.values()) or 1.0
        for row in rows:
            row["share"] = row["part_ns"] / whole
        return pl.DataFrame(rows, schema=_SCHEMA).sort("part_ns", "number", descending=[True, False])


def _row(file: str, number: int, mine: _Line) -> dict[str, Any]:
    unit = max(mine.units, key=lambda name: mine.units[name], default="")
    return {
        "line": f"{file.rpartition('/')[2]}:{number}",
        "file": file,
        "number": number,
        "part_ns": sum(mine.parts.values()),
        "limit": max(mine.parts, key=lambda name: mine.parts[name], default=""),
        "chain_ns": mine.chain_ns,
        "issue_ns": mine.issue_ns,
        "unit_ns": mine.units.get(unit, 0.0),
        "unit": unit,
        "operations": mine.operations,
    }
