"""Kernels of which it is known what they do to memory."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@triton.jit
def strided(x, out, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o * STRIDE))


@triton.jit
def half(x, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o < n, other=0.0))


@triton.jit
def every_other(x, out, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o % 2 == 0, other=0.0))


@triton.jit
def gathered(x, where, out, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + tl.load(where + o)))


@triton.jit
def again(x, out, n, step, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(n):
        total += tl.load(x + k * step + o)
    tl.store(out + tl.program_id(0) * BLOCK + o, total)


@triton.jit
def counting(x, BLOCK: tl.constexpr):
    """Changes what it reads: looking twice would be seen."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o) + 1.0)


BY_ROW = gl.BlockedLayout([1, 1], [1, 32], [1, 1], [1, 0])
BY_COLUMN = gl.BlockedLayout([1, 1], [32, 1], [1, 1], [0, 1])


@gluon.jit
def turned(x, out, SHARED: gl.constexpr, IN: gl.constexpr, OUT: gl.constexpr):
    rows = gl.arange(0, 32, layout=gl.SliceLayout(1, IN))
    columns = gl.arange(0, 32, layout=gl.SliceLayout(0, IN))
    buffer = gl.allocate_shared_memory(gl.float32, [32, 32], SHARED)
    buffer.store(gl.load(x + rows[:, None] * 32 + columns[None, :]))
    down = gl.arange(0, 32, layout=gl.SliceLayout(1, OUT))
    along = gl.arange(0, 32, layout=gl.SliceLayout(0, OUT))
    gl.store(out + down[:, None] * 32 + along[None, :], buffer.load(OUT))


@triton.jit
def summed(x, out, count, BLOCK: tl.constexpr):
    """All but the first programs add what is theirs to one number."""
    program = tl.program_id(0)
    if program == 0:
        return
    total = tl.sum(tl.load(x + program * BLOCK + tl.arange(0, BLOCK)))
    tl.atomic_add(out, total)
    tl.atomic_add(count, 1, mask=program == 2)


@triton.jit
def transposed(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None]
    c = (tl.program_id(1) * BN + tl.arange(0, BN))[None, :]
    inside = (r < M) & (c < N)
    tl.store(out + c * M + r, tl.load(x + r * N + c, mask=inside), mask=inside)
