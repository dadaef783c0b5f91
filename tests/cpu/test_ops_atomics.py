"""Atomics of every kind and type: the value before, masks, and sums that come out right under contention."""

import numpy as np
import pytest
import triton
import triton.language as tl
from cpu_harness import INTERPRETED, Buffer, kernel, launch

KINDS = {
    "add": (
        lambda a, b: a + b,
        ("int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64"),
    ),
    "max": (np.maximum, ("int32", "uint32", "int64", "uint64", "float32", "float64")),
    "min": (np.minimum, ("int32", "uint32", "int64", "uint64", "float32", "float64")),
    "and": (np.bitwise_and, ("int32", "uint32", "int64", "uint64")),
    "or": (np.bitwise_or, ("int32", "uint32", "int64", "uint64")),
    "xor": (np.bitwise_xor, ("int32", "uint32", "int64", "uint64")),
    "xchg": (lambda a, b: b, ("int32", "uint32", "int64", "uint64", "float32", "float64")),
}
CASES = [(kind, dtype) for kind, (_, dtypes) in KINDS.items() for dtype in dtypes]


def source(kind):
    return f"""
@triton.jit
def kernel(X, VALUE, BEFORE, n, N: tl.constexpr):
    i = tl.arange(0, N)
    old = tl.atomic_{kind}(X + i, tl.load(VALUE + i), mask=i < n)
    tl.store(BEFORE + i, old, mask=i < n)
    one = tl.atomic_{kind}(X + N, tl.load(VALUE))
    tl.store(BEFORE + N, one)
"""


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_one_program(kind, dtype):
    fn, _ = KINDS[kind]
    rng = np.random.default_rng(5)
    low = 0 if dtype.startswith("u") else -40
    start, value = rng.integers(low, 40, (2, 65))
    x, before = Buffer(start, dtype), Buffer(np.zeros(65), dtype)
    launch(kernel(source(kind)), 1, x, Buffer(value, dtype), before, 50, N=64)
    want = start.copy()
    want[:50] = fn(start[:50], value[:50])
    want[64] = fn(start[64], value[0])
    assert (x.values == want).all()
    assert (before.values[:50] == start[:50]).all()
    assert before.values[64] == start[64]
    assert (before.values[50:64] == 0).all()


@triton.jit
def contention_kernel(X, OUT_MAX, N: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, N)
    tl.atomic_add(X + i * 0, (i * 0 + 1).to(X.dtype.element_ty))  # every lane, one address
    tl.atomic_add(X + 1, 1)
    tl.atomic_add(X + 2 + i % 4, (p % 2 + 0 * i).to(X.dtype.element_ty), sem="relaxed")
    tl.atomic_max(OUT_MAX, p)
    tl.atomic_min(OUT_MAX + 1, -p)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64", "uint32"])
def test_contention(dtype):
    programs, lanes = (20, 16) if INTERPRETED else (2000, 16)
    x, top = Buffer(np.zeros(6), dtype), Buffer(np.zeros(2), "int32")
    launch(contention_kernel, programs, x, top, N=lanes)
    assert (x.values == [programs * lanes, programs, *[programs // 2 * lanes // 4] * 4]).all()
    assert (top.values == [programs - 1, 1 - programs]).all()


@triton.jit
def half_kernel(X, N: tl.constexpr):
    tl.atomic_add(X + tl.arange(0, N), tl.full((N,), 1.0, X.dtype.element_ty))


@pytest.mark.skipif(INTERPRETED, reason="slow, and wrong for bfloat16")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_contention_of_neighbours(dtype):
    x = Buffer(np.zeros(8), dtype)
    launch(half_kernel, 200, x, N=8)
    assert (x.values == 200).all()


@triton.jit
def cas_kernel(X, OLD, COUNT, N: tl.constexpr):
    # Counts up by compare-and-swap: lost updates would show.
    done = 0
    while done == 0:
        seen = tl.atomic_add(COUNT, 0)
        done = (tl.atomic_cas(COUNT, seen, seen + 1) == seen).to(tl.int32)
    i = tl.arange(0, N)
    old = tl.atomic_cas(X + i, tl.full((N,), 3, tl.int32), tl.full((N,), 9, tl.int32))
    tl.store(OLD + i, old, mask=(i >= 0) & (tl.program_id(0) == 0))


def test_compare_and_swap():
    programs = 1 if INTERPRETED else 500
    x, old, count = (
        Buffer(np.arange(16) % 5, "int32"),
        Buffer(np.zeros(16), "int32"),
        Buffer(np.zeros(1), "int32"),
    )
    launch(cas_kernel, programs, x, old, count, N=16)
    assert count.values[0] == programs
    assert (x.values == np.where(np.arange(16) % 5 == 3, 9, np.arange(16) % 5)).all()


@triton.jit
def lock_kernel(LOCK, TOTAL, N: tl.constexpr):
    while tl.atomic_cas(LOCK, 0, 1) == 1:
        pass
    i = tl.arange(0, N)
    # Not atomic: only the lock keeps these updates from being lost.
    tl.store(TOTAL + i, tl.load(TOTAL + i) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(LOCK, 0)


def test_lock():
    programs = 4 if INTERPRETED else 1000
    lock, total = Buffer(np.zeros(1), "int32"), Buffer(np.zeros(32), "int32")
    launch(lock_kernel, programs, lock, total, N=32)
    assert (total.values == programs).all()


@triton.jit
def semantics_kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(X + i, 1, sem="acquire", scope="cta")
    tl.atomic_add(X + i, 1, sem="release", scope="gpu")
    tl.atomic_add(X + i, 1, sem="acq_rel", scope="sys")
    tl.atomic_store(X + i, tl.atomic_load(X + i, sem="acquire") * 2, sem="release")
    tl.store(OUT + i, tl.atomic_load(X + i, sem="relaxed"))


def test_orders_and_scopes():
    x, out = Buffer(np.arange(32), "int32"), Buffer.full(32, "int32")
    launch(semantics_kernel, 1, x, out, N=32)
    assert (x.values == 2 * (np.arange(32) + 3)).all()
    assert (out.values == x.values).all()
