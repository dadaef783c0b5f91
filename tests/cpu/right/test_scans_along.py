"""Scans along the innermost axis, a vector of neighbours at a time: order, ends, both directions, every type."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cpu_harness import Buffer, kernel, launch

SOURCE = '''
@triton.jit
def compose(a1, b1, a2, b2):
    """x -> a * x + b, one after the other: associative, and does not commute."""
    return a1 * a2, a2 * b1 + b2


@triton.jit
def kernel(X, Y, A, B, M: tl.constexpr, N: tl.constexpr, REVERSE: tl.constexpr):
    where = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    a, b = tl.associative_scan((tl.load(X + where), tl.load(Y + where)), 1, compose, reverse=REVERSE)
    tl.store(A + where, a)
    tl.store(B + where, b)
'''


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(1, 2), (4, 4), (2, 8), (2, 16), (4, 32), (1, 64), (2, 256)], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "float64"])
def test_order(dtype, shape, reverse):
    rng = np.random.default_rng(5)
    x, y = (rng.integers(-2, 3, shape).astype(dtype) for _ in range(2))
    if dtype == "float64":
        x = np.sign(x) + (x == 0)  # products stay whole numbers
    (m, n) = shape
    found = [Buffer.full(shape, dtype) for _ in range(2)]
    launch(kernel(SOURCE), 1, Buffer(x, dtype), Buffer(y, dtype), *found, M=m, N=n, REVERSE=reverse)
    want_a, want_b = x.copy(), y.copy()
    order = list(range(n))[:: -1 if reverse else 1]
    for before, now in itertools.pairwise(order):
        want_a[:, now] = want_a[:, before] * x[:, now]
        want_b[:, now] = x[:, now] * want_b[:, before] + y[:, now]
    np.testing.assert_array_equal(found[0].values, want_a)
    np.testing.assert_array_equal(found[1].values, want_b)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_sums_of_small_floats_are_rounded_once(dtype, reverse):
    source = """
@triton.jit
def kernel(X, OUT, N: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(OUT + i, tl.cumsum(tl.load(X + i), 0, reverse=REVERSE))
"""
    x = np.full(512, 0.25)
    out = Buffer.full((512,), dtype)
    launch(kernel(source), 1, Buffer(x, dtype), out, N=512, REVERSE=reverse)
    want = np.cumsum(x)[:: -1 if reverse else 1]
    # carried in its own type the sum of bfloat16 would stop at 64
    np.testing.assert_array_equal(out.values, Buffer(want, dtype).values)


def test_a_division_is_not_tried_on_other_elements():
    """By halves 1 // 2 is 0, and 8 // 0 ends the process."""
    source = """
@triton.jit
def divide(a, b):
    return a // b


@triton.jit
def kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(OUT + i, tl.associative_scan(tl.load(X + i), 0, divide))
"""
    x = np.ones(32, np.int32)
    x[0], x[2] = 8, 2
    out = Buffer.full((32,), "int32")
    launch(kernel(source), 1, Buffer(x, "int32"), out, N=32)
    np.testing.assert_array_equal(out.values, [8, 8] + [4] * 30)
