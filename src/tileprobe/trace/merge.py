"""Several traces made one: ids are given anew, and what is the same in all of them is kept once.

In come traces of any targets; out goes one whose launches are those of the first, then the second, ...
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import polars as pl

from tileprobe.errors import TileProbeError
from tileprobe.trace.model import Kernel, Launch, Region, to_json
from tileprobe.trace.trace import Trace
from tileprobe.trace.works import with_works


def merge(traces: Iterable[Trace]) -> Trace:
    """See `Trace.merge`. Corrected times of each trace follow the previous one's, so that a timeline of
    runs from different processes shows them side by side and not on top of each other."""
    traces = [with_works(trace) for trace in traces]
    if not traces:
        raise TileProbeError("merge needs at least one trace")
    merged = Trace(pl.DataFrame(), [], [], [], [], _meta(traces))
    frames: list[pl.LazyFrame] = []
    edges: list[pl.LazyFrame] = []
    counters: list[pl.LazyFrame] = []
    offset = 0.0
    known: dict[tuple[str, str, str, int], int] = {}
    for trace in traces:
        kernels, regions = _add_kernels(merged, trace)
        units = _add_units(merged, trace, known)
        _add_domains(merged, trace)
        launches = {launch.id: len(merged.launches) + n for n, launch in enumerate(trace.launches)}
        works = {work.id: len(merged.works) + n for n, work in enumerate(trace.works)}
        merged.works += [replace(w, id=works[w.id], kernel=kernels[w.kernel]) for w in trace.works]
        merged.launches += [
            _shift(replace(launch, work=works[launch.work]), launches, kernels, offset)
            for launch in trace.launches
        ]
        ids = {"launch": launches, "region": regions, "unit": units}
        frames.append(_renumber(trace.scan(), ids, ("start_ns", "stop_ns"), offset))
        # Counters of lines are of no unit, nor need edges be: 0 stands there, whether the trace has such a one or not
        nowhere = {0: units.get(0, 0)} | units
        ends = {
            f"{end}_{name}": new
            for end in ("from", "to")
            for name, new in (("region", regions), ("unit", nowhere))
        }
        edges.append(_renumber(trace.scan_edges(), {"launch": launches} | ends, ("from_ns", "to_ns"), offset))
        counters.append(_renumber(trace.scan_counters(), {"launch": launches, "unit": nowhere}, (), offset))
        end = trace.scan().select(pl.col("stop_ns").max()).collect().item()
        offset += end or 0.0
    merged.frame = pl.concat(frames).collect()
    merged.edge_frame, merged.counter_frame = pl.concat(edges).collect(), pl.concat(counters).collect()
    return merged


def _meta(traces: list[Trace]) -> dict[str, Any]:
    """The first trace's metadata. What all say of their kernels (`notes`; `busy` by kernel) is put together; shares
    that two traces give differently for kernels of one name are those of neither, and left out."""
    meta = dict(traces[0].meta)
    notes = [note for trace in traces for note in trace.meta.get("notes", [])]
    if notes:
        meta["notes"] = list(dict.fromkeys(notes))
    switched = [rate for trace in traces if (rate := trace.meta.get("switched_per_s")) is not None]
    if switched:
        meta["switched_per_s"] = max(switched)  # one crowded process is enough to doubt the whole
    said = [pair for trace in traces for pair in trace.meta.get("busy", {}).items()]
    if said:
        meta["busy"] = {name: busy for name, busy in said if all(b == busy for n, b in said if n == name)}
    return meta


def _shift(launch: Launch, launches: dict[int, int], kernels: dict[int, int], offset: float) -> Launch:
    start = None if launch.start_ns is None else launch.start_ns + offset
    return replace(launch, id=launches[launch.id], kernel=kernels[launch.kernel], start_ns=start)


def _renumber(
    frame: pl.LazyFrame, maps: dict[str, dict[int, int]], times: tuple[str, ...], offset: float
) -> pl.LazyFrame:
    changed: list[Any] = [
        pl.col(name).replace_strict(ids, return_dtype=pl.UInt32)
        for name, ids in maps.items()
        if any(old != new for old, new in ids.items())
    ]
    if offset:
        changed += [pl.col(name) + offset for name in times]
    return frame.with_columns(changed) if changed else frame


def _add_kernels(merged: Trace, trace: Trace) -> tuple[dict[int, int], dict[int, int]]:
    """Adds the trace's kernels and regions; returns the new ids of both."""
    kernels: dict[int, int] = {}
    regions: dict[int, int] = {}
    for kernel in trace.kernels:
        mine = [region for region in trace.regions if region.kernel == kernel.id]
        twin = _twin(merged, kernel, mine)
        if twin is None:
            kernels[kernel.id] = len(merged.kernels)
            merged.kernels.append(replace(kernel, id=kernels[kernel.id]))
            for n, region in enumerate(mine):
                regions[region.id] = len(merged.regions) + n
            for region in mine:
                parent = None if region.parent is None else regions.get(region.parent)
                merged.regions.append(
                    replace(region, id=regions[region.id], parent=parent, kernel=kernels[kernel.id])
                )
        else:
            kernels[kernel.id] = twin
            same = [region for region in merged.regions if region.kernel == twin]
            regions |= {old.id: new.id for old, new in zip(mine, same)}
    return kernels, regions


