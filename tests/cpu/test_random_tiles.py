"""Property tests of shapes: random chains of reductions, scans, transposes, reshapes, gathers and products.

Tiles hold small whole numbers, kept small after each step, so float products are exact and every order of
summation gives the same. A part of the chain may run in a loop that carries its tiles along.
"""

from __future__ import annotations

import os

import numpy as np
from cpu_harness import Buffer, kernel, launch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = os.environ.get("TILEPROBE_TEST_EXAMPLES", "")
SETTINGS = settings(
    max_examples=int(EXAMPLES or 25),
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def small(x):
    return (x.astype(np.int64) & 15).astype(np.int32) - 8


# expression of a and b, both (M, N); the same in NumPy; every result is brought back to (M, N) and made small
STEPS = {
    "a + b": lambda a, b: a + b,
    "a * b": lambda a, b: a * b,
    "tl.where(a > b, a, 0 - b)": lambda a, b: np.where(a > b, a, -b),
    "a - tl.sum(b, axis=1)[:, None]": lambda a, b: a - b.sum(axis=1, keepdims=True),
    "a - tl.sum(b, axis=0)[None, :]": lambda a, b: a - b.sum(axis=0, keepdims=True),
    "a + tl.max(b, axis=1, keep_dims=True)": lambda a, b: a + b.max(axis=1, keepdims=True),
    "a * tl.min(b, axis=0, keep_dims=True)": lambda a, b: a * b.min(axis=0, keepdims=True),
    "a + tl.sum(b)": lambda a, b: a + b.sum(),
    "a + tl.argmax(b, axis=1)[:, None]": lambda a, b: a + b.argmax(axis=1)[:, None],
    "tl.cumsum(a, axis=0) + b": lambda a, b: np.cumsum(a, axis=0) + b,
    "tl.cumsum(a, axis=1, reverse=True) - b": lambda a, b: np.cumsum(a[:, ::-1], axis=1)[:, ::-1] - b,
    "tl.trans(tl.trans(a) + tl.trans(b))": lambda a, b: a + b,
    "tl.reshape(tl.trans(a), (M, N)) + b": lambda a, b: a.T.reshape(a.shape) + b,
    "tl.reshape(tl.reshape(a, (M * N,)) + tl.arange(0, M * N), (M, N)) + b": lambda a, b: (
        a + np.arange(a.size).reshape(a.shape) + b
    ),
    "tl.sum(tl.reshape(a, (M, N // 2, 2)), axis=2)[:, :, None].broadcast_to(M, N // 2, 2).reshape(M, N) + b": (
        lambda a, b: np.repeat(a.reshape(len(a), -1, 2).sum(axis=2), 2, axis=1) + b
    ),
    "tl.gather(a, (b & (N - 1)), axis=1)": lambda a, b: np.take_along_axis(a, b & (a.shape[1] - 1), axis=1),
    "tl.gather(a, (b & (M - 1)), axis=0)": lambda a, b: np.take_along_axis(a, b & (a.shape[0] - 1), axis=0),
    "tl.flip(a, 1) - b": lambda a, b: a[:, ::-1] - b,
    "tl.split(tl.join(b, a))[1] * 3 - b": lambda a, b: a * 3 - b,
    "tl.dot(a.to(tl.float32), tl.trans(b).to(tl.float32)).to(tl.int32).sum(axis=1)[:, None] + a": lambda a, b: (
        (a @ b.T).sum(axis=1, keepdims=True) + a
    ),
    "tl.dot(tl.dot(a.to(tl.float16), tl.trans(b).to(tl.float16)).to(tl.float32), b.to(tl.float32)).to(tl.int32)": (
        lambda a, b: a @ b.T @ b
    ),
}


def run(lines, m, n, x, y):
    body = "\n".join(f"    {line}" for line in lines)
    text = f"""
@triton.jit
def kernel(X, Y, OUT, rounds, M: tl.constexpr, N: tl.constexpr):
    where = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(X + where)
    b = tl.load(Y + where)
{body}
    tl.store(OUT + where, a * 100 + b)
"""
    out = Buffer.full((m, n), "int32")
    launch(kernel(text), 1, Buffer(x, "int32"), Buffer(y, "int32"), out, 3, M=m, N=n)
    return out.values


@SETTINGS
@given(data=st.data(), m=st.sampled_from([1, 2, 4, 16, 32]), n=st.sampled_from([2, 8, 16, 64]))
def test_chains(data, m, n):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x, y = rng.integers(-8, 8, (2, m, n)).astype(np.int32)
    names = data.draw(st.lists(st.sampled_from(list(STEPS)), min_size=2, max_size=6))
    looped = data.draw(st.integers(0, len(names)))  # how many of the first ones are in the loop
    targets = [data.draw(st.sampled_from(["a", "b"])) for _ in names]
    text = [f"{t} = (({name}) & 15) - 8" for t, name in zip(targets, names)]
    lines = ["for _ in range(rounds):", *(f"    {line}" for line in text[:looped])] if looped else []
    values = {"a": x, "b": y}
    order = list(range(looped)) * 3 + list(range(looped, len(names)))
    for step in order:
        values[targets[step]] = small(STEPS[names[step]](values["a"], values["b"]))
    got = run([*lines, *text[looped:]], m, n, x, y)
    np.testing.assert_array_equal(got, values["a"] * 100 + values["b"])
