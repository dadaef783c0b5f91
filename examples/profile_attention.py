"""Profiles fused attention from inside a program: where the time of the kernel goes, line by line.

    python examples/profile_attention.py

The same without a line of profiling code: `tileprobe run your_script.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tileprobe
from examples.kernels import _tensors as T
from examples.kernels import attention

HEADS, LENGTH, DIM = 8, 1024, 64
LAUNCHES = 12


def main() -> None:
    tileprobe.use("cpu")
    q, k, v = (T.normal(HEADS, LENGTH, DIM, seed=seed) for seed in range(3))
    out, lse = T.empty_like(q), T.zeros(HEADS, LENGTH)
    with tileprobe.profile("forward_kernel", tools=("regions", "source", "programs")) as session:
        for _ in range(LAUNCHES):
            attention.forward(q, k, v, out, lse, block=(64, 64))
    session.report()


if __name__ == "__main__":
    main()
