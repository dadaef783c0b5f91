"""Kernels whose time is to be told apart by line, and functions that they call."""

import triton
import triton.language as tl
from report_helpers import outside

BLOCK = 4096


@triton.jit
def inside(v, s):
    e = tl.exp(v - s)
    return e / (1.0 + e)


@triton.jit
def chain_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    w = v + 1.0
    z = tl.sin(tl.exp(tl.sin(tl.exp(tl.sin(tl.exp(w))))))
    tl.store(out + at, z)


@triton.jit
def calling_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    for i in range(n):
        v = inside(v, 0.5)
        tl.store(out + at, v)
        v = outside(v) + i
    tl.store(out + at, v)


@triton.jit(noinline=True)
def apart(x, out, at):
    tl.store(out + at, tl.log(tl.load(x + at)))


@triton.jit
def noinline_kernel(x, out, BLOCK: tl.constexpr):
    for i in range(4):
        apart(x, out, i)


@triton.jit
def larger(a, at, b, bt):
    best = a > b
    return tl.where(best, a, b), tl.where(best, at, bt)


@triton.jit
def combining_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    most, where = tl.reduce((tl.load(x + at), at), 0, larger)
    tl.store(out + at, most + where + at)


@triton.jit
def small_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * 64 + tl.arange(0, 64)
    v = tl.load(x + at)
    for _ in range(n):
        v = tl.sin(v)
    tl.store(out + at, v)


@triton.jit
def rows_kernel(x, out, BLOCK: tl.constexpr):
    """The sine is of a row's first element: once a row. The addition is of all elements."""
    row = tl.arange(0, 16)
    column = tl.arange(0, BLOCK // 16)
    at = row[:, None] * (BLOCK // 16) + column[None, :]
    first = tl.load(x + row)
    s = tl.sin(first)
    v = tl.load(x + at)
    tl.store(out + at, v + s[:, None])
