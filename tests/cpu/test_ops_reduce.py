"""Reductions and scans over any axis, any combine function, one operand or several, forward and reverse."""

import numpy as np
import pytest
import triton
import triton.language as tl
from cpu_harness import FLOATS, INTS, UINTS, Buffer, kernel, launch, mismatch

SHAPE = (8, 16, 32)


@triton.jit
def reduce_kernel(
    X, SUM, MAX, MIN, ARGMAX, ARGMIN, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr
):
    a, b, c = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)[None, None, :]
    where = (a * B + b) * C + c
    x = tl.load(X + where)
    if AXIS == 0:
        small = tl.min(where, axis=0, keep_dims=True)
    elif AXIS == 1:
        small = a * C + c
    else:
        small = a * B + b
    tl.store(SUM + small, tl.sum(x, axis=AXIS, keep_dims=True))
    tl.store(MAX + small, tl.max(x, axis=AXIS, keep_dims=True))
    tl.store(MIN + small, tl.min(x, axis=AXIS, keep_dims=True))
    tl.store(ARGMAX + small, tl.argmax(x, axis=AXIS, keep_dims=True))
    tl.store(ARGMIN + small, tl.argmin(x, axis=AXIS, keep_dims=True))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", [*INTS, *UINTS, *FLOATS])
def test_sum_max_min_and_where(dtype, axis):
    rng = np.random.default_rng(axis)
    low = 0 if dtype.startswith("u") else -50
    x = rng.integers(low, 50, SHAPE) / (1 if "int" in dtype else 4)
    small = tuple(1 if i == axis else n for i, n in enumerate(SHAPE))
    # Triton sums narrow integers in 32 bits.
    wide = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}.get(dtype, dtype)
    outs = [Buffer.full(small, t) for t in (wide, dtype, dtype, "int32", "int32")]
    launch(reduce_kernel, 1, Buffer(x, dtype), *outs, *SHAPE, axis)
    steps = 16 if dtype in ("float16", "bfloat16") else 0
    assert mismatch(outs[0].values, x.sum(axis=axis, keepdims=True), wide, ulps=steps) is None
    wants = (
        x.max(axis, keepdims=True),
        x.min(axis, keepdims=True),
        x.argmax(axis, keepdims=True),
        x.argmin(axis, keepdims=True),
    )
    for out, want in zip(outs[1:], wants):
        assert mismatch(out.values, want, out.name) is None


def reduce_source(expression, combine, results=1):
    names = [f"r{i}" for i in range(results)]
    stores = "\n".join(f"    tl.store(OUT + {i} * M + m, {n}.to(tl.float32))" for i, n in enumerate(names))
    return f"""
@triton.jit
{combine}


@triton.jit
def kernel(X, OUT, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(X + m[:, None] * N + n[None, :])
    index = tl.broadcast_to(n[None, :], (M, N))
    {", ".join(names)} = {expression}
{stores}
"""


REDUCE_CASES = {
    "product": (
        "tl.reduce(x, 1, combine)",
        "def combine(a, b):\n    return a * b",
        lambda x: [x.prod(axis=1)],
    ),
    "last one wins": (  # associative, not commutative: the order of the operands shows
        "tl.reduce(x, 1, combine)",
        "def combine(a, b):\n    return b",
        lambda x: [x[:, -1]],
    ),
    "first one wins": ("tl.reduce(x, 1, combine)", "def combine(a, b):\n    return a", lambda x: [x[:, 0]]),
    "two operands": (
        "tl.reduce((x, index), 1, combine)",
        "def combine(a, i, b, j):\n    take = (a > b) | ((a == b) & (i < j))\n"
        "    return tl.where(take, a, b), tl.where(take, i, j)",
        lambda x: [x.max(axis=1), x.argmax(axis=1)],
    ),
    "running mean and variance": (
        "tl.reduce((x, x * 0, x * 0 + 1), 1, combine)",
        "def combine(m1, s1, n1, m2, s2, n2):\n    n = n1 + n2\n    d = m2 - m1\n    w = n2 / n\n"
        "    return m1 + d * w, s1 + s2 + d * d * n1 * w, n",
        lambda x: [x.mean(axis=1), x.var(axis=1) * x.shape[1], np.full(len(x), x.shape[1])],
    ),
    "xor": (
        "tl.xor_sum((x * 4).to(tl.int32), axis=1)",
        "def combine(a, b):\n    return a",
        lambda x: [np.bitwise_xor.reduce((x * 4).astype(np.int32), axis=1)],
    ),
    "or": (
        "tl.reduce_or((x * 4).to(tl.int32), axis=1)",
        "def combine(a, b):\n    return a",
        lambda x: [np.bitwise_or.reduce((x * 4).astype(np.int32), axis=1)],
    ),
    "max with its place": (
        "tl.max(x, axis=1, return_indices=True)",
        "def combine(a, b):\n    return a",
        lambda x: [x.max(axis=1), x.argmax(axis=1)],
    ),
    "bool": (
        "tl.reduce(x > 1.4, 1, combine)",
        "def combine(a, b):\n    return a | b",
        lambda x: [(x > 1.4).any(axis=1)],
    ),
    "down to a scalar": (
        "tl.sum(x) + tl.zeros((M,), tl.float32)",
        "def combine(a, b):\n    return a",
        lambda x: [np.full(len(x), x.sum())],
    ),
    "max of all": (
        "tl.max(x, axis=None) + tl.zeros((M,), tl.float32)",
        "def combine(a, b):\n    return a",
        lambda x: [np.full(len(x), x.max())],
    ),
}


