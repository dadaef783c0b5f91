"""Simulated GPUs from Python: run a kernel and get what it took.

>>> result = tileprobe.sim.run(kernel, (64,), x, out, n, on="sim:h100", BLOCK=1024)
>>> result.cycles, result.conflicts, result.occupancy
>>> with tileprobe.sim.measure("sim:a100") as launches:
...     softmax(x)  # whatever launches kernels
"""

from __future__ import annotations

from tileprobe.sim.results import Result
from tileprobe.sim.running import measure, run

__all__ = ["Result", "measure", "run"]
