"""Kernels as people write them beyond the tutorials: quantised, sparse, recurrent, split along K, with look-back.

Each one stands for a pattern (how it indexes, loops or synchronises) and is checked against NumPy.
"""

import numpy as np
import pytest
import triton
import triton.language as tl
from cpu_harness import INTERPRETED, Buffer, launch


def rng(seed=0):
    return np.random.default_rng(seed)


@triton.jit
def rms_norm_kernel(X, W, OUT, n, eps, N: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, N)
    x = tl.load(X + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x) / n + eps)
    tl.store(OUT + row * n + i, (x * scale * tl.load(W + i, mask=i < n)).to(OUT.dtype.element_ty), mask=i < n)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rms_norm(dtype):
    x, w = Buffer(rng().standard_normal((7, 100)), dtype), Buffer(rng(1).standard_normal(100), dtype)
    out = Buffer.full((7, 100), dtype)
    launch(rms_norm_kernel, 7, x, w, out, 100, 1e-6, N=128)
    want = x.values / np.sqrt((x.values**2).mean(axis=1, keepdims=True) + 1e-6) * w.values
    assert np.allclose(
        out.values, want, rtol={"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype], atol=1e-5
    )


@triton.jit
def rotary_kernel(X, COS, SIN, OUT, length, HALF: tl.constexpr):
    at = tl.program_id(0)
    i = tl.arange(0, HALF)
    position = at % length
    cos, sin = tl.load(COS + position * HALF + i), tl.load(SIN + position * HALF + i)
    pair = tl.load(X + at * 2 * HALF + tl.arange(0, 2 * HALF))
    even, odd = tl.split(tl.reshape(pair, (HALF, 2)))
    turned = tl.interleave(even * cos - odd * sin, even * sin + odd * cos)
    tl.store(OUT + at * 2 * HALF + tl.arange(0, 2 * HALF), turned)


def test_rotary_embedding():
    heads, length, half = 3, 5, 16
    x = rng().standard_normal((heads, length, 2 * half)).astype(np.float32)
    angle = np.arange(length)[:, None] * 10000.0 ** (-np.arange(half) / half)
    out = Buffer.full(x.shape, "float32")
    cos, sin = Buffer(np.cos(angle), "float32"), Buffer(np.sin(angle), "float32")
    launch(rotary_kernel, heads * length, Buffer(x, "float32"), cos, sin, out, length, HALF=half)
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
    want = np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)
    assert np.allclose(out.values, want, atol=1e-5)


