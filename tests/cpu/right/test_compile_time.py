"""The time to compile does not explode with the depth of an expression.

Chains in which each step uses the one before more than once: whoever walks them without remembering visits
2**depth ops. The bounds are far from what it should take; a walk of that kind never comes near them.
"""

import numpy as np
import pytest
from cpu_harness import INTERPRETED, kernel
from right_harness import run

# What a step of the chain is, in Triton and in NumPy.
STEPS = {
    "heavy": ("y * y - tl.floor(y * y * 0.5)", lambda y: y * y - np.floor(y * y * np.float32(0.5))),
    "sum": ("(y + y) * 0.25 + y * 0.5", lambda y: (y + y) * np.float32(0.25) + y * np.float32(0.5)),
    "exp": ("tl.exp(-y * y) + y * 0.25", lambda y: np.exp(-y * y) + y * np.float32(0.25)),
    "select": ("tl.where(y > 0.5, y - 0.5, y + 0.25)", lambda y: np.where(y > 0.5, y - 0.5, y + 0.25)),
    "divide": ("(y + 1) / (y * y + 2)", lambda y: (y + 1) / (y * y + 2)),
}


def chain(step, depth, ending, start="tl.load(X + i)"):
    lines = "\n".join(f"    y = {step}" for _ in range(depth))
    return kernel(f"""
@triton.jit
def kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    y = {start}
{lines}
    {ending}
""")


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("depth", [6, 40])
def test_chain(step, depth):
    text, function = STEPS[step]
    x = np.linspace(0.1, 0.9, 64, dtype=np.float32)
    got = run(chain(text, depth, "tl.store(OUT + i, y)"), x, np.zeros_like(x), N=64)[1]
    if depth < 10:  # rounding errors grow along the chain
        for _ in range(depth):
            x = function(x).astype(np.float32)
        np.testing.assert_allclose(got, x, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("depth", [40])
@pytest.mark.parametrize(
    "ending",
    [
        "tl.store(OUT + i, y - tl.max(y) + tl.sum(y))",
        "tl.store(OUT + i, tl.cumsum(y, 0) + y)",
        "tl.store(OUT + i, tl.sort(y))",
        "tl.store(OUT + i, tl.reshape(tl.trans(tl.reshape(y, (8, 8))), (64,)) + y)",
    ],
    ids=["reduced", "scanned", "sorted", "permuted"],
)
def test_chain_that_several_stages_use(step, depth, ending):
    x = np.linspace(0.1, 0.9, 64, dtype=np.float32)
    deep = chain(STEPS[step][0], depth, ending, start="tl.exp(tl.load(X + i)) * 0.25")
    run(deep, x, np.zeros_like(x), N=64)


STARTS = {
    "kept": "tl.exp(tl.load(X + i)) * 0.25\n    tl.store(OUT + i, y)",
    "stored over": "tl.load(X + i)\n    tl.store(X + i, i * 0.5)",
    "product": "tl.exp(tl.load(X + i))\n    y = y / tl.sum(y)",
}


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("step", STEPS)
def test_chain_behind_a_tile_that_is_kept(start, step):
    x = np.linspace(0.1, 0.9, 64, dtype=np.float32)
    deep = chain(STEPS[step][0], 40, "tl.store(OUT + i, y)", start=STARTS[start])
    run(deep, x, np.zeros_like(x), N=64)


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
@pytest.mark.parametrize(
    "step",
    ["tl.trans(y) + y", "tl.reshape(tl.trans(y), (16, 16)) - y", "tl.flip(y, 1) * 0.5 + y * 0.5"],
    ids=["trans", "reshape", "flip"],
)
def test_chain_of_permutations(step):
    """Each use wants its operand at two places: kept somewhere on the way, or the expression doubles each time."""
    lines = "\n".join(f"    y = {step}" for _ in range(16))
    deep = kernel(f"""
@triton.jit
def kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    y = tl.load(X + where)
{lines}
    tl.store(OUT + where, y)
""")
    x = np.random.default_rng(1).integers(-1, 2, (16, 16)).astype(np.float32)
    run(deep, x, np.zeros_like(x), N=16)


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_chain_of_masks_and_indices():
    lines = "\n".join(f"    m = m & ((i + {k}) % (n + {k}) < n) | (m & (i > {k}))" for k in range(24))
    masks = kernel(f"""
@triton.jit
def kernel(X, OUT, n, N: tl.constexpr):
    i = tl.arange(0, N)
    m = i < n
{lines}
    tl.store(OUT + i, tl.load(X + i, mask=m, other=0), mask=m)
""")
    x = np.arange(64, dtype=np.float32)
    run(masks, x, np.zeros_like(x), 50, N=64)


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_chain_in_a_loop():
    lines = "\n".join("        y = y * y - tl.floor(y * y * 0.5)" for _ in range(12))
    loop = kernel(f"""
@triton.jit
def kernel(X, OUT, n, N: tl.constexpr):
    i = tl.arange(0, N)
    y = tl.load(X + i)
    for _ in range(n):
{lines}
    tl.store(OUT + i, y)
""")
    x = np.linspace(0.1, 0.9, 64, dtype=np.float32)
    run(loop, x, np.zeros_like(x), 3, N=64)
