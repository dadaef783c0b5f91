"""Narrow and unsigned arithmetic wraps: such a condition is no range of the index, such an index is no straight line.

Reference results are NumPy's in the same width. Arrays end at a page that must not be touched.
"""

import numpy as np
import pytest
import triton
import triton.language as tl
from cpu_harness import kernel
from right_harness import ALL_WIDTHS, run

# name, expression of the offsets `o` (int32) in Triton, the same in NumPy
CONDITIONS = {
    "window": ("(o - 5).to(tl.uint32) < 10", lambda o: (o - 5).astype(np.uint32) < 10),
    "window le": ("(o - 5).to(tl.uint32) <= 10", lambda o: (o - 5).astype(np.uint32) <= 10),
    "outside": ("(o - 5).to(tl.uint32) > 10", lambda o: (o - 5).astype(np.uint32) > 10),
    "outside ge": ("(o - 5).to(tl.uint32) >= 10", lambda o: (o - 5).astype(np.uint32) >= 10),
    "turned": ("10 > (o - 5).to(tl.uint32)", lambda o: (o - 5).astype(np.uint32) < 10),
    "int8": ("o.to(tl.int8) < 100", lambda o: o.astype(np.int8) < 100),
    "int8 ge": ("o.to(tl.int8) >= 0", lambda o: o.astype(np.int8) >= 0),
    "int8 le": ("o.to(tl.int8) <= -100", lambda o: o.astype(np.int8) <= -100),
    "uint8": ("o.to(tl.uint8) < 20", lambda o: o.astype(np.uint8) < 20),
    "uint8 gt": ("o.to(tl.uint8) > 200", lambda o: o.astype(np.uint8) > 200),
    "int16": ("(o * 256).to(tl.int16) < 256", lambda o: (o * 256).astype(np.int16) < 256),
    "int8 sum": (
        "(o.to(tl.int8) + o.to(tl.int8) * 0 + 100) < 110",
        lambda o: (o.astype(np.int8) + np.int8(100)) < 110,
    ),
    "int8 difference": (
        "(o.to(tl.int8) - 120 + n.to(tl.int8)) < 0",
        lambda o: (o.astype(np.int8) - np.int8(120) + np.int8(3)) < 0,
    ),
    "near the end": (
        "(o + 2147483600) < 2147483640",
        lambda o: (o + np.int32(2147483600)) < np.int32(2147483640),
    ),
    "over the end": ("(o + big) > 0", lambda o: (o + np.int32(2147483600)) > 0),
    "over the end lt": ("(o + big) < n", lambda o: (o + np.int32(2147483600)) < 3),
    "below the start": ("(o * -1 - big) < n", lambda o: (o * -1 - np.int32(2147483600)) < 3),
    "minus one": ("(o.to(tl.uint32) - 1) < 8", lambda o: (o.astype(np.uint32) - np.uint32(1)) < 8),
    "zero minus": (
        "(7 - o).to(tl.uint32) < 100",
        lambda o: (7 - o).astype(np.uint32) < 100,
    ),
    "uint64": (
        "(o - 9).to(tl.uint64) < 20",
        lambda o: (o - 9).astype(np.int64).astype(np.uint64) < 20,
    ),
    "int64 of uint32": (
        "(o - 9).to(tl.uint32).to(tl.int64) < 20",
        lambda o: (o - 9).astype(np.uint32).astype(np.int64) < 20,
    ),
    "int32 of int64": (
        "(o.to(tl.int64) + 4294967290).to(tl.int32) < 20",
        lambda o: (o.astype(np.int64) + 4294967290).astype(np.int32) < 20,
    ),
    "bits": ("(o << 25) < 100", lambda o: (o << 25).astype(np.int32) < 100),
    "equal": ("o.to(tl.int8) == 5", lambda o: o.astype(np.int8) == 5),
}


def conditional_kernel(condition):
    return kernel(f"""
@triton.jit
def kernel(X, OUT, SUM, n, big, N: tl.constexpr):
    o = tl.arange(0, N)
    m = {condition}
    tl.store(OUT + o, tl.load(X + o, mask=m, other=-1), mask=m)
    tl.store(OUT + N + o, tl.where(m, o, -o))
    tl.store(SUM, tl.sum(tl.load(X + o, mask=m, other=0)))
""")


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("size", [32, 512])
def test_conditions_that_wrap(machine, name, size):
    text, condition = CONDITIONS[name]
    o = np.arange(size, dtype=np.int32)
    with np.errstate(over="ignore"):
        m = condition(o)
    x = np.random.default_rng(1).integers(1, 1000, size).astype(np.int32)
    out = np.full((2, size), -9, np.int32)
    got = run(conditional_kernel(text), x, out, np.zeros(1, np.int32), 3, 2147483600, N=size, machine=machine)
    assert (got[1][0] == np.where(m, x, -9)).all()
    assert (got[1][1] == np.where(m, o, -o)).all()
    assert got[2][0] == x[m].sum()


