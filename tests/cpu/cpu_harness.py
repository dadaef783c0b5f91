"""What the CPU tests share: buffers of any Triton type, kernels made from text, comparison by rounding.

A buffer holds the bits of a type NumPy may not know (bfloat16, the 8-bit floats) and looks to Triton like any
tensor, so the tests need no torch. Kernels written as text become a file, because Triton reads the source.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

INTS = ("int8", "int16", "int32", "int64")
UINTS = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
FP8 = ("float8e4nv", "float8e5", "float8e4b8", "float8e5b16", "float8e4b15")

# name -> (exponent bits, mantissa bits, exponent bias, what the top codes mean)
SMALL_FLOATS = {
    "float16": (5, 10, 15, "ieee"),
    "bfloat16": (8, 7, 127, "ieee"),
    "float8e5": (5, 2, 15, "ieee"),
    "float8e4nv": (4, 3, 7, "fn"),
    "float8e4b8": (4, 3, 8, "fnuz"),
    "float8e5b16": (5, 2, 16, "fnuz"),
    "float8e4b15": (4, 3, 15, "all"),
}
TORCH_NAMES = {
    "float8e4nv": "float8_e4m3fn",
    "float8e5": "float8_e5m2",
    "float8e4b8": "float8_e4m3fnuz",
    "float8e5b16": "float8_e5m2fnuz",
}


def storage(dtype: str) -> np.dtype:
    """The NumPy type that holds the bits of a Triton type."""
    if dtype == "int1":
        return np.dtype(np.bool_)
    if dtype in SMALL_FLOATS and dtype != "float16":
        return np.dtype(np.uint16 if dtype == "bfloat16" else np.uint8)
    return np.dtype(dtype)


@functools.cache
def codes(dtype: str) -> np.ndarray:
    """The value of every code of a small float, as float64."""
    exponent_bits, mantissa_bits, bias, top = SMALL_FLOATS[dtype]
    code = np.arange(1 << (1 + exponent_bits + mantissa_bits))
    exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    fraction = (code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    value = np.where(
        exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias * 1.0)
    )
    sign = code >> (exponent_bits + mantissa_bits)
    highest = exponent == (1 << exponent_bits) - 1
    if top == "ieee":
        value = np.where(highest, np.where(fraction == 0, np.inf, np.nan), value)
    elif top == "fn":
        value = np.where(highest & (fraction == 1 - 2.0**-mantissa_bits), np.nan, value)
    value = np.where(sign == 1, -value, value)
    if top == "fnuz":
        value[1 << (exponent_bits + mantissa_bits)] = np.nan
    return value


def decode(bits: np.ndarray, dtype: str) -> np.ndarray:
    return (
        codes(dtype)[bits.view(np.uint16) if dtype == "float16" else bits] if dtype in SMALL_FLOATS else bits
    )


def encode(values: Any, dtype: str) -> np.ndarray:
    """float64 values as bits of `dtype`, rounded to the nearest, ties to even."""
    values = np.asarray(values)
    if dtype not in SMALL_FLOATS or dtype == "float16":
        with np.errstate(all="ignore"):
            return values.astype(storage(dtype))
    half = len(codes(dtype)) // 2
    table = codes(dtype)[:half]
    finite = np.flatnonzero(np.isfinite(table))
    size = np.abs(values.astype(np.float64))
    above = np.clip(np.searchsorted(table[finite], size), 1, len(finite) - 1)
    low, high = table[finite[above - 1]], table[finite[above]]
    middle = (low + high) / 2
    up = (size > middle) | ((size == middle) & (above % 2 == 0))
    code = np.where(up, above, above - 1)
    last = table[finite[-1]]
    beyond = last + (last - table[finite[-2]]) / 2
    if SMALL_FLOATS[dtype][3] == "ieee":
        code = np.where(size >= beyond, len(finite), code)
    code = np.where(np.isnan(size), half - 1, code)
    return (code + half * np.signbit(values)).astype(storage(dtype))


class Buffer:
    """A C-ordered array of any Triton type, with what Triton asks of a tensor: `data_ptr()` and `dtype`."""

    def __init__(self, values: Any, dtype: str):
        self.name = dtype
        self.bits = np.ascontiguousarray(encode(values, dtype))
        self.shape = self.bits.shape
        self.dtype = TORCH_NAMES.get(dtype, dtype)

    @classmethod
    def full(cls, shape: Any, dtype: str, byte: int = 0x5A) -> Buffer:
        """A buffer of a known junk pattern: what a kernel leaves alone shows."""
        self = cls(np.zeros(shape), dtype)
        self.bits.view(np.uint8)[...] = byte if dtype != "int1" else 0
        return self

    def data_ptr(self) -> int:
        return self.bits.ctypes.data

    def element_size(self) -> int:
        return self.bits.itemsize

    def numel(self) -> int:
        return self.bits.size

    def stride(self, dim: int | None = None) -> Any:
        strides = tuple(s // self.bits.itemsize for s in self.bits.strides)
        return strides if dim is None else strides[dim]

    @property
    def values(self) -> np.ndarray:
        """Integers as they are, floats as float64."""
        out = decode(self.bits, self.name)
        return out.astype(np.float64) if out.dtype.kind == "f" else out


def _argument(value: Any) -> Any:
    if not (INTERPRETED and isinstance(value, Buffer)):
        return value
    import torch

    name = {"int1": "bool"}.get(value.name, value.dtype)
    raw = value.bits.reshape(-1).view(np.uint8)
    return torch.from_numpy(raw).view(getattr(torch, name)).view(value.shape)


def launch(kernel: Any, grid: Any, *args: Any, **meta: Any) -> Any:
    grid = (grid,) if isinstance(grid, int) else grid
    return kernel[grid](*map(_argument, args), **meta)


_folder: tempfile.TemporaryDirectory | None = None
_numbers = itertools.count()
HEADER = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n\n"


def kernel(source: str, name: str = "kernel") -> Any:
    """The kernel `name` of a piece of source text."""
    global _folder
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix="tileprobe-kernels-")
    path = Path(_folder.name) / f"k{next(_numbers)}.py"
    path.write_text(HEADER + source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def spacing(values: np.ndarray, dtype: str) -> np.ndarray:
    """The distance to the next number of `dtype` above each |value|."""
    size = np.abs(np.where(np.isfinite(values), values, 1.0))
    if dtype in ("float32", "float64"):
        return np.spacing(size.astype(dtype)).astype(np.float64)
    _, mantissa_bits, bias, _ = SMALL_FLOATS[dtype]
    exponent = np.floor(np.log2(np.maximum(size, 2.0 ** (1 - bias))))
    return 2.0 ** (exponent - mantissa_bits)


def mismatch(got: np.ndarray, want: Any, dtype: str, ulps: float = 0) -> str | None:
    """None when `got` is what `want` rounds to, within `ulps` units in the last place; else what is wrong."""
    want = np.broadcast_to(np.asarray(want), got.shape)
    if got.dtype.kind != "f":
        bad = got != want.astype(got.dtype)
        detail = ""
    else:
        with np.errstate(over="ignore"):  # extended precision reaches further
            want = want.astype(np.float64)
        exact = Buffer(want, dtype).values
        same = (got == exact) & (np.signbit(got) == np.signbit(exact))
        same |= np.isnan(got) & np.isnan(exact)
        with np.errstate(all="ignore"):
            off = np.abs(got - want) / spacing(want, dtype)
            # With a tolerance, zeros may lose their sign.
            same |= (off <= ulps) if ulps else False
        bad = ~same
        worst = off[bad & np.isfinite(off)].max(initial=0.0)
        detail = f", up to {worst:.3g} ulp"
    if not bad.any():
        return None
    first = tuple(int(i) for i in np.argwhere(bad)[0]) if bad.ndim else ()
    return f"{bad.sum()} of {bad.size} wrong{detail}; at {first} got {got[first]}, expected {want[first]}"
