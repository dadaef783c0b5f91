"""Kernels of which a part can be halved: what that brings is predicted by `whatif`, and then it is done.

Each has a loop of `ROUNDS` rounds that begins at a line with the word HALVED and ends before one with DONE: what stands
between is what the prediction is about. All kinds of work take a turn: special functions, divisions, reductions, scans,
gathers, products of tiles, attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton
import triton.language as tl

import tileprobe

SIZE = tl.constexpr(1 << 22)  # numbers: more than any of the kernels reads, so that rounds are alike


@triton.jit
def elementwise(x, out, ROUNDS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)
    for _ in range(ROUNDS):  # HALVED
        a = tl.exp(-a) * 0.5 + a
    b = tl.log(a + 1.0)  # DONE
    tl.store(out + i, a + b)


@triton.jit
def roots(x, out, ROUNDS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)
    for _ in range(ROUNDS):  # HALVED
        a = tl.sqrt(a + 1.0)
    for _ in range(8):  # DONE
        a = tl.exp(-a)
    tl.store(out + i, a)


@triton.jit
def softmax(x, out, ROUNDS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)
    for _ in range(ROUNDS):  # HALVED
        a = tl.exp(a - tl.max(a, 0))
    tl.store(out + i, a / tl.sum(a, 0))  # DONE


@triton.jit
def layer_norm(x, out, ROUNDS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)
    for _ in range(ROUNDS):  # HALVED
        a = a - tl.sum(a, 0) / BLOCK
        a = a / tl.sqrt(tl.sum(a * a, 0) / BLOCK + 1e-5)
    for _ in range(8):  # DONE
        a = tl.sin(a)
    tl.store(out + i, a)


@triton.jit
def reduction(x, out, ROUNDS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)
    total = 0.0
    for _ in range(ROUNDS):  # HALVED
        total = total * 0.5 + tl.sum(a * total, 0)
    for _ in range(8):  # DONE
        a = tl.exp(-a)
    tl.store(out + i, a + total)


@triton.jit
def scan(x, out, ROUNDS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)
    for _ in range(ROUNDS):  # HALVED
        a = tl.cumsum(a, 0) * 0.001
    for _ in range(8):  # DONE
        a = tl.exp(-a)
    tl.store(out + i, a)


@triton.jit
def gather(x, out, ROUNDS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = i
    for _ in range(ROUNDS):  # HALVED
        at = (tl.load(x + at) * SIZE).to(tl.int32)
    a = tl.load(x + i)  # DONE
    for _ in range(16):
        a = tl.exp(-a)
    tl.store(out + i, a + at)


@triton.jit
def integers(x, out, ROUNDS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, h = tl.load(x + i), i
    for _ in range(ROUNDS):  # HALVED
        h = (h ^ (h >> 13)) * 1540483477
    for _ in range(8):  # DONE
        a = tl.exp(-a)
    tl.store(out + i, a + (h & 15))


@triton.jit
def matmul(x, out, ROUNDS, BLOCK: tl.constexpr):
    m, k = tl.arange(0, 64), tl.arange(0, 64)
    c = tl.zeros((64, 64), tl.float32)
    for step in range(ROUNDS):  # HALVED
        a = tl.load(x + m[:, None] * 64 + k[None, :] + step * 8192)
        b = tl.load(x + k[:, None] * 64 + m[None, :] + step * 8192 + 4096)
        c = tl.dot(a.to(tl.float16), b.to(tl.float16), c)
    for _ in range(4):  # DONE
        c = tl.sin(c)
    tl.store(out + tl.program_id(0) * 4096 + m[:, None] * 64 + k[None, :], c)


@triton.jit
def attention(x, out, ROUNDS, BLOCK: tl.constexpr):
    m, k = tl.arange(0, 64), tl.arange(0, 32)
    q = tl.load(x + m[:, None] * 32 + k[None, :]).to(tl.float16)
    top, total = tl.full((64,), -1e9, tl.float32), tl.zeros((64,), tl.float32)
    c = tl.zeros((64, 32), tl.float32)
    for step in range(ROUNDS):  # HALVED
        key = tl.load(x + k[:, None] + m[None, :] * 32 + step * 4096).to(tl.float16)
        p = tl.dot(q, key)
        larger = tl.maximum(top, tl.max(p, 1))
        p = tl.exp(p - larger[:, None])
        less = tl.exp(top - larger)
        total, top = total * less + tl.sum(p, 1), larger
        value = tl.load(x + m[:, None] * 32 + k[None, :] + step * 4096 + 2048).to(tl.float16)
        c = tl.dot(p.to(tl.float16), value, c * less[:, None])
    c = c / total[:, None]  # DONE
    for _ in range(4):
        c = tl.sin(c)
    tl.store(out + tl.program_id(0) * 2048 + m[:, None] * 32 + k[None, :], c)


@dataclass(frozen=True)
class Halved:
    """Rounds on a CPU and on a simulated GPU: so many that the part is neither all of the kernel nor nothing, and that
    what a pipelined loop has in front of it is little. Neither they nor half of them are multiples of 16, which Triton
    makes other code of."""

    kernel: Any
    on_cpu: int
    on_sim: int

    @property
    def name(self) -> str:
        return self.kernel.__name__

    @property
    def lines(self) -> tuple[int, int]:
        """Of the file, the first and the last of what is halved."""
        first, last = (
            next(n for n, text in enumerate(self.kernel.raw_src) if word in text)
            for word in ("# HALVED", "# DONE")
        )
        start = self.kernel.starting_line_number
        return start + first, start + last - 1

    def launch(self, programs: int, block: int, rounds: int) -> Callable[[], Any]:
        values = np.random.default_rng(0).random(SIZE.value, np.float32)
        x, out = tileprobe.array(values), tileprobe.array(np.zeros(programs * max(block, 4096), np.float32))
        return lambda: self.kernel[(programs,)](x, out, BLOCK=block, ROUNDS=rounds)


KERNELS = (
    Halved(elementwise, 8, 8),
    Halved(roots, 24, 24),
    Halved(softmax, 8, 8),
    Halved(layer_norm, 12, 4),
    Halved(reduction, 12, 8),
    Halved(scan, 4, 4),
    Halved(gather, 12, 8),
    Halved(integers, 40, 40),
    Halved(matmul, 24, 24),
    Halved(attention, 8, 8),
)
