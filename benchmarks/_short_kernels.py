"""Kernels whose loops have short iterations, where records weigh most: elementwise, convolution, cross entropy, an MLP,
Collatz's sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl
from examples.kernels import _tensors as T

import tileprobe


@triton.jit
def repeated_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    for _ in range(20):
        v = tl.exp(v) * 0.5
    tl.store(x + at, v, mask=at < n)


@triton.jit
def convolution_kernel(x, w, out, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(TAPS):
        total += tl.load(x + at + k, mask=at + k < n, other=0.0) * tl.load(w + k)
    tl.store(out + at, total, mask=at < n)


@triton.jit
def cross_entropy_kernel(x, labels, out, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    highest, total = -1e30, 0.0
    for start in range(0, classes, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * classes + at, mask=at < classes, other=-1e30)
        higher = tl.maximum(highest, tl.max(v, 0))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(v - higher), 0)
        highest = higher
    label = tl.load(labels + row)
    tl.store(out + row, highest + tl.log(total) - tl.load(x + row * classes + label))


@triton.jit
def mlp_kernel(x, up, down, out, HIDDEN: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    rows, cols = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    a = tl.load(x + rows[:, None] * WIDTH + cols[None, :])
    for start in range(0, HIDDEN, 32):
        mid = start + tl.arange(0, 32)
        u = tl.dot(a, tl.load(up + cols[:, None] * HIDDEN + mid[None, :]))
        total += tl.dot(u * tl.sigmoid(u), tl.load(down + mid[:, None] * WIDTH + cols[None, :]))
    tl.store(out + rows[:, None] * WIDTH + cols[None, :], total)


@triton.jit
def collatz_kernel(numbers, out, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    n = tl.load(numbers + p)
    v = tl.arange(0, BLOCK).to(tl.float32)
    steps = 0
    while n != 1:
        n = tl.where(n % 2 == 0, n // 2, 3 * n + 1)
        v = tl.sin(v) + 0.5
        steps += 1
    tl.store(out + p * BLOCK + tl.arange(0, BLOCK), v + steps)


def works() -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(0)
    x, out, taps = T.normal(1 << 20), T.normal(1 << 20), T.normal(31)
    logits = T.normal(128, 8000)
    labels = tileprobe.array(rng.integers(0, 8000, 128).astype(np.int32))
    up, down, rows, rows_out = T.normal(64, 512), T.normal(512, 64), T.normal(256, 64), T.normal(256, 64)
    numbers = tileprobe.array(rng.integers(2, 500, 64).astype(np.int32))
    return {
        **{
            f"repeated, {block}": lambda block=block: repeated_kernel[(triton.cdiv(9999, block),)](
                x, 9999, BLOCK=block
            )
            for block in (64, 256, 1024)
        },
        "convolution": lambda: convolution_kernel[(64,)](x, taps, out, 1 << 16, TAPS=31, BLOCK=1024),
        "cross entropy": lambda: cross_entropy_kernel[(128,)](logits, labels, out, 8000, BLOCK=1024),
        "MLP": lambda: mlp_kernel[(8,)](rows, up, down, rows_out, HIDDEN=512, WIDTH=64, ROWS=32),
        "Collatz": lambda: collatz_kernel[(64,)](numbers, out, BLOCK=256),
    }
