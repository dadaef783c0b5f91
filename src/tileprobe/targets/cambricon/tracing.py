"""A run as exact intervals: the same columns, regions and units as on any other target.

The portable passes put `probe` ops into the mapped IR; their regions become intervals of program 0, the
step itself. What the units did (channels, planes, cores, NPU, DRAM) is a second part, each unit a
program of it. What sampling leaves out of a large run, whole layers, is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tileprobe.ir.machine import Unit
from tileprobe.ir.regions import Region
from tileprobe.targets.base import Exact
from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.launch import Run
from tileprobe.targets.cambricon.limits import bottleneck
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import Geometry
from tileprobe.targets.cambricon.result import Result
from tileprobe.targets.cambricon.simulate import pages_of
from tileprobe.targets.cambricon.target import TICKS_PER_US

UNITS = "units"  # the part of a launch that says what the units did
INTERVALS_PER_PAGE = 5  # array read, compute or slices, result, wait, use by the NPU


def sampled(program: p.Program, capacity: int) -> np.ndarray:
    """Which operators to keep: all, or evenly spaced layers that fit."""
    pages = np.concatenate(([0], np.cumsum(pages_of(program))))
    rows = program.operators
    weights = rows[:, p.KIND] == p.WEIGHTS
    cost = np.where(
        weights,
        pages[np.maximum(rows[:, p.END_MATRIX], 0)] - pages[np.maximum(rows[:, p.FIRST_MATRIX], 0)],
        0,
    )
    layers = layers_of(program)
    total = int(cost.sum()) * INTERVALS_PER_PAGE
    if total <= capacity:
        return np.ones(len(rows), np.bool_)
    count = layers.max() + 1
    outside = int(cost[layers < 0].sum()) * INTERVALS_PER_PAGE  # the output projection, which is there once
    fitting = max(1, int((capacity - outside) / (total - outside) * count))
    kept = (
        np.unique(np.linspace(0, count - 1, fitting).round().astype(int))
        if fitting > 1
        else np.array([count // 2])
    )
    return np.isin(layers, kept) | (layers < 0)


def standing(program: p.Program, keep: np.ndarray) -> np.ndarray:
    """For how many operators each one that is kept stands: those of all layers that do the same."""
    inside = (name.partition(" / ") for name in program.names)  # "layer 3 / up", but "lm_head"
    same = np.unique([name or f"{layer} outside" for layer, _, name in inside], return_inverse=True)[1]
    kept = np.bincount(same, keep, same.max() + 1)
    return np.bincount(same)[same] / np.maximum(kept, 1)[same]


@dataclass
class _Units:
    """Numbers of the units in a trace: the step, then channels, planes, cores, NPU and DRAM."""

    geometry: Geometry

    @property
    def channels(self) -> np.ndarray:
        return 1 + np.arange(self.geometry.channels)

    @property
    def planes(self) -> np.ndarray:
        g = self.geometry
        return 1 + g.channels + np.arange(2 * g.channels * g.dies_per_channel)

    @property
    def cores(self) -> np.ndarray:
        return self.planes[-1] + 1 + np.arange(self.geometry.channels * self.geometry.cores)

    @property
    def npu(self) -> int:
        """The NPU's array; its SFU and the DRAM follow."""
        return int(self.cores[-1]) + 1

    def table(self) -> list[Unit]:
        g = self.geometry
        units = [Unit(0, "step", "step")]
        units += [Unit(1 + c, f"channel {c}", "channel") for c in range(g.channels)]
        for c in range(g.channels):
            for d in range(g.dies_per_channel):
                where = f"channel {c} / chip {d // g.dies} / die {d % g.dies}"
                units.append(Unit(len(units), f"{where} / read-compute planes", "plane", 1 + c))
                units.append(Unit(len(units), f"{where} / read planes", "plane", 1 + c))
        for c in range(g.channels):
            units += [Unit(len(units) + n, f"channel {c} / core {n}", "core", 1 + c) for n in range(g.cores)]
        first = len(units)
        units += [
            Unit(first, "NPU array", "npu"),
            Unit(first + 1, "NPU SFU", "sfu"),
            Unit(first + 2, "DRAM", "dram"),
        ]
        shares = range(g.channels)  # the array takes the pages of all channels in even shares
        return units + [
            Unit(first + 3 + c, f"NPU array / share of channel {c}", "npu share", first) for c in shares
        ]

    def of(self, kind: np.ndarray, channel: np.ndarray, inner: np.ndarray) -> np.ndarray:
        """The unit of each interval."""
        from tileprobe.targets.cambricon.engine import state as s

        g = self.geometry
        planes, cores, npu = int(self.planes[0]), int(self.cores[0]), self.npu
        unit = 1 + channel.astype(np.int64)  # input, result, slices, wait: the channel
        die = channel.astype(np.int64) * g.dies_per_channel + inner // g.cores_per_die
        upkeep = channel.astype(np.int64) * g.dies_per_channel + inner  # shown with the planes that compute
        unit = np.where((kind == s.T_RETRY) | (kind == s.T_REWRITE), planes + 2 * upkeep, unit)
        unit = np.where(kind == s.T_ARRAY, planes + 2 * die, unit)
        unit = np.where(
            kind == s.T_PAGE_READ,
            planes + 2 * (channel.astype(np.int64) * g.dies_per_channel + inner) + 1,
            unit,
        )
        unit = np.where(kind == s.T_COMPUTE, cores + channel.astype(np.int64) * g.cores + inner, unit)
        for offset, name in enumerate((s.T_ARRAY_NPU, s.T_SFU, s.T_DRAM)):
            unit = np.where(kind == name, npu + offset, unit)
        unit = np.where(kind == s.T_USE, npu + 3 + channel.astype(np.int64), unit)
        return unit


