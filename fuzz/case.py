"""What a worker is given: a kernel's text and its arguments, without the tree. And the first contents of memory."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from fuzz.program import Program, Scalar, Tensor
from fuzz.render import render
from fuzz.types import TYPES, encode

LENIENT = 10  # one seed of so many may store equal values at one place


@dataclass(frozen=True)
class Case:
    source: str
    arguments: tuple[Tensor | Scalar, ...]
    grid: int
    seed: int
    # Refuse two elements stored at one place even if they are equal. Few kernels do that on purpose, but a shrinker
    # that may replace every index by a constant ends up there, whatever it started from.
    strict: bool = True

    def elements(self, tensor: Tensor) -> int:
        return tensor.size * (self.grid if tensor.apart else 1)


def case_of(program: Program) -> Case:
    strict = program.seed % LENIENT != 0
    return Case(render(program), program.arguments, program.grid, program.seed, strict)


# What tensors hold at first: bounds of the values as (type's range, bounds) -> bounds.
def initial_bounds(values: str, dtype: str, size: int) -> tuple[int, int] | None:
    kind = TYPES[dtype]
    if values == "index":
        return 0, size - 1
    if values == "zero":
        return 0, 0
    if values == "unit":
        return -1, 1
    if values == "small":
        return (0, 15) if kind.kind == "u" else (0, 1) if kind.kind == "b" else (-8, 7)
    return None if kind.kind == "f" else kind.range  # "any"


def contents(case: Case, tensor: Tensor) -> np.ndarray:
    """The bits a tensor starts with; the same in every process."""
    elements = case.elements(tensor)
    rng = np.random.default_rng([case.seed, zlib.crc32(tensor.name.encode())])
    bounds = initial_bounds(tensor.values, tensor.dtype, tensor.size)
    if tensor.values == "special":
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -2.5, 2.0**-24])
        return encode(special[rng.integers(0, len(special), elements)], tensor.dtype)
    if bounds is None:  # floats with a fraction that f16 can hold
        return encode(rng.integers(-255, 256, elements) / 8, tensor.dtype)
    low, high = bounds
    kind = TYPES[tensor.dtype]
    if tensor.values == "any" and kind.kind != "b":
        # Extremes are as likely as anything near zero.
        raw = rng.integers(0, 256, elements * (kind.bits // 8), dtype=np.uint8).view(kind.storage)
        near = rng.integers(0, 20, elements).astype(kind.storage)
        return np.where(rng.integers(0, 3, elements) == 0, near, raw)
    return encode(rng.integers(low, high, elements, endpoint=True), tensor.dtype)
