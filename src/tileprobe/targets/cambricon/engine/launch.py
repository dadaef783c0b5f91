"""The door to the engine: a `Program` and a `Machine` in, raw times and counters out.

Numba is imported here and only when something runs. Its cache does not see edits in another file, so
compiled code lives in a folder named after a hash of the engine's sources; the first use says that it
compiles.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.engine.program import Program
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import Geometry

_SOURCES = ("program.py", "state.py", "channel.py", "run.py")


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


def cache_folder() -> Path:
    """Where compiled code of exactly these sources is kept."""
    digest = hashlib.sha256()
    for name in _SOURCES:
        digest.update((Path(__file__).parent / name).read_bytes())
    root = (
        os.environ.get("TILEPROBE_CACHE_DIR")
        or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tileprobe"
    )
    return Path(root) / f"cambricon-{digest.hexdigest()[:16]}"


def _load_engine():
    """Import the compiled functions with Numba's cache pointed at the folder of these sources."""
    from numba.core import config

    if "tileprobe.targets.cambricon.engine.run" not in sys.modules:
        folder = cache_folder()
        before = getattr(config, "CACHE_DIR", "")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            setattr(config, "CACHE_DIR", str(folder))  # noqa: B010
        except OSError:  # a read-only home: Numba falls back to its own choice
            pass
        try:
            from tileprobe.targets.cambricon.engine import run, state
        finally:
            setattr(config, "CACHE_DIR", before)  # noqa: B010
        if not any(folder.glob("**/*.nbi")) and not os.environ.get("NUMBA_DISABLE_JIT"):
            print("compiling the engine, once", file=sys.stderr, flush=True)
    from tileprobe.targets.cambricon.engine import run, state

    return run, state


def launch(
    program: Program,
    machine: Machine,
    geometry: Geometry,
    keep: np.ndarray | None = None,
    trace_capacity: int = 0,
) -> Run:
    """Run every command of the program. `keep` marks the operators whose intervals are traced, up to a
    capacity.
    """
    run, state = _load_engine()
    constants = state.constants_of(machine, geometry, program.sliced)
    count = len(program.operators)
    memory = state.fresh_state(constants, len(program.matrices))
    buffers = state.trace_buffers(max(trace_capacity, 1), np.zeros(count, np.bool_) if keep is None else keep)
    tracing = np.bool_(keep is not None)
    start, done, busy = np.zeros(count), np.zeros(count), np.zeros(3)
    stuck = run.run_operators(
        program.operators, program.costs, program.matrices, program.use_per_page_us,
        constants, memory, start, done, busy, tracing, buffers,
    )  # fmt: skip
    if stuck >= 0:
        raise TileProbeError(
            f"the engine came to a standstill in {program.names[stuck]!r}: please report it with the "
            f"command line"
        )
    return Run(start, done, busy, memory, buffers)
