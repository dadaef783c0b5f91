"""A target of your own: a tile processor that exists only here. Stock Triton kernels run on it with right results, and
every probe is exact.

    tileprobe run --target examples/tilesim/tilesim.py:TileSim script.py
    pip install ./examples/tilesim && tileprobe run --target tilesim:large script.py

The machine: cores that each run one program after another, stage by stage. A stage takes as long as its arithmetic or
its memory traffic, whichever is longer, after a fixed start. Numbers are made up; `MACHINES` is all there is to change.

The way of a kernel: the CPU target's compiler schedules it, the portable passes put probes into the scheduled IR, the
reference interpreter runs it, and the clock below counts cycles after each stage. docs/targets.md explains each part.
"""

from dataclasses import dataclass

import numpy as np
import triton  # noqa: F401  (first: it looks for backends, and finds the CPU's driver, while it is imported)
from xdsl.context import Context

from tileprobe.ir.accessors import op_name
from tileprobe.ir.machine import Unit
from tileprobe.ir.probe import ProbeOp, StartOp, StopOp
from tileprobe.ir.regions import regions_of
from tileprobe.passes import pipeline as passes_of
from tileprobe.targets.base import (
    Exact,
    Finding,
    FixedClock,
    Level,
    SimulatedTarget,
    Source,
    Variant,
    launches,
)
from tileprobe.targets.cpu.dialect import DotOp
from tileprobe.targets.cpu.driver import CpuDriver
from tileprobe.targets.cpu.interpret import interpret, parse
from tileprobe.targets.cpu.interpret.launching import of_compiled
from tileprobe.targets.cpu.structure import TileStructure
from tileprobe.targets.cpu.variants import recompiled
from tileprobe.targets.triton_driver import Chosen, refuse_settings

HOW = TileStructure()


@dataclass(frozen=True)
class Machine:
    cores: int
    ops_per_cycle: int  # elementwise, of one core
    macs_per_cycle: int
    bytes_per_cycle: int  # between one core and memory
    start_cycles: int  # of every stage


MACHINES = {
    "small": Machine(cores=2, ops_per_cycle=16, macs_per_cycle=256, bytes_per_cycle=16, start_cycles=20),
    "large": Machine(cores=8, ops_per_cycle=64, macs_per_cycle=4096, bytes_per_cycle=64, start_cycles=20),
}
CLOCK_HZ = 1e9


class Timeline:
    """Told of each program and of each op as it runs; keeps the time and the intervals between probes."""

    def __init__(self, machine, regions):
        self.machine, self.kinds = machine, {region.id: region.kind for region in regions}
        self.free = [0.0] * machine.cores  # when each core has nothing left to do
        self.rows = {name: [] for name in ("program", "unit", "region", "iteration", "start", "stop")}

    def begin(self, program):
        self.program, self.core = program, int(np.argmin(self.free))
        self.open, self.iterations = [], [-1]

    def after(self, op):
        if isinstance(op, ProbeOp):
            self.probe(op)
        elif HOW.kinds(op):
            self.free[self.core] += self.cycles(op)

    def cycles(self, op):
        cost, m = HOW.cost(op) or 1.0, self.machine
        work = cost / (m.macs_per_cycle if isinstance(op, DotOp) else m.ops_per_cycle)
        inner = [i for i in op.walk() if i is not op]
        accesses = sum(op_name(i) in ("tt.load", "tt.store") for i in inner)
        traffic = (
            4.0 * cost * accesses / max(1, len(inner) - 1) / m.bytes_per_cycle
        )  # accesses of the ops in its cost
        return m.start_cycles + max(work, traffic)

    def probe(self, op):
        now, kind = self.free[self.core], self.kinds.get(op.region_id)
        if isinstance(op, StartOp):
            if kind == "loop":
                self.iterations.append(-1)  # of the loop that is entered
            elif kind == "iteration":
                self.iterations[-1] += 1
            self.open.append((op.region_id, self.iterations[-2 if kind == "loop" else -1], now))
        elif isinstance(op, StopOp):
            region, iteration, start = self.open.pop()
            if kind == "loop":
                self.iterations.pop()
            row = (self.program, self.core, region, iteration, round(start), round(now))
            for column, value in zip(self.rows.values(), row):
                column.append(value)


class Launcher:
    """Made by Triton for each compiled kernel, and shown to profiling sessions: a `Kernel` of the protocol."""

    key = property(lambda self: id(self))

    def __init__(self, src, metadata):
        self.src, self.metadata, self.compiled = src, metadata, None
        self.target = TileSim.current
        self.name, self.machine = src.fn.__name__, f"{self.target.name}:{self.target.chosen}"
        self.source = Source(src.fn.file_name, src.fn.starting_line_number, "".join(src.fn.raw_src))

    def __call__(self, gx, gy, gz, stream, function, packed, launch_metadata, enter, exit, *args):
        self.compiled = self.compiled or recompiled(self)
        launch = of_compiled(self.compiled, (gx, gy, gz), self.src.fn.arg_names, args)
        watch = launches.observer(self, (gx, gy, gz), 0) if launches.observer is not None else None
        variant = watch.variant if watch is not None else None
        if watch is None or variant is None:
            launch.interpret()
            return
        timeline = Timeline(MACHINES[self.target.chosen], variant.regions)
        watch.start()
        run = parse(variant.ir["probe"]), launch.grid, launch.args, launch.extents
        try:
            interpret(*run, begin=timeline.begin, after=timeline.after)
        except BaseException:
            watch.abort()
            raise
        cores = [Unit(n, f"core {n}") for n in range(MACHINES[self.target.chosen].cores)]
        columns = {name: np.array(column, np.int64) for name, column in timeline.rows.items()}
        duration_ns = max(timeline.free) * 1e9 / CLOCK_HZ
        kept = len(columns["start"])
        watch.exact([Exact(columns, variant.regions, cores, duration_ns, grid=(gx, gy, gz), kept=kept)])
        watch.stop()

    def compile(self, pipeline):
        module = parse(self.compiled.asm["tile"])
        for step in passes_of(pipeline).passes:
            step.apply(Context(allow_unregistered=True), module)
        regions = tuple(regions_of(HOW.kernels(module)[0]))
        levels = {"tile": self.compiled.asm["tile"], "probe": str(module)}
        return Variant(f"{self.compiled.hash}:{hash(pipeline)}", None, None, regions, levels)


class Driver(CpuDriver):
    """Triton compiles as for the CPU and launches here."""

    launcher_cls = Launcher

    def get_current_device(self):
        return f"tilesim:{TileSim.current.chosen}"  # the key of Triton's cache of launchers


class TileSim(SimulatedTarget):
    name = "tilesim"
    about = "an example: a tile processor simulated in 150 lines"
    structure = "tile"  # the CPU's, of which it takes the IR
    levels = (Level("tile", "scheduled"), Level("probe", "what is measured", shown=True))
    clock = FixedClock("simulated", CLOCK_HZ)
    current: "TileSim"
    chosen = "small"

    def machines(self):
        return tuple(MACHINES)

    def use(self, machine="", **settings):
        refuse_settings(self.name, settings)
        TileSim.current, self.chosen = self, machine or "small"
        return Chosen(Driver())

    def array(self, data, dtype=None):
        from tileprobe.targets.cpu.tensors import array

        return array(data, dtype)

    def workers(self):
        return MACHINES[self.chosen].cores

    def examine(self):
        return [Finding("tilesim", "good", f"{len(MACHINES)} machines, simulated")]
