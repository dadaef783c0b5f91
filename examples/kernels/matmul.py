"""Matrix multiplication: a program computes one tile of C and walks along K with its pointers.

Programs are numbered in groups of tile rows, so that neighbours share what they load. `matmul` takes the tile
sizes it is given; `matmul_autotuned` lets Triton's autotuner choose them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import _tensors as T

CASES = (
    {"m": 64, "n": 64, "k": 64},
    {"m": 100, "n": 75, "k": 131},
    {"m": 70, "n": 130, "k": 96, "dtype": "float16"},
    {"m": 33, "n": 65, "k": 40, "dtype": "bfloat16"},
    {"m": 48, "n": 32, "k": 80, "dtype": "float64", "tile": (16, 16, 16)},
    {"m": 96, "n": 72, "k": 48, "transposed": True},
    {"m": 90, "n": 64, "k": 50, "activation": "leaky_relu"},
    {"m": 128, "n": 64, "k": 64, "tile": (64, 32, 16), "group": 2},
    {"m": 61, "n": 59, "k": 67, "autotuned": True},
)


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def tile_of(program, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """Row and column of a program's tile, `GROUP` tile rows at a time."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    per_group = GROUP * tl.cdiv(N, BLOCK_N)
    first = program // per_group * GROUP
    height = min(tiles_m - first, GROUP)
    inside = program % per_group
    return first + inside % height, inside // height


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    tile_m, tile_n = tile_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP)
    # Rows past the end wrap around: they are loaded for nothing, and never stored.
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    cols = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + cols[None, :] * stride_bn
    kind: tl.constexpr = (
        c_ptr.dtype.element_ty if c_ptr.dtype.element_ty.primitive_bitwidth >= 32 else tl.float32
    )
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=kind)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        a = tl.load(a_ptrs, mask=ks[None, :] < left, other=0)
        b = tl.load(b_ptrs, mask=ks[:, None] < left, other=0)
        total = tl.dot(a, b, total, input_precision="ieee", out_dtype=kind)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        total = leaky_relu(total)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    c_ptrs = c_ptr + rows[:, None] * stride_cm + cols[None, :] * stride_cn
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=inside)


matmul_tuned_kernel = triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 32, "GROUP": 8}, num_stages=3, num_warps=4)
        for m, n in ((32, 32), (64, 64))
    ],
    key=["M", "N", "K"],
)(matmul_kernel)


def _arguments(a: Any, b: Any, c: Any) -> tuple:
    (m, k), n = a.shape, b.shape[1]
    return (a, b, c, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), c.stride(1))


def matmul(
    a: Any, b: Any, c: Any, tile: tuple[int, int, int] = (32, 32, 32), group: int = 8, activation: str = ""
) -> Any:
    block_m, block_n, block_k = tile
    grid = (triton.cdiv(a.shape[0], block_m) * triton.cdiv(b.shape[1], block_n),)
    matmul_kernel[grid](
        *_arguments(a, b, c),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP=group,
        ACTIVATION=activation,
    )
    return c


def matmul_autotuned(a: Any, b: Any, c: Any) -> Any:
    def grid(meta: dict) -> tuple[int]:
        return (triton.cdiv(a.shape[0], meta["BLOCK_M"]) * triton.cdiv(b.shape[1], meta["BLOCK_N"]),)

    matmul_tuned_kernel[grid](*_arguments(a, b, c), ACTIVATION="")
    return c


def reference(a: np.ndarray, b: np.ndarray, activation: str = "") -> np.ndarray:
    c = a @ b
    return np.where(c >= 0, c, 0.01 * c) if activation else c


def check(
    m: int,
    n: int,
    k: int,
    dtype: str = "float32",
    tile: tuple[int, int, int] = (32, 32, 32),
    group: int = 8,
    activation: str = "",
    transposed: bool = False,
    autotuned: bool = False,
) -> float:
    a = T.normal(m, k, dtype=dtype, seed=1)
    b = (
        T.transposed(T.normal(n, k, dtype=dtype, seed=2))
        if transposed
        else T.normal(k, n, dtype=dtype, seed=2)
    )
    c = T.empty_like(T.zeros(m, n, dtype=dtype))
    c = matmul_autotuned(a, b, c) if autotuned else matmul(a, b, c, tile, group, activation)
    return T.compare("matmul", c, reference(T.numpy64(a), T.numpy64(b), activation), dtype, terms=k)
