"""The number formats of Triton's element types, as data: how each is laid out and what it can hold."""

from __future__ import annotations

from dataclasses import dataclass

from tileprobe.errors import UnsupportedError

from .values import DOUBLE, FLOAT, HALF, I16


@dataclass(frozen=True)
class Float8:
    """An eight-bit float. `largest` is the greatest finite magnitude's code, `nan` what NaN is written as."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: int
    nan: int
    infinite: bool = False  # has infinities (and IEEE's NaNs)
    unsigned_zero: bool = False  # 0x80 is the only NaN; there is no -0

    @property
    def largest_value(self) -> float:
        fraction = 1 + (self.largest & ((1 << self.mantissa_bits) - 1)) / (1 << self.mantissa_bits)
        return fraction * 2.0 ** ((self.largest >> self.mantissa_bits) - self.bias)


_E4B15 = Float8(4, 3, 15, largest=0x7E, nan=0x7E)
FLOAT8 = {
    "f8E5M2": Float8(5, 2, 15, largest=0x7B, nan=0x7F, infinite=True),
    "f8E4M3FN": Float8(4, 3, 7, largest=0x7E, nan=0x7F),
    "f8E4M3FNUZ": Float8(4, 3, 8, largest=0x7F, nan=0x80, unsigned_zero=True),
    "f8E5M2FNUZ": Float8(5, 2, 16, largest=0x7F, nan=0x80, unsigned_zero=True),
    # Triton's fp8e4b15 has no NaN: codes 0x7f and 0xff are numbers, and conversions stop at 1.75. Triton's IR
    # carries it under the name of another type.
    "f8E4M3B15": _E4B15,
    "f8E4M3B11FNUZ": _E4B15,
}
_LLVM = {"f64": DOUBLE, "f32": FLOAT, "f16": HALF, "bf16": I16}


def is_float(dtype: str) -> bool:
    return dtype in _LLVM or dtype in FLOAT8


def width(dtype: str) -> int:
    """Bits of an integer type's name: i32, ui8, si16."""
    digits = dtype.lstrip("usi")
    if not digits.isdigit():
        raise UnsupportedError(f"unknown element type {dtype!r}")
    return int(digits)
