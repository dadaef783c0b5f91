"""Matrix multiplication by a fixed number of programs, each taking every n-th tile.

Two ways to reach memory: pointers with masks, and tensor descriptors made inside the kernel, which mask by
themselves. Both flatten the loop over tiles so that the next tile's loads may overlap this one's store.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from . import _tensors as T
from .matmul import reference, tile_of

CASES = (
    {"m": 100, "n": 72, "k": 64},
    {"m": 65, "n": 33, "k": 47, "programs": 3},
    {"m": 64, "n": 96, "k": 80, "dtype": "float16", "programs": 1},
    {"m": 80, "n": 48, "k": 64, "descriptors": True},
    {"m": 72, "n": 40, "k": 56, "descriptors": True, "dtype": "float16", "programs": 2},
)


@triton.jit
def pointer_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    PROGRAMS: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
        tile_m, tile_n = tile_of(tile, M, N, BLOCK_M, BLOCK_N, GROUP)
        rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        safe_rows = tl.max_contiguous(tl.multiple_of(tl.where(rows < M, rows, 0), BLOCK_M), BLOCK_M)
        safe_cols = tl.max_contiguous(tl.multiple_of(tl.where(cols < N, cols, 0), BLOCK_N), BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            k = start + ks
            a = tl.load(a_ptr + safe_rows[:, None] * stride_a + k[None, :], mask=k[None, :] < K, other=0.0)
            b = tl.load(b_ptr + k[:, None] * stride_b + safe_cols[None, :], mask=k[:, None] < K, other=0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        c_ptrs = c_ptr + rows[:, None] * stride_c + cols[None, :]
        tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def descriptor_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    PROGRAMS: tl.constexpr,
):  # fmt: skip
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [stride_a, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [K, N], [stride_b, 1], [BLOCK_K, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [stride_c, 1], [BLOCK_M, BLOCK_N])
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS):
        tile_m, tile_n = tile_of(tile, M, N, BLOCK_M, BLOCK_N, GROUP)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            a = a_desc.load([tile_m * BLOCK_M, start])
            b = b_desc.load([start, tile_n * BLOCK_N])
            total = tl.dot(a, b, total, input_precision="ieee")
        c_desc.store([tile_m * BLOCK_M, tile_n * BLOCK_N], total.to(c_ptr.dtype.element_ty))


def matmul(
    a: Any,
    b: Any,
    c: Any,
    tile: tuple[int, int, int] = (32, 32, 32),
    programs: int = 4,
    descriptors: bool = False,
) -> Any:
    (m, k), n = a.shape, b.shape[1]
    block_m, block_n, block_k = tile
    kernel = descriptor_kernel if descriptors else pointer_kernel
    kernel[(programs,)](
        a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=8, PROGRAMS=programs,
    )  # fmt: skip
    return c


def check(
    m: int, n: int, k: int, dtype: str = "float32", programs: int = 4, descriptors: bool = False
) -> float:
    a, b = T.normal(m, k, dtype=dtype, seed=1), T.normal(k, n, dtype=dtype, seed=2)
    c = matmul(a, b, T.empty_like(T.zeros(m, n, dtype=dtype)), programs=programs, descriptors=descriptors)
    return T.compare("persistent_matmul", c, reference(T.numpy64(a), T.numpy64(b)), dtype, terms=k)
