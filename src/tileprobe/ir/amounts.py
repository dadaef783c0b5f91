"""How much a piece of a kernel computes and moves, the two axes of a roofline, and what a machine can do of either."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Amount:
    """Floating-point operations (a fused one is two; integers of a matrix product count too), and bytes that loads and
    stores ask memory for, wherever a cache may have them. What masks keep out is counted: the IR does not know them."""

    flops: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.flops + other.flops, self.bytes + other.bytes)

    def __mul__(self, times: float) -> Amount:
        return Amount(times * self.flops, times * self.bytes)

    def __bool__(self) -> bool:
        return bool(self.flops or self.bytes)


@dataclass(frozen=True)
class Roof:
    """One measured rate: so many `unit` (operations, bytes) a second at the best, and how much longer than the quickest
    try the middle one took."""

    name: str
    per_s: float
    spread: float
    unit: str


@dataclass(frozen=True)
class Roofs:
    """What a machine can do at most: operations a second by what computes, bytes a second by where they come from, of
    one of its `units` or of a whole "chip"; `said` is where that is known from."""

    unit: str
    flops_per_s: tuple[tuple[str, float], ...]
    bytes_per_s: tuple[tuple[str, float], ...]
    said: str
