"""The products of NVIDIA's library that Triton's own package calls (`triton._C.libtriton.nvidia.cublas`), which want a
GPU: here torch makes them, on the memory of the mapped device.

Sums are single precision, rounded once to the result's type. A library on a GPU adds in another order, so the last
bits may differ; products of narrow floats are exact in single precision either way. Products of fp8 are the simulated
GPU's own (`narrow_products.py`), whose sums have fewer bits, where one is in use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tileprobe.errors import UnsupportedError

_DTYPES = ("float8_e4m3fn", "float16", "bfloat16", "float32")


class CublasLt:
    """As Triton's class of this name. B is given transposed."""

    def __init__(self, workspace: Any) -> None:
        self._workspace = workspace  # not needed, and kept as the library's keeps its address

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """C = A B^T."""
        c.copy_(_product(a, b, c))

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """D = alpha A B^T + beta C."""
        if c.shape != d.shape:
            raise RuntimeError(f"C of shape {tuple(c.shape)} and D of {tuple(d.shape)} must match")
        d.copy_(_product(a, b, d) * alpha + c.float() * beta)

    def block_scaled_matmul_mxfp8(self, *_: Any) -> None:
        raise UnsupportedError("block-scaled products of cuBLAS need a newer GPU than those that are mapped")

    block_scaled_matmul_nvfp4 = block_scaled_matmul_mxfp8


def _product(a: Any, b: Any, out: Any) -> Any:
    """In single precision."""
    kind = str(a.dtype).rpartition(".")[2]
    if kind not in _DTYPES or a.dtype != b.dtype:
        raise RuntimeError(f"cublasLt multiplies two of {', '.join(_DTYPES)}, not {a.dtype} and {b.dtype}")
    rows, columns, depth = a.shape[0], b.shape[0], a.shape[1]
    if a.ndim != 2 or b.shape != (columns, depth) or out.shape != (rows, columns):
        shapes = ", ".join(str(tuple(one.shape)) for one in (a, b, out))
        raise RuntimeError(f"cublasLt takes matrices M x K, N x K and M x N, not {shapes}")
    if kind.startswith("float8"):
        from tileprobe.cuda_map import narrow_products

        if narrow_products.on_tensor_cores():
            return narrow_products.product(a, b, out)
    return a.float() @ b.float().T


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """For the block, if this Triton has NVIDIA's part."""
    try:
        from triton._C.libtriton import nvidia
    except ImportError:
        yield
        return
    module: Any = nvidia.cublas
    plain = module.CublasLt
    module.CublasLt = CublasLt
    try:
        yield
    finally:
        module.CublasLt = plain
