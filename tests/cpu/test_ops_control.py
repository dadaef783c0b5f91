"""Control flow and functions: loops, branches with values, early return, noinline, tuples, constexprs."""

from typing import NamedTuple

import numpy as np
import pytest
import triton
import triton.language as tl
from cpu_harness import INTERPRETED, Buffer, launch


@triton.jit
def loops_kernel(OUT, n, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.int32)
    for k in range(n):
        total += i * k
    for k in range(n, 0, -2):
        total += k
    for k in tl.range(2, n, 3, num_stages=3):
        total -= k
    for k in tl.static_range(4):
        total += k * k
    tl.store(OUT + i, total)
    count = n
    steps = 0
    while count != 1:
        if count % 2 == 0:
            count = count // 2
        else:
            count = 3 * count + 1
        steps += 1
    tl.store(OUT + N, steps)
    for _ in range(0):
        tl.store(OUT + N, 0)


@pytest.mark.parametrize("n", [1, 7, 27])
def test_loops(n):
    out = Buffer.full(17, "int32")
    launch(loops_kernel, 1, out, n, N=16)
    want = np.arange(16) * sum(range(n)) + sum(range(n, 0, -2)) - sum(range(2, n, 3)) + 14
    steps, count = 0, n
    while count != 1:
        count = count // 2 if count % 2 == 0 else 3 * count + 1
        steps += 1
    assert (out.values == [*want, steps]).all()


@triton.jit
def nested_kernel(X, OUT, n, m, N: tl.constexpr):
    i = tl.arange(0, N)
    best = tl.full((N,), -1, tl.int32)
    seen = 0
    for a in range(n):
        x = tl.load(X + a * N + i)
        for b in range(a, m):
            if (a + b) % 3 == 0:
                best = tl.maximum(best, x + b)
                seen += 1
            elif b > 5:
                best = best - 1
    tl.store(OUT + i, best)
    tl.store(OUT + N, seen)


def test_nested_loops_with_branches():
    n, m, size = 5, 8, 32
    x = np.random.default_rng(0).integers(0, 50, (n, size))
    best, seen = np.full(size, -1), 0
    for a in range(n):
        for b in range(a, m):
            if (a + b) % 3 == 0:
                best, seen = np.maximum(best, x[a] + b), seen + 1
            elif b > 5:
                best = best - 1
    out = Buffer.full(size + 1, "int32")
    launch(nested_kernel, 1, Buffer(x, "int32"), out, n, m, N=size)
    assert (out.values == [*best, seen]).all()


@triton.jit
def branch_kernel(X, OUT, n, FLAG: tl.constexpr, N: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, N)
    x = tl.load(X + i)
    if p == 0:
        y = x + 1
        s = 10
    elif p == 1 and n > 3:
        y = x * 2
        s = 20
    else:
        y = -x
        s = 30 if n > 100 else 40
    if FLAG:
        y += 100
    tl.store(OUT + p * (N + 1) + i, y)
    tl.store(OUT + p * (N + 1) + N, s)


@pytest.mark.parametrize("flag", [True, False])
def test_branches_with_values(flag):
    x = np.arange(8)
    out = Buffer.full((3, 9), "int32")
    launch(branch_kernel, 3, Buffer(x, "int32"), out, 5, FLAG=flag, N=8)
    extra = 100 * flag
    assert (out.values == [[*(x + 1 + extra), 10], [*(x * 2 + extra), 20], [*(-x + extra), 40]]).all()


@triton.jit
def return_kernel(X, OUT, n, N: tl.constexpr):
    p = tl.program_id(0)
    if p * N >= n:
        return
    i = p * N + tl.arange(0, N)
    x = tl.load(X + i, mask=i < n)
    if tl.sum(x, axis=0) < 0:
        tl.store(OUT + i, x * 0 - 1, mask=i < n)
        return
    tl.store(OUT + i, x, mask=i < n)


def test_early_return():
    x = np.arange(40) - 16 * (np.arange(40) < 8) - 5
    out = Buffer(np.zeros(64), "int32")
    launch(return_kernel, 8, Buffer(x, "int32"), out, 37, N=8)
    want = np.zeros(64)
    for start in range(0, 37, 8):
        part = x[start : min(start + 8, 37)]
        # Lanes behind the mask hold anything: the last block's sum is positive either way here.
        want[start : start + len(part)] = -1 if part.sum() < 0 else part
    assert (out.values == want).all()


@triton.jit(noinline=True)
def apart(x, y, ptr):
    tl.store(ptr, 7)
    return x * y + 1, x - y  # Triton passes nothing but scalars to such a function


