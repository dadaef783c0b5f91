"""Adding two vectors: the smallest kernel with a mask."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from . import _tensors as T

CASES = (
    {"n": 1},
    {"n": 1000},
    {"n": 98_432},
    {"n": 4097, "dtype": "float16", "block": 256},
    {"n": 777, "dtype": "bfloat16", "block": 128},
    {"n": 5000, "dtype": "float64", "block": 2048},
)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    x = tl.load(x_ptr + index, mask=inside)
    y = tl.load(y_ptr + index, mask=inside)
    tl.store(out_ptr + index, x + y, mask=inside)


def add(x: Any, y: Any, out: Any, block: int = 1024) -> Any:
    n = x.shape[0]
    add_kernel[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block)
    return out


def check(n: int, dtype: str = "float32", block: int = 1024) -> float:
    x, y = T.normal(n, dtype=dtype, seed=1), T.normal(n, dtype=dtype, seed=2)
    out = add(x, y, T.empty_like(x), block)
    return T.compare("vector_add", out, T.numpy64(x) + T.numpy64(y), dtype)
