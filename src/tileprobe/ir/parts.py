"""What a region's own time is made of: shares of its cost, by kind of operation and by source line.

A stage fused from many operations is measured as one. What each of them has of it is an estimate, made from what the
operations cost by a target's own table when the probes are put in. In come costs, out go `Part`s, which a region keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Frame = tuple[str, int]  # a file and a line of it
Spot = tuple[
    str, tuple[Frame, ...]
]  # a kind of operation, and where: the line itself, then the lines that called it

LEAST = 0.002  # of a region: smaller parts are put together with the others of their line, or left out


class Part(NamedTuple):
    """A share (0 to 1) of a region's own time. `frames` is the line it is spent in, then the line that called the
    function around it, and so on; the last one is a line of the kernel itself."""

    share: float
    kind: str
    frames: tuple[Frame, ...]


def parts_of(costs: Mapping[Spot, float]) -> tuple[Part, ...]:
    """Shares that add up to one, the largest first."""
    whole = sum(costs.values())
    if whole <= 0:
        return ()
    largest = max(costs.values())
    kept = {spot: cost for spot, cost in costs.items() if cost >= min(largest, LEAST * whole)}
    whole = sum(kept.values())
    shares = [Part(round(cost / whole, 4), kind, frames) for (kind, frames), cost in kept.items()]
    return tuple(sorted(shares, key=lambda part: (-part.share, part.frames, part.kind)))


def read_parts(rows: Iterable[Any]) -> tuple[Part, ...]:
    """Parts that have been through JSON, which knows no tuples."""
    return tuple(
        Part(float(share), str(kind), tuple((str(file), int(line)) for file, line in frames))
        for share, kind, frames in rows
    )
