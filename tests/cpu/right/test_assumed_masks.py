"""A condition that holds in one part of a loop says nothing about its other parts.

Rows are masked beside columns; what depends on rows alone is computed once for all columns, also for those where
the mask is off. The arrays end at a page that must not be touched: a masked-off read kills the child.
"""

import numpy as np
import pytest
import triton
import triton.language as tl
from right_harness import ALL_WIDTHS, run

MACHINES = (*ALL_WIDTHS, "checked")


@triton.jit
def select_kernel(A, OUT, n, N: tl.constexpr):
    i = tl.arange(0, N)
    m = i < n
    v = tl.where(m, tl.load(A + i), 7.0)
    both = m[:, None] & m[None, :]
    out = tl.where(both, v[:, None] * 2, v[:, None])
    tl.store(OUT + i[:, None] * N + i[None, :], out)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("n", [0, 5, 16, 31, 32])
def test_select_by_row_beside_a_mask_of_both_axes(machine, n):
    a = np.arange(32, dtype=np.float32) + 100
    m = np.arange(32) < n
    v = np.where(m, a, 7)[:, None]
    want = np.where(m[:, None] & m, v * 2, v)
    got = run(select_kernel, a, np.zeros((32, 32), np.float32), n, N=32, machine=machine)[1]
    assert (got == want).all()


@triton.jit
def other_kernel(A, B, OUT, n, STEP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    m = i < n
    a = tl.load(A + i * STEP, mask=m, other=9)
    both = m[:, None] & m[None, :]
    b = tl.load(B + i[:, None] * n + i[None, :], mask=both, other=3)
    tl.store(OUT + i[:, None] * N + i[None, :], a[:, None] + b)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("n", [1, 12, 27, 64])
@pytest.mark.parametrize(("dtype", "step"), [("float32", 1), ("float32", 3), ("int8", 1), ("float64", 1)])
def test_other_of_a_row_and_the_memory_behind_it(machine, n, dtype, step):
    size = 64
    a = (np.arange((n - 1) * step + 1) % 50 + 20).astype(dtype)
    b = (np.arange(n * n) % 20).astype(dtype).reshape(n, n)
    rows = np.full(size, 9, dtype)
    rows[:n] = a[::step]
    want = np.full((size, size), 3, dtype)
    want[:n, :n] = b
    want += rows[:, None]
    got = run(other_kernel, a, b, np.zeros((size, size), dtype), n, STEP=step, N=size, machine=machine)[2]
    assert (got == want).all()


@triton.jit
def columns_kernel(A, B, OUT, rows, cols, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M), tl.arange(0, N)
    mr, mc = r < rows, c < cols
    a = tl.load(A + r, mask=mr, other=-1)
    b = tl.load(B + c, mask=mc, other=-2)
    both = mr[:, None] & mc[None, :]
    tl.store(OUT + r[:, None] * N + c[None, :], tl.where(both, 0, a[:, None] * 1000 + b[None, :]))


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize(("rows", "cols"), [(3, 40), (16, 1), (9, 64), (1, 33), (0, 17), (7, 0)])
def test_rows_and_columns_with_their_own_other(machine, rows, cols):
    a, b = np.arange(rows, dtype=np.int32) + 1, np.arange(cols, dtype=np.int32) + 1
    wide_a, wide_b = np.full(16, -1), np.full(64, -2)
    wide_a[:rows], wide_b[:cols] = a, b
    want = wide_a[:, None] * 1000 + wide_b
    want[:rows, :cols] = 0
    out = np.zeros((16, 64), np.int32)
    got = run(columns_kernel, a, b, out, rows, cols, M=16, N=64, machine=machine)[2]
    assert (got == want).all()


@triton.jit
def stored_kernel(A, OUT, REST, rows, cols, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M), tl.arange(0, N)
    mr, mc = r < rows, c < cols
    a = tl.load(A + r, mask=mr, other=5.0)
    both = mr[:, None] & mc[None, :]
    where = r[:, None] * N + c[None, :]
    tl.store(OUT + where, a[:, None] + c[None, :], mask=both)
    tl.store(REST + where, a[:, None] - c[None, :])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("rows", "cols"), [(3, 40), (16, 1), (9, 64), (1, 33), (15, 63)])
def test_masked_store_beside_one_of_everything(machine, rows, cols):
    a = np.arange(rows, dtype=np.float32) * 3
    wide = np.full(16, 5, np.float32)
    wide[:rows] = a
    c = np.arange(64)
    first = np.full((16, 64), -7, np.float32)
    got = run(stored_kernel, a, first, np.zeros_like(first), rows, cols, M=16, N=64, machine=machine)
    inside = (np.arange(16) < rows)[:, None] & (c < cols)
    assert (got[1] == np.where(inside, wide[:, None] + c, -7)).all()
    assert (got[2] == wide[:, None] - c).all()


