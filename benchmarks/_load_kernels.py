"""Kernels on which nothing of the session was tuned: a scan, atomics, a backward pass, int8, `while`, a tiny one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl
from examples.kernels import _tensors as T
from examples.kernels import attention

import tileprobe


@triton.jit
def scan_kernel(x, out, n, BLOCK: tl.constexpr):
    """A running sum along each row, a block at a time."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = 0.0
    for start in range(0, n, BLOCK):
        v = tl.load(x + row * n + start + at)
        tl.store(out + row * n + start + at, tl.cumsum(v, 0) + total)
        total += tl.sum(v, 0)


@triton.jit
def histogram_kernel(x, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bucket = (tl.load(x + at) * 64).to(tl.int32) & 255
    tl.atomic_add(counts + bucket, 1)


@triton.jit
def int8_kernel(a, b, c, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.int32)
    for k in range(0, K, BLOCK):
        inner = k + tl.arange(0, BLOCK)
        left = tl.load(a + rows[:, None] * K + inner[None, :])
        right = tl.load(b + inner[:, None] * K + cols[None, :])
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * K + cols[None, :], total)


@triton.jit
def newton_kernel(x, out, BLOCK: tl.constexpr):
    """Square roots by Newton's rule, until a block of them no longer changes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    guess = v * 0.5 + 0.5
    error = 1.0
    while error > 1e-4:
        better = 0.5 * (guess + v / guess)
        error = tl.max(tl.abs(better - guess), 0)
        guess = better
    tl.store(out + at, tl.exp(guess * -0.1))


@triton.jit
def tiny_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(out + at, tl.exp(v) / (1.0 + tl.sum(v * v, 0)))


def works() -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(0)
    rows, rows_out = T.normal(512, 2048), T.normal(512, 2048)
    values = tileprobe.array(rng.random(1 << 20, np.float32))
    counts = tileprobe.array(np.zeros(256, np.int32))
    left, right = (tileprobe.array(rng.integers(-8, 8, (512, 512)).astype(np.int8)) for _ in range(2))
    product = tileprobe.array(np.zeros((512, 512), np.int32))
    many, many_out = (tileprobe.array(rng.random(1 << 18, np.float32) + n) for n in (0.5, 0.0))
    few, few_out = T.normal(4, 1024), T.normal(4, 1024)
    q, k, v, o, dout = (T.normal(1, 512, 64, seed=n) for n in range(5))
    lse = T.zeros(1, 512)
    attention.forward(q, k, v, o, lse, block=(64, 64))
    return {
        "scan": lambda: scan_kernel[(512,)](rows, rows_out, 2048, BLOCK=512),
        "histogram": lambda: histogram_kernel[(256,)](values, counts, 1 << 20, BLOCK=4096),
        "attention backward": lambda: attention.backward(dout, q, k, v, o, lse, block=(64, 64)),
        "int8 matmul": lambda: int8_kernel[(8, 8)](left, right, product, 512, BLOCK=64),
        "while loop": lambda: newton_kernel[(256,)](many, many_out, BLOCK=1024),
        "tiny": lambda: tiny_kernel[(4,)](few, few_out, BLOCK=1024),
    }
