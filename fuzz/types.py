"""The element types of generated kernels: their ranges, and where whole numbers are exact in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class DType:
    name: str  # as in `tl.<name>`; a pointer to it is "*<name>"
    kind: str  # "i" signed, "u" unsigned, "f" float, "b" a truth value
    bits: int
    exact: int  # whole numbers up to this size have no rounding error (floats), or are in range (integers)
    storage: str  # the NumPy type of its bits

    @property
    def range(self) -> tuple[int, int]:
        """The values of an integer type."""
        if self.kind == "b":
            return 0, 1
        if self.kind == "u":
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1

    @property
    def torch(self) -> str:
        """The name that Triton reads from a tensor's `dtype`."""
        return {"int1": "int1", "float8e4nv": "float8_e4m3fn", "float8e5": "float8_e5m2"}.get(
            self.name, self.name
        )


def _integer(kind: str, bits: int) -> DType:
    name = f"{'u' if kind == 'u' else ''}int{bits}"
    return DType(name, kind, bits, 2 ** (bits - 1) - 1, name)


TYPES: dict[str, DType] = {
    t.name: t
    for t in (
        DType("int1", "b", 1, 1, "bool"),
        *(_integer("i", bits) for bits in (8, 16, 32, 64)),
        *(_integer("u", bits) for bits in (8, 16, 32, 64)),
        DType("float16", "f", 16, 2**11, "float16"),
        DType("bfloat16", "f", 16, 2**8, "uint16"),
        DType("float32", "f", 32, 2**24, "float32"),
        DType("float64", "f", 64, 2**53, "float64"),
        DType("float8e4nv", "f", 8, 2**4, "uint8"),
        DType("float8e5", "f", 8, 2**3, "uint8"),
    )
}
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
# Floats that everything is done in, and those that have arithmetic but are widened in reductions, maximum and the
# like. The others are only loaded, stored, converted and multiplied by `dot`.
FLOATS = ("float16", "float32", "float64")
ARITHMETIC = (*FLOATS, "bfloat16")

# name -> exponent bits, mantissa bits, bias; for the types NumPy does not know
_SMALL = {"bfloat16": (8, 7, 127), "float8e4nv": (4, 3, 7), "float8e5": (5, 2, 15)}


def encode(values: np.ndarray, dtype: str) -> np.ndarray:
    """Values as the bits of a type. Exact only: what a small float cannot hold is an error of the caller."""
    if dtype not in _SMALL:
        with np.errstate(all="ignore"):
            return values.astype(TYPES[dtype].storage)
    table = codes(dtype)
    order = np.argsort(table)
    return order[np.searchsorted(table[order], values.astype(np.float64))].astype(TYPES[dtype].storage)


def decode(bits: np.ndarray, dtype: str) -> np.ndarray:
    """The values of bits, for comparing and printing."""
    return codes(dtype)[bits] if dtype in _SMALL else bits


def codes(dtype: str) -> np.ndarray:
    """The value of each code of a small float (NaN and infinity as NaN)."""
    exponent_bits, mantissa_bits, bias = _SMALL[dtype]
    code = np.arange(1 << (1 + exponent_bits + mantissa_bits))
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    fraction = (code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    normal = (1 + fraction) * 2.0 ** (exponent - float(bias))
    value = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), normal)
    top = exponent == (1 << exponent_bits) - 1
    if dtype == "float8e4nv":
        top &= fraction == 1 - 2.0**-mantissa_bits
    value = np.where(top, np.nan, value)
    return np.where(code >> (exponent_bits + mantissa_bits) == 1, -value, value)
