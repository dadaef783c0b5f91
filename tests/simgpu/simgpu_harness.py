"""What the tests of simulated GPUs share: machines, and kernels run on them with NumPy arrays."""

from __future__ import annotations

import tileprobe

MACHINES = ("sim:a100", "sim:h100")


def array(values, dtype=None):
    return tileprobe.array(values, dtype)