# The index is within 0..size-1, through a type in which it wraps.
INDICES = {
    "uint8": ("(o + 3).to(tl.uint8)", 256, lambda o: (o + 3).astype(np.uint8)),
    "uint8 far": ("(o + 250).to(tl.uint8)", 256, lambda o: (o + 250).astype(np.uint8)),
    "uint8 sum": ("o.to(tl.uint8) + s.to(tl.uint8)", 256, lambda o: (o + 77).astype(np.uint8)),
    "uint8 times": ("o.to(tl.uint8) * 3", 256, lambda o: (o * 3).astype(np.uint8)),
    "uint8 shift": ("(o << 2).to(tl.uint8)", 256, lambda o: (o << 2).astype(np.uint8)),
    "uint8 minus": ("(5 - o).to(tl.uint8)", 256, lambda o: (5 - o).astype(np.uint8)),
    "int8": (
        "(o + 3).to(tl.int8).to(tl.int32) + 128",
        256,
        lambda o: (o + 3).astype(np.int8) + np.int32(128),
    ),
    "int8 alone": (
        "((o + 100).to(tl.int8) + 100).to(tl.int32) + 128",
        256,
        lambda o: ((o + 100).astype(np.int8) + np.int8(100)) + np.int32(128),
    ),
    "uint16": (
        "(o + 65500).to(tl.uint16)",
        65536,
        lambda o: (o + 65500).astype(np.uint16),
    ),
    "uint32 halves": (
        "((o * 65536).to(tl.uint32) >> 16).to(tl.uint8)",
        256,
        lambda o: ((o * 65536).astype(np.uint32) >> 16).astype(np.uint8),
    ),
    "masked": ("(o + s) & 255", 256, lambda o: (o + 77) & 255),
}


def indexed_kernel(index):
    return kernel(f"""
@triton.jit
def kernel(X, OUT, BACK, s, N: tl.constexpr):
    o = tl.arange(0, N)
    where = {index}
    tl.store(OUT + o, tl.load(X + where))
    tl.store(BACK + where, o)
""")


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("size", [16, 256])
def test_indices_that_wrap(machine, name, size):
    text, extent, index = INDICES[name]
    where = index(np.arange(size, dtype=np.int32)).astype(np.int64)
    x = np.random.default_rng(2).integers(0, 1000, extent).astype(np.int32)
    out, back = np.zeros(size, np.int32), np.full(extent, -1, np.int32)
    got = run(indexed_kernel(text), x, out, back, 77, N=size, machine=machine)
    assert (got[1] == x[where]).all()
    want = back.copy()
    if len(set(where)) == size:
        want[where] = np.arange(size)
        assert (got[2] == want).all()


@triton.jit
def remainder_kernel(X, OUT, s, n, KIND: tl.constexpr, N: tl.constexpr):
    o = tl.arange(0, N)
    if KIND == "uint32":
        where = (o - s).to(tl.uint32) % n.to(tl.uint32)
    elif KIND == "negative":
        where = (o - s) % n + n - 1
    elif KIND == "int64":
        where = (o.to(tl.int64) - s) % n + n - 1
    else:
        where = ((o + s).to(tl.uint8) % n.to(tl.uint8)).to(tl.int32)
    tl.store(OUT + o, tl.load(X + where))


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("kind", ["uint32", "negative", "int64", "uint8"])
@pytest.mark.parametrize(("s", "n"), [(5, 7), (3, 100), (60, 64), (20, 200), (127, 128)])
def test_remainders_of_what_wraps(machine, kind, s, n):
    o = np.arange(64, dtype=np.int32)
    where = {
        "uint32": lambda: (o - s).astype(np.uint32) % np.uint32(n),
        "negative": lambda: np.fmod(o - s, n) + n - 1,
        "int64": lambda: np.fmod(o.astype(np.int64) - s, n) + n - 1,
        "uint8": lambda: (o + s).astype(np.uint8) % np.uint8(n),
    }[kind]()
    x = np.random.default_rng(3).integers(0, 1000, 2 * n).astype(np.int32)
    got = run(remainder_kernel, x, np.zeros(64, np.int32), s, n, KIND=kind, N=64, machine=machine)[1]
    assert (got == x[where.astype(np.int64)]).all()


@triton.jit
def carried_kernel(X, OUT, steps, KIND: tl.constexpr, N: tl.constexpr):
    o = tl.arange(0, N)
    if KIND == "uint8":
        where = o.to(tl.uint8)
    elif KIND == "int8":
        where = o.to(tl.int8)
    else:
        where = o
    total = tl.zeros([N], tl.int32)
    for _ in range(steps):
        index = where.to(tl.int32)
        if KIND == "int8":
            index += 128
        total += tl.load(X + index, mask=(where < 100), other=1)
        where += 7
    tl.store(OUT + o, total)


@pytest.mark.parametrize("kind", ["uint8", "int8", "int32"])
@pytest.mark.parametrize("steps", [1, 10, 40])
def test_carried_index_that_wraps(kind, steps):
    x = np.random.default_rng(4).integers(0, 1000, 512).astype(np.int32)
    where = np.arange(32).astype(kind)
    total = np.zeros(32, np.int32)
    for _ in range(steps):
        index = where.astype(np.int32) + (128 if kind == "int8" else 0)
        total += np.where(where < 100, x[index], 1)
        where = where + where.dtype.type(7)
    got = run(carried_kernel, x, np.zeros(32, np.int32), steps, KIND=kind, N=32)[1]
    assert (got == total).all()
