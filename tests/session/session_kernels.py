"""Small kernels that the tests of sessions launch, and how to launch them."""

import numpy as np
import triton
import triton.language as tl

import tileprobe

BLOCK = 2048


@triton.jit
def scale_kernel(x, out, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * by)


@triton.jit
def loop_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        total += tl.exp(tl.load(x + at) * 0.001) * i
    tl.store(out + at, total)


@triton.jit
def early_kernel(x, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= n:
        return
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * 2)


@triton.jit
def while_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = n + tl.program_id(0)
    while left > 0:
        tl.store(out + at, tl.load(x + at) + left)
        left -= 1


@triton.jit
def stages_kernel(x, out, BLOCK: tl.constexpr):
    """Three stages whose arithmetic can be told apart in machine code: maximum, square root, division."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    top = tl.max(v, axis=0)
    total = tl.sum(tl.sqrt(top - v), axis=0)
    tl.store(out + at, v / total)


@triton.jit
def tiny_kernel(out):
    tl.store(out + tl.program_id(0), tl.program_id(0))


def arrays(programs=4):
    x = np.linspace(0.0, 1.0, max(programs, 1) * BLOCK, dtype=np.float32)
    return tileprobe.array(x), tileprobe.array(np.zeros_like(x))


def launch(kernel, programs, *extra):
    x, out = arrays(programs)
    kernel[(programs,)](x, out, *extra, BLOCK=BLOCK)
    return np.asarray(out.numpy())
