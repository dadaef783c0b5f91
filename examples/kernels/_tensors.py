"""Tensors for the examples: torch's where torch is installed, `tileprobe.array` otherwise.

Values go in as NumPy arrays or shapes and come out as float64 NumPy arrays, so that no kernel file needs to
know which of the two it was given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    import torch
except ImportError:
    torch = None

# What one operation in this type may be off by, relative to the size of the result.
EPSILON = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def tensor(values: Any, dtype: str = "float32") -> Any:
    """A tensor of `dtype` holding a copy of `values`."""
    values = np.array(values, order="C", copy=True)
    if torch is not None:
        return torch.from_numpy(values).to(getattr(torch, dtype)).contiguous()
    import tileprobe

    return tileprobe.array(values, dtype)


def normal(*shape: int, dtype: str = "float32", seed: int = 0, scale: float = 1.0) -> Any:
    return tensor(np.random.default_rng(seed).standard_normal(shape) * scale, dtype)


def zeros(*shape: int, dtype: str = "float32") -> Any:
    return tensor(np.zeros(shape), dtype)


def empty_like(other: Any) -> Any:
    """A fresh tensor of the same shape and type, filled with NaN (or -1): what is not written shows."""
    name = dtype_name(other)
    fill = np.nan if "float" in name else -1
    return tensor(np.full(tuple(other.shape), fill), name)


def transposed(matrix: Any) -> Any:
    """The same memory with rows and columns exchanged."""
    return matrix.T if hasattr(matrix, "T") else type(matrix)(matrix.raw.T, matrix.dtype)


def columns(matrix: Any, count: int) -> Any:
    """The first columns of a matrix, as a view with the matrix's stride."""
    if torch is not None and isinstance(matrix, torch.Tensor):
        return matrix[:, :count]
    return type(matrix)(matrix.raw[:, :count], matrix.dtype)


def dtype_name(value: Any) -> str:
    return str(value.dtype).rsplit(".")[-1]


def numpy64(value: Any) -> np.ndarray:
    """The values as float64 NumPy, whatever holds them."""
    if isinstance(value, np.ndarray):
        return value.astype(np.float64)
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().to(torch.float64).cpu().numpy()
    return np.asarray(value.numpy()).astype(np.float64)


def compare(name: str, got: Any, want: np.ndarray, dtype: str, terms: int = 1) -> float:
    """Largest error, relative to the largest value; an AssertionError when rounding cannot explain it.

    `terms` is how many values were summed into one: rounding errors of a sum grow with its length at worst,
    with its square root in practice, and the inputs of both sides are the same.
    """
    got, want = numpy64(got), np.asarray(want, dtype=np.float64)
    assert got.shape == want.shape, f"{name}: shape {got.shape}, expected {want.shape}"
    size = np.abs(want).max(initial=0.0) or 1.0
    error = float(np.abs(got - want).max(initial=0.0) / size)
    allowed = 4 * EPSILON[dtype] + 8 * EPSILON["float32" if dtype != "float64" else dtype] * terms**0.5
    assert error <= allowed, (
        f"{name}: off by {error:.2e} of its largest value, at most {allowed:.2e} expected"
    )
    return error