@triton.jit
def reduced_kernel(A, B, OUT, rows, cols, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M), tl.arange(0, N)
    mr, mc = r < rows, c < cols
    gate = tl.load(A + r, mask=mr, other=0.5)
    x = tl.load(B + r[:, None] * cols + c[None, :], mask=mr[:, None] & mc[None, :], other=2.0)
    tl.store(OUT + r, tl.sum(x * gate[:, None], axis=1))


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize(("rows", "cols"), [(3, 40), (16, 1), (9, 64), (1, 33), (5, 5)])
def test_gate_by_row_of_a_masked_sum(machine, rows, cols):
    a = np.arange(rows, dtype=np.float32) + 1
    b = (np.arange(rows * cols, dtype=np.float32) % 17).reshape(rows, cols)
    gate, x = np.full(16, 0.5, np.float32), np.full((16, 64), 2, np.float32)
    gate[:rows], x[:rows, :cols] = a, b
    out = np.zeros(16, np.float32)
    got = run(reduced_kernel, a, b, out, rows, cols, M=16, N=64, machine=machine)[2]
    assert (got == (x * gate[:, None]).sum(1)).all()


@triton.jit
def scalar_condition_kernel(A, OUT, n, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    on = flag > 0
    a = tl.load(A + i * 0, mask=on & (i >= 0), other=4.0)
    b = tl.load(A + n, mask=on, other=6.0)
    mask = (i < n) & on
    tl.store(OUT + i, tl.where(mask, a + b, a - b))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("flag", [0, 2])
def test_condition_of_the_whole_program_within_a_mask(machine, flag):
    n = 21
    a = np.arange(n + 1 if flag else 1, dtype=np.float32) + 10
    first, second = (a[0], a[n]) if flag else (4, 6)
    mask = (np.arange(64) < n) & bool(flag)
    out = np.zeros(64, np.float32)
    got = run(scalar_condition_kernel, a, out, n, flag, N=64, machine=machine)[1]
    assert (got == np.where(mask, first + second, first - second)).all()


@triton.jit
def three_kernel(A, OUT, x, y, z, X: tl.constexpr, Y: tl.constexpr, Z: tl.constexpr):
    i, j, k = tl.arange(0, X)[:, None, None], tl.arange(0, Y)[None, :, None], tl.arange(0, Z)[None, None, :]
    plane = (i < x) & (j < y)
    a = tl.load(A + i * y + j, mask=plane, other=11)
    whole = plane & (k < z)
    tl.store(OUT + (i * Y + j) * Z + k, tl.where(whole, a + k, a))


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("size", [(1, 1, 1), (3, 5, 30), (4, 8, 9), (2, 7, 32)])
def test_three_axes(machine, size):
    x, y, z = size
    a = np.arange(x * y, dtype=np.int32).reshape(x, y) + 50
    wide = np.full((4, 8), 11)
    wide[:x, :y] = a
    want = np.repeat(wide[:, :, None], 32, 2)
    want[:x, :y, :z] += np.arange(z)
    out = np.zeros((4, 8, 32), np.int32)
    got = run(three_kernel, a, out, x, y, z, X=4, Y=8, Z=32, machine=machine)[1]
    assert (got == want).all()


@triton.jit
def between_kernel(A, OUT, low, high, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M), tl.arange(0, N)
    mr = (r >= low) & (r < high)
    mc = (c >= low) & (c < high)
    a = tl.load(A + r - low, mask=mr, other=8)
    tl.store(OUT + r[:, None] * N + c[None, :], tl.where(mr[:, None] & mc[None, :], -a[:, None], a[:, None]))


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize(("low", "high"), [(0, 3), (5, 40), (17, 64), (33, 34), (40, 20)])
def test_masks_with_two_ends(machine, low, high):
    a = np.arange(max(high - low, 1), dtype=np.int32) + 20
    r = np.arange(64)
    m = (r >= low) & (r < high)
    wide = np.where(m, a[np.clip(r - low, 0, len(a) - 1)], 8)[:, None]
    want = np.where(m[:, None] & m, -wide, wide)
    out = np.zeros((64, 64), np.int32)
    got = run(between_kernel, a, out, low, high, M=64, N=64, machine=machine)[1]
    assert (got == want).all()
