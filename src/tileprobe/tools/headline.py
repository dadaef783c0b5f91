"""The one thing to say about where a kernel's time goes.

In comes the tree of a kernel's regions; out go findings: the region that dominates, or, where none does, what kinds of
operations the time is made of; and which regions are too short for their times to be exact.
"""

from __future__ import annotations

import polars as pl

from tileprobe.tools.result import Finding
from tileprobe.trace import Kernel, Trace

DOMINATES = 0.3  # of the time: what has less is no headline by itself
STANDS_OUT = 0.5  # of a fused stage: a kind of operation that is named with it
KINDS = 4  # named where nothing dominates
RANGES = ("kernel", "loop", "iteration", "scope")
_WORDS = {"kernel": "starting programs", "loop": "loops", "iteration": "loops", "buffer": "keeping tiles"}


def headline(trace: Trace, kernel: Kernel, tree: pl.DataFrame, name: str) -> list[Finding]:
    """`tree` is that of `region_tree`; `name` is what the kernel is called."""
    whole = float(tree.filter(pl.col("depth") == 0)["total_ns"].sum())
    rows = tree.filter(pl.col("kind") != "partition")
    if not whole or not rows.height:
        return []
    top = _top(rows)
    share = top["self_ns"] / whole
    found = made_of(trace, tree)
    data = {"region": top["region"], "share": share, "made_of": found}
    if share < DOMINATES or (top["kind"] in RANGES and len(found) > 1 and not _dominates(found)):
        return [Finding(f"{name}: {_mixture(found)}", data=data, kernel=kernel.id)]
    what = "time" if kernel.clock.is_time else "instructions"
    text = f"{name}: {100 * share:.0f} % of the {what} is in {_where(trace, top, found)}"
    return [Finding(text, data=data, kernel=kernel.id)]


def _top(rows: pl.DataFrame) -> dict:
    """The region with the largest own time; copies of a stage, as an unrolled loop leaves them, are one."""
    apart = pl.when(pl.col("kind").is_in(RANGES)).then(pl.int_range(pl.len())).otherwise(-1).alias("apart")
    together = rows.group_by("partition", "depth", "name", "kind", apart, maintain_order=True).agg(
        pl.col("region").first(), pl.col("self_ns").sum(), pl.len().alias("copies")
    )
    return together.sort("self_ns", descending=True, maintain_order=True).row(0, named=True)


def _where(trace: Trace, top: dict, found: dict[str, float]) -> str:
    """A stage; or what of a loop or kernel lies outside of the stages that have probes."""
    if top["kind"] not in RANGES:
        copies = f" ({top['copies']} copies)" if top["copies"] > 1 else ""
        return top["name"] + copies + _mostly(trace, top["region"])
    names = {region.id: (region.parent, region.name) for region in trace.regions}
    parent, around = names[top["region"]]
    if top["kind"] == "iteration" and parent in names:
        around = names[parent][1]
    kind = next(iter(found), "")
    if kind in _WORDS.values():
        return f"{around} itself"
    return (
        f"{around}, in stages that are too short for probes of their own: mostly {kind.replace('+', ' + ')}"
    )


def _mostly(trace: Trace, region: int) -> str:
    """What a fused stage does for most of its time, where one kind of operation stands out."""
    kinds: dict[str, float] = {}
    for part in next(r.parts for r in trace.regions if r.id == region):
        kinds[part.kind] = kinds.get(part.kind, 0.0) + part.share
    kind = max(kinds, key=kinds.__getitem__, default="")
    stands_out = len(kinds) > 1 and kinds[kind] >= STANDS_OUT
    return f", about {100 * kinds[kind]:.0f} % of it {_WORDS.get(kind, kind)}" if stands_out else ""


def made_of(trace: Trace, tree: pl.DataFrame) -> dict[str, float]:
    """Shares of the time by kind of operation, the largest first. Of fused stages they are estimates."""
    regions = {region.id: region for region in trace.regions}
    whole = float(tree.filter(pl.col("depth") == 0)["total_ns"].sum()) or 1.0
    found: dict[str, float] = {}
    for row in tree.iter_rows(named=True):
        if row["region"] is None or not row["self_ns"]:
            continue
        region = regions[row["region"]]
        parts = [(part.kind, part.share) for part in region.parts] or [(region.kind, 1.0)]
        total = sum(share for _, share in parts) or 1.0
        for kind, share in parts:
            word = _WORDS.get(kind, kind)
            found[word] = found.get(word, 0.0) + row["self_ns"] * share / total / whole
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def short_regions(kernel: Kernel, tree: pl.DataFrame, name: str) -> list[Finding]:
    """Regions of which a record is a large part."""
    known = kernel.calibration
    cost = float(known.get("dose_ticks") or known.get("cost_ticks") or 0.0) * 1e9 / kernel.clock.hz
    leaves = tree.filter(~pl.col("kind").is_in([*RANGES, "partition", "mark", "value"]))
    short = (
        leaves.filter((pl.col("p50_ns") < 4 * cost) & (pl.col("total_ns") > 0)) if cost else leaves.clear()
    )
    if not short.height:
        return []
    names = ", ".join(short["name"].to_list()[:3]) + (" ..." if short.height > 3 else "")
    unit = "ns" if kernel.clock.is_time else "instructions"
    text = f"{name}: {names}: shorter than four records ({4 * cost:.0f} {unit}), so read the times as rough"
    return [Finding(text, "warning", {"regions": short["region"].to_list()}, kernel.id)]


def _dominates(found: dict[str, float]) -> bool:
    return next(iter(found.values())) >= DOMINATES


def _mixture(found: dict[str, float]) -> str:
    named = list(found.items())[:KINDS]
    rest = 1.0 - sum(share for _, share in named)
    parts = [f"{kind.replace('+', ' + ')} {100 * share:.0f} %" for kind, share in named if share >= 0.005]
    if rest >= 0.01:
        parts.append(f"the rest {100 * rest:.0f} %")
    return f"no stage dominates; the time is made of about {', '.join(parts)}"
