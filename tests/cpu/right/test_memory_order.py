"""A tile that was loaded keeps the values that were there, whatever is stored afterwards and through which pointer.

Loads are computed again where they are used, which is wrong once memory changed; a load and a store in one loop are
done element by element, which is wrong where their places overlap.
"""

import numpy as np
import pytest
import triton
import triton.language as tl
from right_harness import ALL_WIDTHS, run

SIZES = (1, 8, 64, 256)


def numbers(*shape, dtype=np.float32):
    """Without any pattern: an element taken for its neighbour shows."""
    return np.random.default_rng(7).integers(1, 100, shape).astype(dtype)


# -- loads executed again ------------------------------------------------------------------------------------


@triton.jit
def gathered_kernel(X, I, OUT, N: tl.constexpr):
    o = tl.arange(0, N)
    v = tl.load(X + tl.load(I + o))
    tl.store(X + o, tl.zeros([N], X.dtype.element_ty))
    tl.store(OUT + o, v)


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_gathered_load_then_a_store(machine, n, dtype):
    x = numbers(n, dtype=dtype)
    index = np.random.default_rng(n).permutation(n).astype(np.int32)
    got = run(gathered_kernel, x, index, np.zeros_like(x), N=n, machine=machine)
    assert (got[2] == x[index]).all()
    assert not got[0].any()


@triton.jit
def masked_gather_kernel(X, I, OUT, n, N: tl.constexpr):
    o = tl.arange(0, N)
    where = tl.load(I + o, mask=o < n, other=0)
    v = tl.load(X + where, mask=o < n, other=-1)
    tl.store(X + where, tl.full([N], -5, tl.float32), mask=o < n)
    tl.store(OUT + o, v + 1)


@pytest.mark.parametrize("n", [1, 13, 64])
def test_masked_gather_then_a_scatter(n):
    x = numbers(64)
    index = np.random.default_rng(n).permutation(64)[:n].astype(np.int32)
    got = run(masked_gather_kernel, x, index, np.zeros(64, np.float32), n, N=64)
    want = np.zeros(64)
    want[:n] = x[index] + 1
    assert (got[2] == want).all()


@triton.jit
def index_changes_kernel(X, I, OUT, N: tl.constexpr):
    o = tl.arange(0, N)
    i = tl.load(I + o)
    v = tl.load(X + i)
    tl.store(I + o, tl.zeros([N], tl.int32))
    tl.store(OUT + o, v)
    tl.store(OUT + N + o, i)


@pytest.mark.parametrize("n", SIZES)
def test_the_index_of_a_gather_changes(n):
    x = numbers(n, dtype=np.int32)
    index = np.arange(n, dtype=np.int32)[::-1].copy()
    got = run(index_changes_kernel, x, index, np.zeros((2, n), np.int32), N=n)
    assert (got[2] == [x[index], index]).all()


@triton.jit
def twice_gathered_kernel(X, I, OUT, N: tl.constexpr):
    o = tl.arange(0, N)
    v = tl.load(X + tl.load(X + tl.load(I + o)))
    tl.atomic_xchg(X + o, o * 0)
    tl.store(OUT + o, v)


@pytest.mark.parametrize("n", SIZES)
def test_chain_of_gathers_then_an_atomic(n):
    x = np.random.default_rng(n).permutation(n).astype(np.int32)
    index = np.random.default_rng(n + 1).permutation(n).astype(np.int32)
    got = run(twice_gathered_kernel, x, index, np.zeros(n, np.int32), N=n)
    assert (got[2] == x[x[index]]).all()


@triton.jit
def chosen_then_stored_kernel(X, I, OUT, flag, N: tl.constexpr):
    o = tl.arange(0, N)
    v = tl.load(X + tl.load(I + o))
    if flag > 0:
        tl.store(X + o, tl.zeros([N], tl.float32))
    tl.store(OUT + o, v)


@pytest.mark.parametrize("flag", [0, 2])
def test_gather_then_a_store_in_a_branch(flag):
    x, index = numbers(64), np.arange(64, dtype=np.int32)[::-1].copy()
    got = run(chosen_then_stored_kernel, x, index, np.zeros_like(x), flag, N=64)
    assert (got[2] == x[index]).all()


