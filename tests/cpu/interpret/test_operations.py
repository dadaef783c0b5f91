"""Small kernels of every class of operation: interpreted in all orders, on the CPU, and in NumPy, the same."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl
from cpu_harness import INTERPRETED, Buffer, launch
from triton.language.extra import libdevice

pytestmark = pytest.mark.skipif(INTERPRETED, reason="compares with compiled code")
N = 32


def numbers(dtype, count=N * N, low=-50, high=50):
    return Buffer(np.random.default_rng(3).integers(low, high, count), dtype)


def floats(count=N * N):
    return Buffer(np.random.default_rng(4).uniform(-3, 3, count), "float32")


@triton.jit
def arithmetic_kernel(X, Y, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(X + i), tl.load(Y + i)
    tl.store(
        OUT + i, x * y + (x // (y | 1)) - (x % (y | 1)) + (x << 2) + (x >> 1) + tl.where(x > y, x & y, x ^ y)
    )


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32"])
def test_integers(alongside, dtype):
    x, y, out = numbers(dtype, N, 0), numbers(dtype, N, 1), Buffer.full(N, dtype)
    launch(arithmetic_kernel, 1, x, y, out, N=N)
    a, b = x.bits.astype(np.int64), y.bits.astype(np.int64)
    want = a * b + a // (b | 1) - a % (b | 1) + (a << 2) + (a >> 1) + np.where(a > b, a & b, a ^ b)
    assert (out.bits == want.astype(out.bits.dtype)).all()


@triton.jit
def math_kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(OUT + i, tl.exp(x) + tl.sin(x) * tl.sqrt(tl.abs(x)) - tl.floor(x))
    tl.store(OUT + N + i, tl.clamp(x, -1.0, 1.0) + tl.maximum(x, 0.5) + tl.math.rsqrt(tl.abs(x) + 1))
    tl.store(OUT + 2 * N + i, libdevice.tanh(x) + libdevice.erf(x) + tl.math.fma(x, x, 1.0))
    tl.store(OUT + 3 * N + i, tl.math.div_rn(x, 3.0) + tl.umulhi(i, i).to(tl.float32))


def test_floats_and_functions(alongside):
    x, out = floats(N), Buffer.full(4 * N, "float32")
    launch(math_kernel, 1, x, out, N=N)
    v = x.values
    erf = np.vectorize(__import__("math").erf)
    want = [
        np.exp(v) + np.sin(v) * np.sqrt(np.abs(v)) - np.floor(v),
        np.clip(v, -1, 1) + np.maximum(v, 0.5) + 1 / np.sqrt(np.abs(v) + 1),
        np.tanh(v) + erf(v) + v * v + 1,
        v / 3,
    ]
    np.testing.assert_allclose(out.values.reshape(4, N), want, rtol=1e-5, atol=1e-5)


@triton.jit
def cast_kernel(X, HALF, BRAIN, SMALL, INT, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(HALF + i, x.to(tl.float16) * 2)
    tl.store(BRAIN + i, x.to(tl.bfloat16, fp_downcast_rounding="rtz"))
    tl.store(SMALL + i, x.to(tl.float8e5).to(tl.float32).to(tl.float8e4nv))
    tl.store(INT + i, (x * 1e4).to(tl.int16) + x.to(tl.int32, bitcast=True).to(tl.int16))


def test_casts(alongside):
    x = floats(N)
    out = [Buffer.full(N, kind) for kind in ("float16", "bfloat16", "float8e4nv", "int16")]
    launch(cast_kernel, 1, x, *out, N=N)
    assert np.array_equal(out[0].bits, x.bits.astype(np.float16) * np.float16(2))
    assert np.array_equal(out[1].bits, (x.bits.view(np.uint32) >> 16).astype(np.uint16))


@triton.jit
def shape_kernel(X, OUT, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(X + i[:, None] * N + j[None, :])
    y = tl.reshape(tl.trans(x), (M, N)) + tl.flip(x, 1)
    a, b = tl.split(tl.reshape(tl.join(x, y), (M, N, 2)))
    z = a * 3 + tl.gather(b, (x & (N - 1)), axis=1)
    tl.store(OUT + i[:, None] * N + j[None, :], z + tl.broadcast_to(tl.sum(y, axis=1)[:, None], (M, N)))


def test_shapes_and_gather(alongside):
    x, out = numbers("int32", 16 * N), Buffer.full(16 * N, "int32")
    launch(shape_kernel, 1, x, out, M=16, N=N)
    a = x.bits.reshape(16, N)
    y = a.T.reshape(16, N) + a[:, ::-1]
    want = a * 3 + np.take_along_axis(y, a & (N - 1), axis=1) + y.sum(axis=1, keepdims=True)
    assert np.array_equal(out.bits.reshape(16, N), want)


@triton.jit
def _first_of_largest(value, index, other, place):
    takes = (other > value) | ((other == value) & (place < index))
    return tl.where(takes, other, value), tl.where(takes, place, index)


@triton.jit
def reduce_kernel(X, OUT, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(X + i[:, None] * N + j[None, :])
    tl.store(OUT + i, tl.max(x, axis=1) + tl.argmin(x, axis=1) + tl.xor_sum(x, axis=1))
    places = tl.broadcast_to(j[None, :], (M, N))
    most, where = tl.reduce((x, places), 1, _first_of_largest)
    tl.store(OUT + M + i, most * 100 + where)
    tl.store(OUT + 2 * M + i, tl.sum(tl.cumsum(x, axis=1, reverse=True) - tl.cumsum(x, axis=0), axis=1))
    tl.store(OUT + 3 * M + i, tl.min(tl.sort(x, dim=1) * j[None, :], axis=1) + tl.sum(x))


def test_reductions_scans_and_sort(alongside):
    x, out = numbers("int32", 16 * N), Buffer.full(4 * 16, "int32")
    launch(reduce_kernel, 1, x, out, M=16, N=N)
    a = x.bits.reshape(16, N)
    scans = np.cumsum(a[:, ::-1], axis=1)[:, ::-1] - np.cumsum(a, axis=0)
    want = [
        a.max(axis=1) + a.argmin(axis=1) + np.bitwise_xor.reduce(a, axis=1),
        a.max(axis=1) * 100 + a.argmax(axis=1),
        scans.sum(axis=1),
        (np.sort(a, axis=1) * np.arange(N)).min(axis=1) + a.sum(),
    ]
    assert np.array_equal(out.bits.reshape(4, 16), want)


@triton.jit
def histogram_kernel(X, OUT, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(OUT + tl.arange(0, 8), tl.histogram(x, 8, mask=i < n))


def test_histogram(alongside):
    x, out = numbers("int32", N, 0, 8), Buffer.full(8, "int32")
    launch(histogram_kernel, 1, x, out, 20, N=N)
    assert np.array_equal(out.bits, np.bincount(x.bits[:20], minlength=8))


@triton.jit
def dot_kernel(A, B, C, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j, q = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a_ptrs, b_ptrs = A + i[:, None] * k + q[None, :], B + q[:, None] * N + j[None, :]
    c = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        a = tl.load(a_ptrs, mask=q[None, :] + start < k, other=0.0)
        b = tl.load(b_ptrs, mask=q[:, None] + start < k, other=0.0)
        c = tl.dot(a, b, c)
        a_ptrs += K
        b_ptrs += K * N
    tl.store(C + i[:, None] * N + j[None, :], c)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_products(alongside, dtype):
    a, b, c = numbers(dtype, 16 * 40, -4, 4), numbers(dtype, 40 * N, -4, 4), Buffer.full((16, N), "float32")
    launch(dot_kernel, 1, a, b, c, 40, M=16, N=N, K=16)
    assert np.array_equal(c.values, a.values.reshape(16, 40) @ b.values.reshape(40, N))


@triton.jit
def integer_dot_kernel(A, B, C, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(C + at, tl.dot(tl.load(A + at), tl.load(B + at)))


def test_products_of_bytes(alongside):
    a, b, c = numbers("int8"), numbers("int8"), Buffer.full((N, N), "int32")
    launch(integer_dot_kernel, 1, a, b, c, N=N)
    x, y = (v.bits.reshape(N, N).astype(np.int32) for v in (a, b))
    assert np.array_equal(c.bits, x @ y)


@triton.jit(noinline=True)
def _largest_sum(factor, count):
    steps = tl.cumsum(tl.arange(0, 16) * factor, axis=0)
    for _ in range(count):
        steps = tl.cumsum(steps, axis=0)
    return tl.max(steps, axis=0), factor + 1


@triton.jit
def control_kernel(X, OUT, n, N: tl.constexpr):
    i = tl.arange(0, N)
    if n < 0:
        return
    x = tl.load(X + i)
    total = tl.zeros((N,), tl.int32)
    for step in range(n):
        if step % 2 == 0:
            total += x * step
        else:
            total = total - tl.flip(x, 0)
    left = n
    while left > 1:
        left = left // 2
        total += left
    largest, factor = _largest_sum(n, left)
    tl.store(OUT + i, total + largest * factor)


@pytest.mark.parametrize("n", [-1, 0, 1, 6])
def test_control_flow_and_calls(alongside, n):
    x, out = numbers("int32", N), Buffer.full(N, "int32", 0)
    launch(control_kernel, 1, x, out, n, N=N)
    a, total, left = x.bits, np.zeros(N, np.int32), n
    for step in range(n):
        total = total + a * step if step % 2 == 0 else total - a[::-1]
    while left > 1:
        left //= 2
        total = total + left
    steps = np.cumsum(np.arange(16) * n)
    for _ in range(left):
        steps = np.cumsum(steps)
    want = np.zeros(N) if n < 0 else total + steps.max() * (n + 1)
    assert np.array_equal(out.bits, want)


@triton.jit
def atomic_kernel(X, COUNT, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    old = tl.atomic_add(COUNT + (x & 3), x, mask=x > 0)
    tl.atomic_max(COUNT + 4, tl.max(x))
    swapped = tl.atomic_cas(COUNT + 5, 7, 9)
    tl.store(OUT + i, old * 0 + swapped + tl.atomic_xchg(COUNT + 6, 3))


def test_atomics(alongside):
    x, out = numbers("int32", N), Buffer.full(N, "int32")
    count = Buffer([0, 0, 0, 0, -100, 7, 5], "int32")
    launch(atomic_kernel, 1, x, count, out, N=N)
    a = x.bits
    sums = [a[(a > 0) & (a & 3 == k)].sum() for k in range(4)]
    assert count.bits.tolist() == [*sums, a.max(), 9, 3]
    assert (out.bits == 12).all()


@triton.jit
def descriptor_kernel(X, OUT, m, n, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(X, [m, n], [n, 1], [M, N])
    target = tl.make_tensor_descriptor(OUT, [m, n], [n, 1], [M, N])
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    target.store([row, column], source.load([row, column]) * 2)


def test_descriptors(alongside):
    x, out = numbers("int32", 21 * 24), Buffer.full(21 * 24, "int32")
    launch(descriptor_kernel, (3, 2), x, out, 21, 24, M=8, N=16)
    assert np.array_equal(out.bits, x.bits * 2)


@triton.jit
def random_kernel(OUT, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(OUT + i, tl.rand(seed, i))


def test_random_numbers(alongside):
    out = Buffer.full(256, "float32")
    launch(random_kernel, 1, out, 17, N=256)
    assert 0.4 < out.values.mean() < 0.6


@triton.jit
def _signed_root(a, b):
    if a < 0:
        return -a, b * 2
    return a + 1, b


@triton.jit
def map_kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    a, b = tl.map_elementwise(_signed_root, x, i)
    tl.store(OUT + i, a + b)


def test_map_elementwise(alongside):
    x, out = numbers("int32", N), Buffer.full(N, "int32")
    launch(map_kernel, 1, x, out, N=N)
    a, i = x.bits, np.arange(N)
    assert np.array_equal(out.bits, np.where(a < 0, -a + 2 * i, a + 1 + i))
