"""Layer normalisation, forward and backward.

The backward pass needs sums over all rows for the weight and the bias. Two ways are shown: programs add into
a few shared buffers, each guarded by a lock taken with compare-and-swap; or every program writes a partial
sum of its own. Either way a second kernel adds up what the first one left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import _tensors as T

CASES = (
    {"rows": 31, "cols": 400},
    {"rows": 64, "cols": 512, "locks": True},
    {"rows": 17, "cols": 1151, "locks": True, "groups": 4},
    {"rows": 23, "cols": 300, "dtype": "float16"},
    {"rows": 1, "cols": 33},
    {"rows": 5, "cols": 5000},
)
LONGEST_ROW = 4096  # values that a program keeps at hand; longer rows are read three times


@triton.jit
def forward_kernel(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    square = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        d = tl.where(cols < N, x - mean, 0.0)
        square += d * d
    rstd = 1 / tl.sqrt(tl.sum(square, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < N
        w = tl.load(w_ptr + cols, mask=inside)
        b = tl.load(b_ptr + cols, mask=inside)
        x = tl.load(x_ptr + cols, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + cols, (x - mean) * rstd * w + b, mask=inside)


@triton.jit
def row_kernel(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    """Forward for rows that fit into a block: memory is read once."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    x = tl.load(x_ptr + row * stride + cols, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    d = tl.where(inside, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(d * d, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    w = tl.load(w_ptr + cols, mask=inside)
    b = tl.load(b_ptr + cols, mask=inside)
    tl.store(y_ptr + row * stride + cols, d * rstd * w + b, mask=inside)


@triton.jit
def backward_kernel(
    dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, N,
    GROUPS: tl.constexpr, LOCKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    x = tl.load(x_ptr + row * stride + cols, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + cols, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    normed = tl.where(inside, (x - mean) * rstd, 0.0)
    wdy = w * dy
    along = tl.sum(normed * wdy, axis=0) / N
    shift = tl.sum(wdy, axis=0) / N
    tl.store(dx_ptr + row * stride + cols, (wdy - (normed * along + shift)) * rstd, mask=inside)
    part_w = dy * normed
    part_b = dy
    if LOCKS:
        group = row % GROUPS
        dw_ptrs = dw_ptr + group * N + cols
        db_ptrs = db_ptr + group * N + cols
        lock = lock_ptr + group
        written = lock_ptr + GROUPS + group
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        if tl.load(written) == 0:
            tl.atomic_xchg(written, 1)
        else:
            part_w += tl.load(dw_ptrs, mask=inside)
            part_b += tl.load(db_ptrs, mask=inside)
        tl.store(dw_ptrs, part_w, mask=inside)
        tl.store(db_ptrs, part_b, mask=inside)
        tl.debug_barrier()
        tl.atomic_xchg(lock, 0)
    else:
        tl.store(dw_ptr + row * N + cols, part_w, mask=inside)
        tl.store(db_ptr + row * N + cols, part_b, mask=inside)


@triton.jit
def column_sum_kernel(part_w, part_b, dw_ptr, db_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dw = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    db = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, M, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        where = rows[:, None] * N + cols[None, :]
        dw += tl.load(part_w + where, mask=inside, other=0.0)
        db += tl.load(part_b + where, mask=inside, other=0.0)
    tl.store(dw_ptr + cols, tl.sum(dw, axis=0), mask=cols < N)
    tl.store(db_ptr + cols, tl.sum(db, axis=0), mask=cols < N)


def forward(x: Any, weight: Any, bias: Any, y: Any, mean: Any, rstd: Any, eps: float = 1e-5) -> Any:
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    kernel = row_kernel if block <= LONGEST_ROW else forward_kernel
    block = min(block, LONGEST_ROW)
    kernel[(rows,)](x, y, weight, bias, mean, rstd, x.stride(0), cols, eps, BLOCK=block)
    return y


def backward(
    dy: Any, x: Any, weight: Any, mean: Any, rstd: Any, locks: bool = False, groups: int = 8
) -> tuple:
    rows, cols = x.shape
    count = groups if locks else rows
    dx, dw, db = T.empty_like(x), T.empty_like(weight), T.empty_like(weight)
    part_w, part_b = T.zeros(count, cols), T.zeros(count, cols)
    lock = T.zeros(2 * groups, dtype="int32")
    backward_kernel[(rows,)](
        dx, dy, part_w, part_b, x, weight, mean, rstd, lock, x.stride(0), cols,
        GROUPS=groups, LOCKS=locks, BLOCK=triton.next_power_of_2(cols),
    )  # fmt: skip
    used = min(count, rows)
    column_sum_kernel[(triton.cdiv(cols, 64),)](part_w, part_b, dw, db, used, cols, BLOCK_M=16, BLOCK_N=64)
    return dx, dw, db


def reference(x: np.ndarray, w: np.ndarray, b: np.ndarray, dy: np.ndarray, eps: float = 1e-5) -> tuple:
    """y, dx, dw, db in float64."""
    rstd = 1 / np.sqrt(x.var(axis=1, keepdims=True) + eps)
    normed = (x - x.mean(axis=1, keepdims=True)) * rstd
    wdy = w * dy
    along = (normed * wdy).mean(axis=1, keepdims=True)
    dx = (wdy - normed * along - wdy.mean(axis=1, keepdims=True)) * rstd
    return normed * w + b, dx, (dy * normed).sum(axis=0), dy.sum(axis=0)


def check(rows: int, cols: int, dtype: str = "float32", locks: bool = False, groups: int = 8) -> float:
    x = T.tensor(np.random.default_rng(1).standard_normal((rows, cols)) * 2.3 - 0.5, dtype)
    dy, w, b = (
        T.normal(rows, cols, dtype=dtype, seed=2),
        T.normal(cols, dtype=dtype, seed=3),
        T.normal(cols, dtype=dtype),
    )
    mean, rstd = T.zeros(rows), T.zeros(rows)
    y = forward(x, w, b, T.empty_like(x), mean, rstd)
    got = (y, *backward(dy, x, w, mean, rstd, locks, groups))
    want = reference(*map(T.numpy64, (x, w, b, dy)))
    names = ("y", "dx", "dw", "db")
    return max(
        T.compare(f"layer_norm {name}", g, v, dtype, terms=max(rows, cols))
        for name, g, v in zip(names, got, want)
    )