@triton.jit
def loop_stores_kernel(X, I, OUT, steps, N: tl.constexpr):
    o = tl.arange(0, N)
    for _ in range(steps):
        v = tl.load(X + tl.load(I + o))
        tl.store(X + o, o * 3.0)
        tl.store(OUT + o, v)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_gather_and_store_in_a_loop(steps):
    x, index = numbers(64), np.random.default_rng(5).permutation(64).astype(np.int32)
    got = run(loop_stores_kernel, x, index, np.zeros_like(x), steps, N=64)
    want = x.copy()
    for _ in range(steps):
        last = want[index]
        want = np.arange(64, dtype=np.float32) * 3
    assert (got[0] == want).all()
    assert (got[2] == last).all()


# -- operands of products ------------------------------------------------------------------------------------


@triton.jit
def operand_again_kernel(A, B, OUT, REST, LEFT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    a, b = tl.load(A + where), tl.load(B + where)
    c = tl.dot(a, b)
    again = a if LEFT else b
    tl.store((A if LEFT else B) + where, tl.zeros([N, N], A.dtype.element_ty))
    tl.store(OUT + where, c)
    tl.store(REST + where, again + 1)


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("n", [16, 32, 64])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_operand_read_after_a_store_over_it(machine, n, left, dtype):
    a, b = numbers(n, n, dtype=dtype) % 5, numbers(n, n, dtype=dtype) % 7
    wide = np.float64 if dtype == "float64" else np.float32
    out = np.zeros((n, n), wide)
    got = run(operand_again_kernel, a, b, out, np.zeros_like(a), LEFT=left, N=n, machine=machine)
    assert (got[2] == a.astype(wide) @ b.astype(wide)).all()
    assert (got[3] == (a if left else b) + 1).all()


@triton.jit
def two_products_kernel(A, B, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    a, b = tl.load(A + where), tl.load(B + where)
    c = tl.dot(a, b)
    tl.store(A + where, tl.zeros([N, N], tl.float32))
    # The same tile on the other side of a product, in another form.
    tl.store(OUT + where, c + tl.dot(b, a))


@pytest.mark.parametrize("n", [16, 32, 64])
def test_operand_of_a_later_product(n):
    a, b = numbers(n, n) % 5, numbers(n, n) % 7
    got = run(two_products_kernel, a, b, np.zeros((n, n), np.float32), N=n)
    assert (got[2] == a @ b + b @ a).all()


@triton.jit
def product_in_place_kernel(A, B, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    a, b = tl.load(A + where), tl.load(B + where)
    tl.store(A + where, tl.dot(a, b))
    tl.store(B + where, tl.trans(a))
    tl.store(A + where, tl.trans(b))


@pytest.mark.parametrize("n", [16, 64])
def test_product_stored_over_its_operand(n):
    a, b = numbers(n, n) % 5, numbers(n, n) % 7
    got = run(product_in_place_kernel, a, b, N=n)
    assert (got[0] == b.T).all()
    assert (got[1] == a.T).all()


# -- overlapping load and store ------------------------------------------------------------------------------


@triton.jit
def transpose_kernel(S, N: tl.constexpr):
    i = tl.arange(0, N)
    p = S + i[:, None] * N + i[None, :]
    tl.store(p, tl.trans(tl.load(p)))


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("n", [2, 16, 64])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_transpose_in_place(machine, n, dtype):
    x = numbers(n, n, dtype=dtype)
    assert (run(transpose_kernel, x, N=n, machine=machine)[0] == x.T).all()


@triton.jit
def flip_kernel(S, N: tl.constexpr):
    p = S + tl.arange(0, N)
    tl.store(p, tl.flip(tl.load(p)))


@pytest.mark.parametrize("n", [2, 8, 64, 512])
def test_flip_in_place(n):
    x = numbers(n)
    assert (run(flip_kernel, x, N=n)[0] == x[::-1]).all()


@triton.jit
def reshaped_kernel(S, N: tl.constexpr):
    p = S + tl.arange(0, N * N)
    x = tl.load(p)
    tl.store(p, tl.reshape(tl.trans(tl.reshape(x, (N, N))), (N * N,)) + x)


@pytest.mark.parametrize("n", [4, 16])
def test_reshaped_transpose_in_place(n):
    x = numbers(n, n)
    assert (run(reshaped_kernel, x, N=n)[0] == x + x.T).all()


@triton.jit
def halves_kernel(S, N: tl.constexpr):
    i = tl.arange(0, N)
    p = S + i
    q = S + N + i
    x, y = tl.load(p), tl.load(q)
    tl.store(p, y)
    tl.store(q, x)


@pytest.mark.parametrize("n", SIZES)
def test_halves_swapped(n):
    x = numbers(2, n)
    assert (run(halves_kernel, x, N=n)[0] == x[::-1]).all()


@triton.jit
def broadcast_in_place_kernel(S, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M), tl.arange(0, N)
    row = S + c
    first = tl.load(row)
    p = S + r[:, None] * N + c[None, :]
    tl.store(p, tl.load(p) + first[None, :] + tl.sum(first))


def test_row_added_to_all_rows_in_place():
    x = numbers(8, 32)
    got = run(broadcast_in_place_kernel, x, M=8, N=32)[0]
    assert (got == x + x[0] + x[0].sum()).all()


@triton.jit
def repeated_places_kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    p = X + i // 2
    tl.store(p, tl.load(p) + 1)
    q = OUT + i * 0
    tl.store(q, tl.load(q) + 1)


@pytest.mark.parametrize("n", [2, 8, 64])
def test_lanes_that_share_a_place_add_once(n):
    x = numbers(n)
    got = run(repeated_places_kernel, x, np.zeros(1, np.float32), N=n)
    want = x.copy()
    want[: n // 2] += 1
    assert (got[0] == want).all()
    assert got[1][0] == 1


@triton.jit
def rotate_kernel(X, Y, SAME: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    p = X + (i + 1) % N
    x = tl.load(X + i)
    tl.store(p, x)
    # The same through a second name of the pointer.
    q = Y + 0
    y = tl.load(q + i)
    tl.store((q if SAME else Y) + (i + 1) % N, y)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("n", [2, 8, 64, 256])
def test_rotation_in_place(same, n):
    x, y = numbers(n), numbers(n) * 2
    got = run(rotate_kernel, x, y, SAME=same, N=n)
    assert (got[0] == np.roll(x, 1)).all()
    assert (got[1] == np.roll(y, 1)).all()


@triton.jit
def reduced_load_kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    x = tl.load(X + where)
    s = tl.sum(x, axis=1)
    tl.store(X + where, tl.zeros([N, N], tl.float32))
    tl.store(OUT + where, x + s[:, None])


@pytest.mark.parametrize("n", [4, 16, 64])
def test_load_reduced_stored_over_and_used_again(n):
    x = numbers(n, n)
    got = run(reduced_load_kernel, x, np.zeros_like(x), N=n)
    assert (got[1] == x + x.sum(1)[:, None]).all()


@triton.jit
def select_of_load_kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + (N - 1 - i))
    y = tl.reshape(x, (2, N // 2))
    tl.store(X + i, i * 1.0)
    tl.store(OUT + tl.arange(0, 2)[:, None] * (N // 2) + tl.arange(0, N // 2)[None, :], y)
    tl.debug_barrier()
    tl.store(OUT + N + i, x)


@pytest.mark.parametrize("n", [4, 64])
def test_reshaped_load_then_a_store_and_a_barrier(n):
    x = numbers(n)
    got = run(select_of_load_kernel, x, np.zeros((2, n), np.float32), N=n)[1]
    assert (got == [x[::-1], x[::-1]]).all()


@triton.jit
def while_kernel(X, I, OUT, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(X + tl.load(I + i))
    k = 0
    while k < n:
        tl.store(OUT + i, v + k)
        tl.store(X + i, tl.zeros([N], tl.float32))
        k += 1


@pytest.mark.parametrize("n", [1, 2, 4])
def test_gather_before_a_while_loop_that_stores(n):
    x, index = numbers(64), np.random.default_rng(3).permutation(64).astype(np.int32)
    got = run(while_kernel, x, index, np.zeros_like(x), n, N=64)[2]
    assert (got == x[index] + (n - 1)).all()