def _twin(merged: Trace, kernel: Kernel, regions: list[Region]) -> int | None:
    """The kernel already there that is this one: same code on the same target, same regions."""
    this = _comparable(kernel)
    for other in merged.kernels:
        same = this == _comparable(other)
        names = [(r.name, r.kind, r.source, r.depth) for r in merged.regions if r.kernel == other.id]
        if same and names == [(r.name, r.kind, r.source, r.depth) for r in regions]:
            return other.id
    return None


def _comparable(kernel: Kernel) -> str:
    """What says that two kernels are the same, be they in memory or read from a file: clocks and costs vary, and a
    process that was started in another folder has another path to the same file."""
    row = to_json(replace(kernel, id=0, calibration={}, file=kernel.file.rsplit("/", 1)[-1]))
    return json.dumps({name: value for name, value in row.items() if name != "clock"}, sort_keys=True)


def _add_units(merged: Trace, trace: Trace, known: dict[tuple[str, str, str, int], int]) -> dict[int, int]:
    """Units of the same name on the same machine are one; `known` are those of the traces before. A machine with
    several units of a name has them in the same order each time."""
    ids: dict[int, int] = {}
    machines = _machines(trace)
    count: dict[tuple[str, str, str], int] = {}
    for unit in trace.units:
        named = (machines.get(unit.id, ""), unit.kind, unit.name)
        nth = count[named] = count.get(named, 0) + 1
        found = known.get((*named, nth))
        ids[unit.id] = len(merged.units) if found is None else found
        if found is None:
            known[(*named, nth)] = ids[unit.id]
            parent = None if unit.parent is None else ids.get(unit.parent)
            merged.units.append(replace(unit, id=ids[unit.id], parent=parent))
    return ids


def _machines(trace: Trace) -> dict[int, str]:
    """The machine that each unit is a part of: the only one, or the one whose kernels ran on it."""
    targets = {kernel.id: kernel.target for kernel in trace.kernels}
    if len(set(targets.values())) == 1:
        return dict.fromkeys((unit.id for unit in trace.units), next(iter(targets.values())))
    runs = {launch.id: targets.get(launch.kernel, "") for launch in trace.launches}
    both = trace.scan().select("launch", "unit").unique().sort("launch", "unit").collect()
    found: dict[int, str] = {}
    for launch, unit in both.iter_rows():
        found.setdefault(unit, runs.get(launch, ""))
    return found


def _add_domains(merged: Trace, trace: Trace) -> None:
    """A domain of the same name is the same clock, aligned anew: the larger error holds for both."""
    places = {domain.name: n for n, domain in enumerate(merged.domains)}
    for domain in trace.domains:
        at = places.get(domain.name)
        if at is None:
            merged.domains.append(domain)
        else:
            error = max(domain.error_ns, merged.domains[at].error_ns)
            merged.domains[at] = replace(merged.domains[at], error_ns=error)
