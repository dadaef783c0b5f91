"""More kernels for the tests of GPU probes."""

import triton
import triton.language as tl
from bridge_stages import Case
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy


@triton.jit
def nested_loops(x, out, rows, columns, BLOCK: tl.constexpr):
    """A loop in a loop, and a store in the outer one."""
    i = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        total = tl.zeros([BLOCK], tl.float32)
        for column in range(0, columns, BLOCK):
            total += tl.load(x + row * columns + column + i)
        tl.store(out + row * BLOCK + i, total)


@triton.jit
def tile_by_tile(x, y, out, m, n, k, SPECIALIZE: tl.constexpr):
    """Products of tiles one after another, the inner loop with its copies before it."""
    a = tl.make_tensor_descriptor(x, [m, k], [k, 1], [64, 64])
    b = tl.make_tensor_descriptor(y, [k, n], [n, 1], [64, 64])
    c = tl.make_tensor_descriptor(out, [m, n], [n, 1], [64, 64])
    for tile in range(tl.program_id(0), (m // 64) * (n // 64), tl.num_programs(0)):
        row, column = tile // (n // 64) * 64, tile % (n // 64) * 64
        total = tl.zeros([64, 64], tl.float32)
        for step in tl.range(0, k, 64, warp_specialize=SPECIALIZE, num_stages=3):
            total = tl.dot(a.load([row, step]), b.load([step, column]), total)
        c.store([row, column], total.to(tl.float16))


@gluon.jit
def _copy(buffers, other, x, y, at, count):
    """Row `at` of both, as one group."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.arange(0, 512, layout=layout)
    there = (i >= 0) & (at < count)
    async_copy.async_load(buffers.index(at % 3), x + at * 512 + i, mask=there)
    async_copy.async_load(other.index(at % 3), y + at * 512 + i, mask=there)
    async_copy.commit_group()


@gluon.jit
def copied_ahead(x, y, out, count):
    """Copies two iterations ahead, awaited by how many groups may be under way."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    buffers = gl.allocate_shared_memory(gl.float32, [3, 512], shared)
    other = gl.allocate_shared_memory(gl.float32, [3, 512], shared)
    for step in gl.static_range(2):
        _copy(buffers, other, x, y, step, count)
    total = gl.zeros([512], gl.float32, layout)
    for step in range(count):
        _copy(buffers, other, x, y, step + 2, count)
        async_copy.wait_group(2)
        gl.barrier()
        total += buffers.index(step % 3).load(layout) * other.index(step % 3).load(layout)
        gl.barrier()
    async_copy.wait_group(0)
    gl.store(out + gl.arange(0, 512, layout=layout), total)


@triton.jit
def two_products(x, y, z, out, k):
    """Two products an iteration, one after the other."""
    i = tl.arange(0, 64)
    at = i[:, None] * 64 + i[None, :]
    total = tl.zeros([64, 64], tl.float32)
    for step in tl.range(k, num_stages=4):
        scores = tl.dot(tl.load(x + at), tl.load(y + step * 4096 + at))
        weights = tl.exp2(scores).to(tl.float16)
        total = tl.dot(weights, tl.load(z + step * 4096 + at), total)
    tl.store(out + at, total)


@triton.jit
def row_of_products(x, y, out, rows, k):
    """A pipelined product in a loop, its operands fetched before they are needed."""
    i = tl.arange(0, 32)
    total = tl.zeros([32, 32], tl.float32)
    for row in range(rows):
        for step in range(0, k, 32):
            left = tl.load(x + row * 32 * k + i[:, None] * k + step + i[None, :])
            total = tl.dot(left, tl.load(y + (step + i[:, None]) * 32 + i[None, :]), total)
    tl.store(out + i[:, None] * 32 + i[None, :], total)


@triton.jit
def left_early(x, y, out, which, size, k):
    """A pipelined product behind two returns, the one by data and with work of its own, the other by size."""
    i = tl.arange(0, 32)
    at = i[:, None] * 32 + i[None, :]
    if tl.load(which + tl.program_id(0)) < 0:
        tl.store(out + at, tl.load(x + at).to(tl.float32))
        return
    if size < 10000:
        return
    total = tl.zeros([32, 32], tl.float32)
    for step in range(0, k, 32):
        left = tl.load(x + i[:, None] * k + step + i[None, :])
        total = tl.dot(left, tl.load(y + (step + i[:, None]) * 32 + i[None, :]), total)
    tl.store(out + at, total)


@triton.jit
def either_way(x, out, n, which, BLOCK: tl.constexpr):
    """A loop in each of two branches."""
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    if which > 0:
        for step in range(n):
            total += tl.load(x + step * BLOCK + i)
    else:
        for step in range(n):
            total += tl.exp(tl.load(x + step * BLOCK + i))
    tl.store(out + i, total)


@triton.jit
def two_turns(x, y, out, k):
    """A loop of two iterations, wherever it begins: AMD's pipelines take both out of it, one to each side."""
    i = tl.arange(0, 32)
    first = tl.program_id(0) * 64
    total = tl.zeros([32, 32], tl.float32)
    for step in range(first, (tl.program_id(0) + 1) * 64, 32):
        left = tl.load(x + i[:, None] * k + step + i[None, :])
        total = tl.dot(left, tl.load(y + (step + i[:, None]) * 32 + i[None, :]), total)
    tl.store(out + i[:, None] * 32 + i[None, :], total)


_TILES = "*fp16 *fp16 *fp16 i32 i32 i32"
CASES = [
    Case(copied_ahead, "*fp32 *fp32 *fp32 i32", targets=("sm80",)),
    Case(two_products, "*fp16 *fp16 *fp16 *fp32 i32", targets=("gfx942",)),
    Case(two_turns, "*fp16 *fp16 *fp32 i32", options={"num_stages": 3}, targets=("gfx942",)),
    Case(nested_loops, "*fp32 *fp32 i32 i32", {"BLOCK": 128}),
    Case(row_of_products, "*fp16 *fp16 *fp32 i32 i32", targets=("sm80", "sm90", "sm100")),
    Case(left_early, "*fp16 *fp16 *fp32 *i32 i32 i32", targets=("sm80", "sm90")),
    Case(either_way, "*fp32 *fp32 i32 i32", {"BLOCK": 128}),
    Case(tile_by_tile, _TILES, {"SPECIALIZE": False}, targets=("sm90", "sm100")),
    Case(tile_by_tile, _TILES, {"SPECIALIZE": True}, targets=("sm90",), label="tile_by_tile_specialised"),
]