def parts_of(
    result: Result,
    machine: Machine,
    regions: Sequence[Region],
    program: p.Program,
    geometry: Geometry,
    run: Run,
) -> list[Exact]:
    """What the step did, region by region, and what the units did."""
    units = _Units(geometry)
    table, duration = units.table(), run.total_us * 1e3
    steps = _step_intervals(program, run)
    step = {
        "region": np.array([row[0] for row in steps], np.int64),
        "iteration": np.array([row[1] for row in steps], np.int64),
        "start": _ticks(np.array([row[2] for row in steps])),
        "stop": _ticks(np.array([row[3] for row in steps])),
    }
    whole = Exact(
        step,
        regions,
        table,
        duration,
        kept=len(steps),
        notes=tuple(_notes(result, machine)),
        meta={"llm": result.to_json()},
    )
    counters = _counters(units, machine, run)
    return [whole, _hardware(units, table, program, run, duration, counters)]


def _hardware(
    units: _Units,
    table: list[Unit],
    program: p.Program,
    run: Run,
    duration: float,
    counters: dict[str, np.ndarray],
) -> Exact:
    from tileprobe.targets.cambricon.engine import state as s

    n = int(run.trace.count[0])
    kind, channel = run.trace.kind[:n].astype(np.int64), run.trace.channel[:n]
    unit = units.of(kind, channel, run.trace.unit[:n].astype(np.int64))
    columns = {
        "program": unit,
        "unit": unit,
        "region": kind,
        "kind": np.where(kind == s.T_WAIT, "wait", "region"),
        "iteration": layers_of(program)[run.trace.op[:n]],
        "start": _ticks(run.trace.start[:n]),
        "stop": _ticks(run.trace.stop[:n]),
        "value": run.trace.value[:n],
        "weight": standing(program, run.trace.keep)[run.trace.op[:n]],
    }
    return Exact(
        columns,
        [Region(n, name, "hardware") for n, name in enumerate(s.TRACE_KINDS)],
        table,
        duration,
        part=UNITS,
        grid=(len(table),),
        kept=n,
        sampled_out=int(run.trace.count[2]),
        lost=int(run.trace.count[1]),
        counters=counters,
        edges=_handed_on(units, run),
    )


