"""Kernels that say something about themselves, for sessions on the simulated GPU."""

import triton
import triton.language as tl
import triton.profiler.language as pl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

import tileprobe.language as tp


@triton.jit
def helper(n):
    tp.value("twice", n * 2)


@triton.jit
def talking(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros([BM, BN], tl.float32)
    tp.mark("begun")
    for step in range(0, k, BK):
        left = tl.load(a + rows[:, None] * k + step + inner[None, :])
        right = tl.load(b + (step + inner[:, None]) * BN + columns[None, :])
        total = tl.dot(left, right, total)
        tp.value("step", step)
        helper(step)
    with tp.scope("ending"):
        tp.value("half", k * 0.5)
        tl.store(c + rows[:, None] * BN + columns[None, :], total.to(tl.float16))


@triton.jit
def proton_scoped(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pl.enter_scope("fetch")
    held = tl.load(x + i)
    pl.exit_scope("fetch")
    with pl.scope("put"):
        tl.store(out + i, held * 2.0)


@gluon.jit
def gluon_scan(x, out, count, N: gl.constexpr, LAYOUT: gl.constexpr):
    i = gl.arange(0, N, layout=LAYOUT)
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[0])
    buffer = gl.allocate_shared_memory(gl.float32, [N], shared)
    total = gl.full([N], 0.0, gl.float32, LAYOUT)
    for step in range(count):
        tp.value("step", step)
        pl.enter_scope("turn")
        buffer.store(gl.load(x + step * N + i))
        total += buffer.load(LAYOUT)
        pl.exit_scope("turn")
    gl.store(out + i, total)


@gluon.jit
def _consume(buffer, out, ready, N: gl.constexpr, LAYOUT: gl.constexpr):
    mbarrier.wait(ready, 0)
    gl.store(out + gl.arange(0, N, layout=LAYOUT), buffer.load(LAYOUT))


@gluon.jit
def _produce(buffer, x, ready, N: gl.constexpr, LAYOUT: gl.constexpr):
    buffer.store(gl.load(x + gl.arange(0, N, layout=LAYOUT)))
    mbarrier.arrive(ready, count=1)


@gluon.jit
def gluon_hand_off(x, out, N: gl.constexpr, LAYOUT: gl.constexpr, ONE_WARP: gl.constexpr):
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[0])
    buffer = gl.allocate_shared_memory(gl.float32, [N], shared)
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    gl.warp_specialize(
        [(_consume, (buffer, out, ready, N, LAYOUT)), (_produce, (buffer, x, ready, N, ONE_WARP))], [1], [24]
    )
    mbarrier.invalidate(ready)


@gluon.jit
def _consume_rows(buffer, out, ready, tile, rows, N: gl.constexpr, LAYOUT: gl.constexpr):
    for row in range(rows):
        mbarrier.wait(ready.index(row), tile & 1)
        gl.store(
            out + (tile * rows + row) * N + gl.arange(0, N, layout=LAYOUT), buffer.index(row).load(LAYOUT)
        )


@gluon.jit
def _produce_rows(buffer, x, ready, tile, rows, N: gl.constexpr, LAYOUT: gl.constexpr):
    for row in range(rows):
        buffer.index(row).store(gl.load(x + (tile * rows + row) * N + gl.arange(0, N, layout=LAYOUT)))
        mbarrier.arrive(ready.index(row), count=1)


@gluon.jit
def gluon_hand_offs(x, out, tiles, rows, N: gl.constexpr, LAYOUT: gl.constexpr, ONE_WARP: gl.constexpr):
    """Partitions are started anew for every tile."""
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[0])
    buffer = gl.allocate_shared_memory(gl.float32, [4, N], shared)
    ready = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for row in gl.static_range(4):
        mbarrier.init(ready.index(row), count=1)
    for tile in range(tiles):
        gl.warp_specialize(
            [
                (_consume_rows, (buffer, out, ready, tile, rows, N, LAYOUT)),
                (_produce_rows, (buffer, x, ready, tile, rows, N, ONE_WARP)),
            ],
            [1],
            [64],
        )


@gluon.jit
def gluon_copied_until(x, out, count, LAYOUT: gl.constexpr):
    """A copy before a `while` loop, and one in each of its iterations but the last."""
    i = gl.arange(0, 128, layout=LAYOUT)
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[0])
    buffers = gl.allocate_shared_memory(gl.float32, [2, 128], shared)
    async_copy.async_load(buffers.index(0), x + i)
    async_copy.commit_group()
    total = gl.full([128], 0.0, gl.float32, LAYOUT)
    step = 0
    while step < count:
        if step + 1 < count:
            async_copy.async_load(buffers.index((step + 1) % 2), x + (step + 1) * 128 + i)
        async_copy.commit_group()
        async_copy.wait_group(1)
        total += buffers.index(step % 2).load(LAYOUT)
        step += 1
    gl.store(out + i, total)


def blocked(warps):
    return gl.BlockedLayout([1], [32], [warps], [0])
