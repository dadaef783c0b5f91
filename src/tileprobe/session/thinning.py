"""How many programs of a launch are recorded, so that probes take no more than an allowed share of its time.

In come the launches of one work, with and without records; out goes a stride: every so many-th program is recorded.
The first guess is made from the number of records and what one costs at the least. It is replaced by what probes
are seen to cost here, whatever the reason: the records, stages that are no longer fused, cores that read their clock
slowly.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import ceil, sqrt
from statistics import median

# A record in a kernel against one in a loop of nothing else: 0.6 to 1.0 on Zen 3, 2.0 on Emerald Rapids
# (docs/overhead.md).
UNKNOWN = 2.0
ENOUGH = 4  # launches of each sort, from which on their difference is looked at
_KEPT = 32  # the latest launches count: machines change their pace
_SURE = 2.0  # standard errors


@dataclass
class Thinning:
    """Launches of one work. All times are durations of whole launches, in nanoseconds."""

    allowed: float
    stride: int = 1
    guess_ns: float | None = None  # that recording one program adds to a launch
    _plain: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _probed: dict[int, deque[float]] = field(default_factory=dict)  # by how many programs were recorded

    def plain(self, duration_ns: float) -> None:
        self._plain.append(duration_ns)

    def guess(self, records: int, recorded: int, floor_ns: float, workers: int) -> None:
        """From the first launch with records: `recorded` programs wrote `records`, `workers` at a time. A program
        also writes its header."""
        if self.guess_ns is None and recorded:
            self.guess_ns = UNKNOWN * floor_ns * (records / recorded + 2) / max(1, min(workers, recorded))

    def probed(self, duration_ns: float, recorded: int, programs: int) -> None:
        """A launch with records. Programs are left out once that is known to be needed."""
        runs = self._probed.setdefault(recorded, deque(maxlen=_KEPT))
        runs.append(duration_ns)
        whole = median(self._plain) if self._plain else min(runs)
        cost = self.cost_ns()
        if cost is not None and whole > 0:
            self.stride = min(max(1, ceil(cost * programs / (self.allowed * whole))), max(programs, 1))

    def cost_ns(self) -> float | None:
        """What recording one program adds to a launch: the guess, until measured launches contradict it."""
        measured = self._measured()
        if measured is None or self.guess_ns is None:
            return self.guess_ns
        cost, error = measured
        if cost - _SURE * error > self.guess_ns:
            return cost
        return max(0.0, min(self.guess_ns, cost + _SURE * error))

    def _measured(self) -> tuple[float, float] | None:
        """The slope of a launch's time over the programs recorded, and its standard error, from the most programs
        that were recorded often enough: there it shows best."""
        enough = [count for count, runs in self._probed.items() if len(runs) >= ENOUGH and count]
        if not enough or len(self._plain) < ENOUGH:
            return None
        count = max(enough)
        (with_it, error), (without, other) = (_typical(runs) for runs in (self._probed[count], self._plain))
        return (with_it - without) / count, sqrt(error**2 + other**2) / count


def _typical(runs: deque[float]) -> tuple[float, float]:
    """The median and its standard error: 1.4826 MAD is the deviation of a normal sample, and a median's error is
    sqrt(pi / 2) that of a mean."""
    middle = median(runs)
    spread = 1.4826 * median(abs(run - middle) for run in runs)
    return middle, 1.2533 * spread / sqrt(len(runs))
