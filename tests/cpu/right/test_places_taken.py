"""A place that a product left its result in is taken, also if the tile it was made for is not needed any more."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_harness import Buffer, kernel, launch

BODIES = {
    # the first product leaves its result in y's place, which the second is to fill
    "dot and dot": ("x = tl.dot(a, x, y)", "y = tl.dot(tl.trans(x), a)"),
    "dot and sum": ("x = tl.dot(a, x, y)", "y = x + a"),
    "dot of both": ("x = tl.dot(a, y, x)", "y = tl.dot(x, a, y)"),
    "sum and dot": ("x = x + y", "y = tl.dot(x, a)"),
}


@pytest.mark.parametrize("name", list(BODIES))
@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_two_carried_tiles(name, size, steps):
    first, second = BODIES[name]
    source = f"""
@triton.jit
def kernel(A, X, Y, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    p = i[:, None] * N + i[None, :]
    a, x, y = tl.load(A + p), tl.load(X + p), tl.load(Y + p)
    for _ in range(steps):
        {first}
        {second}
    tl.store(X + p, x)
    tl.store(Y + p, y)
"""
    rng = np.random.default_rng(7)
    a, x, y = (rng.integers(-1, 2, (size, size)).astype(np.float64) for _ in range(3))
    held = [Buffer(v, "float64") for v in (a, x, y)]
    launch(kernel(source), 1, *held, steps, N=size)
    for _ in range(steps):
        if name == "dot and dot":
            x = a @ x + y
            y = x.T @ a
        elif name == "dot and sum":
            x = a @ x + y
            y = x + a
        elif name == "dot of both":
            x = a @ y + x
            y = x @ a + y
        else:
            x = x + y
            y = x @ a
    np.testing.assert_array_equal(held[1].values, x)
    np.testing.assert_array_equal(held[2].values, y)
