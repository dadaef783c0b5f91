"""The example kernels on simulated GPUs, against their float64 references; with TILEPROBE_SIMGPU_ALL, all of them."""

import os
from importlib import import_module

import numpy as np
import pytest
import triton
import triton.language as tl
from simgpu_harness import MACHINES

import tileprobe

CHOSEN = {
    "softmax": [0],
    "layer_norm": [1],
    "dropout": [1],
    "matmul": [2, 4],
    "persistent_matmul": [4],  # descriptors: bulk copies on sm_90
    "grouped_gemm": [0],  # addresses in a tensor
    "block_scaled": [1],
    "attention": [2],
}
EVERYTHING = bool(os.environ.get("TILEPROBE_SIMGPU_ALL"))
NOT_COMPILED = {("sim:a100", "block_scaled", 0)}  # Triton has no fp8e4nv on sm_80


def chosen():
    for machine in MACHINES:
        for name, numbers in CHOSEN.items():
            count = len(import_module(f"examples.kernels.{name}").CASES)
            for n in range(count) if EVERYTHING else numbers:
                if (machine, name, n) not in NOT_COMPILED:
                    yield machine, name, n


@pytest.mark.parametrize(("machine", "name", "number"), list(chosen()))
def test_example(machine, name, number):
    module = import_module(f"examples.kernels.{name}")
    with tileprobe.use(machine):
        module.check(**module.CASES[number])


@triton.jit
def counted(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(out + i % 8, value, mask=i < n)


def test_the_same_bits_whatever_the_number_of_threads():
    """Sums of floats by atomics depend on the order of programs."""
    n = 5000
    values = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    results = []
    for threads in (1, 2, 5):
        with tileprobe.use("sim:a100", threads=threads):
            x, out = tileprobe.array(values), tileprobe.array(np.zeros(8, np.float32))
            counted[(triton.cdiv(n, 256),)](x, out, n, 256)
            results.append(out.numpy().copy())
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()
    np.testing.assert_allclose(results[0], values.reshape(-1, 8).sum(0), rtol=1e-4)


@triton.jit
def integers(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a // b)
    tl.store(out + N + i, a % b)
    tl.store(out + 2 * N + i, tl.cumsum(a, 0))
    tl.store(out + 3 * N + i, tl.sort(a))
    tl.store(out + 4 * N + i, tl.where(a > b, a ^ b, (a << 3) | (b >> 1)))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers(machine, dtype):
    random = np.random.default_rng(1)
    a = random.integers(-(10**6), 10**6, 256).astype(dtype)
    b = random.integers(1, 5000, 256).astype(dtype) * random.choice([-1, 1], 256).astype(dtype)
    with tileprobe.use(machine):
        out = tileprobe.array(np.zeros(5 * 256, dtype))
        integers[(1,)](tileprobe.array(a), tileprobe.array(b), out, 256)
    found = out.numpy().reshape(5, 256)
    quotient = np.trunc(a / b).astype(dtype)
    np.testing.assert_array_equal(found[0], quotient)
    np.testing.assert_array_equal(found[1], a - quotient * b)
    np.testing.assert_array_equal(found[2], np.cumsum(a).astype(dtype))
    np.testing.assert_array_equal(found[3], np.sort(a))
    np.testing.assert_array_equal(found[4], np.where(a > b, a ^ b, (a << 3) | (b >> 1)))


@triton.jit
def functions(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, tl.exp(v))
    tl.store(out + N + i, tl.log(tl.abs(v) + 1e-3))
    tl.store(out + 2 * N + i, tl.sin(v) * tl.cos(v))
    tl.store(out + 3 * N + i, tl.sqrt(tl.abs(v)) + tl.rsqrt(tl.abs(v) + 0.5))
    tl.store(out + 4 * N + i, tl.floor(v) + tl.ceil(v) * 10)
    tl.store(out + 5 * N + i, tl.div_rn(v, 3.7) + tl.sqrt_rn(tl.abs(v)))


@pytest.mark.parametrize("machine", MACHINES)
def test_functions(machine):
    v = np.linspace(-30, 30, 256, dtype=np.float32)
    with tileprobe.use(machine):
        out = tileprobe.array(np.zeros(6 * 256, np.float32))
        functions[(1,)](tileprobe.array(v), out, 256)
    found, x = out.numpy().reshape(6, 256), v.astype(np.float64)
    np.testing.assert_allclose(found[0], np.exp(x), rtol=3e-6)
    np.testing.assert_allclose(found[1], np.log(np.abs(x) + 1e-3), rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(found[2], np.sin(x) * np.cos(x), atol=3e-7)
    np.testing.assert_allclose(found[3], np.sqrt(np.abs(x)) + 1 / np.sqrt(np.abs(x) + 0.5), rtol=1e-6)
    np.testing.assert_array_equal(found[4], (np.floor(v) + np.ceil(v) * 10))
    np.testing.assert_array_equal(found[5], v / np.float32(3.7) + np.sqrt(np.abs(v)))