def _handed_on(units: _Units, run: Run) -> dict[str, np.ndarray] | None:
    """Where layers were left out: an edge from the end of what is kept before them to when what is kept behind them
    could begin. Who did what in between is at no place; the NPU is, which has all sums in the end."""
    kept = np.flatnonzero(run.trace.keep)
    gaps = np.flatnonzero(np.diff(kept, prepend=-1) > 1)
    if not len(gaps):
        return None
    over = _ticks(np.concatenate(([0.0], np.maximum.accumulate(run.done_us))))
    before = np.where(gaps > 0, kept[gaps - 1] + 1, 0)
    names = [f"{end}_{name}" for end in ("from", "to") for name in ("program", "unit")]
    return {
        "kind": np.full(len(gaps), "release-acquire", object),
        "from_tick": over[before],
        "to_tick": over[kept[gaps]],
        **{name: np.full(len(gaps), units.npu) for name in names},
    }


def _counters(units: _Units, machine: Machine, run: Run) -> dict[str, np.ndarray]:
    """What the engine counted over the whole run, whatever part of it the intervals show: how long each unit was
    busy, and the bytes over each channel."""
    from tileprobe.targets.cambricon.engine import state as s

    stats, g = run.state.stats, units.geometry
    rows: list[tuple[np.ndarray, str, np.ndarray, str]] = []

    def add(unit: np.ndarray, name: str, value: np.ndarray, quality: str = "exact") -> None:
        rows.append((unit, name, np.asarray(value, float).ravel(), quality))

    channels = units.channels
    add(channels, "busy_ns", stats[:, : s.BUSY_COMMAND + 1].sum(axis=1) * 1e3)
    for name, column in (
        ("bytes_input", s.BYTES_INPUT),
        ("bytes_result", s.BYTES_RESULT),
        ("bytes_stream", s.BYTES_STREAM),
        ("bytes_spare", s.BYTES_SPARE),
    ):
        add(channels, name, stats[:, column])
    # Array reads are counted by channel: exact in sum, an even share for each of its planes.
    reads_us = (stats[:, s.N_COMPUTED] + stats[:, s.N_STREAMED]) * machine.flash.read_us
    reads_us = reads_us + run.state.upkeep[:, s.UPKEEP_US]
    planes = g.dies_per_channel * machine.flash.planes_per_die
    add(units.planes, "busy_ns", np.repeat(reads_us / planes * 1e3, 2 * g.dies_per_channel), "sampled")
    add(units.cores, "busy_ns", run.state.core_busy * 1e3)
    add(units.npu + np.arange(3), "busy_ns", run.busy_us * 1e3)
    return {
        "unit": np.concatenate([unit for unit, _, _, _ in rows]),
        "name": np.concatenate([np.full(len(unit), name, object) for unit, name, _, _ in rows]),
        "value": np.concatenate([value for _, _, value, _ in rows]),
        "quality": np.concatenate([np.full(len(unit), quality, object) for unit, _, _, quality in rows]),
    }


def layers_of(program: p.Program) -> np.ndarray:
    """The layer of each operator; -1 outside of the layers."""
    heads = [name.split(" / ")[0] if " / " in name else "" for name in program.names]
    return np.array([int(head.removeprefix("layer ")) if head else -1 for head in heads], np.int64)


def _notes(result: Result, machine: Machine) -> list[str]:
    what, helps = bottleneck(result, machine)
    moved = result.channel_gb / result.produced
    return [
        f"{result.model}: {moved:.3f} GB over the channels and {result.joules_per_token:.3f} J a token",
        f"{result.model}: limited by {what}; what would help: {helps}",
    ]


def _ticks(us: np.ndarray) -> np.ndarray:
    return np.rint(us * TICKS_PER_US).astype(np.int64)


def _step_intervals(program: p.Program, run: Run) -> list[tuple[int, int, float, float]]:
    """(region, iteration, start, stop) of the probes: a probe reads the time at which all before it was
    done.
    """
    frontier = np.concatenate(([0.0], np.maximum.accumulate(run.done_us)))
    rows, open_ = [], []
    for what, region, n, products, layer in program.meta["probes"]:
        time = float(frontier[n])
        if products:  # between the products of a group: when the ones before it were at the NPU
            first = int(program.operators[n, p.FIRST_MATRIX])
            time = max(time, float(run.state.mat_end[first : first + products].max()))
            if products == program.operators[n, p.END_MATRIX] - first:
                time = float(frontier[n + 1])
        if what == "start":
            open_.append((region, layer, time))
            continue
        started, inside, begin = open_.pop()
        assert started == region
        rows.append((region, -1 if inside is None else inside, begin, max(time, begin)))
    return rows
