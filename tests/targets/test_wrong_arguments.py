"""A wrong argument is told with the kernel, its name and what to do: the CPU and simulated GPUs say the same."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.targets.arguments import ArgumentError, value_bits


@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def fill(pair, BLOCK: tl.constexpr):
    tl.store(pair[0] + tl.arange(0, BLOCK), pair[1])


def x():
    return tileprobe.array(np.ones(64, np.float32))


def on_another_device():
    torch = pytest.importorskip("torch")
    return torch.zeros(64, device="meta")


def complex_numbers():
    torch = pytest.importorskip("torch")
    return torch.zeros(64, dtype=torch.complex64)


def compiled():
    return double[(1,)](x(), 64, BLOCK=64)[(1, 1, 1)]


WRONG = {
    "a bare array": (
        lambda: double[(1,)](np.ones(64), 64, BLOCK=64),
        "kernel double, argument 'x_ptr': got a NumPy array; wrap it with tileprobe.array",
    ),
    "a NumPy number": (
        lambda: double[(1,)](x(), np.int64(64), BLOCK=64),
        "argument 'n': got a NumPy int64; use a Python number",
    ),
    "a list": (
        lambda: double[(1,)]([1.0], 64, BLOCK=64),
        "argument 'x_ptr': got a list; expected a tensor",
    ),
    "within a tuple": (
        lambda: fill[(1,)]((np.ones(64), 1.0), BLOCK=64),
        "argument 'pair[0]': got a NumPy array; wrap it",
    ),
    "complex numbers": (
        lambda: double[(1,)](complex_numbers(), 64, BLOCK=64),
        "argument 'x_ptr': kernels have no dtype torch.complex64",
    ),
    "another device": (
        lambda: double[(1,)](on_another_device(), 64, BLOCK=64),
        "argument 'x_ptr': expected a tensor in this machine's memory, got one on device 'meta'",
    ),
    "a number too large": (
        lambda: double[(1,)](x(), 2**70, BLOCK=64),
        f"argument 'n': {2**70} has more than 64 bits",
    ),
    "a constant that is none": (
        lambda: double[(1,)](x(), 64, BLOCK=[64]),
        "argument 'BLOCK': got a list; constants (tl.constexpr) are hashable",
    ),
    "too few": (lambda: double[(1,)](x(), BLOCK=64), "kernel double: missing a required argument: 'n'"),
    "too many": (lambda: double[(1,)](x(), 64, 64, 7), "kernel double: too many positional arguments"),
    "a grid that is a number": (
        lambda: double[4](x(), 64, BLOCK=64),
        "kernel double: the grid is a tuple of one to three integers, or a function that gives one; got 4",
    ),
    "a grid of nothing": (lambda: double[()](x(), 64, BLOCK=64), "got ()"),
    "a grid of floats": (
        lambda: double[(4.0,)](x(), 64, BLOCK=64),
        "kernel double: the grid must be made of integers, got 4.0",
    ),
    "compiled, too few": (
        lambda: compiled()(x(), 64),
        "kernel double: 2 arguments are given, and 'BLOCK' missing",
    ),
    "compiled, too many": (
        lambda: compiled()(x(), 64, 64, 5),
        "kernel double: 4 arguments are given, and it takes 3 (x_ptr, n, BLOCK)",
    ),
    "compiled, a bare array": (
        lambda: compiled()(np.ones(64), 64, 64),
        "argument 'x_ptr': expected a tensor (*fp32), got a ndarray; wrap a NumPy array with tileprobe.array",
    ),
    "compiled, a text": (
        lambda: compiled()(x(), "64", 64),
        "argument 'n': expected a number (i32), got str '64'",
    ),
}


@pytest.mark.parametrize("target", ["cpu", "sim:a100"])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named(target, name):
    launch, says = WRONG[name]
    with tileprobe.use(target), pytest.raises(ArgumentError) as caught:
        launch()
    assert says in str(caught.value)


@pytest.mark.parametrize("target", ["cpu", "sim:a100"])
def test_an_error_of_the_kernels_own_stays_as_it_is(target):
    with tileprobe.use(target), pytest.raises(triton.CompilationError, match="power of 2"):
        double[(1,)](x(), 64, BLOCK=60)


def test_floats_too_large_become_infinite():
    assert value_bits("k", "x", "fp32", 1e300) == 0x7F800000
    assert value_bits("k", "x", "fp16", -1e9) == 0xFC00
    assert value_bits("k", "x", "bf16", 1e300) == 0x7F80
