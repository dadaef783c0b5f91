"""parallelism: is a stage held up by the latency of its operations, by how many can be issued, or by a unit?

On a CPU operations and their longest chain are read off the IR stage by stage, what they cost is measured on the core;
the three limits stand beside the time that was recorded. A simulated GPU counts for each line what it issued and what
its warps waited for, in Nsight Compute's words; it has to be timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tileprobe.ir.flows import Costs, Flow, read
from tileprobe.tools.line_limits import LINES, Lines
from tileprobe.tools.plan import Plan
from tileprobe.tools.regions import Regions, region_tree
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.tools.signatures import told_apart
from tileprobe.tools.stalls import STALLS, stalls
from tileprobe.tools.times import Times, region_times
from tileprobe.tools.words import duration
from tileprobe.trace import Kernel, Trace

COLUMNS = [
    Column("name", "text", "stage"),
    Column("measured_ns", "ns", "measured"),
    Column("limit", "text", "limit"),
    Column("limit_ns", "ns", "at the least"),
    Column("reached", "percent", "of it"),
    Column("latency_ns", "ns", "latency"),
    Column("issue_ns", "ns", "issue"),
    Column("unit_ns", "ns", "unit"),
    Column("operations", "number", "operations"),
    Column("chain_ns", "ns", "chain"),
    Column("in_flight", "number", "in flight"),
    Column("could", "number", "could be"),
]
WORTH = 0.05  # of the kernel's time
EXPLAINED = 0.6  # of the time that was measured: then the limit is what holds a stage up
DOUBTED = (
    1.5  # times it: wide stages are off by some tens of percent; beyond, costs are not those of this code
)
NO_DATA = (
    "how operations depend on each other is not in this trace: on the CPU it is with this tool (tileprobe run --tool "
    "parallelism), but for stages of single elements, atomics and calls; on simulated GPUs with time (--timed)"
)


class Parallelism:
    name = "parallelism"

    def plan(self) -> Plan:
        return Regions().plan() | Plan(flows=True)

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        times = region_times(trace)
        for kernel in told_apart(trace.kernels):
            told, lines = stages(trace, kernel, times)
            if told is not None and told.height:
                result.tables.append(Table(f"{kernel.name}: limits of stages", told, COLUMNS, kernel.id))
                if lines.height:
                    result.tables.append(Table(f"{kernel.name}: limits by line", lines, LINES, kernel.id))
                result.findings += [
                    _finding(kernel, row) for row in told.iter_rows(named=True) if row["share"] >= WORTH
                ]
            waits = stalls(trace, kernel)
            if waits is not None:
                result.tables.append(
                    Table(f"{kernel.name}: issue slots and waits", waits.table, STALLS, kernel.id)
                )
                result.findings += waits.findings
        if not result.tables:
            result.findings.append(Finding(NO_DATA, level="warning"))
        return result


@dataclass(frozen=True)
class Limits:
    """Nanoseconds that a flow takes at the least, by what it is held up; `unit` is the busiest."""

    latency_ns: float
    issue_ns: float
    unit_ns: float
    unit: str
    chain_ns: float  # of one strand
    strands: float
    operations: float

    @property
    def least_ns(self) -> float:
        return max(self.latency_ns, self.issue_ns, self.unit_ns)

    @property
    def limit(self) -> str:
        if self.least_ns == self.unit_ns:
            return self.unit
        return "issue" if self.least_ns == self.issue_ns else "latency"


def limits(flow: Flow, costs: Costs) -> Limits | None:
    """Of one execution. As many strands run at once as fit into the window in which the core looks for work; None where
    a class of operations is not known."""
    known = costs.classes
    if not all(name in known for name in (*flow.work, *flow.chain)):
        return None
    chain = sum(count * known[name].latency_ns for name, count in flow.chain.items())
    operations, strands = sum(flow.work.values()), max(1.0, flow.strands)
    together = min(strands, max(1.0, costs.window / max(operations / strands, 1.0)))
    units: dict[str, float] = {}
    for name, count in flow.work.items():
        unit = known[name].unit
        units[unit] = units.get(unit, 0.0) + count * known[name].interval_ns
    unit = max(units, key=lambda name: units[name], default="")
    latency = max(chain, strands * chain / together)
    return Limits(
        latency, operations * costs.issue_ns, units.get(unit, 0.0), unit, chain, strands, operations
    )


def costs_of(trace: Trace, kernel: Kernel) -> Costs | None:
    known = trace.meta.get("costs")
    return Costs.of(known.get(kernel.target)) if isinstance(known, Mapping) else None


def stages(
    trace: Trace, kernel: Kernel, times: Times | None = None
) -> tuple[pl.DataFrame | None, pl.DataFrame]:
    """A row for each region whose operations are known, longest first (None where none are), and one for each line."""
    costs = costs_of(trace, kernel)
    if costs is None or not kernel.clock.is_time:
        return None, pl.DataFrame()
    lines = Lines(costs)
    regions = {region.id: region for region in trace.kernel_regions(kernel.id)}
    tree = region_tree(trace, kernel, region_times(trace) if times is None else times)
    whole = float(tree.filter(pl.col("depth") == 0)["total_ns"].sum()) or 1.0
    rows: list[dict[str, Any]] = []
    for row in tree.filter(pl.col("kind") != "partition").iter_rows(named=True):
        flows = read(regions[row["region"]].flows)
        each = [(flow, limits(flow, costs)) for flow in flows]
        if not flows or not row["count"] or not row["self_ns"] or any(found is None for _, found in each):
            continue
        known = [(flow, found) for flow, found in each if found is not None]
        rows.append(_row(row, known, whole, costs))
        for flow, found in known:
            file = regions[row["region"]].file
            lines.add(file, row["count"] * flow.times, flow, found.limit, found.least_ns)
    if not rows:
        return None, pl.DataFrame()
    frame = pl.DataFrame(rows, schema=_SCHEMA).sort("self_ns", descending=True, maintain_order=True)
    return frame, lines.frame()


_SCHEMA = {
    **dict.fromkeys(("name", "limit", "source"), pl.String),
    **dict.fromkeys((c.name for c in COLUMNS if c.name not in ("name", "limit")), pl.Float64),
    **dict.fromkeys(("region", "first_line"), pl.Int64),
    **dict.fromkeys(("self_ns", "share", "strands"), pl.Float64),
}  # fmt: skip


def _row(row: dict[str, Any], each: list[tuple[Flow, Limits]], whole: float, costs: Costs) -> dict[str, Any]:
    """Stages of a region run one after another: their limits add up."""
    measured = row["self_ns"] / row["count"]
    by_limit: dict[str, float] = {}
    for flow, found in each:
        by_limit[found.limit] = by_limit.get(found.limit, 0.0) + flow.times * found.least_ns
    limit = max(by_limit, key=lambda name: by_limit[name])
    least = sum(by_limit.values())
    operations = sum(flow.times * found.operations for flow, found in each)
    mean = sum(
        flow.times * sum(n * costs.classes[c].latency_ns for c, n in flow.work.items()) for flow, _ in each
    )
    return {
        "name": row["name"],
        "region": row["region"],
        "source": row.get("source") or "",
        "first_line": None,
        "measured_ns": measured,
        "limit": limit,
        "limit_ns": least,
        "reached": least / measured if measured else None,
        "latency_ns": sum(flow.times * found.latency_ns for flow, found in each),
        "issue_ns": sum(flow.times * found.issue_ns for flow, found in each),
        "unit_ns": sum(flow.times * found.unit_ns for flow, found in each),
        "operations": operations,
        "chain_ns": sum(flow.times * found.chain_ns for flow, found in each),
        "strands": max(found.strands for _, found in each),
        "in_flight": mean / measured if measured else None,
        "could": mean / max(least_of_units(each), 1e-9) if mean else None,
        "self_ns": row["self_ns"],
        "share": row["self_ns"] / whole,
    }


def least_of_units(each: list[tuple[Flow, Limits]]) -> float:
    """If nothing had to be waited for."""
    return sum(flow.times * max(found.issue_ns, found.unit_ns) for flow, found in each)


def _finding(kernel: Kernel, row: dict[str, Any]) -> Finding:
    where, took = f"{kernel.name}: {row['name']}", duration(row["measured_ns"])
    data = {
        name: row[name]
        for name in ("region", "limit", "limit_ns", "measured_ns", "chain_ns", "in_flight", "could")
    }
    if row["reached"] < EXPLAINED:
        text = (
            f"{where} takes {took}, and its operations need {duration(row['limit_ns'])}: memory, or what is between "
            "them, takes the rest"
        )
        return Finding(text, data=data | {"limit": "memory"}, kernel=kernel.id)
    if row["reached"] > DOUBTED:
        text = (
            f"{where} takes {took}, and by its operations' costs at least {duration(row['limit_ns'])}: these "
            "are not those of its code, and what holds it up is not known"
        )
        return Finding(text, data=data | {"limit": "unknown"}, kernel=kernel.id)
    if row["limit"] == "latency":
        text = (
            f"{where} is held up by latency: a chain of {duration(row['chain_ns'])}, {row['in_flight']:.2g} operations "
            f"in flight where the core could take {row['could']:.2g}; {duration(row['limit_ns'])} of {took}"
        )
    elif row["limit"] == "issue":
        text = (
            f"{where} is held up by how many operations can be issued: {duration(row['limit_ns'])} of {took}"
        )
    else:
        text = f"{where} is held up by its {row['limit']}: {duration(row['limit_ns'])} of {took}"
    return Finding(text, data=data, kernel=kernel.id)