@pytest.mark.parametrize("name", REDUCE_CASES)
@pytest.mark.parametrize("shape", [(16, 64), (4, 8), (1, 128)])
def test_any_combine(name, shape):
    expression, combine, want = REDUCE_CASES[name]
    x = np.random.default_rng(2).choice([0.5, 0.75, 1.0, 1.25, 1.5], shape)
    expected = np.array(want(x), dtype=float)
    out = Buffer.full(expected.shape, "float32")
    launch(
        kernel(reduce_source(expression, combine, len(expected))),
        1,
        Buffer(x, "float32"),
        out,
        M=shape[0],
        N=shape[1],
    )
    assert np.allclose(out.values, expected, rtol=1e-5), name


def test_nan_in_reductions():
    source = """
@triton.jit
def kernel(X, OUT, N: tl.constexpr):
    x = tl.load(X + tl.arange(0, N))
    tl.store(OUT, tl.max(x, axis=0))
    tl.store(OUT + 1, tl.min(x, axis=0))
    tl.store(OUT + 2, tl.sum(x, axis=0))
"""
    x = np.arange(64.0)
    x[17] = np.nan
    out = Buffer.full(3, "float32")
    launch(kernel(source), 1, Buffer(x, "float32"), out, N=64)
    assert (out.values[:2] == [63, 0]).all()
    assert np.isnan(out.values[2])


SCAN_CASES = {
    "cumsum": (
        "tl.cumsum(x, axis=AXIS, reverse=REVERSE)",
        "def combine(a, b):\n    return a",
        lambda x: np.cumsum(x, 1),
    ),
    "cumprod": (
        "tl.cumprod(x, axis=AXIS, reverse=REVERSE)",
        "def combine(a, b):\n    return a",
        lambda x: np.cumprod(x, 1),
    ),
    "running max": (
        "tl.associative_scan(x, AXIS, combine, reverse=REVERSE)",
        "def combine(a, b):\n    return tl.maximum(a, b)",
        lambda x: np.maximum.accumulate(x, 1),
    ),
    "recurrence": (  # y[i] = 0.5 * y[i - 1] + x[i], as two operands
        "tl.associative_scan((x * 0 + 0.5, x), AXIS, combine, reverse=REVERSE)[1]",
        "def combine(a, x, b, y):\n    return a * b, b * x + y",
        lambda x: np.stack(
            [sum(x[:, j] * 0.5 ** (i - j) for j in range(i + 1)) for i in range(x.shape[1])], axis=1
        ),
    ),
}


@pytest.mark.parametrize("name", SCAN_CASES)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(name, axis, reverse):
    expression, combine, want = SCAN_CASES[name]
    source = f"""
@triton.jit
{combine}


@triton.jit
def kernel(X, OUT, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    where = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(X + where)
    tl.store(OUT + where, {expression})
"""
    x = np.random.default_rng(1).choice([0.5, 1.0, 1.5, 2.0, 0.25], (16, 32))
    turned = x.T if axis == 0 else x
    expected = want(turned[:, ::-1])[:, ::-1] if reverse else want(turned)
    expected = expected.T if axis == 0 else expected
    out = Buffer.full(x.shape, "float32")
    launch(kernel(source), 1, Buffer(x, "float32"), out, M=16, N=32, AXIS=axis, REVERSE=reverse)
    assert np.allclose(out.values, expected, rtol=1e-5)


@triton.jit
def cumsum_kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(OUT + i, tl.cumsum(tl.load(X + i), axis=0))


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64"]
)
@pytest.mark.parametrize("n", [1, 2, 64, 1024])
def test_cumsum_types(dtype, n):
    x = np.arange(n) % 2
    out = Buffer.full(n, "int32" if dtype in ("int8", "int16") else "uint32" if dtype == "uint8" else dtype)
    launch(cumsum_kernel, 1, Buffer(x, dtype), out, N=n)
    assert (out.values == np.cumsum(x)).all()
