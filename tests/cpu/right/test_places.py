"""A buffer is written only when nobody needs what it holds: operands of products, carried tiles, views of them."""

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


# -- a product and its operands ------------------------------------------------------------------------------


@triton.jit
def power_kernel(A, X, OUT, steps, SIDE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    a, x = tl.load(A + where), tl.load(X + where)
    for _ in range(steps):
        if SIDE == "right":
            x = tl.dot(a, x)
        elif SIDE == "left":
            x = tl.dot(x, a)
        else:
            x = tl.dot(x, x)
    tl.store(OUT + where, x)


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("n", [16, 32, 64])
@pytest.mark.parametrize("side", ["left", "right", "both"])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_product_becomes_its_own_operand(machine, n, side, steps):
    a, x = rotation(n), rotation(n, 1) if side == "both" else numbers(n, n)
    want = x
    for _ in range(steps):
        want = {"right": a @ want, "left": want @ a, "both": want @ want}[side]
    got = run(power_kernel, a, x, np.zeros_like(x), steps, SIDE=side, N=n, machine=machine)[2]
    assert (got == want).all()


@triton.jit
def accumulated_kernel(A, X, OUT, steps, FORM: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    a, x = tl.load(A + where), tl.load(X + where)
    for _ in range(steps):
        if FORM == "right":
            x = tl.dot(a, x, x)
        elif FORM == "left":
            x = tl.dot(x, a, x)
        elif FORM == "later":
            y = tl.dot(a, a, x)
            x = tl.dot(a, x, y)
        else:
            y = tl.dot(a, x)
            x = tl.dot(a, y, x)
    tl.store(OUT + where, x)


@pytest.mark.parametrize("n", [16, 32, 64])
@pytest.mark.parametrize("form", ["left", "right", "later", "chain"])
@pytest.mark.parametrize("steps", [1, 3])
def test_accumulator_is_an_operand(n, form, steps):
    a, x = rotation(n), numbers(n, n)
    want = x
    for _ in range(steps):
        want = {
            "right": a @ want + want,
            "left": want @ a + want,
            "later": a @ want + (a @ a + want),
            "chain": a @ (a @ want) + want,
        }[form]
    got = run(accumulated_kernel, a, x, np.zeros_like(x), steps, FORM=form, N=n)[2]
    assert (got == want).all()


@triton.jit
def straight_kernel(A, X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    a, x = tl.load(A + where), tl.load(X + where)
    y = tl.dot(a, x)
    y = tl.dot(a, y, y)
    y = tl.dot(y, y, y)
    tl.store(OUT + where, y)


@pytest.mark.parametrize("n", [16, 32, 64])
def test_accumulator_is_an_operand_without_a_loop(n):
    a, x = rotation(n), numbers(n, n, high=3)
    y = a @ x
    y = a @ y + y
    got = run(straight_kernel, a, x, np.zeros_like(x), N=n)[2]
    assert (got == y @ y + y).all()


@triton.jit
def newton_schulz_kernel(X, OUT, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    x = tl.load(X + where)
    for _ in range(steps):
        square = tl.dot(x, tl.trans(x), input_precision="ieee")
        x = 1.5 * x - 0.5 * tl.dot(square, x, input_precision="ieee")
    tl.store(OUT + where, x)


@pytest.mark.parametrize("n", [16, 32, 64])
@pytest.mark.parametrize("steps", [1, 2, 6])
def test_newton_schulz(n, steps):
    x = np.random.default_rng(n).normal(size=(n, n)).astype(np.float32)
    x /= np.linalg.norm(x)
    want = x.astype(np.float64)
    for _ in range(steps):
        want = 1.5 * want - 0.5 * (want @ want.T @ want)
    got = run(newton_schulz_kernel, x, np.zeros_like(x), steps, N=n)[1]
    np.testing.assert_allclose(got, want, atol=1e-4)


@triton.jit
def two_carried_kernel(A, X, Y, OUT, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    a, x, y = tl.load(A + where), tl.load(X + where), tl.load(Y + where)
    for _ in range(steps):
        x, y = tl.dot(a, y), tl.dot(x, a, y)
    tl.store(OUT + where, x)
    tl.store(OUT + N * N + where, y)


@pytest.mark.parametrize("n", [16, 64])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_two_carried_tiles_and_their_products(n, steps):
    a, x, y = rotation(n), numbers(n, n), numbers(n, n, seed=2)
    got = run(two_carried_kernel, a, x, y, np.zeros((2, n, n), np.float32), steps, N=n)[3]
    for _ in range(steps):
        x, y = a @ y, x @ a + y
    assert (got == [x, y]).all()


@triton.jit
def batch_kernel(A, X, OUT, steps, N: tl.constexpr):
    b, i = tl.arange(0, 2), tl.arange(0, N)
    where = b[:, None, None] * N * N + i[None, :, None] * N + i[None, None, :]
    a, x = tl.load(A + where), tl.load(X + where)
    for _ in range(steps):
        x = tl.dot(a, x)
    tl.store(OUT + where, x)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_batched_product_becomes_its_own_operand(steps):
    n = 16
    a, x = np.stack([rotation(n), rotation(n, 3)]), numbers(2, n, n)
    got = run(batch_kernel, a, x, np.zeros_like(x), steps, N=n)[2]
    for _ in range(steps):
        x = a @ x
    assert (got == x).all()


# -- a carried tile read elsewhere than where it is written ---------------------------------------------------


@triton.jit
def symmetric_kernel(X, OUT, steps, FORM: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    x = tl.load(X + where)
    for _ in range(steps):
        if FORM == "trans":
            x = x + tl.trans(x)
        elif FORM == "alone":
            x = tl.trans(x)
        elif FORM == "reshape":
            flat = tl.reshape(x, (N * N,))
            turned = tl.trans(tl.reshape(flat, (N, N)))
            x = x - turned
        elif FORM == "halves":
            # the two halves of each row change places
            parts = tl.reshape(x, (N, 2, N // 2))
            swapped = tl.flip(parts, 1)
            x = tl.reshape(swapped, (N, N)) + x
        elif FORM == "row":
            first = tl.sum(tl.where(i[:, None] == 0, x, 0), axis=0).to(x.dtype)
            x = x + first[None, :]
        elif FORM == "flip":
            x = tl.flip(x, 1) * 2 - x
        elif FORM == "gather":
            index = tl.broadcast_to((N - 1 - i)[:, None], (N, N))
            x = tl.gather(x, index, 0) + 1
        else:
            # joined and split again: even and odd columns
            even, odd = tl.split(tl.reshape(x, (N, N // 2, 2)))
            x = tl.reshape(tl.join(odd, even), (N, N)) + x
    tl.store(OUT + where, x)


def symmetric(x, form):
    n = len(x)
    return {
        "trans": lambda: x + x.T,
        "alone": lambda: x.T,
        "reshape": lambda: x - x.T,
        "halves": lambda: np.roll(x, n // 2, 1) + x,
        "row": lambda: x + x[0],
        "flip": lambda: x[:, ::-1] * 2 - x,
        "gather": lambda: x[::-1] + 1,
        "split": lambda: x.reshape(n, n // 2, 2)[:, :, ::-1].reshape(n, n) + x,
    }[form]()


FORMS = ("trans", "alone", "reshape", "halves", "row", "flip", "gather", "split")


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("n", [4, 16, 32])
@pytest.mark.parametrize("form", FORMS)
def test_carried_tile_permuted(machine, n, form):
    x = numbers(n, n)
    want = x
    for _ in range(3):
        want = symmetric(want, form)
    got = run(symmetric_kernel, x, np.zeros_like(x), 3, FORM=form, N=n, machine=machine)[1]
    assert (got == want).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["int8", "float64", "int16"])
def test_carried_tile_of_other_types_permuted(form, dtype):
    x = numbers(16, 16, high=5, dtype=dtype)
    want = symmetric(symmetric(x, form), form)
    got = run(symmetric_kernel, x, np.zeros_like(x), 2, FORM=form, N=16)[1]
    assert (got == want).all()


@triton.jit
def while_kernel(X, OUT, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    x = tl.load(X + where)
    k = 0
    while k < steps:
        x = x + tl.trans(x)
        k += 1
    tl.store(OUT + where, x)


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("n", [4, 32])
def test_carried_tile_permuted_by_a_while_loop(steps, n):
    x = numbers(n, n)
    got = run(while_kernel, x, np.zeros_like(x), steps, N=n)[1]
    for _ in range(steps):
        x = x + x.T
    assert (got == x).all()


@triton.jit
def exchange_kernel(X, Y, OUT, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    x, y = tl.load(X + where), tl.load(Y + where)
    for _ in range(steps):
        x, y = tl.trans(y), x + tl.reshape(tl.reshape(y, (N * N,)), (N, N))
    tl.store(OUT + where, x)
    tl.store(OUT + N * N + where, y)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
@pytest.mark.parametrize("n", [4, 32])
def test_two_carried_tiles_exchanged(steps, n):
    x, y = numbers(n, n), numbers(n, n, seed=2)
    got = run(exchange_kernel, x, y, np.zeros((2, n, n), np.float32), steps, N=n)[2]
    for _ in range(steps):
        x, y = y.T, x + y
    assert (got == [x, y]).all()


@triton.jit
def rotated_kernel(X, OUT, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y, z = tl.load(X + i), tl.load(X + N + i), tl.load(X + 2 * N + i)
    for _ in range(steps):
        x, y, z = y, z, x
    for _ in range(steps):
        x, y, z = y + z, x, tl.flip(y)
    tl.store(OUT + i, x)
    tl.store(OUT + N + i, y)
    tl.store(OUT + 2 * N + i, z)


@pytest.mark.parametrize("steps", [0, 1, 2, 4])
def test_three_carried_tiles_take_turns(steps):
    start = numbers(3, 32)
    x, y, z = start
    got = run(rotated_kernel, start, np.zeros_like(start), steps, N=32)[1]
    for _ in range(steps):
        x, y, z = y, z, x
    for _ in range(steps):
        x, y, z = y + z, x, y[::-1]
    assert (got == [x, y, z]).all()
