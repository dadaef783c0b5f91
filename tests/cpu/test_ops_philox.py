"""Triton's random numbers, bit by bit against Philox 4x32-10 in NumPy."""

import numpy as np
import pytest
import triton
import triton.language as tl
from cpu_harness import Buffer, launch
from examples.kernels.dropout import philox, uniform


@triton.jit
def words_kernel(OUT, seed, offset, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c, d = tl.randint4x(seed, offset + i)
    tl.store(OUT + i, a)
    tl.store(OUT + N + i, b)
    tl.store(OUT + 2 * N + i, c)
    tl.store(OUT + 3 * N + i, d)
    tl.store(OUT + 4 * N + i, tl.randint(seed, offset + i))


@pytest.mark.parametrize("seed", [0, 1, 1234567, 2**40 + 17, 2**63 - 1])
@pytest.mark.parametrize("offset", [0, 1000])
def test_words(seed, offset):
    out = Buffer.full((5, 64), "uint32")
    launch(words_kernel, 1, out, seed, offset, N=64)
    words = philox(seed, np.arange(64) + offset)
    assert (out.values == np.array([*words, words[0]])).all()


@triton.jit
def floats_kernel(OUT, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(OUT + i, tl.rand(seed, i))
    a, b, c, d = tl.rand4x(seed, i)
    tl.store(OUT + N + i, a)
    tl.store(OUT + 2 * N + i, b)
    tl.store(OUT + 3 * N + i, c)
    tl.store(OUT + 4 * N + i, d)
    tl.store(OUT + 5 * N + i, tl.randn(seed, i))


@pytest.mark.parametrize("seed", [7, 2**35 + 3])
def test_floats(seed):
    n = 256
    out = Buffer.full((6, n), "float32")
    launch(floats_kernel, 1, out, seed, N=n)
    u = [uniform(w) for w in philox(seed, np.arange(n))]
    assert (out.values[:5] == np.array([u[0], *u])).all()
    radius = np.sqrt(-2 * np.log(np.maximum(u[0].astype(float), 1e-7)))
    assert np.allclose(out.values[5], radius * np.cos(2 * np.pi * u[1].astype(float)), atol=2e-6)
