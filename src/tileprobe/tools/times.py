"""The times of regions, summed up: scaled to all that ran, with what was recorded and how sure it is beside them.

In comes a trace; out go `Times`, one row a region and partition, and for a kernel's rows the 95 % intervals of their
totals and shares. The samples of an interval are the launches of a work. A work that was recorded once has the programs
of that launch as its samples: programs that differ by design make such an interval wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tileprobe.tools.figures import (
    LASTED,
    NORMAL,
    STANDS,
    TIME,
    Spread,
    spread_of_total,
    together,
    weighted_quantile,
)
from tileprobe.tools.streams import with_partition
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.cold import cold_launches
from tileprobe.trace.in_place import UNSURE
from tileprobe.trace.works import standing_for, with_works

Key = tuple[int, int]  # partition and region
# Launches; the programs of one where a work was recorded once; or all that ran, counted and not sampled.
BASES = LAUNCHES, PROGRAMS, ALL = "launches", "programs", "all"
# Of what doses say that a record costs, where nobody looked at what it costs in its place (GPUs): what other warps may
# hide. A simulated A100 has 10 to 21 cycles a record by dose, and 6 to 11 by its stalls (docs/simgpu-time.md).
HIDDEN = 0.45


@dataclass
class Times:
    """`frame` is what a report shows; the others are the samples behind it."""

    frame: pl.DataFrame  # a row a partition and region
    launches: pl.DataFrame  # a row a partition, region and launch, with its time within the launch
    programs: pl.DataFrame  # the same for each program, of launches that are the only ones of their work
    standing: dict[int, float]  # launch -> launches that it stands for
    recorded: dict[int, int]  # launch -> programs of which there are intervals
    trees: dict[int, pl.DataFrame] = field(default_factory=dict)  # by kernel, as they were asked for


@dataclass
class Sure:
    """How sure the rows of a kernel are: half the widths of 95 % intervals, infinite where nothing can be said."""

    total_ns: np.ndarray
    share: np.ndarray
    share_noise: (
        np.ndarray
    )  # of that, what comes from samples that differ: without the doubt about a record's cost
    basis: str  # what the samples were: one of BASES, or "" for none


def region_times(trace: Trace) -> Times:
    """The time of an asynchronous operation is what the program waited for it."""
    standing = standing_for(trace)
    timed = trace.scan().filter(pl.col("kind").is_in(["region", "wait", "mark", "value"]))
    gone = [launch for launch, count in standing.items() if not count]
    timed = timed.filter(~pl.col("launch").is_in(gone)) if gone else timed
    timed = with_partition(trace, timed).with_columns(LASTED.alias("lasted"), TIME.alias("ns"))
    launches = _launches(timed)
    scaled = _scaled(launches, standing)
    found = scaled.join(_quantiles(trace, timed, standing), on=["partition", "region"], how="left")
    recorded = trace.scan().group_by("launch").agg(pl.col("program").n_unique()).collect(engine="streaming")
    alone = [launches[0] for launches in samples_of(trace, standing).values() if len(launches) == 1]
    programs = (
        timed.filter(pl.col("launch").is_in(alone))
        .group_by("partition", "region", "launch", "program")
        .agg(pl.col("ns").sum())
        .collect(engine="streaming")
    )
    return Times(found, launches, programs, standing, dict(recorded.iter_rows()))


def samples_of(trace: Trace, standing: dict[int, float], kernel: int | None = None) -> dict[int, list[int]]:
    """For each work its probed launches that stand for something, in order. A cold one is no sample of the others: it
    is by itself, under a number of its own, where only a part of it was recorded, and sure where all of it was."""
    works: dict[int, list[int]] = {}
    trace = with_works(trace)
    cold = cold_launches(trace)
    for launch in trace.launches:
        if not standing.get(launch.id) or kernel not in (None, launch.kernel):
            continue
        if launch.id not in cold:
            works.setdefault(launch.work, []).append(launch.id)
        elif launch.losses.sampled_out + launch.losses.lost:
            works[-1 - launch.work] = [launch.id]
    return works


def _launches(timed: pl.LazyFrame) -> pl.DataFrame:
    estimate = (pl.col("weight") != 1) | (pl.col("fit") != 1)
    grouped = timed.group_by("partition", "region", "launch").agg(
        pl.col("ns").sum(),
        STANDS.sum().alias("count"),
        pl.col("lasted").sum().alias("recorded_ns"),
        pl.len().alias("recorded_count"),
        (pl.col("taken_ns") * STANDS * pl.col("fit")).cast(pl.Float64).sum().alias("taken_ns"),
        (pl.col("probes_ns") * STANDS * pl.col("fit")).cast(pl.Float64).sum().alias("probes_ns"),
        (pl.col("taken_ns") > 0).sum().alias("interrupted"),
        estimate.any().alias("estimate"),
    )
    return grouped.sort("partition", "region", "launch").collect(engine="streaming")


def _scaled(launches: pl.DataFrame, standing: dict[int, float]) -> pl.DataFrame:
    """Launches summed up, each for as many as it stands for."""
    factor = pl.col("launch").replace_strict(standing, default=1.0, return_dtype=pl.Float64)
    rows = launches.with_columns(factor.alias("launches"))
    each = pl.col("launches")
    summed = rows.group_by("partition", "region", maintain_order=True).agg(
        (pl.col("ns") * each).sum().alias("total_ns"),
        (pl.col("count") * each).sum().alias("count"),
        (pl.col("taken_ns") * each).sum(),
        (pl.col("probes_ns") * each).sum(),
        pl.col("recorded_ns").sum(),
        pl.col("recorded_count").sum(),
        pl.col("interrupted").sum(),
        pl.col("estimate").any(),
    )
    return summed.with_columns((pl.col("total_ns") / pl.col("count")).alias("mean_ns"))


def _quantiles(trace: Trace, timed: pl.LazyFrame, standing: dict[int, float]) -> pl.DataFrame:
    names = {"p50_ns": 0.5, "p95_ns": 0.95}
    low, high = (
        trace.scan().select(pl.col("weight").min(), pl.col("weight").max().alias("most")).collect().row(0)
    )
    if low == high and len({count for count in standing.values() if count}) < 2:  # all stand for as much
        found = [pl.col("lasted").quantile(share).alias(name) for name, share in names.items()]
    else:
        factor = pl.col("launch").replace_strict(standing, default=1.0, return_dtype=pl.Float64)
        timed = timed.with_columns((STANDS * factor).alias("stands"))
        found = [weighted_quantile("lasted", "stands", share).alias(name) for name, share in names.items()]
    return timed.group_by("partition", "region").agg(found).collect(engine="streaming")


# -- how sure ---------------------------------------------------------------------------------------------


def how_sure(trace: Trace, kernel: Kernel, times: Times, keys: Sequence[Key], top: Sequence[bool]) -> Sure:
    """Of rows of one kernel. `top` says which of them hang from nothing: shares are of their sum."""
    works = samples_of(trace, times.standing, kernel.id)
    unknown = np.full(len(keys), math.inf)
    if not works or not keys:
        return Sure(unknown, unknown, unknown, "")
    if kernel.clock.is_simulated and _all_recorded(trace, kernel, times, keys):
        none = np.zeros(len(keys))
        return Sure(none, none, none, ALL)
    total = _column(times, keys, "total_ns")
    whole = total[np.asarray(top, bool)].sum()
    share = total / whole if whole else np.zeros(len(keys))
    parts: list[Spread] = []
    shares: list[Spread] = []
    for launches in works.values():
        samples = _samples(times, keys, launches)
        rest = samples - share[:, None] * samples[np.asarray(top, bool)].sum(axis=0)
        several = len(launches) > 1
        parts.append(spread_of_total(samples, in_order=several))
        shares.append(spread_of_total(rest, in_order=several))
    basis = PROGRAMS if any(len(launches) == 1 for launches in works.values()) else LAUNCHES
    known = all(np.isfinite(part.variance).all() for part in parts)
    cost, doubt = _column(times, keys, "probes_ns"), cost_doubt(kernel)
    inside = np.asarray(top, bool)
    split = doubt.split * _split(cost, cost[inside].sum())
    alike = np.hypot(doubt.all_alike * cost, doubt.code * total)
    width = np.hypot(np.hypot(together(parts).half_width(), alike), split)
    if not whole:
        return Sure(width, unknown, unknown, basis if known else "")
    moved = cost - share * cost[inside].sum()
    noise = together(shares).half_width()
    error = np.hypot(np.hypot(noise, doubt.all_alike * moved), split)
    again = np.hypot(noise, doubt.learnt * moved)
    return Sure(width, _of(whole, error), _of(whole, again), basis if known else "")


def _split(part: np.ndarray, whole: float) -> np.ndarray:
    """What records took of each row, less as far as it is all that they took: which of them cost how much is not known,
    only what all of them do."""
    rest = 1.0 - np.divide(part, whole, out=np.zeros(len(part)), where=np.asarray(whole) > 0)
    return part * np.sqrt(rest.clip(0.0, 1.0))


def _of(whole: float, errors: np.ndarray) -> np.ndarray:
    """As shares, none of which is off by more than all; infinite where nothing is known."""
    return np.where(np.isfinite(errors), (errors / whole).clip(max=1.0), math.inf)


def _all_recorded(trace: Trace, kernel: Kernel, times: Times, keys: Sequence[Key]) -> bool:
    """Whether nothing stands for anything else: all launches, all programs, all iterations, and nothing taken out of
    them for what probes cost."""
    mine = [launch for launch in trace.kernel_launches(kernel.id) if launch.probed]
    whole = all(times.standing.get(x.id) == 1.0 and not x.losses.sampled_out + x.losses.lost for x in mine)
    exact = not _column(times, keys, "estimate").any() and not _column(times, keys, "probes_ns").any()
    return whole and exact


def _samples(times: Times, keys: Sequence[Key], launches: list[int]) -> np.ndarray:
    """The time of each row in each launch, or in each program of the only one, times the launches that it stands for:
    launches that others of their work stand for make these count for more than the rest."""
    place = {key: n for n, key in enumerate(keys)}
    alone = len(launches) == 1
    frame = times.programs if alone else times.launches
    by = "program" if alone else "launch"
    frame = frame.filter(pl.col("launch").is_in(launches)).select("partition", "region", by, "ns")
    columns = {one: n for n, one in enumerate(sorted(frame[by].unique() if alone else launches))}
    count = max(len(columns), times.recorded.get(launches[0], 0) if alone else len(launches))
    samples = np.zeros((len(keys), count))  # what a region is not in took it no time there
    for partition, region, one, ns in frame.iter_rows():
        if (partition, region) in place:
            samples[place[partition, region], columns[one]] = ns
    stands = [times.standing[launches[0] if alone else one] for one in (launches if alone else columns)]
    return samples * stands


def _column(times: Times, keys: Sequence[Key], name: str) -> np.ndarray:
    table = {(p, r): value for p, r, value in times.frame.select("partition", "region", name).iter_rows()}
    return np.array([table[key] for key in keys], float)


@dataclass(frozen=True)
class CostDoubt:
    """How far off it may be what records took, as shares of what doses say (`probes_ns`), half the widths of 95 %
    intervals: `all_alike`, the same everywhere, so that it does not average out; of that what is `learnt` anew by each
    run; and how it is `split` among the records. Of all times, what the `code` around records may be off by."""

    all_alike: float = 0.0
    learnt: float = 0.0
    split: float = 0.0
    code: float = 0.0


def cost_doubt(kernel: Kernel) -> CostDoubt:
    known = kernel.calibration
    cost, error = float(known.get("cost_ticks") or 0.0), float(known.get("error_ticks") or 0.0)
    if cost <= 0 or not known.get("doses"):
        return CostDoubt()
    by_dose = float(known.get("dose_ticks") or 0.0)
    if not by_dose:
        learnt = NORMAL * min(error / cost, 1.0)
        return CostDoubt(max(learnt, HIDDEN), learnt)
    noise = float(known.get("noise_ticks") or 0.0)
    code = float(known.get("code_error") or 0.0)
    return CostDoubt(NORMAL * error / by_dose, NORMAL * noise / by_dose, NORMAL * UNSURE, NORMAL * code)
