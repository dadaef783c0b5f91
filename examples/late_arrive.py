"""A producer and a consumer that share one buffer, and a barrier that is released later than it could be.

    tileprobe run --target sim:h100 --timed --tool critical-path examples/late_arrive.py
    tileprobe run --target sim:h100 --timed --tool critical-path examples/late_arrive.py early

docs/critical-path.md goes through it.
"""

from __future__ import annotations

import sys

import numpy as np
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

import tileprobe

N, STEPS, ROUNDS = 128, 32, 120


@gluon.jit
def _consume(
    buffer,
    out,
    full,
    empty,
    steps,
    N: gl.constexpr,
    LAYOUT: gl.constexpr,
    ROUNDS: gl.constexpr,
    EARLY: gl.constexpr,
):
    for step in range(steps):
        mbarrier.wait(full, step & 1)
        tile = buffer.load(LAYOUT)
        if EARLY:
            mbarrier.arrive(empty, count=1)
        for _ in gl.static_range(ROUNDS):
            tile = tile * 0.5 + 1.0
        gl.store(out + step * N + gl.arange(0, N, layout=LAYOUT), tile)
        if not EARLY:
            mbarrier.arrive(empty, count=1)


@gluon.jit
def _produce(buffer, x, full, empty, steps, N: gl.constexpr, LAYOUT: gl.constexpr):
    for step in range(steps):
        mbarrier.wait(empty, (step & 1) ^ 1)
        buffer.store(gl.load(x + step * N + gl.arange(0, N, layout=LAYOUT)))
        mbarrier.arrive(full, count=1)


@gluon.jit
def late_arrive(
    x,
    out,
    steps,
    N: gl.constexpr,
    LAYOUT: gl.constexpr,
    MORE: gl.constexpr,
    ROUNDS: gl.constexpr,
    EARLY: gl.constexpr,
):
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[0])
    buffer = gl.allocate_shared_memory(gl.float32, [N], shared)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.init(empty, count=1)
    gl.warp_specialize(
        [
            (_consume, (buffer, out, full, empty, steps, N, LAYOUT, ROUNDS, EARLY)),
            (_produce, (buffer, x, full, empty, steps, N, MORE)),
        ],
        [4],
        [64],
    )
    mbarrier.invalidate(full)
    mbarrier.invalidate(empty)


def launch(early: bool, rounds: int = ROUNDS) -> None:
    """On whatever simulated H100 is in use."""
    x, out = (tileprobe.array(np.ones((STEPS, N), np.float32)) for _ in range(2))
    layout = gl.BlockedLayout([1], [32], [4], [0])
    late_arrive[(1,)](x, out, STEPS, N, layout, layout, rounds, early, num_warps=4)
    value = 1.0
    for _ in range(rounds):
        value = value * 0.5 + 1.0
    np.testing.assert_allclose(out.numpy(), value, rtol=1e-5)


if __name__ == "__main__":
    launch("early" in sys.argv[1:])
