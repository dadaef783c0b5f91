"""What the page says in numbers and words: kernels with their facts and region trees, launches, findings.

In comes a trace; out goes plain data for the page. Every figure is made by a tool; here they are only put together.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import polars as pl

from tileprobe.tools import roofline as rooflines
from tileprobe.tools.accounting import interrupted
from tileprobe.tools.iterations import Iterations
from tileprobe.tools.kernels import known_of
from tileprobe.tools.overhead import overhead
from tileprobe.tools.overlap import Overlap
from tileprobe.tools.programs import Programs
from tileprobe.tools.regions import Regions, region_tree
from tileprobe.tools.result import Finding
from tileprobe.tools.times import Times
from tileprobe.tools.units import Units
from tileprobe.trace import Kernel, Losses, Region, Trace
from tileprobe.views import header, text

TREE = (
    *("region", "partition", "name", "kind", "source", "depth", "count", "recorded_count", "total_ns"),
    *("low_ns", "high_ns", "recorded", "self_ns", "mean_ns", "p50_ns", "p95_ns", "share", "estimate"),
    *("interrupted", "moved"),
)


def findings(trace: Trace, times: Times) -> list[dict[str, Any]]:
    """What the tools have to say, in sentences, and what went wrong while recording."""
    said = list(Regions().read(trace, times).findings)
    for tool in (Iterations(), Programs(), Units(), Overlap()):
        found = tool.read(trace).findings
        notes = isinstance(
            tool, Units
        )  # of the machine; what others say of no kernel is that they found nothing
        said += [finding for finding in found if notes or finding.kernel is not None]
    problems = trace.meta.get("problems") or {}
    said += [Finding(str(problem), "warning") for problem in problems.values()]
    kept = {finding.text: finding for finding in said}
    warnings_last = sorted(kept.values(), key=lambda finding: finding.level == "warning")
    return [{"text": f.text, "level": f.level, "kernel": f.kernel} for f in warnings_last]


def tree(trace: Trace, kernel: Kernel, times: Times) -> list[dict[str, Any]]:
    """The rows of the region tree."""
    return region_tree(trace, kernel, times).select(TREE).to_dicts()


def roofline(trace: Trace, kernel: Kernel, times: Times) -> dict[str, Any] | None:
    """What is computed and moved, and the machine's roofs; None where that is not known."""
    found = rooflines.roofline(trace, kernel, times)
    if found is None:
        return None
    roofs = None if found.roofs is None else asdict(found.roofs)
    return {"unit": found.unit, "roofs": roofs, "points": [asdict(point) for point in found.points]}


def facts(trace: Trace, kernel: Kernel, total: dict[str, Any]) -> list[dict[str, Any]]:
    """What ran, how long, what the probes cost and what was sampled or lost: a name, a value, and a note each. `total`
    is the kernel's row in the table of kernels, so that they say the same."""
    launches = trace.kernel_launches(kernel.id)
    recorded, ran = total["recorded"], max(total["launches"], total["recorded"])
    grids = sorted({launch.grid for launch in launches if launch.probed})
    found = [
        _fact("launches", text.count(ran), f"{recorded:,} recorded" if recorded != ran else "all recorded"),
        _total(total),
        _fact("a launch", text.duration(total["each_ns"]) if total["each_ns"] else "", "mean"),
        _fact(
            "grid",
            text.grid(grids[0]) if len(grids) == 1 else f"{len(grids)} grids" if grids else "",
            "programs" if len(grids) == 1 else "",
        ),
        _cost(trace, kernel),
        _records(kernel, launches),
    ]
    return [fact for fact in found if fact["value"]]


def _total(total: dict[str, Any]) -> dict[str, Any]:
    """Of all launches, as far as they were timed; else programs stand for them, and the tree says it."""
    if total["each_ns"] is None:
        return _fact("total", "")
    about = "~" if total["estimate"] else ""
    sure = text.within(total["total_ns"], total["low_ns"], total["high_ns"])
    return _fact("total", about + text.duration(total["total_ns"]), f"of all launches {sure}".strip())


def _fact(name: str, value: str, note: str = "", warning: bool = False) -> dict[str, Any]:
    return {"name": name, "value": value, "note": note, "warning": warning}


def _cost(trace: Trace, kernel: Kernel) -> dict[str, Any]:
    cost = overhead(trace, kernel)
    unit = "ns" if kernel.clock.is_time else "instructions"
    each = f"{cost.record_cost_ns:.1f} {unit} a record" if cost.record_cost_ns is not None else ""
    if cost.measurable and cost.percent is not None:
        return _fact("probes cost", f"{cost.percent:.1f} %", f"{cost.low:.1f} to {cost.high:.1f} %")
    if cost.estimated_percent is not None:
        return _fact(
            "probes cost", f"~{cost.estimated_percent:.1f} %", f"estimated; {each}" if each else "estimated"
        )
    if cost.percent is not None:
        return _fact("probes cost", "?", "not measurable here")
    if kernel.layout is None:
        return _fact("probes cost", "nothing", "exact, by simulation")
    free = cost.record_cost_ns == 0.0
    return _fact("probes cost", "?", "records are free; --verify shows what they change" if free else each)


def _records(kernel: Kernel, launches: list) -> dict[str, Any]:
    losses = sum((launch.losses for launch in launches), Losses())
    notes = []
    if losses.sampled_out:
        notes.append(f"{losses.sampled_out:,} left out by sampling")
    if losses.lost:
        notes.append(f"{losses.lost:,} lost for lack of room")
    name = "records" if kernel.layout is not None else "intervals"
    return _fact(name, text.count(losses.kept), ", ".join(notes) or "none lost", bool(losses.lost))


def notes(trace: Trace, kernel: Kernel, times: Times) -> list[dict[str, str]]:
    """What a reader of the times must know: warnings, the works, and whether the times add up."""
    works = [work for work in trace.works if work.kernel == kernel.id]
    disturbed = interrupted(trace, kernel, times)
    careful = [] if kernel.clock.is_time else [text.NO_TIME]
    careful += header.warnings(kernel, works, disturbed)
    said = [
        *header.work_lines(trace.kernel_launches(kernel.id), works, known_of(trace, kernel)),
        *header.notes(trace, kernel, disturbed),
    ]
    return [
        *({"text": one.strip(), "level": "warning"} for one in careful),
        *({"text": one.strip(), "level": "note"} for one in said),
    ]


def region(one: Region, lines: list[int]) -> dict[str, Any]:
    """A region as the page refers to it; `lines` are numbers of places."""
    return {
        "id": one.id,
        "name": one.name,
        "kind": one.kind,
        "parent": one.parent,
        "kernel": one.kernel,
        "source": one.source,
        "lines": lines,
    }


def launches(trace: Trace) -> list[dict[str, Any]]:
    """The recorded launches, with when their intervals begin and end."""
    ends = pl.col("start_ns").min(), pl.col("stop_ns").max(), pl.col("taken_ns").sum()
    spans = trace.scan().group_by("launch").agg(ends).collect()
    found = {launch: rest for launch, *rest in spans.iter_rows()}
    return [
        {
            "id": launch.id,
            "kernel": launch.kernel,
            "grid": text.grid(launch.grid),
            "start_ns": found[launch.id][0],
            "stop_ns": found[launch.id][1],
            "taken_ns": found[launch.id][2],
            "duration_ns": launch.duration_ns,
            "part": text.part(launch.losses),
        }
        for launch in trace.launches
        if launch.id in found
    ]
