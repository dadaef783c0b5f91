"""Softmax along rows in one pass over memory: a row fits into a block, and a program takes many rows.

`softmax_online` is for rows that do not fit: it keeps a running maximum and rescales the running sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import _tensors as T

CASES = (
    {"rows": 37, "cols": 781},
    {"rows": 1, "cols": 1},
    {"rows": 64, "cols": 128, "programs": 3},
    {"rows": 19, "cols": 1000, "dtype": "float16"},
    {"rows": 11, "cols": 333, "padding": 51},
    {"rows": 13, "cols": 2500, "online": True},
    {"rows": 9, "cols": 100, "online": True, "dtype": "bfloat16"},
)


@triton.jit
def softmax_kernel(out_ptr, in_ptr, in_stride, out_stride, n_rows, n_cols, BLOCK: tl.constexpr):
    first = tl.program_id(0)
    step = tl.num_programs(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    for row in tl.range(first, n_rows, step):
        x = tl.load(in_ptr + row * in_stride + cols, mask=inside, other=-float("inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + cols, e / tl.sum(e, axis=0), mask=inside)


@triton.jit
def softmax_online_kernel(out_ptr, in_ptr, in_stride, out_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        inside = start + cols < n_cols
        x = tl.load(in_ptr + row * in_stride + start + cols, mask=inside, other=-float("inf")).to(tl.float32)
        new = tl.maximum(best, x)
        # A lane that has seen nothing yet would compute inf - inf.
        scale = tl.where(best == -float("inf"), 0.0, tl.exp(best - new))
        total = total * scale + tl.where(inside, tl.exp(x - new), 0.0)
        best = new
    top = tl.max(best, axis=0)
    denominator = tl.sum(tl.where(total > 0, total * tl.exp(best - top), 0.0), axis=0)
    for start in range(0, n_cols, BLOCK):
        inside = start + cols < n_cols
        x = tl.load(in_ptr + row * in_stride + start + cols, mask=inside, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * out_stride + start + cols, tl.exp(x - top) / denominator, mask=inside)


def softmax(x: Any, out: Any, programs: int | None = None) -> Any:
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    grid = (min(rows, programs or rows),)
    softmax_kernel[grid](out, x, x.stride(0), out.stride(0), rows, cols, BLOCK=block)
    return out


def softmax_online(x: Any, out: Any, block: int = 1024) -> Any:
    rows, cols = x.shape
    softmax_online_kernel[(rows,)](out, x, x.stride(0), out.stride(0), cols, BLOCK=block)
    return out


def reference(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def check(
    rows: int,
    cols: int,
    dtype: str = "float32",
    programs: int | None = None,
    padding: int = 0,
    online: bool = False,
) -> float:
    x = T.columns(T.normal(rows, cols + padding, dtype=dtype, scale=3.0), cols)
    out = T.empty_like(x)
    out = softmax_online(x, out) if online else softmax(x, out, programs)
    return T.compare("softmax", out, reference(T.numpy64(x)), dtype, terms=cols)
