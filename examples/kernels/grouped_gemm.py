"""Many matrix multiplications of different sizes in one launch.

The kernel gets tables of addresses and sizes. Each program keeps a running tile number, walks over the
problems and computes the tiles that fall to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import _tensors as T
from .matmul import reference

CASES = (
    {"sizes": ((64, 32, 32), (32, 96, 64), (128, 32, 16))},
    {"sizes": ((50, 37, 21), (1, 64, 33), (70, 5, 90)), "programs": 2},
    {"sizes": ((33, 65, 40), (64, 64, 64)), "dtype": "float16", "programs": 5},
)


@triton.jit
def grouped_kernel(
    a_addresses, b_addresses, c_addresses, sizes, strides, n_problems,
    KIND: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    PROGRAMS: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    done = 0
    for problem in range(n_problems):
        M = tl.load(sizes + problem * 3)
        N = tl.load(sizes + problem * 3 + 1)
        K = tl.load(sizes + problem * 3 + 2)
        tiles_n = tl.cdiv(N, BLOCK_N)
        tiles = tl.cdiv(M, BLOCK_M) * tiles_n
        stride_a = tl.load(strides + problem * 3)
        stride_b = tl.load(strides + problem * 3 + 1)
        stride_c = tl.load(strides + problem * 3 + 2)
        a_ptr = tl.load(a_addresses + problem).to(tl.pointer_type(KIND))
        b_ptr = tl.load(b_addresses + problem).to(tl.pointer_type(KIND))
        c_ptr = tl.load(c_addresses + problem).to(tl.pointer_type(KIND))
        while tile >= done and tile < done + tiles:
            here = tile - done
            rows = here // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            cols = here % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            ks = tl.arange(0, BLOCK_K)
            a_ptrs = a_ptr + rows[:, None] * stride_a + ks[None, :]
            b_ptrs = b_ptr + ks[:, None] * stride_b + cols[None, :]
            total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for start in range(0, K, BLOCK_K):
                in_a = (rows[:, None] < M) & (ks[None, :] < K - start)
                in_b = (ks[:, None] < K - start) & (cols[None, :] < N)
                a = tl.load(a_ptrs, mask=in_a, other=0.0)
                b = tl.load(b_ptrs, mask=in_b, other=0.0)
                total = tl.dot(a, b, total, input_precision="ieee")
                a_ptrs += BLOCK_K
                b_ptrs += BLOCK_K * stride_b
            c_ptrs = c_ptr + rows[:, None] * stride_c + cols[None, :]
            tl.store(c_ptrs, total.to(KIND), mask=(rows[:, None] < M) & (cols[None, :] < N))
            tile += PROGRAMS
        done += tiles


def grouped_gemm(lefts: list, rights: list, outs: list, programs: int = 4, block: int = 32) -> list:
    addresses = [
        T.tensor(np.array([t.data_ptr() for t in group]), "int64") for group in (lefts, rights, outs)
    ]
    sizes = [(*a.shape, b.shape[1]) for a, b in zip(lefts, rights)]
    sizes = T.tensor(np.array([(m, n, k) for m, k, n in sizes]), "int32")
    strides = T.tensor(
        np.array([[t.stride(0) for t in group] for group in zip(lefts, rights, outs)]), "int32"
    )
    grouped_kernel[(programs,)](
        *addresses, sizes, strides, len(lefts),
        KIND=getattr(tl, T.dtype_name(lefts[0])),
        BLOCK_M=block, BLOCK_N=block, BLOCK_K=block, PROGRAMS=programs,
    )  # fmt: skip
    return outs


def check(sizes: tuple, dtype: str = "float32", programs: int = 4) -> float:
    lefts: list[Any] = [T.normal(m, k, dtype=dtype, seed=i) for i, (m, n, k) in enumerate(sizes)]
    rights: list[Any] = [T.normal(k, n, dtype=dtype, seed=9 + i) for i, (m, n, k) in enumerate(sizes)]
    outs = [T.empty_like(T.zeros(m, n, dtype=dtype)) for m, n, k in sizes]
    grouped_gemm(lefts, rights, outs, programs)
    errors = [
        T.compare(f"grouped_gemm[{i}]", c, reference(T.numpy64(a), T.numpy64(b)), dtype, terms=a.shape[1])
        for i, (a, b, c) in enumerate(zip(lefts, rights, outs))
    ]
    return max(errors)
