"""Remainders and quotients of 8 and 16 bits along the vector axis compile and wrap as they should."""

import numpy as np
import pytest
from cpu_harness import kernel
from right_harness import ALL_WIDTHS, run


def of_type(dtype, operation):
    return kernel(f"""
@triton.jit
def kernel(X, OUT, n, s, N: tl.constexpr):
    i = tl.arange(0, N)
    d = n.to(tl.{dtype})
    r = (i + s).to(tl.{dtype}) {operation} d
    tl.store(OUT + i, r)
    tl.store(OUT + N + i, (i + s).to(tl.{dtype}) {operation} 10)
    tl.store(OUT + 2 * N + i, tl.load(X + i) {operation} d)
    tl.store(OUT + 3 * N + i, (i * 0 + s).to(tl.{dtype}) {operation} tl.load(X + i))
""")


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "int64"])
@pytest.mark.parametrize("operation", ["%", "//"])
@pytest.mark.parametrize(("n", "s"), [(10, 0), (3, 100), (127, -20), (7, -128)])
def test_remainder_and_quotient(machine, dtype, operation, n, s):
    size = 64
    i = np.arange(size, dtype=np.int64)
    x = (np.random.default_rng(1).integers(1, 120, size)).astype(dtype)
    d = np.int64(n)
    lines = [(i + s).astype(dtype), (i + s).astype(dtype), x, (i * 0 + s).astype(dtype)]
    by = [d, np.int64(10), d, x.astype(np.int64)]
    want = []
    for line, divisor in zip(lines, by):
        wide = line.astype(np.int64)
        quotient = np.trunc(wide / divisor).astype(np.int64)
        want.append(quotient if operation == "//" else wide - quotient * divisor)
    got = run(of_type(dtype, operation), x, np.zeros((4, size), dtype), n, s, N=size, machine=machine)[1]
    assert (got == np.array(want).astype(dtype)).all()


def indexed(dtype):
    return kernel(f"""
@triton.jit
def kernel(X, OUT, n, s, N: tl.constexpr):
    i = tl.arange(0, N)
    where = (i + s).to(tl.{dtype}) % n.to(tl.{dtype})
    tl.store(OUT + i, tl.load(X + where))
    tl.store(OUT + N + i, tl.load(X + where, mask=where < 5, other=-1))
""")


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "int64"])
@pytest.mark.parametrize(("n", "s"), [(10, 0), (100, 3), (120, 63), (64, 0), (64, 1)])
def test_remainder_as_an_index(machine, dtype, n, s):
    size = 64
    where = ((np.arange(size) + s).astype(dtype) % np.dtype(dtype).type(n)).astype(np.int64)
    x = np.random.default_rng(2).integers(0, 1000, n).astype(np.int32)
    got = run(indexed(dtype), x, np.zeros((2, size), np.int32), n, s, N=size, machine=machine)[1]
    assert (got == [x[where], np.where(where < 5, x[where], -1)]).all()


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8"])
def test_remainder_by_row_and_by_column(dtype):
    both = kernel(f"""
@triton.jit
def kernel(X, OUT, n, N: tl.constexpr):
    i = tl.arange(0, N).to(tl.{dtype})
    r = i[:, None] % n.to(tl.{dtype})
    c = i[None, :] % n.to(tl.{dtype})
    wide = tl.arange(0, N)
    tl.store(OUT + wide[:, None] * N + wide[None, :], tl.load(X + r.to(tl.int32) * n + c.to(tl.int32)))
""")
    n, size = 5, 32
    x = np.random.default_rng(2).integers(0, 1000, (n, n)).astype(np.int32)
    r = np.arange(size) % n
    got = run(both, x, np.zeros((size, size), np.int32), n, N=size)[1]
    assert (got == x[r[:, None], r]).all()
