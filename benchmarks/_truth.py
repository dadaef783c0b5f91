"""What cases of `truth.py` are made of: something planted, and what a tool found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

SIMULATED, CPU = 0.05, 0.10  # how far off a figure may be, as a share of what was planted


@dataclass(frozen=True)
class Pair:
    """One figure. A name that has to be found is a figure, too: 1 planted, and 1 found if it was named."""

    what: str
    planted: float
    found: float
    unit: str = "ns"
    told: bool = True  # the machine ran what was planted

    @property
    def error(self) -> float:
        """As a share of what was planted; of nothing planted, what was found."""
        if math.isnan(self.found):
            return math.inf
        return abs(self.found - self.planted) / (abs(self.planted) or 1.0)


def named(what: str, right: bool) -> Pair:
    """Whether the tool named the right thing."""
    return Pair(what, 1.0, float(right), "")


@dataclass(frozen=True)
class Case:
    """`tool` is the tool that is asked, `machine` the target (or `by hand`), `limit` the largest error that will do."""

    name: str
    tool: str
    machine: str
    run: Callable[[], list[Pair]]
    limit: float = SIMULATED
