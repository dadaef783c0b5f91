"""overlap: what runs beside what, what is exposed, where streams stand still and for whom.

A kind of work (loads, products; on Cambricon-LLM channels, planes, the NPU) is *exposed* while it is the only one at
its place: then it alone keeps the kernel waiting. *Standing still* is time in which streams wait and nothing else runs.
Shares are of the time of all places that were recorded.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tileprobe.tools.activities import OTHER, WAITING, Activities, activities
from tileprobe.tools.bubbles import BUBBLES, bubbles
from tileprobe.tools.plan import Plan
from tileprobe.tools.ratios import Ratio, ratio, windows
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.tools.signatures import told_apart
from tileprobe.tools.waits import WAITS, waits
from tileprobe.tools.words import percent
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.intervals import merge_by
from tileprobe.trace.sweep import States, at_once, states
from tileprobe.trace.works import left_out

KINDS = [
    Column("kind", "text", "work"),
    Column("busy", "share", "of the time"),
    Column("exposed", "share", "exposed"),
    Column("exposed_error", "noise", ""),
    Column("hidden", "percent", "of it hidden"),
    Column("busy_ns", "ns", "time"),
    Column("exposed_ns", "ns", "exposed time"),
]
PAIRS = [
    Column("kinds", "text", "at the same time"),
    Column("share", "share", "of the time"),
    Column("of_first", "percent", "of the first"),
    Column("of_second", "percent", "of the second"),
    Column("both_ns", "ns", "together"),
]
UNITS = [
    Column("units", "text", "units at work at once"),
    Column("share", "share", "of the time"),
    Column("ns", "ns", "time"),
]
LITTLE = 0.001  # pairs that share less of the time are only in the JSON
WORTH = 0.05  # of the time exposed, or lost: worth a sentence


class Overlap:
    name = "overlap"

    def plan(self) -> Plan:
        return Plan(loops=True, iterations=True, kinds=("all",))

    def read(self, trace: Trace) -> Result:
        result, gone = Result(self.name), left_out(trace)
        for kernel in told_apart(trace.kernels):
            found = activities(trace, kernel, gone)
            if found is not None and len(found.kinds) > 2:  # of one kind, nothing can be beside another
                _tell(result, trace, kernel, found)
        if not result.tables:
            text = (
                "nothing runs beside anything else in this trace: kernels have one kind of work, or their stages were "
                "not recorded (tileprobe run --tool overlap records them)"
            )
            result.findings.append(Finding(text, level="warning"))
        return result


@dataclass(frozen=True)
class Overlaps:
    """`total_ns` is the time of all places; of each kind how long it runs, how long alone; of each pair how long both
    do. `still` is the time in which streams wait and nothing runs."""

    kinds: list[str]
    total_ns: float
    busy_ns: dict[str, float]
    exposed: dict[str, Ratio]
    both_ns: dict[tuple[str, str], float]
    still: Ratio
    sampled: bool

    def hidden(self, kind: str) -> float | None:
        """The share of a kind's time in which something else runs, too."""
        busy = self.busy_ns[kind]
        return max(0.0, 1.0 - self.exposed[kind].value * self.total_ns / busy) if busy else None


def overlaps(found: Activities) -> Overlaps:
    place, start, stop = found.columns
    swept = states(place, found.kind, start, stop)
    there = swept.mask != 0  # moments between two launches, or that sampling left out, are no time of a place
    swept = States(*(column[there] for column in (swept.group, swept.mask, swept.start, swept.stop)))
    ns, waits = swept.length, 1 << found.kinds.index(WAITING)
    work = swept.mask & ~waits
    sample = windows(swept.group, ns)
    unsure = found.sampled or found.places > 1
    bits = {name: 1 << n for n, name in enumerate(found.kinds) if name != WAITING}
    exposed = {name: ratio(np.where(work == bit, ns, 0.0), ns, sample, unsure) for name, bit in bits.items()}
    both = {
        (a, b): float(ns[(work & bits[a] != 0) & (work & bits[b] != 0)].sum())
        for a, b in itertools.combinations(bits, 2)
    }
    busy = {name: float(ns[work & bit != 0].sum()) for name, bit in bits.items()}
    still = ratio(np.where(work == 0, ns, 0.0), ns, sample, unsure)
    return Overlaps(list(bits), float(ns.sum()), busy, exposed, both, still, found.sampled)


def _tell(result: Result, trace: Trace, kernel: Kernel, found: Activities) -> None:
    seen = overlaps(found)
    simulated = kernel.clock.is_simulated and not found.sampled
    part = ", of what was recorded" if found.sampled else ""  # nothing is scaled up here
    result.tables.append(
        Table(f"{kernel.name}: what is exposed{part}", _kinds(seen, simulated), KINDS, kernel.id)
    )
    pairs = _pairs(seen)
    if pairs.height:
        result.tables.append(Table(f"{kernel.name}: at the same time{part}", pairs, PAIRS, kernel.id))
    result.findings += _findings(kernel, seen, found.by_unit, simulated)
    units = _units(found)
    if units is not None:
        result.tables.append(Table(f"{kernel.name}: units at work", units, UNITS, kernel.id))
    still = bubbles(trace, kernel, found)
    if still is not None:
        result.tables.append(Table(f"{kernel.name}: bubbles in loops{part}", still.table, BUBBLES, kernel.id))
        result.findings += still.findings
    waited = waits(trace, kernel, found)
    if waited is not None:
        result.tables.append(Table(f"{kernel.name}: waits{part}", waited.table, WAITS, kernel.id))
        result.findings += waited.findings


