"""Small Triton kernels for the tests of launching, hooks and caches."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    a = tl.load(x + offsets, mask=inside)
    b = tl.load(y + offsets, mask=inside)
    tl.store(out + offsets, a + b, mask=inside)


@triton.jit
def scalars(
    out_i, out_f, a, b, flag, c: tl.int64, d: tl.float64, e: tl.float16, f: tl.bfloat16, g: tl.uint64
):
    tl.store(out_i + 0, a)
    tl.store(out_i + 1, flag.to(tl.int64))
    tl.store(out_i + 2, c)
    tl.store(out_i + 3, g.to(tl.int64))
    tl.store(out_f + 0, b.to(tl.float64))
    tl.store(out_f + 1, d)
    tl.store(out_f + 2, e.to(tl.float64))
    tl.store(out_f + 3, f.to(tl.float64))


@triton.jit
def tuples(pairs, out, rest):
    tl.store(out + 0, tl.load(pairs[0][0]) * pairs[0][1])
    tl.store(out + 1, tl.load(pairs[1][0]) * pairs[1][1])
    if rest is not None:
        tl.store(out + 2, rest)


@triton.jit
def descriptor_copy(source, target, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    target.store([i, j], source.load([i, j]) + 1)


@triton.jit
def program_ids(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    tl.store(out + x + nx * (y + ny * z), x + 100 * y + 10000 * z)


@triton.jit
def checked(x, limit, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    tl.device_assert(values < limit, "value above the limit")
    tl.store(x + offsets, values + 1)


@triton.jit
def printing(x):
    tl.device_print("value", tl.load(x + tl.program_id(0)))


@triton.jit
def shifted(x, out, shift, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets + shift)
    tl.store(out + offsets, values)


@triton.jit
def empty():
    pass
