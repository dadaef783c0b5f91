"""Issue slots and what warps waited for, line by line, of simulated GPUs that were timed.

Comes in: counters `issued` and `stall REASON`, in Nsight Compute's words. Goes out: a row for each line, of all
launches of a kernel, and what is worth saying.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from tileprobe.tools.result import Column, Finding
from tileprobe.trace import Kernel, Trace

STALLS = [
    Column("place", "text", "line"),
    Column("share", "share", "of the time of warps"),
    Column("mostly", "text", "mostly waits for"),
    Column("of_it", "percent", "of it"),
    Column("issued", "count", "issued"),
    Column("issue_share", "percent", "of all issued"),
    Column("reasons", "text", "cycles by reason"),
]
ISSUED, STALL, LINE_ONLY = "issued", "stall ", 0
WORTH, LITTLE = 0.1, 0.05
_SAID = {
    "long_scoreboard": "global or local memory",
    "short_scoreboard": "shared memory, special functions or special registers",
    "barrier": "other warps at a barrier",
    "wait": "the fixed latency of the instruction before",
    "math_pipe_throttle": "a busy arithmetic unit",
    "mio_throttle": "room in the queue of the memory unit",
    "not_selected": "their turn: another warp was issued",
    "gmma": "products of the warp group",
    "no_instruction": "instructions",
}


@dataclass(frozen=True)
class Told:
    table: pl.DataFrame
    findings: list[Finding]


def stalls(trace: Trace, kernel: Kernel) -> Told | None:
    """None where nothing was counted."""
    launches = [launch.id for launch in trace.kernel_launches(kernel.id)]
    named = (pl.col("name") == ISSUED) | pl.col("name").str.starts_with(STALL)
    mine = trace.counters.filter(pl.col("launch").is_in(launches) & named & pl.col("instruction").is_null())
    if not mine.height or not mine["name"].str.starts_with(STALL).any():
        return None
    rows: dict[tuple[str, int], dict[str, float]] = {}
    for file, line, name, value in (
        mine.group_by("file", "line", "name").agg(pl.col("value").sum()).iter_rows()
    ):
        rows.setdefault((file, line), {})[name.removeprefix(STALL)] = value
    whole = sum(sum(row.values()) for row in rows.values())
    issued = sum(row.get(ISSUED, 0.0) for row in rows.values())
    made = [_row(place, row, whole, issued) for place, row in rows.items()]
    table = pl.DataFrame(made, schema=_SCHEMA).sort("cycles", "place", descending=[True, False])
    return Told(table, _findings(kernel, table, rows, whole, issued))


_SCHEMA = {
    **dict.fromkeys(("place", "file", "mostly", "reasons"), pl.String), "line": pl.Int64,
    **dict.fromkeys(("share", "of_it", "issue_share", "cycles"), pl.Float64), "issued": pl.Int64,
}  # fmt: skip


def _row(place: tuple[str, int], row: dict[str, float], whole: float, issued: float) -> dict[str, Any]:
    """An instruction that is issued has its cycle; the others are waited."""
    reasons = {name: value for name, value in row.items() if name != ISSUED and value}
    cycles, mostly = sum(row.values()), max(reasons, key=lambda name: reasons[name], default="")
    parts = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return {
        "place": f"{place[0].rsplit('/', 1)[-1]}:{place[1]}" if place[1] else "?",
        "file": place[0],
        "line": place[1],
        "cycles": cycles,
        "share": cycles / whole if whole else 0.0,
        "mostly": mostly,
        "of_it": reasons[mostly] / cycles if mostly and cycles else None,
        "issued": round(row.get(ISSUED, 0.0)),
        "issue_share": row.get(ISSUED, 0.0) / issued if issued else 0.0,
        "reasons": ", ".join(f"{name} {value:,.0f}" for name, value in parts if value >= LITTLE * cycles),
    }


def _findings(
    kernel: Kernel,
    table: pl.DataFrame,
    rows: dict[tuple[str, int], dict[str, float]],
    whole: float,
    issued: float,
) -> list[Finding]:
    reasons: dict[str, float] = {}
    for row in rows.values():
        for name, value in row.items():
            if name != ISSUED:
                reasons[name] = reasons.get(name, 0.0) + value
    if not whole or not reasons:
        return []
    top = max(reasons, key=lambda name: reasons[name])
    shares = {
        name: value / whole for name, value in sorted(reasons.items(), key=lambda item: -item[1]) if value
    }
    text = (
        f"{kernel.name}: warps issue in {100 * issued / whole:.1f} % of their cycles and wait in the others, mostly "
        f"for {_SAID.get(top, top)} ({top}, {100 * shares[top]:.0f} %)"
    )
    said = [Finding(text, data={"stall": top, "shares": shares, "issued": issued / whole}, kernel=kernel.id)]
    for row in table.head(3).iter_rows(named=True):
        if row["share"] >= WORTH and row["mostly"]:
            text = (
                f"{kernel.name}: line {row['line']} has {100 * row['share']:.0f} % of the time of warps, "
                f"{100 * row['of_it']:.0f} % of it {row['mostly']}: they wait for "
                f"{_SAID.get(row['mostly'], row['mostly'])}"
            )
            data = {"line": row["line"], "file": row["file"], "stall": row["mostly"], "share": row["share"]}
            said.append(Finding(text, data=data | {"of_it": row["of_it"]}, kernel=kernel.id))
    return said
