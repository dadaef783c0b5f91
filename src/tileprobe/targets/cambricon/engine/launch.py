"""The door to the engine: a `Program` and a `Machine` in, raw times and counters out.

Numba is imported when something runs, not before; the first use says that it compiles.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.aging import Wear
from tileprobe.targets.cambricon.engine.program import Program
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import Geometry


@dataclass
class Run:
    """What the engine measured. Times in microseconds; `state` and `trace` are the engine's own buffers."""

    start_us: np.ndarray  # of each operator
    done_us: np.ndarray
    busy_us: np.ndarray  # NPU array, SFU, DRAM
    state: Any
    trace: Any

    @property
    def total_us(self) -> float:
        return float(self.done_us.max())


def _load_engine():
    """Import the engine, and say so when that means compiling it."""
    first = "tileprobe.targets.cambricon.engine.run" not in sys.modules
    from tileprobe.targets.cambricon.engine import run, state
    from tileprobe.targets.jit import is_kept

    if first and not is_kept(run.run_operators) and not os.environ.get("NUMBA_DISABLE_JIT"):
        print("compiling the engine, once", file=sys.stderr, flush=True)
    return run, state


def launch(
    program: Program,
    machine: Machine,
    geometry: Geometry,
    keep: np.ndarray | None = None,
    trace_capacity: int = 0,
    wear: Wear | None = None,
    rewrites: float = 0.0,
) -> Run:
    """Run every command of the program. `keep` marks the operators whose intervals are traced, up to a
    capacity; `wear` is that of a flash that ages, `rewrites` how many a page read stands for.
    """
    run, state = _load_engine()
    constants = state.constants_of(machine, geometry, program.sliced, wear, rewrites)
    count = len(program.operators)
    memory = state.fresh_state(constants, len(program.matrices), wear.fails if wear is not None else None)
    traced = np.zeros(count, np.bool_) if keep is None else keep
    buffers = state.trace_buffers(max(trace_capacity, 1), traced, on=keep is not None)
    tables = state.Tables(
        program.operators, program.costs, program.matrices, program.bodies.compute, program.bodies.requests,
        program.bodies.stream, program.bodies.first, program.bodies.counts, program.use_per_page_us,
        start_us=np.zeros(count), done_us=np.zeros(count), busy_us=np.zeros(3),
    )  # fmt: skip
    stuck = run.run_operators(tables, constants, memory, buffers)
    if stuck >= 0:
        raise TileProbeError(
            f"the engine came to a standstill in {program.names[stuck]!r}: please report it with the "
            f"command line"
        )
    return Run(tables.start_us, tables.done_us, tables.busy_us, memory, buffers)
