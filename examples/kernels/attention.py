"""Fused attention, forward and backward, without ever storing the matrix of scores.

Forward: a program owns a block of queries, walks over the keys and keeps each row's running maximum and sum.
Backward: one kernel owns blocks of keys (dK, dV), one blocks of queries (dQ); both compute the scores anew
from the saved log-sum-exp. Tensors are (batch * heads, length, dim), contiguous in the last dimension.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import _tensors as T

CASES = (
    {"heads": 2, "length": 64, "dim": 32},
    {"heads": 1, "length": 100, "dim": 16, "causal": True},
    {"heads": 2, "length": 33, "dim": 64, "causal": True, "dtype": "float16"},
    {"heads": 1, "length": 77, "dim": 32, "dtype": "bfloat16"},
    {"heads": 3, "length": 96, "dim": 16, "block": (16, 64), "causal": True},
)
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def visible(rows, cols, length, CAUSAL: tl.constexpr):
    """Which scores count: keys that exist, and with a causal mask those not after the query."""
    inside = (rows[:, None] < length) & (cols[None, :] < length)
    if CAUSAL:
        inside = inside & (rows[:, None] >= cols[None, :])
    return inside


@triton.jit
def block_of(ptr, head, rows, length, DIM: tl.constexpr):
    where = (head * length + rows[:, None]) * DIM + tl.arange(0, DIM)[None, :]
    return tl.load(ptr + where, mask=rows[:, None] < length, other=0.0)


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, length, scale,
    DIM: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    rows = start_m + tl.arange(0, BLOCK_M)
    q = block_of(q_ptr, head, rows, length, DIM)
    best = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    out = tl.zeros((BLOCK_M, DIM), tl.float32)
    end = min(start_m + BLOCK_M, length) if CAUSAL else length
    for start_n in range(0, end, BLOCK_N):
        cols = start_n + tl.arange(0, BLOCK_N)
        k = block_of(k_ptr, head, cols, length, DIM)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * LOG2E)
        s = tl.where((rows[:, None] >= cols[None, :]) | (not CAUSAL), s, -float("inf"))
        s = tl.where(cols[None, :] < length, s, -float("inf"))
        new = tl.maximum(best, tl.max(s, axis=1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(best - new)
        total = total * shrink + tl.sum(p, axis=1)
        v = block_of(v_ptr, head, cols, length, DIM)
        out = tl.dot(p.to(v.dtype), v, out * shrink[:, None], input_precision="ieee")
        best = new
    out = out / total[:, None]
    where = (head * length + rows[:, None]) * DIM + tl.arange(0, DIM)[None, :]
    tl.store(out_ptr + where, out.to(out_ptr.dtype.element_ty), mask=rows[:, None] < length)
    tl.store(lse_ptr + head * length + rows, best + tl.log2(total), mask=rows < length)


@triton.jit
def row_dot_kernel(out_ptr, dout_ptr, delta_ptr, n_rows, DIM: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o = block_of(out_ptr, 0, rows, n_rows, DIM).to(tl.float32)
    d = block_of(dout_ptr, 0, rows, n_rows, DIM).to(tl.float32)
    tl.store(delta_ptr + rows, tl.sum(o * d, axis=1), mask=rows < n_rows)


@triton.jit
def keys_backward_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, length, scale,
    DIM: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    start_n = tl.program_id(0) * BLOCK_N
    head = tl.program_id(1)
    cols = start_n + tl.arange(0, BLOCK_N)
    k = block_of(k_ptr, head, cols, length, DIM)
    v = block_of(v_ptr, head, cols, length, DIM)
    dk = tl.zeros((BLOCK_N, DIM), tl.float32)
    dv = tl.zeros((BLOCK_N, DIM), tl.float32)
    first = start_n // BLOCK_M * BLOCK_M if CAUSAL else 0
    for start_m in range(first, length, BLOCK_M):
        rows = start_m + tl.arange(0, BLOCK_M)
        q = block_of(q_ptr, head, rows, length, DIM)
        dout = block_of(dout_ptr, head, rows, length, DIM)
        lse = tl.load(lse_ptr + head * length + rows, mask=rows < length, other=0.0)
        delta = tl.load(delta_ptr + head * length + rows, mask=rows < length, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * LOG2E)
        p = tl.where(visible(rows, cols, length, CAUSAL), tl.exp2(s - lse[:, None]), 0.0)
        dv = tl.dot(tl.trans(p).to(dout.dtype), dout, dv, input_precision="ieee")
        dp = tl.dot(dout, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None]) * scale
        dk = tl.dot(tl.trans(ds).to(q.dtype), q, dk, input_precision="ieee")
    where = (head * length + cols[:, None]) * DIM + tl.arange(0, DIM)[None, :]
    inside = cols[:, None] < length
    tl.store(dk_ptr + where, dk.to(dk_ptr.dtype.element_ty), mask=inside)
    tl.store(dv_ptr + where, dv.to(dv_ptr.dtype.element_ty), mask=inside)


@triton.jit
def queries_backward_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dq_ptr, length, scale,
    DIM: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    rows = start_m + tl.arange(0, BLOCK_M)
    q = block_of(q_ptr, head, rows, length, DIM)
    dout = block_of(dout_ptr, head, rows, length, DIM)
    lse = tl.load(lse_ptr + head * length + rows, mask=rows < length, other=0.0)
    delta = tl.load(delta_ptr + head * length + rows, mask=rows < length, other=0.0)
    dq = tl.zeros((BLOCK_M, DIM), tl.float32)
    end = min(start_m + BLOCK_M, length) if CAUSAL else length
    for start_n in range(0, end, BLOCK_N):
        cols = start_n + tl.arange(0, BLOCK_N)
        k = block_of(k_ptr, head, cols, length, DIM)
        v = block_of(v_ptr, head, cols, length, DIM)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * LOG2E)
        p = tl.where(visible(rows, cols, length, CAUSAL), tl.exp2(s - lse[:, None]), 0.0)
        dp = tl.dot(dout, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None]) * scale
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    where = (head * length + rows[:, None]) * DIM + tl.arange(0, DIM)[None, :]
    tl.store(dq_ptr + where, dq.to(dq_ptr.dtype.element_ty), mask=rows[:, None] < length)


def forward(
    q: Any, k: Any, v: Any, out: Any, lse: Any, causal: bool = False, block: tuple[int, int] = (32, 32)
) -> Any:
    heads, length, dim = q.shape
    grid = (triton.cdiv(length, block[0]), heads)
    forward_kernel[grid](
        q, k, v, out, lse, length, 1 / math.sqrt(dim),
        DIM=dim, CAUSAL=causal, BLOCK_M=block[0], BLOCK_N=block[1],
    )  # fmt: skip
    return out


def backward(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    causal: bool = False,
    block: tuple[int, int] = (32, 32),
) -> tuple:
    heads, length, dim = q.shape
    dq, dk, dv = T.empty_like(q), T.empty_like(k), T.empty_like(v)
    delta = T.empty_like(lse)
    meta = {"DIM": dim, "CAUSAL": causal, "BLOCK_M": block[0], "BLOCK_N": block[1]}
    row_dot_kernel[(triton.cdiv(heads * length, 64),)](out, dout, delta, heads * length, DIM=dim, BLOCK=64)
    inputs, scale = (q, k, v, dout, lse, delta), 1 / math.sqrt(dim)
    keys_backward_kernel[(triton.cdiv(length, block[1]), heads)](*inputs, dk, dv, length, scale, **meta)
    queries_backward_kernel[(triton.cdiv(length, block[0]), heads)](*inputs, dq, length, scale, **meta)
    return dq, dk, dv


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, dout: np.ndarray, causal: bool) -> tuple:
    """out, dq, dk, dv in float64."""
    scale = 1 / math.sqrt(q.shape[-1])
    s = q @ k.transpose(0, 2, 1) * scale
    if causal:
        s = np.where(np.tri(s.shape[-1], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    out = p @ v
    dp = dout @ v.transpose(0, 2, 1)
    ds = p * (dp - (out * dout).sum(axis=-1, keepdims=True)) * scale
    return out, ds @ k, ds.transpose(0, 2, 1) @ q, p.transpose(0, 2, 1) @ dout


def check(
    heads: int,
    length: int,
    dim: int,
    causal: bool = False,
    dtype: str = "float32",
    block: tuple[int, int] = (32, 32),
) -> float:
    q, k, v, dout = (T.normal(heads, length, dim, dtype=dtype, seed=i) for i in range(4))
    lse = T.zeros(heads, length)
    out = forward(q, k, v, T.empty_like(q), lse, causal, block)
    got = (out, *backward(dout, q, k, v, out, lse, causal, block))
    want = reference(*map(T.numpy64, (q, k, v, dout)), causal)
    return max(
        T.compare(f"attention {name}", g, w, dtype, terms=length)
        for name, g, w in zip(("out", "dq", "dk", "dv"), got, want)
    )
