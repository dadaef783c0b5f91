"""Loads and stores keep their order when the pointer is chosen, carried by a loop or loaded from memory."""

import numpy as np
import pytest
import triton
import triton.language as tl
from right_harness import ALL_WIDTHS, run

SIZES = (1, 8, 64, 256)


def numbers(*shape, dtype=np.float32):
    """Without any pattern: an element taken for its neighbour shows."""
    return np.random.default_rng(7).integers(1, 100, shape).astype(dtype)


@triton.jit
def chosen_base_kernel(X, Y, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    if flag > 0:
        base = X
    else:
        base = Y
    x = tl.load(base + i)
    tl.store(X + i + 1, x + 1)


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("flag", [0, 2])
@pytest.mark.parametrize("n", SIZES)
def test_base_pointer_chosen_by_if(machine, flag, n):
    x, y = numbers(n + 1), -numbers(n + 1)
    got = run(chosen_base_kernel, x, y, flag, N=n, machine=machine)[0]
    assert (got[1:] == (x if flag else y)[:n] + 1).all()


@triton.jit
def chosen_by_where_kernel(X, Y, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    base = tl.where(flag > 0, X, Y)
    x = tl.load(base + (N - 1 - i))
    tl.store(X + i, x + 1)


@pytest.mark.parametrize("flag", [0, 2])
@pytest.mark.parametrize("n", SIZES)
def test_base_pointer_chosen_by_where(flag, n):
    x, y = numbers(n), -numbers(n)
    got = run(chosen_by_where_kernel, x, y, flag, N=n)[0]
    assert (got == (x if flag else y)[::-1] + 1).all()


@triton.jit
def carried_base_kernel(X, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    base = X
    for _ in range(steps):
        x = tl.load(X + i)
        tl.store(base + i + 1, x + 1)
        base += 1


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("n", SIZES)
def test_base_pointer_carried_by_a_loop(steps, n):
    x = numbers(n + 5)
    want = x.copy()
    for k in range(steps):
        want[k + 1 : k + 1 + n] = want[:n].copy() + 1
    assert (run(carried_base_kernel, x, steps, N=n)[0] == want).all()


@triton.jit
def swapped_bases_kernel(X, Y, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    p, q = X, Y
    for _ in range(steps):
        x = tl.load(p + i)
        tl.store(q + (N - 1 - i), x + 1)
        p, q = q, p


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_two_bases_that_change_places(steps):
    x, y = numbers(64), numbers(64) + 7
    got = run(swapped_bases_kernel, x, y, steps, N=64)
    p, q = x.copy(), y.copy()
    want = [p, q]
    for _ in range(steps):
        q[:] = (p + 1)[::-1]
        p, q = q, p
    assert (got[0] == want[0]).all()
    assert (got[1] == want[1]).all()


@triton.jit
def pointer_tile_kernel(X, steps, N: tl.constexpr):
    p = X + tl.arange(0, N)
    q = p + 1
    for _ in range(steps):
        tl.store(q, tl.load(p) + 1)
        p, q = p + 1, q + 1


@pytest.mark.parametrize("steps", [1, 3])
def test_carried_tiles_of_pointers(steps):
    x = numbers(72)
    want = x.copy()
    for k in range(steps):
        want[k + 1 : k + 65] = want[k : k + 64].copy() + 1
    assert (run(pointer_tile_kernel, x, steps, N=64)[0] == want).all()


@triton.jit
def through_integer_kernel(X, N: tl.constexpr):
    i = tl.arange(0, N)
    address = X.to(tl.int64) + 4
    base = address.to(tl.pointer_type(tl.float32))
    tl.store(base + i, tl.load(X + i))


@pytest.mark.parametrize("n", SIZES)
def test_base_that_was_an_integer(n):
    x = numbers(n + 1)
    got = run(through_integer_kernel, x, N=n)[0]
    assert (got[1:] == x[:n]).all()


@triton.jit
def loaded_base_kernel(TABLE, X, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(TABLE, X.to(tl.int64))
    base = tl.load(TABLE).to(tl.pointer_type(tl.float32))
    x = tl.load(base + i)
    tl.store(X + (N - 1 - i), x)
    tl.store(base + N + i, x)


@pytest.mark.parametrize("n", [2, 64])
def test_base_loaded_from_memory(n):
    x = numbers(2 * n)
    got = run(loaded_base_kernel, np.zeros(1, np.int64), x, N=n)[1]
    assert (got == np.concatenate([x[:n][::-1], x[:n]])).all()


@triton.jit
def nested_choice_kernel(X, Y, a, b, N: tl.constexpr):
    i = tl.arange(0, N)
    p, q = X, Y
    if a > 0:
        p = Y
    if b > 0:
        q = X
    x = tl.load(p + i)
    tl.store(q + i + 1, x)
    tl.store(q + i + 3, tl.load(p + i))


@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
@pytest.mark.parametrize("n", [8, 64])
def test_both_bases_chosen(a, b, n):
    x, y = numbers(n + 3), numbers(n + 3) * -2
    got = run(nested_choice_kernel, x, y, 2 * a, 2 * b, N=n)
    want = [x.copy(), y.copy()]
    p, q = want[int(a)], want[int(not b)]
    q[1 : n + 1] = p[:n].copy()
    q[3 : n + 3] = p[:n].copy()
    assert (got[0] == want[0]).all()
    assert (got[1] == want[1]).all()
