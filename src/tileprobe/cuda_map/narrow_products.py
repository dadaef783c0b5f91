"""Products of fp8 matrices as cuBLAS makes them on a GPU: on its tensor cores, here those of the simulated one.

Triton's wrapper of cuBLAS asks for fast accumulation (`CUBLASLT_MATMUL_DESC_FAST_ACCUM`, `cublas_instance.h`), of which
cuBLAS's manual says that intermediate results are "not periodically promoted to a higher precision": what the tensor
cores add up, 32 products of K after 32, stays in their own sums of 13 bits, which float32 would not reproduce. That
cuBLAS takes K in its order is a guess; a tile's extents along M and N make no difference.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from tileprobe.errors import UnsupportedError

_ARCH = 90  # from which on tensor cores take fp8 (sm_89, too, which is not among the machines)
_TILE = 128


@triton.jit
def cublas_fp8(a, b, out, M, N, K, TILE: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    depth = tl.arange(0, DEPTH)
    total = tl.zeros((TILE, TILE), tl.float32)
    for start in range(0, K, DEPTH):
        k = start + depth
        left = tl.load(a + rows[:, None] * K + k, mask=(rows[:, None] < M) & (k < K), other=0.0)
        right = tl.load(
            b + columns[None, :] * K + k[:, None], mask=(columns[None, :] < N) & (k[:, None] < K), other=0.0
        )
        total = tl.dot(left, right, total)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out + rows[:, None] * N + columns[None, :], total, mask=inside)


def on_tensor_cores() -> bool:
    """Whether what runs launches has tensor cores of its own: a simulated GPU."""
    active: Any = triton.runtime.driver.active
    return hasattr(active, "machine")


def product(a: Any, b: Any, out: Any) -> Any:
    """A B^T in single precision, as the tensor cores add it up. `out` says where."""
    import torch

    machine: Any = triton.runtime.driver.active.machine  # type: ignore[attr-defined]
    if machine.arch < _ARCH:
        raise UnsupportedError(f"cuBLAS multiplies fp8 from sm_89 on, and this GPU is sm_{machine.arch}")
    (rows, depth), columns = a.shape, b.shape[0]
    made = torch.empty((rows, columns), dtype=torch.float32, device=out.device)
    grid = (triton.cdiv(rows, _TILE), triton.cdiv(columns, _TILE))
    kernel: Any = cublas_fp8[grid]  # options of launches are none of its parameters
    kernel(a.contiguous(), b.contiguous(), made, rows, columns, depth, TILE=_TILE, DEPTH=64, num_warps=8)
    return made
