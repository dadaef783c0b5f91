"""Constants with their exact bits.

Comes in: the value attribute of an `arith.constant`. Goes out: a `Constant`, which gives Python scalars,
NumPy arrays or raw bits. Formats NumPy does not have (bf16, fp8) come as float32, which holds them exactly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    UnregisteredAttr,
)
from xdsl.ir import Attribute

from tileprobe.errors import TileProbeError
from tileprobe.ir.literals import RAW_FLOAT, element_bytes, element_type, float_bits

_NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "index": np.int64, "i1": np.bool_}
_INTEGER = re.compile(r"[su]?i(\d+)$")


@dataclass(frozen=True)
class Constant:
    """`shape` is None for a scalar. `data` holds the bytes of one element if `splat`, else of all of them."""

    element: str
    shape: tuple[int, ...] | None
    splat: bool
    data: bytes

    @staticmethod
    def from_attribute(value: Attribute) -> Constant:
        """The constant an integer, float or dense attribute stands for."""
        if isinstance(value, IntegerAttr):
            bits, size = _integer_width(value.type)
            data = (value.value.data & ((1 << bits) - 1)).to_bytes(size, "little")
            return Constant(str(value.type), None, True, data)
        if isinstance(value, FloatAttr):
            kind: AnyFloat = value.type
            return Constant(
                str(kind), None, True, float_bits(value.value.data, kind).to_bytes(kind.size, "little")
            )
        if isinstance(value, DenseIntOrFPElementsAttr):
            return _from_dense(value)
        if isinstance(value, UnregisteredAttr) and value.attr_name.data == RAW_FLOAT:
            literal, element = value.value.data.split(" : ")
            return Constant(element, None, True, element_bytes(literal, element_type(element)))
        raise TileProbeError(f"expected a number or a dense constant, found {value}")

    @property
    def bits(self) -> int:
        """The bit pattern of a scalar or splat."""
        self._expect_splat()
        bits = int.from_bytes(self.data, "little")
        return bits & 1 if self.element == "i1" else bits

    def scalar(self) -> int | bool | float:
        """The value of a scalar or splat; integers are signed, i1 is a bool."""
        self._expect_splat()
        return self._decode(self.data).item()

    def array(self) -> np.ndarray[Any, Any]:
        """All elements in the constant's shape, a splat spread out; bf16 and fp8 as float32."""
        values = self._decode(self.data)
        dims = () if self.shape is None else self.shape
        return np.full(dims, values[0]) if self.splat else values.reshape(dims)

    def bits_array(self) -> np.ndarray[Any, Any]:
        """All elements as unsigned bit patterns in the constant's shape."""
        count = int(np.prod(self.shape)) if self.shape is not None and not self.splat else 1
        width = len(self.data) // count
        values = np.frombuffer(self.data, np.dtype(f"<u{width}"))
        values = values & 1 if self.element == "i1" else values
        dims = () if self.shape is None else self.shape
        return np.full(dims, values[0]) if self.splat else values.reshape(dims)

    def _expect_splat(self) -> None:
        if not self.splat:
            raise TileProbeError(f"expected a scalar or a splat, found {self.shape} different elements")

    def _decode(self, data: bytes) -> np.ndarray[Any, Any]:
        if self.element == "i1":
            return np.frombuffer(data, np.uint8) != 0
        if dtype := _NUMPY.get(self.element):
            return np.frombuffer(data, np.dtype(dtype).newbyteorder("<"))
        if match := _INTEGER.match(self.element):
            sign = "u" if self.element[0] == "u" else "i"
            return np.frombuffer(data, f"<{sign}{(int(match[1]) + 7) // 8}")
        kind = element_type(self.element)
        assert isinstance(kind, AnyFloat)
        return np.array(kind.unpack(data, len(data) // kind.size), np.float32)


def _from_dense(value: DenseIntOrFPElementsAttr) -> Constant:
    kind = value.get_element_type()
    data = value.data.data
    size = kind.compile_time_size
    first = data[:size]
    splat = bool(data) and data == first * (len(data) // size)
    return Constant(str(kind), tuple(value.get_shape()), splat, first if splat else data)


def _integer_width(kind: IntegerType | IndexType) -> tuple[int, int]:
    bits = 64 if isinstance(kind, IndexType) else kind.width.data
    return bits, (bits + 7) // 8
