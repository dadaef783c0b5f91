"""How many programs of a launch are recorded, so that probes take no more than an allowed share of its time.

In come the launches of one work, with and without records; out goes a stride: every so many-th program is recorded.
The first guess is made from the number of records and what one costs at the least. It is replaced by what probes
are seen to cost here, whatever the reason: the records, stages that are no longer fused, cores that read their clock
slowly. A launch with records is held against those without that ran just before it: machines change their pace, and a
launch of the beginning says nothing about one of later. It counts by how sure it is: programs that are
recorded here and there among others find the caches colder, so that a stride that follows the noise would show in the
shares of regions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import ceil, sqrt
from statistics import median

# A record in a kernel against one in a loop of nothing else: 0.6 to 1.0 on Zen 3, 2.0 on Emerald Rapids
# (docs/overhead.md).
UNKNOWN = 2.0
# What else a recorded program costs, in records: its header is two; to and fro between the plain code and that with
# records cost 77 +- 14 ns a program (softmax, layer norm, every third recorded against all; a record 11 ns; Zen 3).
HEADER, SWITCH = 2, 7
# By how much of itself the guess is off: of six kernels on Zen 3 the truth was 0.2 to 2 times the guess, 475 ns where a
# program streams through memory and 242 were guessed (vector add; docs/overhead.md).
UNSURE = 0.7
LEAST = (
    0.6  # of a record in a loop of nothing else: no record costs less (above), whatever launches seem to say
)
AIM = 0.8  # of what is allowed: what is aimed at is missed to both sides, and the limit is none to be missed
ENOUGH = 6  # launches with as many programs recorded, from which on their difference is looked at
BESIDE = 3  # launches without records that one with records is held against
_KEPT = 32  # the latest launches of each number of programs count
_SURE = 3.0  # standard errors; it is looked at many times


@dataclass
class Thinning:
    """Launches of one work. All times are durations of whole launches, in nanoseconds."""

    allowed: float
    stride: int = 1
    guess_ns: float | None = None  # that recording one program adds to a launch
    least_ns: float = 0.0  # that it adds in any case
    _plain: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _more: dict[int, deque[float]] = field(default_factory=dict)  # by programs recorded: what it took longer

    def plain(self, duration_ns: float) -> None:
        self._plain.append(duration_ns)

    def guess(self, records: int, recorded: int, floor_ns: float, workers: int) -> None:
        """From the first launch with records: `recorded` programs wrote `records`, `workers` at a time."""
        if self.guess_ns is None and recorded:
            each_ns = floor_ns / max(1, min(workers, recorded))
            self.guess_ns = UNKNOWN * each_ns * (records / recorded + HEADER + SWITCH)
            self.least_ns = LEAST * each_ns * (records / recorded + HEADER)

    def probed(self, duration_ns: float, recorded: int, programs: int, *, look: bool = True) -> None:
        """A launch with records. Programs are left out once that is known to be needed, which takes a `look` at all of
        them."""
        plain = self._plain
        if len(plain) >= BESIDE:
            beside = sorted((plain[-1], plain[-2], plain[-3]))[1]  # quicker than a median of any number
            if recorded not in self._more:
                self._more[recorded] = deque(maxlen=_KEPT)
            self._more[recorded].append(duration_ns - beside)
        if not look:
            return
        whole = median(self._plain) if self._plain else duration_ns
        cost = self.cost_ns()
        if cost is not None and whole > 0:
            self.stride = min(max(1, ceil(cost * programs / (AIM * self.allowed * whole))), max(programs, 1))

    def cost_ns(self) -> float | None:
        """What recording one program adds to a launch. A measurement above the guess counts by how sure it is; one
        below it counts when it is sure, as the first launches went by the guess and were within the limit."""
        measured = self._measured()
        if measured is None or self.guess_ns is None:
            return self.guess_ns
        cost, error = measured
        if cost <= self.guess_ns:
            return max(self.least_ns, min(self.guess_ns, cost + _SURE * error))
        unsure = UNSURE * self.guess_ns
        return self.guess_ns + (cost - self.guess_ns) * unsure**2 / ((unsure**2 + error**2) or 1.0)

    def _measured(self) -> tuple[float, float] | None:
        """What a program adds and its standard error, from all numbers of programs that were recorded often enough:
        each counts by how sure it is."""
        found = [
            (middle / count, error / count)
            for count, more in self._more.items()
            if len(more) >= ENOUGH and count
            for middle, error in (_typical(more),)
        ]
        if not found:
            return None
        surest = min(error for _, error in found)
        if surest == 0.0:
            return next(one for one in found if one[1] == 0.0)
        weights = [(surest / error) ** 2 for _, error in found]
        cost = sum(weight * cost for weight, (cost, _) in zip(weights, found)) / sum(weights)
        return cost, surest / sqrt(sum(weights))


def _typical(runs: deque[float]) -> tuple[float, float]:
    """The median and its standard error: 1.4826 MAD is the deviation of a normal sample, and a median's error is
    sqrt(pi / 2) that of a mean. The MAD of few is often too small by much."""
    middle = median(runs)
    spread = 1.4826 * median(abs(run - middle) for run in runs)
    return middle, (1 + 4 / len(runs)) * 1.2533 * spread / sqrt(len(runs))
