"""A run as a trace: the same columns, regions and units as on any other target.

The portable passes put `probe` ops into the mapped IR; their regions become intervals of program 0, the
step itself. What the units did (channels, planes, cores, NPU, DRAM) is a second kernel, each unit a
program of it. What sampling leaves out of a large run, whole layers, is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tileprobe.ir.probe import RegionOp
from tileprobe.passes.instrument import InstrumentPass
from tileprobe.passes.select import SelectPass
from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.encode import encode, the_step
from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.launch import Run, launch
from tileprobe.targets.cambricon.limits import bottleneck, busy_kinds
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.model import Model
from tileprobe.targets.cambricon.pagemap import Geometry, geometry_of
from tileprobe.targets.cambricon.result import Result
from tileprobe.targets.cambricon.simulate import _pages, account
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit

TICKS_PER_US = 1e6  # picoseconds: the engine's times are exact far below that
INTERVALS_PER_PAGE = 5  # array read, compute or slices, result, wait, use by the NPU


def simulate_traced(
    model: Model, machine: Machine, options: Options, capacity: int = 1_000_000
) -> tuple[Result, Trace]:
    """A run with its trace of at most about `capacity` intervals."""
    module = compile_step(model, machine, options)
    plain = str(module)
    for stage in (SelectPass(structure="cam"), InstrumentPass(structure="cam")):
        stage.apply(Context(), module)
    program = encode(module)
    geometry = geometry_of(machine, the_step(module).mode.data)
    run = launch(program, machine, geometry, _sampled(program, capacity), capacity)
    result = account(model, machine, options, module, program, run)
    return result, _trace(result, machine, module, plain, program, geometry, run)


def _sampled(program: p.Program, capacity: int) -> np.ndarray:
    """Which operators to keep: all, or evenly spaced layers that fit."""
    pages = np.concatenate(([0], np.cumsum(_pages(program))))
    rows = program.operators
    weights = rows[:, p.KIND] == p.WEIGHTS
    cost = np.where(
        weights,
        pages[np.maximum(rows[:, p.END_MATRIX], 0)] - pages[np.maximum(rows[:, p.FIRST_MATRIX], 0)],
        0,
    )
    layers = np.array(
        [int(name.split(" / ")[0].removeprefix("layer ")) if " / " in name else -1 for name in program.names]
    )
    total = int(cost.sum()) * INTERVALS_PER_PAGE
    if total <= capacity:
        return np.ones(len(rows), np.bool_)
    count = layers.max() + 1
    fitting = max(1, int(capacity / total * count))
    kept = (
        np.unique(np.linspace(0, count - 1, fitting).round().astype(int))
        if fitting > 1
        else np.array([count // 2])
    )
    return np.isin(layers, kept)


@dataclass
class _Units:
    """Numbers of the units in a trace: the step, then channels, planes, cores, NPU and DRAM."""

    geometry: Geometry

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
            Unit(first + 1, "NPU SFU", "npu"),
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
        planes = 1 + g.channels
        cores = planes + 2 * g.channels * g.dies_per_channel
        npu = cores + g.channels * g.cores
        unit = 1 + channel.astype(np.int64)  # input, result, slices, wait: the channel
        die = channel.astype(np.int64) * g.dies_per_channel + inner // g.cores_per_die
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


def _trace(
    result: Result,
    machine: Machine,
    module: ModuleOp,
    plain: str,
    program: p.Program,
    geometry: Geometry,
    run: Run,
) -> Trace:
    from tileprobe.targets.cambricon.engine import state as s

    declared = [op for op in module.walk() if isinstance(op, RegionOp)]
    regions: list[Region] = []
    for op in declared:  # parents come before their children
        within = op.within.data if op.within is not None else None
        depth = 0 if within is None else next(r.depth for r in regions if r.id == within) + 1
        regions.append(Region(op.region.data, op.label.data, op.kind.data, within, depth=depth))
    first = 1 + max((r.id for r in regions), default=-1)
    regions += [Region(first + n, name, "hardware", kernel=1) for n, name in enumerate(s.TRACE_KINDS)]
    units = _Units(geometry)
    n = int(run.trace.count[0])
    kind, channel = run.trace.kind[:n].astype(np.int64), run.trace.channel[:n]
    unit = units.of(kind, channel, run.trace.unit[:n].astype(np.int64))
    layer = np.array(
        [int(x.split(" / ")[0].removeprefix("layer ")) if " / " in x else -1 for x in program.names]
    )
    steps = _step_intervals(program, run)
    columns = {
        "launch": np.concatenate([np.zeros(len(steps), np.int64), np.ones(n, np.int64)]),
        "program": np.concatenate([np.zeros(len(steps), np.int64), unit]),
        "unit": np.concatenate([np.zeros(len(steps), np.int64), unit]),
        "region": np.concatenate([[row[0] for row in steps], first + kind]).astype(np.int64),
        "kind": ["region"] * len(steps) + np.where(kind == s.T_WAIT, "wait", "region").tolist(),
        "iteration": np.concatenate([[row[1] for row in steps], layer[run.trace.op[:n]]]).astype(np.int64),
        "start": _ticks(np.concatenate([[row[2] for row in steps], run.trace.start[:n]])),
        "stop": _ticks(np.concatenate([[row[3] for row in steps], run.trace.stop[:n]])),
        "value": np.concatenate([np.full(len(steps), np.nan), run.trace.value[:n]]),
    }
    table = units.table()
    losses = Losses(kept=n, sampled_out=int(run.trace.count[2]), lost=int(run.trace.count[1]))
    duration = run.total_us * 1e3
    launches = [
        Launch(0, 0, duration_ns=duration, losses=Losses(kept=len(steps))),
        Launch(1, 1, grid=(len(table),), duration_ns=duration, losses=losses),
    ]
    clock = Clock(hz=TICKS_PER_US * 1e6, name="simulated")
    kernels = [
        Kernel(0, result.model, machine.name, clock, ir={"cam": plain, "probe": str(module)}),
        Kernel(1, f"{result.model}: units", machine.name, clock),
    ]
    return Trace.build(
        columns,
        kernels=kernels,
        launches=launches,
        regions=regions,
        units=table,
        meta={
            "llm": result.to_json(),
            "notes": _notes(result, machine),
            "busy": {kernels[1].name: busy_kinds(result)},
        },
    )


def _notes(result: Result, machine: Machine) -> list[str]:
    what, helps = bottleneck(result, machine)
    moved = result.channel_gb / result.tokens
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
