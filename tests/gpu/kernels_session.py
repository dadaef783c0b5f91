"""Kernels that tests launch on a GPU that only takes launches."""

import triton
import triton.language as tl


@triton.jit
def add(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for k in range(0, n, BLOCK):
        tl.store(out + k + i, tl.load(x + k + i) + 1.0)


@triton.jit
def pairs(pointers, scale, n, BLOCK: tl.constexpr):
    """A tuple among the arguments, a number that is real, one that is compiled in (n = 1)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(pointers[1] + i, tl.load(pointers[0] + i) * scale + n)


@triton.jit
def described(source, target, steps, M: tl.constexpr, N: tl.constexpr):
    """Host-side tensor descriptors."""
    for step in range(steps):
        target.store([step * M, 0], source.load([step * M, 0]))
