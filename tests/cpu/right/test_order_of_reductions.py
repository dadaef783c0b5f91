"""Reductions with a combine function that is associative but does not commute: elements keep their order."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_harness import Buffer, kernel, launch

SOURCE = '''
@triton.jit
def last(a, b):
    return b


@triton.jit
def compose(a1, b1, a2, b2):
    """x -> a * x + b, one after the other."""
    return a1 * a2, a2 * b1 + b2


@triton.jit
def kernel(X, Y, LAST, A, B, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(X + i[:, None] * N + j[None, :])
    y = tl.load(Y + i[:, None] * N + j[None, :])
    k = j if AXIS == 0 else i
    tl.store(LAST + k, tl.reduce(x, AXIS, last))
    a, b = tl.reduce((x, y), AXIS, compose)
    tl.store(A + k, a)
    tl.store(B + k, b)
'''


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(4, 128), (128, 4), (16, 16), (1, 64), (8, 2)])
@pytest.mark.parametrize("dtype", ["int32", "int16", "int64"])
def test_order(shape, axis, dtype):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-3, 4, shape).astype(dtype) for _ in range(2))
    length = shape[1 - axis]
    found = [Buffer.full((length,), dtype) for _ in range(3)]
    launch(kernel(SOURCE), 1, Buffer(x, dtype), Buffer(y, dtype), *found, M=shape[0], N=shape[1], AXIS=axis)
    rows_x, rows_y = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
    a, b = rows_x[0], rows_y[0]
    with np.errstate(over="ignore"):
        for next_a, next_b in zip(rows_x[1:], rows_y[1:]):
            a, b = a * next_a, next_a * b + next_b
    for got, want in zip(found, (rows_x[-1], a, b)):
        np.testing.assert_array_equal(got.values, want)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("left", [True, False])
def test_which_of_equal_elements(name, left):
    """Many ties: with `tie_break_left` the first one counts, however lanes are folded."""
    x = np.random.default_rng(5).integers(0, 3, (8, 256)).astype(np.float32)
    found = Buffer.full((8,), "int32")
    source = f"""
@triton.jit
def kernel(X, O):
    i, j = tl.arange(0, 8), tl.arange(0, 256)
    x = tl.load(X + i[:, None] * 256 + j[None, :])
    tl.store(O + i, tl.{name}(x, 1, tie_break_left={left}))
"""
    launch(kernel(source), 1, Buffer(x, "float32"), found)
    got = found.values
    if left:
        np.testing.assert_array_equal(got, getattr(np, name)(x, axis=1))
    np.testing.assert_array_equal(x[np.arange(8), got], x.max(1) if name == "argmax" else x.min(1))


def test_chosen_by_a_truth_value():
    """Two flagged elements: the right one counts. Whoever tries orders has to try that case, too."""
    source = """
@triton.jit
def last_flagged(fa, xa, fb, xb):
    return fa | fb, tl.where(fb, xb, tl.where(fa, xa, tl.where(xa > xb, xa, xb)))


@triton.jit
def kernel(F, X, O):
    i = tl.arange(0, 64)
    f, x = tl.reduce((tl.load(F + i) != 0, tl.load(X + i)), 0, last_flagged)
    tl.store(O, x)
"""
    flags = np.zeros(64, np.int32)
    flags[[3, 34]] = 1
    found = Buffer.full((1,), "float32")
    launch(kernel(source), 1, Buffer(flags, "int32"), Buffer(np.arange(64), "float32"), found)
    assert found.values[0] == 34


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("kept", ["a1 + a2, b1", "a1 + a2, b2", "a1, b1 + b2", "a2, b1 * b2"])
def test_pairs_of_which_one_is_summed(dtype, kept):
    """Sums of small floats are carried in f32; a pair is no such sum."""
    source = f"""
@triton.jit
def combine(a1, b1, a2, b2):
    return {kept}


@triton.jit
def kernel(X, Y, A, B, SUMS, ENDS):
    i = tl.arange(0, 32)
    x, y = tl.load(X + i), tl.load(Y + i)
    a, b = tl.associative_scan((x, y), 0, combine)
    tl.store(A + i, a)
    tl.store(B + i, b)
    a, b = tl.reduce((x, y), 0, combine)
    tl.store(SUMS, a)
    tl.store(ENDS, b)
"""
    x = np.random.default_rng(2).integers(-2, 3, 32).astype(np.float64)
    y = np.random.default_rng(4).choice([-1.0, 1.0], 32)
    found = [Buffer.full((n,), dtype) for n in (32, 32, 1, 1)]
    launch(kernel(source), 1, Buffer(x, dtype), Buffer(y, dtype), *found)
    want = [(x[0], y[0])]
    for a2, b2 in zip(x[1:], y[1:]):
        a1, b1 = want[-1]
        want.append(eval(kept, {}, {"a1": a1, "b1": b1, "a2": a2, "b2": b2}))
    a, b = np.array(want).T
    for got, expected in zip(found, (a, b, a[-1:], b[-1:])):
        np.testing.assert_array_equal(got.values, expected)