@triton.jit(noinline=True)
def apart_scalar(n):
    if n > 10:
        return n * 2
    return n + 1


@triton.jit
def divide(a, b):
    return a // b, a % b


@triton.jit
def calls_kernel(X, OUT, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    y, z = apart(n, n + 1, OUT + 4 * N)
    tl.store(OUT + i, y + x)
    tl.store(OUT + N + i, z + x)
    q, r = divide(x, 3)
    tl.store(OUT + 2 * N + i, q * 100 + r)
    tl.store(OUT + 3 * N + i, apart_scalar(n) + apart_scalar(n + 100) + i)


def test_functions():
    x = np.arange(16)
    out = Buffer.full(65, "int32")
    launch(calls_kernel, 1, Buffer(x, "int32"), out, 4, N=16)
    want = [*(21 + x), *(x - 1), *(x // 3 * 100 + x % 3), *(5 + 208 + x), 7]
    assert (out.values == want).all()


class Pair(NamedTuple):
    first: object
    second: object


@triton.jit
def swap(pair):
    return Pair(pair.second, pair.first)


@triton.jit
def tuples_kernel(inputs, OUT, SIZES: tl.constexpr):
    N: tl.constexpr = SIZES[0]
    i = tl.arange(0, N)
    values = (tl.load(inputs[0] + i), tl.load(inputs[1] + i), inputs[2])
    total = values[0] * 0
    for k in tl.static_range(len(values)):
        total += values[k] * (k + 1)
    tl.store(OUT + i, total)
    swapped = swap(Pair(values[0], values[1]))
    tl.store(OUT + N + i, swapped.first - swapped.second)


@pytest.mark.skipif(INTERPRETED, reason="the harness turns buffers into tensors at the top level only")
def test_tuples():
    x, y = Buffer(np.arange(8), "int32"), Buffer(np.arange(8) * 10, "int32")
    out = Buffer.full((2, 8), "int32")
    launch(tuples_kernel, 1, (x, y, 5), out, SIZES=(8, 3))
    i = np.arange(8)
    assert (out.values == [i + 20 * i + 15, 9 * i]).all()


FACTOR = tl.constexpr(3)


@triton.jit
def constexpr_kernel(OUT, KIND: tl.constexpr, NAME: tl.constexpr, F: tl.constexpr, N: tl.constexpr = 8):
    i = tl.arange(0, N)
    size: tl.constexpr = N * FACTOR if NAME == "big" else N
    tl.static_assert(size % N == 0)
    value = tl.full((N,), size, KIND) + i.to(KIND)
    tl.store(OUT + i, F(value))


@triton.jit
def twice(x):
    return x + x


def test_constexprs_of_all_sorts():
    out = Buffer.full(8, "float32")
    launch(constexpr_kernel, 1, out, KIND=tl.float32, NAME="big", F=twice)
    assert (out.values == 2 * (24 + np.arange(8))).all()


@triton.jit
def grid_kernel(OUT):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny, nz = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    tl.store(OUT + (z * ny + y) * nx + x, x + 10 * y + 100 * z + 1000 * nx + 10000 * ny + 100000 * nz)


def test_three_dimensional_grid():
    out = Buffer.full((3, 4, 5), "int32")
    launch(grid_kernel, (5, 4, 3), out)
    z, y, x = np.ogrid[:3, :4, :5]
    assert (out.values == x + 10 * y + 100 * z + 345000).all()


@triton.jit
def scalars_kernel(OUT, a, b, c, d, e, f):
    tl.store(OUT, a.to(tl.float64))
    tl.store(OUT + 1, b.to(tl.float64))
    tl.store(OUT + 2, c.to(tl.float64))
    tl.store(OUT + 3, d.to(tl.float64))
    tl.store(OUT + 4, tl.where(e, 1.0, 2.0).to(tl.float64))
    tl.store(OUT + 5, f.to(tl.float64))


def test_scalar_arguments():
    out = Buffer.full(6, "float64")
    launch(scalars_kernel, 1, out, -7, 2**40 + 1, 2**63 + 2**20, 0.25, True, 2**31 + 5)
    assert (out.values == [-7, 2**40 + 1, 2**63 + 2**20, 0.25, 1, 2**31 + 5]).all()
    launch(scalars_kernel, 1, out, 2, 16, 2**33, -1e30, False, 0)
    assert np.allclose(out.values, [2, 16, 2**33, -1e30, 2, 0], rtol=1e-7)