def _kinds(seen: Overlaps, exact: bool) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for name in seen.kinds:
        share, busy = seen.exposed[name], seen.busy_ns[name]
        rows.append(
            {
                "kind": name,
                "busy": busy / seen.total_ns,
                "busy_ns": busy,
                "exposed": share.value,
                "exposed_ns": share.value * seen.total_ns,
                "exposed_error": None if exact else share.error,
                "hidden": seen.hidden(name),
            }
        )
    if seen.still.value > 0:
        ns = seen.still.value * seen.total_ns
        error = None if exact else seen.still.error
        still = {
            "kind": "standing still",
            "busy": seen.still.value,
            "busy_ns": ns,
            "exposed": seen.still.value,
        }
        rows.append({**still, "exposed_ns": ns, "exposed_error": error, "hidden": None})
    schema = {"kind": pl.String} | {c.name: pl.Float64 for c in KINDS[1:]}
    return pl.DataFrame(rows, schema=schema).sort("exposed", descending=True, maintain_order=True)


def _pairs(seen: Overlaps) -> pl.DataFrame:
    rows = [
        {
            "kinds": f"{a} + {b}",
            "first": a,
            "second": b,
            "share": ns / seen.total_ns,
            "of_first": ns / seen.busy_ns[a] if seen.busy_ns[a] else None,
            "of_second": ns / seen.busy_ns[b] if seen.busy_ns[b] else None,
            "both_ns": ns,
        }
        for (a, b), ns in seen.both_ns.items()
        if OTHER not in (a, b) and ns >= LITTLE * seen.total_ns
    ]
    schema: dict[str, Any] = dict.fromkeys(("kinds", "first", "second"), pl.String)
    schema |= dict.fromkeys(("share", "of_first", "of_second", "both_ns"), pl.Float64)
    return pl.DataFrame(rows, schema=schema).sort("share", descending=True, maintain_order=True)


def _units(found: Activities) -> pl.DataFrame | None:
    """How many units of the machine worked at once, launch by launch; for cores beside cores and SMs beside SMs. Where
    programs were left out, nobody knows."""
    if found.by_unit or found.sampled or found.spans["unit"].n_unique() < 2:
        return None
    place, start, stop = found.columns
    owner, spans = merge_by(place, start, stop)
    launches = dict(found.spans.select("place", "launch").unique().iter_rows())
    launch = np.array([launches[place] for place in range(found.places)])[owner]
    count = at_once(launch, spans[:, 0], spans[:, 1])
    kept = count.mask > 0
    ns = np.bincount(count.mask[kept], count.length[kept])
    rows = [(n, float(ns[n])) for n in np.flatnonzero(ns)]
    frame = pl.DataFrame(rows, schema={"count": pl.Int64, "ns": pl.Float64}, orient="row")
    share = (pl.col("ns") / pl.col("ns").sum()).alias("share")
    names = pl.format("{}", "count").alias("units")
    return frame.sort("count", descending=True).select(names, share, "ns", "count")


def _findings(kernel: Kernel, seen: Overlaps, by_unit: bool, exact: bool) -> list[Finding]:
    """The longest exposed work, and what it could be hidden behind; and time in which nothing runs at all."""
    found: list[Finding] = []
    names = [name for name in seen.kinds if name != OTHER]
    if len(names) > 1:
        top = max(names, key=lambda name: seen.exposed[name].value)
        alone = seen.exposed[top]
        if alone.value >= WORTH:
            where = "of the machine's time" if by_unit else "of the time"
            error = None if exact else alone.error
            beside = (
                f"{100 * (seen.hidden(top) or 0.0):.0f} % of it runs beside other work"
                if any(seen.both_ns.values())
                else "nothing runs beside anything else"
            )
            text = f"{kernel.name}: {top} is exposed for {percent(alone.value, error)} {where}; {beside}"
            found.append(Finding(text, data=_data(seen, top, error), kernel=kernel.id))
    if seen.still.value >= WORTH:
        error = None if exact else seen.still.error
        text = f"{kernel.name}: for {percent(seen.still.value, error)} of the time everything stands still"
        data = {"still": seen.still.value, "error": error, "still_ns": seen.still.value * seen.total_ns}
        found.append(Finding(text, data=data, kernel=kernel.id))
    return found


def _data(seen: Overlaps, top: str, error: float | None) -> dict[str, Any]:
    return {
        "exposed": top,
        "share": seen.exposed[top].value,
        "error": error,
        "exposed_ns": seen.exposed[top].value * seen.total_ns,
        "of_ns": seen.total_ns,
        "sampled": seen.sampled,
        "from": "intervals of all recorded launches, place by place",
    }
