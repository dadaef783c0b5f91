"""Operations that move values: shapes, joins and splits, gathers, sorts, histograms, elementwise maps."""

import numpy as np
import pytest
from cpu_harness import Buffer, kernel, launch, mismatch

# name -> (expression over x (M, N) and y (M, N), the same in NumPy)
MOVES = {
    "trans": ("tl.trans(x)", lambda x, y: x.T),
    "method T": ("x.T", lambda x, y: x.T),
    "reshape": ("tl.reshape(x, (N, M))", lambda x, y: x.reshape(x.shape[::-1])),
    "reshape to one": ("tl.reshape(x, (M * N,))", lambda x, y: x.ravel()),
    "ravel": ("tl.ravel(x)", lambda x, y: x.ravel()),
    "reshape to four": (
        "tl.reshape(x, (2, M // 2, 4, N // 4))",
        lambda x, y: x.reshape(2, x.shape[0] // 2, 4, -1),
    ),
    "permute": (
        "tl.permute(tl.reshape(x, (2, M // 2, N)), (2, 0, 1))",
        lambda x, y: x.reshape(2, x.shape[0] // 2, -1).transpose(2, 0, 1),
    ),
    "permute five": (
        "tl.reshape(x, (2, M // 2, 2, 2, N // 4)).permute(4, 2, 0, 3, 1)",
        lambda x, y: x.reshape(2, x.shape[0] // 2, 2, 2, -1).transpose(4, 2, 0, 3, 1),
    ),
    "join": ("tl.join(x, y)", lambda x, y: np.stack([x, y], axis=-1)),
    "interleave": ("tl.interleave(x, y)", lambda x, y: np.stack([x, y], axis=-1).reshape(x.shape[0], -1)),
    "split": ("tl.split(tl.reshape(x, (M, N // 2, 2)))[1]", lambda x, y: x[:, 1::2]),
    "split and add": (
        "tl.split(tl.join(x, y))[0] - tl.split(tl.join(y, x))[0]",
        lambda x, y: x - y,
    ),
    "cat": ("tl.cat(tl.ravel(x), tl.ravel(y))", lambda x, y: np.concatenate([x.ravel(), y.ravel()])),
    "expand": ("tl.expand_dims(x, 1) + tl.expand_dims(y, 0)", lambda x, y: x[:, None] + y[None]),
    "broadcast": (
        "tl.broadcast_to(tl.sum(x, axis=1)[:, None], (M, N)) - x",
        lambda x, y: x.sum(axis=1, keepdims=True) - x,
    ),
    "broadcast both": (
        "tl.sum(x, axis=1)[:, None] * tl.sum(y, axis=0)[None, :]",
        lambda x, y: np.outer(x.sum(axis=1), y.sum(axis=0)),
    ),
    "full and zeros": ("x + tl.full((M, N), 3, tl.float32) + tl.zeros_like(x)", lambda x, y: x + 3),
    "flip": ("tl.flip(x, 1)", lambda x, y: x[:, ::-1]),
    "where by index": (
        "tl.where((tl.arange(0, M)[:, None] + tl.arange(0, N)[None, :]) % 2 == 0, x, y)",
        lambda x, y: np.where(np.add.outer(np.arange(x.shape[0]), np.arange(x.shape[1])) % 2 == 0, x, y),
    ),
    "gather along 1": (
        "tl.gather(x, (tl.abs(y).to(tl.int32) * 7) % N, axis=1)",
        lambda x, y: np.take_along_axis(x, np.abs(y).astype(int) * 7 % x.shape[1], axis=1),
    ),
    "gather along 0": (
        "tl.gather(x, (tl.abs(y).to(tl.int32) * 5) % M, axis=0)",
        lambda x, y: np.take_along_axis(x, np.abs(y).astype(int) * 5 % x.shape[0], axis=0),
    ),
    "sort": ("tl.sort(x)", lambda x, y: np.sort(x, axis=1)),
    "sort down": ("tl.sort(x, descending=True)", lambda x, y: np.sort(x, axis=1)[:, ::-1]),
    "topk": ("tl.topk(x, 4)", lambda x, y: np.sort(x, axis=1)[:, ::-1][:, :4]),
    "softmax": (
        "tl.softmax(x * 0.0078125, 1)",
        lambda x, y: np.exp(x * 0.0078125) / np.exp(x * 0.0078125).sum(axis=1, keepdims=True),
    ),
    "squeeze": ("tl.squeeze(tl.unsqueeze(x, 1), 1)", lambda x, y: x),
    "sum of a transposed": ("tl.sum(tl.trans(x), axis=0)", lambda x, y: x.sum(axis=1)),
    "transposed and back": ("tl.trans(tl.trans(x) + tl.trans(y))", lambda x, y: x + y),
    "map_elementwise": ("tl.map_elementwise(pick, x, y)", lambda x, y: np.where(x > y, x * 2, y + 1)),
}

# Sorting networks grow with the square of the logarithm: one small shape is enough.
SHAPES = dict.fromkeys(("sort", "sort down", "topk"), ((8, 16),))


def source(expression, rank):
    index = " + ".join(
        f"tl.arange(0, S{i})"
        + ("[" + ", ".join(":" if j == i else "None" for j in range(rank)) + "]")
        + f" * T{i}"
        for i in range(rank)
    )
    sizes = "".join(f", S{i}: tl.constexpr, T{i}: tl.constexpr" for i in range(rank))
    return f"""
@triton.jit
def pick(a, b):
    if a > b:
        r = a * 2
    else:
        r = b + 1
    return r


@triton.jit
def kernel(X, Y, OUT, M: tl.constexpr, N: tl.constexpr{sizes}):
    where = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(X + where)
    y = tl.load(Y + where)
    tl.store(OUT + {index}, {expression})
"""


def run_move(expression, shape, x, y, dtype="float32"):
    out = Buffer.full(shape, dtype)
    sizes = {}
    for i, size in enumerate(shape):
        sizes[f"S{i}"], sizes[f"T{i}"] = size, int(np.prod(shape[i + 1 :]))
    launch(
        kernel(source(expression, len(shape))), 1, Buffer(x, dtype), Buffer(y, dtype), out,
        M=x.shape[0], N=x.shape[1], **sizes,
    )  # fmt: skip
    return out.values


@pytest.mark.parametrize("name", MOVES)
def test_moves(name):
    expression, want = MOVES[name]
    rng = np.random.default_rng(4)
    for shape in SHAPES.get(name, ((8, 16), (16, 64))):
        x, y = rng.permutation(np.prod(shape)).reshape(shape) * 1.0, rng.integers(-99, 99, shape) * 1.0
        expected = want(x, y)
        got = run_move(expression, expected.shape, x, y)
        assert mismatch(got, expected, "float32", ulps=8) is None, name


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16", "float16", "bfloat16", "float64"])
def test_moves_of_other_types(dtype):
    x, y = np.random.default_rng(1).integers(0, 100, (2, 8, 16))
    for name in (
        "trans",
        "permute five",
        "join",
        "sort",
        "gather along 1",
        "flip",
        "topk",
        "transposed and back",
    ):
        if dtype in ("float16", "bfloat16") and name == "gather along 1":
            continue  # the index is computed from the values, in the values' precision
        expression, want = MOVES[name]
        expected = want(x, y)
        assert mismatch(run_move(expression, expected.shape, x, y, dtype), expected, dtype) is None, name


@pytest.mark.parametrize(("n", "bins"), [(64, 16), (1024, 128), (8, 2)])
def test_histogram(n, bins):
    text = """
@triton.jit
def kernel(X, OUT, MASKED, N: tl.constexpr, BINS: tl.constexpr):
    x = tl.load(X + tl.arange(0, N))
    tl.store(OUT + tl.arange(0, BINS), tl.histogram(x, BINS))
    tl.store(MASKED + tl.arange(0, BINS), tl.histogram(x, BINS, mask=x % 2 == 0))
"""
    x = np.random.default_rng(n).integers(0, bins, n)
    out, masked = Buffer.full(bins, "int32"), Buffer.full(bins, "int32")
    launch(kernel(text), 1, Buffer(x, "int32"), out, masked, N=n, BINS=bins)
    assert (out.values == np.bincount(x, minlength=bins)).all()
    assert (masked.values == np.bincount(x[x % 2 == 0], minlength=bins)).all()


def test_cat_in_order():
    text = """
@triton.jit
def kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(OUT + tl.arange(0, 2 * N), tl.cat(x, x + 100, dim=0))
"""
    out = Buffer.full(64, "int32")
    launch(kernel(text), 1, Buffer(np.arange(32), "int32"), out, N=32)
    assert (out.values == np.concatenate([np.arange(32), np.arange(32) + 100])).all()


def test_map_elementwise_with_several_results():
    text = """
@triton.jit
def both(a, b):
    if a < b:
        return a, b
    else:
        return b, a


@triton.jit
def kernel(X, Y, LOW, HIGH, N: tl.constexpr):
    i = tl.arange(0, N)
    low, high = tl.map_elementwise(both, tl.load(X + i), tl.load(Y + i))
    tl.store(LOW + i, low)
    tl.store(HIGH + i, high)
"""
    x, y = np.random.default_rng(0).integers(-9, 9, (2, 64))
    low, high = Buffer.full(64, "int32"), Buffer.full(64, "int32")
    launch(kernel(text), 1, Buffer(x, "int32"), Buffer(y, "int32"), low, high, N=64)
    assert (low.values == np.minimum(x, y)).all()
    assert (high.values == np.maximum(x, y)).all()


def test_zero_dimensional():
    text = """
@triton.jit
def kernel(X, OUT, n, f):
    x = tl.load(X + n)
    y = tl.maximum(x, f) * 2 + tl.program_id(0)
    tl.store(OUT + tl.program_id(0), y)
    tl.store(OUT + 4 + tl.program_id(0), tl.exp(x * 0.0) + tl.num_programs(0))
"""
    out = Buffer.full(8, "float32")
    launch(kernel(text), 4, Buffer(np.arange(8.0), "float32"), out, 3, 1.5)
    assert (out.values == [6, 7, 8, 9, 5, 5, 5, 5]).all()
