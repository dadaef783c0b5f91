"""Simulated GPUs from Python: run a kernel and get what it took.

>>> result = tileprobe.sim.run(kernel, (64,), x, out, n, on="sim:h100", BLOCK=1024)
>>> result.cycles, result.conflicts, result.occupancy
>>> with tileprobe.sim.measure("sim:a100") as launches:
...     softmax(x)  # whatever launches kernels
>>> saxpy = tileprobe.sim.load("saxpy.cubin", timed=True)  # a kernel that Triton did not make
>>> saxpy[64, 128](n, 2.0, x, y).cycles
"""

from __future__ import annotations

from tileprobe.sim.cubins import Kernel, load
from tileprobe.sim.results import Result
from tileprobe.sim.running import measure, run

__all__ = ["Kernel", "Result", "load", "measure", "run"]
