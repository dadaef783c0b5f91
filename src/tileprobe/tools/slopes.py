"""How much longer a kernel takes for each nanosecond by which a region was delayed.

Comes in: times of rounds, each with delays of 0, d, 2d and 3d one behind the other. Goes out: the slope, 1 where every
delay shows and 0 where none does, with half its 95 % interval; whether that can be told apart from noise; and how many
units share a delay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

DOSES = (0, 1, 2, 3)
TELLS = 0.25  # half an interval that is wider than this tells nothing of a slope between 0 and 1
FEW = 6  # rounds, below which an interval of their order statistics does not hold 95 %


@dataclass(frozen=True)
class Slope:
    """`error` is half of the 95 % interval; None where there are too few rounds for one, 0 where time is exact."""

    value: float
    error: float | None
    rounds: int

    @property
    def told(self) -> bool:
        return self.error is not None and self.error <= TELLS

    def scaled(self, spread: float) -> Slope:
        """The same where what it was divided by is known but for a part `spread` of it."""
        return Slope(
            self.value, None if self.error is None else self.error + abs(self.value) * spread, self.rounds
        )


def slope_of(times: np.ndarray, step: float, late: float = 0.0) -> Slope:
    """`times` has a row for each round and a column for each dose; one dose makes `step` of delay. Each round has a
    slope of its own (least squares): what the machine does from round to round does not touch it. The median of these
    is taken, with the interval of its order statistics, which holds whatever they are distributed like. `late` is the
    part of a dose by which all but the dose of 0 may be longer than they are meant to be: it widens the interval."""
    times = np.asarray(times, float)
    if not len(times) or step <= 0:
        return Slope(math.nan, None, len(times))
    doses = np.array(DOSES, float)
    weights = (doses - doses.mean()) / ((doses - doses.mean()) ** 2).sum()
    slopes = times @ weights / step
    value, error = median_of(slopes)
    if error is not None:
        error += late * float(weights[doses > 0].sum())
    return Slope(value, error, len(slopes))


def beside_each_other(
    launch: np.ndarray, unit: np.ndarray, start: np.ndarray, stop: np.ndarray
) -> np.ndarray:
    """For each launch how many units share what is added to its programs, given on which unit each program ran and
    when. Programs are handed out as units become free, so what is added is shared by all that work at the end, however
    late they came: the time that the units worked, over the mean time from a unit's first program to the launch's end.
    A launch that one unit did alone, because the others were not awake yet, has 1."""
    found: list[float] = []
    for one in np.unique(launch):
        mine = launch == one
        end = stop[mine].max()
        begun = [start[mine & (unit == n)].min() for n in np.unique(unit[mine])]
        there = float(np.mean([end - at for at in begun]))
        found.append(float((stop[mine] - start[mine]).sum()) / there if there > 0 else math.nan)
    return np.array(found)


def median_of(values: np.ndarray) -> tuple[float, float | None]:
    """The median with half its 95 % interval, the same way."""
    values = np.sort(np.asarray(values, float))
    count = len(values)
    value = float(np.median(values)) if count else math.nan
    if count < FEW:
        return value, None
    reach = math.ceil(0.98 * math.sqrt(count) + 0.5)
    low, high = max(0, count // 2 - reach), min(count - 1, (count - 1) // 2 + reach)
    return value, float(max(values[high] - value, value - values[low]))
