"""Memory for kernels without torch: NumPy arrays in a thin wrapper that Triton takes for a tensor.

Comes in: an array, and the name of its dtype where NumPy has none (bfloat16, the fp8 types). Goes out: an
`Array` with `data_ptr()`, `dtype`, `shape` and `stride()` over the same memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cpu import narrow_floats


class DType:
    """The type of an array's elements. Its string is a name Triton (and torch) knows."""

    __slots__ = ("is_floating_point", "itemsize", "name", "numpy")

    def __init__(self, name: str, numpy: str, is_floating_point: bool):
        self.name = name
        self.numpy = np.dtype(numpy)  # how NumPy holds it; the raw bits for types NumPy does not have
        self.itemsize = self.numpy.itemsize
        self.is_floating_point = is_floating_point

    def __repr__(self) -> str:
        return f"tileprobe.{self.name}"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        return dtype, (self.name,)


_DTYPES = {
    **{n: DType(n, n, False) for n in ("bool", "int8", "int16", "int32", "int64")},
    **{n: DType(n, n, False) for n in ("uint8", "uint16", "uint32", "uint64")},
    **{n: DType(n, n, True) for n in ("float16", "float32", "float64")},
    "bfloat16": DType("bfloat16", "uint16", True),
    **{
        n: DType(n, "uint8", True)
        for n in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8e4b15")
    },
}
_ALIASES = {
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "bf16": "bfloat16",
    "bool_": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "i1": "bool",
    "int1": "bool",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "float8e4nv": "float8_e4m3fn",
    "float8e5": "float8_e5m2",
    "fp8e4b15": "float8e4b15",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
    "float8e4b8": "float8_e4m3fnuz",
    "float8e5b16": "float8_e5m2fnuz",
}


def dtype(kind: Any) -> DType:
    """A dtype by its name (`"bfloat16"`, `"fp8e5"`), or NumPy's, torch's or Triton's dtype of that name."""
    if isinstance(kind, DType):
        return kind
    name = kind if isinstance(kind, str) else _name_of(kind)
    name = _ALIASES.get(name, name)
    if name not in _DTYPES:
        raise TileProbeError(f"kernels have no dtype {name!r}; expected one of {', '.join(_DTYPES)}")
    return _DTYPES[name]


def _name_of(kind: Any) -> str:
    if str(kind).startswith("torch."):
        return str(kind).removeprefix("torch.")
    if type(kind).__module__.startswith("triton."):
        return str(kind)
    try:
        return np.dtype(kind).name
    except TypeError:
        return str(kind)


class Array:
    """An array as kernels take it. `numpy()` gives its values: the same memory if NumPy has the dtype."""

    __slots__ = ("_address", "dtype", "raw", "shape")
    device = "cpu"
    is_cpu = True

    def __init__(self, raw: np.ndarray, kind: DType):
        self.raw = raw
        self.dtype = kind
        self.shape = raw.shape
        self._address = raw.__array_interface__["data"][0]

    def data_ptr(self) -> int:
        return self._address

    def stride(self, dim: int | None = None) -> Any:
        """Distance of neighbours along each dimension (or one) in elements."""
        strides = tuple(s // self.raw.itemsize for s in self.raw.strides)
        return strides if dim is None else strides[dim]

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return self.raw.size

    def element_size(self) -> int:
        return self.dtype.itemsize

    def ptr_range(self) -> int:
        """Bytes from the first element to the end of the last, as Triton's AMD backend asks for it."""
        begin, end = byte_bounds(self.raw)
        return end - begin

    @property
    def ndim(self) -> int:
        return self.raw.ndim

    def numpy(self) -> np.ndarray:
        """The values; for dtypes NumPy lacks a float32 copy (`raw` has their bits)."""
        if self.dtype.name in narrow_floats.FORMATS:
            return narrow_floats.decode(self.raw, self.dtype.name)
        return self.raw

    def zero_(self) -> Array:
        self.raw[...] = 0
        return self

    def copy_(self, other: Any) -> Array:
        self.raw[...] = other.raw if isinstance(other, Array) else array(other, self.dtype).raw
        return self

    def clone(self) -> Array:
        return Array(self.raw.copy(), self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = self.numpy()
        return values if dtype is None else values.astype(dtype, copy=bool(copy))

    def __len__(self) -> int:
        return len(self.raw)

    def __repr__(self) -> str:
        return f"tileprobe.array(shape={self.shape}, dtype={self.dtype.name})"


def byte_bounds(raw: np.ndarray) -> tuple[int, int]:
    """The first and one past the last byte an array reaches."""
    first = raw.__array_interface__["data"][0]
    if not raw.size:
        return first, first
    reach = [(n - 1) * s for n, s in zip(raw.shape, raw.strides)]
    return first + sum(r for r in reach if r < 0), first + sum(r for r in reach if r > 0) + raw.itemsize


def array(data: Any, dtype: Any = None) -> Array:
    """Wraps an array for use as a kernel's argument. Nothing is copied if the dtype is the array's own.

    `dtype` may also name a type that NumPy lacks: floats are then rounded to it (a copy), unsigned integers
    of its size are taken as its bits (no copy).

    >>> x = tileprobe.array(np.arange(1024, dtype=np.float32))
    >>> y = tileprobe.array(np.zeros((64, 64)), dtype="bfloat16")
    >>> kernel[(1,)](x, y); y.numpy()
    """
    if isinstance(data, Array):
        return data if dtype is None else array(data.numpy(), dtype)
    if hasattr(data, "data_ptr"):
        raise TileProbeError(f"a {type(data).__name__} can be given to a kernel as it is")
    values = np.asarray(data)
    kind = _dtype_of(values, dtype)
    _check_layout(values)
    return Array(_as_raw(values, kind), kind)


def _dtype_of(values: np.ndarray, wanted: Any) -> DType:
    if values.dtype.kind in "cOSUVMm" and values.dtype.name not in _DTYPES:
        raise TileProbeError(f"kernels have no dtype {values.dtype}; expected one of {', '.join(_DTYPES)}")
    return dtype(values.dtype if wanted is None else wanted)


def _as_raw(values: np.ndarray, kind: DType) -> np.ndarray:
    if values.dtype.name == kind.name:
        # ml_dtypes' own bfloat16 and fp8 are held as their bits
        return values.view(kind.numpy) if values.dtype != kind.numpy else values
    if kind.name not in narrow_floats.FORMATS:
        return values.astype(kind.numpy)
    if values.dtype == kind.numpy:
        return values
    return narrow_floats.encode(values, kind.name)


def _check_layout(raw: np.ndarray) -> None:
    if not raw.dtype.isnative:
        raise TileProbeError(
            f"the array's byte order ({raw.dtype.str}) is not this machine's; use .astype('=...')"
        )
    if any(s % raw.itemsize for s in raw.strides):
        raise TileProbeError(
            f"the array's strides {raw.strides} are no multiples of {raw.itemsize}, its element size; copy it"
        )
