"""A place that was right inside of a loop is not taken for right behind it, in a branch or in the next loop."""

import numpy as np
import pytest
import triton
import triton.language as tl
from right_harness import ALL_WIDTHS, run


def numbers(*shape, seed=1, high=9, dtype=np.float32):
    return np.random.default_rng(seed).integers(-high, high, shape).astype(dtype)


def rotation(n, seed=0):
    """A matrix whose powers stay small and exact: a permutation with signs."""
    rng = np.random.default_rng(seed)
    return (np.eye(n)[rng.permutation(n)] * rng.choice([-1, 1], n)).astype(np.float32)


# -- a place that was right for the loop and is not behind it --------------------------------------------------


@triton.jit
def zero_trips_kernel(X, OUT, SUMS, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    total = x * 2
    for _ in range(n):
        total = tl.cumsum(total, 0)
    sums = tl.cumsum(x, 0)
    tl.store(SUMS + i, sums)
    tl.store(OUT + i, total)


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("n", [0, 2])
def test_scan_behind_a_loop(machine, n):
    x = numbers(64)
    want = x * 2
    for _ in range(n):
        want = np.cumsum(want)
    got = run(zero_trips_kernel, x, np.zeros_like(x), np.zeros_like(x), n, N=64, machine=machine)
    assert (got[1] == want).all()
    assert (got[2] == np.cumsum(x)).all()


@triton.jit
def same_expression_kernel(X, OUT, n, FORM: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    first = tl.exp2(x)
    value = x
    for k in range(n):
        if FORM == "outside":
            value = first
        elif FORM == "step":
            value = tl.exp2(value * 0 + x)
        else:
            value = tl.cumsum(x + k, 0)
    last = tl.cumsum(first, 0)
    tl.store(OUT + i, value)
    tl.store(OUT + N + i, first)
    tl.store(OUT + 2 * N + i, last)


@pytest.mark.parametrize("form", ["outside", "step", "scan"])
@pytest.mark.parametrize("n", [0, 2, 3])
def test_value_defined_outside_and_yielded(form, n):
    x = numbers(64, high=4)
    first, value = np.exp2(x), x
    for k in range(n):
        value = first if form != "scan" else np.cumsum(x + k)
    got = run(same_expression_kernel, x, np.zeros((3, 64), np.float32), n, FORM=form, N=64)[1]
    assert (got[:2] == [value, first]).all()
    np.testing.assert_allclose(got[2], np.cumsum(first), rtol=1e-6)


@triton.jit
def yielded_outer_kernel(X, OUT, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    early = tl.cumsum(x, 0)
    kept = x
    both = x
    for _ in range(n):
        kept = early
        both = both + early
    late = tl.cumsum(x * 3, 0)
    tl.store(OUT + i, late)
    tl.store(OUT + N + i, kept)
    tl.store(OUT + 2 * N + i, both)
    tl.store(OUT + 3 * N + i, early)


@pytest.mark.parametrize("n", [0, 2, 3])
@pytest.mark.parametrize("size", [8, 64])
def test_tile_of_outside_becomes_a_carried_one(n, size):
    x = numbers(size)
    early = np.cumsum(x)
    want = [np.cumsum(x * 3), early if n else x, x + n * early, early]
    got = run(yielded_outer_kernel, x, np.zeros((4, size), np.float32), n, N=size)[1]
    assert (got == want).all()


@triton.jit
def branch_kernel(X, OUT, flag, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    x = tl.load(X + where)
    for k in range(steps):
        if (k + flag) % 2 == 0:
            x = x + tl.trans(x)
        else:
            x = tl.flip(x, 1)
    tl.store(OUT + where, x)


@pytest.mark.parametrize("flag", [2, 3])
@pytest.mark.parametrize("steps", [0, 3, 4])
def test_branches_permute_a_carried_tile(flag, steps):
    x = numbers(16, 16)
    got = run(branch_kernel, x, np.zeros_like(x), flag, steps, N=16)[1]
    for k in range(steps):
        x = x + x.T if (k + flag) % 2 == 0 else x[:, ::-1]
    assert (got == x).all()


@triton.jit
def old_value_kernel(X, OUT, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    y = tl.zeros([N], tl.float32)
    for _ in range(steps):
        new = tl.cumsum(x, 0)
        y += x - tl.flip(new)
        x = new
    tl.store(OUT + i, x)
    tl.store(OUT + N + i, y)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_old_value_used_behind_the_new_one(steps):
    x, y = numbers(32), np.zeros(32, np.float32)
    got = run(old_value_kernel, x, np.zeros((2, 32), np.float32), steps, N=32)[1]
    for _ in range(steps):
        new = np.cumsum(x)
        x, y = new, y + x - new[::-1]
    assert (got == [x, y]).all()


@triton.jit
def nested_kernel(A, X, OUT, outer, inner, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    a, x = tl.load(A + where), tl.load(X + where)
    total = tl.zeros([N, N], tl.float32)
    for _ in range(outer):
        y = x
        for _ in range(inner):
            y = tl.dot(a, y)
        total += y
        x = tl.trans(y)
    tl.store(OUT + where, x)
    tl.store(OUT + N * N + where, total)


@pytest.mark.parametrize("outer", [0, 2])
@pytest.mark.parametrize("inner", [0, 2, 3])
def test_carried_through_two_loops(outer, inner):
    n = 32
    a, x, total = rotation(n), numbers(n, n), np.zeros((n, n), np.float32)
    got = run(nested_kernel, a, x, np.zeros((2, n, n), np.float32), outer, inner, N=n)[2]
    for _ in range(outer):
        y = x
        for _ in range(inner):
            y = a @ y
        total, x = total + y, y.T
    assert (got == [x, total]).all()


@triton.jit
def cheap_outer_kernel(X, OUT, n, s, FORM: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    if FORM == "index":
        cheap = i
    elif FORM == "float":
        cheap = i.to(tl.float32)
    elif FORM == "constant":
        cheap = tl.full([N], 5, tl.float32)
    else:
        cheap = tl.zeros([N], tl.float32) + s
    kept = x.to(cheap.dtype)
    for _ in range(n):
        kept = cheap
    # The yielded tile gets a buffer of its own only here, behind the loop.
    tl.store(OUT + i, tl.cumsum(cheap, 0))
    tl.store(OUT + N + i, kept)


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("n", [0, 2])
@pytest.mark.parametrize("form", ["index", "float", "constant", "splat"])
def test_yielded_tile_gets_a_place_behind_the_loop(machine, n, form):
    x = numbers(64)
    i = np.arange(64)
    cheap = {"index": i, "float": i, "constant": i * 0 + 5, "splat": i * 0 + 3}[form]
    got = run(cheap_outer_kernel, x, np.zeros((2, 64), np.float32), n, 3, FORM=form, N=64, machine=machine)[1]
    assert (got == [np.cumsum(cheap), cheap if n else x]).all()


@triton.jit
def second_loop_kernel(X, OUT, n, m, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    ramp = i.to(tl.float32)
    first = x
    for _ in range(n):
        first = ramp
    second = x + 1
    for _ in range(m):
        second = tl.cumsum(ramp, 0)
    tl.store(OUT + i, first)
    tl.store(OUT + N + i, second)
    tl.store(OUT + 2 * N + i, tl.cumsum(ramp, 0) + first)


@pytest.mark.parametrize("n", [0, 2])
@pytest.mark.parametrize("m", [0, 2])
def test_yielded_tile_of_two_loops(n, m):
    x, ramp = numbers(64), np.arange(64)
    first, second = ramp if n else x, np.cumsum(ramp) if m else x + 1
    got = run(second_loop_kernel, x, np.zeros((3, 64), np.float32), n, m, N=64)[1]
    assert (got == [first, second, np.cumsum(ramp) + first]).all()
