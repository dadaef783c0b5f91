"""The same kernel on a simulated GPU and on the CPU target: random chains of operations, reductions and products.

Integers must agree in every bit, floats to rounding: the targets fuse and approximate differently. With
TILEPROBE_SIMGPU_ALL, many more of each.
"""

import os

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe

COUNT = 40 if os.environ.get("TILEPROBE_SIMGPU_ALL") else 3
N = 256
WHOLE = ("add", "sub", "mul", "and", "or", "xor", "min", "max", "shl", "shr", "sel", "div", "rem")
FLOAT = ("add", "sub", "mul", "min", "max", "sel", "sqrt", "exp", "fma", "floor", "half")


@triton.jit
def step(a, b, op: tl.constexpr):
    if op == "add":
        return a + b
    elif op == "sub":
        return a - b
    elif op == "mul":
        return a * b
    elif op == "and":
        return a & b
    elif op == "or":
        return a | b
    elif op == "xor":
        return a ^ b
    elif op == "min":
        return tl.minimum(a, b)
    elif op == "max":
        return tl.maximum(a, b)
    elif op == "shl":
        return a << (b & 7)
    elif op == "shr":
        return a >> (b & 7)
    elif op == "sel":
        return tl.where(a > b, a, b - a)
    elif op == "div":
        return a // (b | 1)
    elif op == "rem":
        return a % (b | 1)
    elif op == "sqrt":
        return tl.sqrt(tl.abs(a)) + b
    elif op == "exp":
        return tl.exp(-tl.abs(a)) + b
    elif op == "fma":
        return a * 0.5 + b
    elif op == "floor":
        return tl.floor(a) + b
    else:
        return a.to(tl.float16).to(tl.float32) - b


@triton.jit
def chain(x, y, out, n, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, R: tl.constexpr,
          SIZE: tl.constexpr):  # fmt: skip
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    a, b = tl.load(x + i, mask=i < n, other=1), tl.load(y + i, mask=i < n, other=1)
    c = step(step(a, b, A), a, B)
    d = step(step(c, b, C), step(b, a, A), D)
    if R == "sum":
        d = d + tl.sum(c, 0)
    elif R == "max":
        d = d + tl.max(d, 0)
    elif R == "scan":
        d = tl.cumsum(d, 0)
    elif R == "sort":
        d = tl.sort(d)
    tl.store(out + i, d, mask=i < n)


@triton.jit
def product(x, y, out, M: tl.constexpr, K: tl.constexpr, A: tl.constexpr):
    i, k = tl.arange(0, M), tl.arange(0, K)
    a, b = tl.load(x + i[:, None] * K + k[None, :]), tl.load(y + k[:, None] * M + i[None, :])
    tl.store(out + i[:, None] * M + i[None, :], step(tl.dot(a, b), 1.0, A))


def on(target, kernel, grid, arrays, *more):
    with tileprobe.use(target):
        given = [tileprobe.array(array.copy()) for array in arrays]
        kernel[grid](*given, *more)
        return np.array(given[-1].numpy())


@pytest.mark.parametrize("machine", ["sim:a100", "sim:h100"])
@pytest.mark.parametrize("seed", range(COUNT))
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_chains(machine, dtype, seed):
    random = np.random.default_rng(seed)
    whole = dtype == np.int32
    names = WHOLE if whole else FLOAT
    ops = [str(random.choice(names)) for _ in range(4)]
    how = str(random.choice(["", "sum", "max", "sort"] + (["scan"] if whole else [])))
    values = random.integers(-1000, 1000, (2, 2 * N)) if whole else random.standard_normal((2, 2 * N))
    x, y = values.astype(dtype)
    arrays = x, y, np.zeros(2 * N, dtype)
    sim, cpu = (on(t, chain, (2,), arrays, 2 * N - 7, *ops, how, N) for t in (machine, "cpu"))
    if whole:
        np.testing.assert_array_equal(sim, cpu, err_msg=f"{ops} {how}")
    else:
        np.testing.assert_allclose(sim, cpu, rtol=2e-5, atol=1e-4, err_msg=f"{ops} {how}")


@pytest.mark.parametrize("machine", ["sim:a100", "sim:h100"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_products(machine, dtype):
    random = np.random.default_rng(0)
    x, y = (random.integers(-4, 5, shape).astype(dtype) for shape in ((64, 32), (32, 64)))
    arrays = x, y, np.zeros((64, 64), np.float32)
    sim, cpu = (on(t, product, (1,), arrays, 64, 32, "mul") for t in (machine, "cpu"))
    np.testing.assert_array_equal(sim, cpu)