@triton.jit
def cross_entropy_kernel(LOGITS, TARGET, LOSS, GRAD, n, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(TARGET + row)
    if target < 0:
        tl.store(LOSS + row, 0.0)
        return
    i = tl.arange(0, N)
    best = -float("inf")
    total = 0.0
    for start in range(0, n, N):
        x = tl.load(LOGITS + row * n + start + i, mask=start + i < n, other=-float("inf"))
        new = tl.maximum(best, tl.max(x))
        total = total * tl.exp(best - new) + tl.sum(tl.exp(x - new))
        best = new
    lse = best + tl.log(total)
    tl.store(LOSS + row, lse - tl.load(LOGITS + row * n + target))
    for start in range(0, n, N):
        inside = start + i < n
        x = tl.load(LOGITS + row * n + start + i, mask=inside, other=0.0)
        tl.store(GRAD + row * n + start + i, tl.exp(x - lse) - (start + i == target), mask=inside)


def test_cross_entropy():
    x = rng().standard_normal((6, 300)) * 4
    target = np.array([0, 299, -1, 17, 128, 127])
    loss, grad = Buffer.full(6, "float32"), Buffer(np.zeros((6, 300)), "float32")
    launch(cross_entropy_kernel, 6, Buffer(x, "float32"), Buffer(target, "int64"), loss, grad, 300, N=128)
    lse = np.log(np.exp(x).sum(axis=1))
    on = target >= 0
    assert np.allclose(loss.values, np.where(on, lse - x[np.arange(6), target], 0), atol=1e-5)
    want = np.exp(x - lse[:, None]) - (np.arange(300) == target[:, None])
    assert np.allclose(grad.values, want * on[:, None], atol=1e-6)


@triton.jit
def int4_kernel(
    A, B, SCALE, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(A + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
        packed = tl.load(B + (k[:, None] // 2) * N + n[None, :], mask=n[None, :] < N, other=0)
        nibble = (packed >> ((k[:, None] % 2) * 4).to(tl.uint8)) & 0xF
        scale = tl.load(SCALE + (k[:, None] // GROUP) * N + n[None, :], mask=n[None, :] < N, other=0.0)
        b = (nibble.to(tl.float32) - 8.0) * scale
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(C + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


def test_weights_of_four_bits():
    m, n, k, group = 20, 40, 128, 32
    a, q = rng().standard_normal((m, k)), rng(1).integers(0, 16, (k, n))
    scale = rng(2).uniform(0.5, 1.5, (k // group, n))
    packed = (q[::2] | q[1::2] << 4).astype(np.uint8)
    c = Buffer.full((m, n), "float32")
    launch(int4_kernel, (2, 2), Buffer(a, "float32"), Buffer(packed, "uint8"), Buffer(scale, "float32"), c, m, n, k,
           BM=16, BN=32, BK=32, GROUP=group)  # fmt: skip
    assert np.allclose(c.values, a @ ((q - 8.0) * np.repeat(scale, group, axis=0)), atol=1e-3)


@triton.jit
def split_k_kernel(A, B, C, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(tl.program_id(0) * BK, K, BK * SPLIT):
        k = start + tl.arange(0, BK)
        a = tl.load(A + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        b = tl.load(B + k[:, None] * BN + n[None, :], mask=k[:, None] < K, other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    tl.atomic_add(C + m[:, None] * BN + n[None, :], total, sem="relaxed")


def test_split_k():
    a, b = rng().integers(-3, 4, (16, 500)), rng(1).integers(-3, 4, (500, 32))
    c = Buffer(np.zeros((16, 32)), "float32")
    launch(
        split_k_kernel, 5, Buffer(a, "float32"), Buffer(b, "float32"), c, 500, BM=16, BN=32, BK=32, SPLIT=5
    )
    assert (c.values == a @ b).all()


@triton.jit
def look_back_kernel(X, OUT, STATE, TICKET, n, N: tl.constexpr):
    block = tl.atomic_add(TICKET, 1)  # programs take blocks in the order in which they start
    i = block * N + tl.arange(0, N)
    x = tl.load(X + i, mask=i < n, other=0)
    total = tl.sum(x)
    before = total * 0
    if block > 0:
        state = tl.atomic_add(STATE + block - 1, 0)
        while state == 0:
            state = tl.atomic_add(STATE + block - 1, 0)
        before = (state - 1).to(tl.int32)
    tl.atomic_xchg(STATE + block, (before + total + 1).to(tl.int64))
    tl.store(OUT + i, before + tl.cumsum(x, axis=0), mask=i < n)


def test_prefix_sum_with_look_back():
    n, block = 1000, 64
    x = rng().integers(0, 9, n)
    out, state = Buffer.full(n, "int32"), Buffer(np.zeros(16), "int64")
    launch(look_back_kernel, 16, Buffer(x, "int32"), out, state, Buffer(np.zeros(1), "int32"), n, N=block)
    assert (out.values == np.cumsum(x)).all()


@triton.jit
def spmv_kernel(ROWS, COLS, VALUES, X, OUT, N: tl.constexpr):
    row = tl.program_id(0)
    start, end = tl.load(ROWS + row), tl.load(ROWS + row + 1)
    total = tl.zeros((N,), tl.float32)
    for at in range(start, end, N):
        i = at + tl.arange(0, N)
        cols = tl.load(COLS + i, mask=i < end, other=0)
        total += tl.load(VALUES + i, mask=i < end, other=0.0) * tl.load(X + cols, mask=i < end, other=0.0)
    tl.store(OUT + row, tl.sum(total))


def test_sparse_matrix_times_vector():
    dense = rng().integers(-4, 5, (30, 70)) * (rng(1).random((30, 70)) < 0.3)
    dense[4] = 0
    rows = np.concatenate([[0], np.cumsum((dense != 0).sum(axis=1))])
    cols, values = np.nonzero(dense)[1], dense[dense != 0]
    x, out = rng(2).integers(-4, 5, 70), Buffer.full(30, "float32")
    launch(spmv_kernel, 30, Buffer(rows, "int32"), Buffer(cols, "int32"), Buffer(values, "float32"),
           Buffer(x, "float32"), out, N=16)  # fmt: skip
    assert (out.values == dense @ x).all()


@triton.jit
def conv_kernel(X, W, OUT, C, H, V, KH: tl.constexpr, KW: tl.constexpr, BLOCK: tl.constexpr, F: tl.constexpr):
    """Convolution of (C, H, V) with (F, C, KH, KW), a window of zeros around it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y, x = at // V, at % V
    f = tl.arange(0, F)
    total = tl.zeros((BLOCK, F), tl.float32)
    for c in range(C):
        for dy in tl.static_range(KH):
            for dx in tl.static_range(KW):
                yy, xx = y + dy - KH // 2, x + dx - KW // 2
                inside = (yy >= 0) & (yy < H) & (xx >= 0) & (xx < V) & (at < H * V)
                value = tl.load(X + (c * H + yy) * V + xx, mask=inside, other=0.0)
                weight = tl.load(W + ((f * C + c) * KH + dy) * KW + dx)
                total += value[:, None] * weight[None, :]
    tl.store(OUT + f[None, :] * (H * V) + at[:, None], total, mask=(at < H * V)[:, None])


def test_convolution():
    c, h, v, f = 3, 9, 11, 4
    x, w = rng().integers(-3, 4, (c, h, v)), rng(1).integers(-3, 4, (f, c, 3, 3))
    out = Buffer.full((f, h, v), "float32")
    launch(
        conv_kernel, 4, Buffer(x, "float32"), Buffer(w, "float32"), out, c, h, v, KH=3, KW=3, BLOCK=32, F=f
    )
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    assert (out.values == np.einsum("chvij,fcij->fhv", windows, w)).all()


@triton.jit
def state_space_kernel(X, A, B, C, OUT, length, D: tl.constexpr, S: tl.constexpr):
    d, s = tl.arange(0, D), tl.arange(0, S)
    state = tl.zeros((D, S), tl.float32)
    a = tl.load(A + d[:, None] * S + s[None, :])
    for t in range(length):
        x = tl.load(X + t * D + d)
        b, c = tl.load(B + t * S + s), tl.load(C + t * S + s)
        state = state * tl.exp(a * 0.1) + x[:, None] * b[None, :]
        tl.store(OUT + t * D + d, tl.sum(state * c[None, :], axis=1))


def test_selective_scan():
    length, d, s = 20, 16, 8
    x, a = rng().standard_normal((length, d)), -rng(1).random((d, s))
    b, c = rng(2).standard_normal((2, length, s))
    out = Buffer.full((length, d), "float32")
    launch(state_space_kernel, 1, *(Buffer(v, "float32") for v in (x, a, b, c)), out, length, D=d, S=s)
    state, want = np.zeros((d, s)), []
    for t in range(length):
        state = state * np.exp(a * 0.1) + np.outer(x[t], b[t])
        want.append(state @ c[t])
    assert np.allclose(out.values, want, atol=1e-4)


@triton.jit
def embedding_backward_kernel(INDEX, GRAD, OUT, n, d, N: tl.constexpr, D: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    j = tl.arange(0, D)
    inside = (i < n)[:, None] & (j < d)[None, :]
    rows = tl.load(INDEX + i, mask=i < n, other=0)
    grad = tl.load(GRAD + i[:, None] * d + j[None, :], mask=inside, other=0.0)
    tl.atomic_add(OUT + rows[:, None] * d + j[None, :], grad, mask=inside)


def test_embedding_backward():
    index, grad = rng().integers(0, 6, 75), rng(1).integers(-5, 6, (75, 20))
    out = Buffer(np.zeros((6, 20)), "float32")
    launch(
        embedding_backward_kernel, 5, Buffer(index, "int64"), Buffer(grad, "float32"), out, 75, 20, N=16, D=32
    )
    want = np.zeros((6, 20))
    np.add.at(want, index, grad)
    assert (out.values == want).all()


@triton.jit
def routing_kernel(SCORES, CHOSEN, WEIGHTS, E: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    e = tl.arange(0, E)
    scores = tl.load(SCORES + row * E + e)
    scores = tl.exp(scores - tl.max(scores))
    scores /= tl.sum(scores)
    for k in tl.static_range(K):
        top, at = tl.max(scores, axis=0, return_indices=True)
        tl.store(CHOSEN + row * K + k, at)
        tl.store(WEIGHTS + row * K + k, top)
        scores = tl.where(e == at, -1.0, scores)


def test_routing_to_experts():
    x = rng().standard_normal((9, 16))
    chosen, weights = Buffer.full((9, 3), "int32"), Buffer.full((9, 3), "float32")
    launch(routing_kernel, 9, Buffer(x, "float32"), chosen, weights, E=16, K=3)
    p = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    order = np.argsort(-p, axis=1)[:, :3]
    assert (chosen.values == order).all()
    assert np.allclose(weights.values, np.take_along_axis(p, order, axis=1), rtol=1e-5)


@triton.jit
def transpose_kernel(X, OUT, M, N, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    x = tl.load(X + r[:, None] * N + c[None, :], mask=(r[:, None] < M) & (c[None, :] < N))
    tl.store(OUT + c[:, None] * M + r[None, :], tl.trans(x), mask=(c[:, None] < N) & (r[None, :] < M))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
def test_transpose(dtype):
    x = rng().integers(-99, 99, (45, 70))
    out = Buffer.full((70, 45), dtype)
    launch(transpose_kernel, (2, 3), Buffer(x, dtype), out, 45, 70, B=32)
    assert (out.values == x.T).all()


@triton.jit
def decode_kernel(Q, K, V, TABLE, LENGTHS, OUT, PAGE: tl.constexpr, D: tl.constexpr, PAGES: tl.constexpr):
    """One query a program against keys in pages that lie anywhere."""
    p = tl.program_id(0)
    d, j = tl.arange(0, D), tl.arange(0, PAGE)
    q = tl.load(Q + p * D + d)
    length = tl.load(LENGTHS + p)
    best, total = -float("inf"), 0.0
    out = tl.zeros((D,), tl.float32)
    for start in range(0, length, PAGE):
        page = tl.load(TABLE + p * PAGES + start // PAGE)
        where = (page * PAGE + j)[:, None] * D + d[None, :]
        inside = (start + j) < length
        k = tl.load(K + where, mask=inside[:, None], other=0.0)
        s = tl.where(inside, tl.sum(k * q[None, :], axis=1), -float("inf"))
        new = tl.maximum(best, tl.max(s))
        w = tl.exp(s - new)
        shrink = tl.exp(best - new)
        v = tl.load(V + where, mask=inside[:, None], other=0.0)
        out = out * shrink + tl.sum(w[:, None] * v, axis=0)
        total = total * shrink + tl.sum(w)
        best = new
    tl.store(OUT + p * D + d, out / total)


def test_attention_over_pages():
    batch, pages, page, d = 4, 5, 8, 16
    q, lengths = rng().standard_normal((batch, d)), np.array([1, 8, 23, 40])
    k, v = rng(1).standard_normal((2, batch * pages * page, d))
    table = rng(2).permutation(batch * pages).reshape(batch, pages)
    out = Buffer.full((batch, d), "float32")
    buffers = [Buffer(x, "float32") for x in (q, k, v)]
    launch(decode_kernel, batch, *buffers, Buffer(table, "int32"), Buffer(lengths, "int32"), out,
           PAGE=page, D=d, PAGES=pages)  # fmt: skip
    for p in range(batch):
        rows = (table[p][:, None] * page + np.arange(page)).ravel()[: lengths[p]]
        w = np.exp(k[rows] @ q[p])
        assert np.allclose(out.values[p], w @ v[rows] / w.sum(), atol=1e-4)


@triton.jit
def mandelbrot_kernel(OUT, n, limit, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    cx, cy = (at % n) * (3.0 / n) - 2.0, (at // n) * (2.0 / n) - 1.0
    x, y = tl.zeros((N,), tl.float32), tl.zeros((N,), tl.float32)
    count = tl.zeros((N,), tl.int32)
    step = 0
    while (step < limit) & (tl.sum((x * x + y * y < 4.0).to(tl.int32)) > 0):
        inside = x * x + y * y < 4.0
        x, y = tl.where(inside, x * x - y * y + cx, x), tl.where(inside, 2 * x * y + cy, y)
        count += inside.to(tl.int32)
        step += 1
    tl.store(OUT + at, count, mask=at < n * n)


@pytest.mark.skipif(INTERPRETED, reason="slow")
def test_while_over_vectors():
    n, limit = 24, 30
    out = Buffer.full((n, n), "int32")
    launch(mandelbrot_kernel, n * n // 64, out, n, limit, N=64, enable_fp_fusion=False)
    at = np.arange(n * n)
    f = np.float32
    cx, cy = (at % n) * f(3.0 / n) - f(2), (at // n) * f(2.0 / n) - f(1)
    cx, cy = cx.astype(f), cy.astype(f)
    x, y, count = np.zeros(n * n, f), np.zeros(n * n, f), np.zeros(n * n, int)
    for _ in range(limit):
        inside = x * x + y * y < 4
        x, y = np.where(inside, x * x - y * y + cx, x), np.where(inside, 2 * x * y + cy, y)
        count += inside
    # A pixel on the very edge may differ by a rounding of the coordinates.
    assert (out.values.ravel() != count).mean() < 0.02
