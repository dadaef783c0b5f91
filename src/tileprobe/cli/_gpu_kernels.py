"""The kernels that `tileprobe doctor --gpu` runs: a loop of arithmetic, and a pipelined product. In a module of its
own, since importing it imports Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def steps(x, out, count, BLOCK: tl.constexpr):
    """As many iterations as it is told, each with a load, arithmetic and a store."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(count):
        total = tl.exp2(total * -0.5) + tl.load(x + i)
        tl.store(out + i, total + step)


@triton.jit
def product(a, b, c, k, N: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of a times columns of b, both with k columns; copies ahead of their use where the machine has them."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns, inner = tl.arange(0, N), tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK, N], tl.float32)
    for step in range(0, k, BLOCK):
        left = tl.load(a + rows[:, None] * k + step + inner[None, :])
        right = tl.load(b + columns[None, :] * k + step + inner[:, None])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total)
