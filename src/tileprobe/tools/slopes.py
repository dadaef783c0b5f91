"""How much longer a kernel takes for each nanosecond by which a region was delayed.

Comes in: times of rounds, each with delays of 0, d, 2d and 3d one behind the other. Goes out: the slope, 1 where every
delay shows and 0 where none does, with half its 95 % interval; whether that can be told apart from noise; and how many
units share a delay. What is told lies within what can be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

DOSES = (0, 1, 2, 3)
TELLS = 0.25  # half an interval that is wider than this tells nothing of a slope between 0 and 1
SMALL = 0.01  # of the launch: an error that no decision depends on
UNEVEN = 2.0  # times the mean: a region that some programs run so often is not in all of them alike
ALIKE = 1.5  # launches of a round on so many times as many units as others are not held against each other
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

    @property
    def low(self) -> float:
        return self.value if self.error is None else max(0.0, min(1.0, self.value - self.error))

    @property
    def high(self) -> float:
        return self.value if self.error is None else max(0.0, min(1.0, self.value + self.error))

    def scaled(self, spread: float) -> Slope:
        """The same where what it was divided by is known but for a part `spread` of it."""
        return Slope(
            self.value, None if self.error is None else self.error + abs(self.value) * spread, self.rounds
        )

    def bounded(self) -> Slope:
        """A delay can show as a whole, or not at all: what is beyond that within the error is noise. Where the error
        does not reach to it, launches were not what they are taken for, and nothing is told."""
        if self.error is None or not -self.error <= self.value <= 1 + self.error:
            return Slope(max(0.0, min(1.0, self.value)), None, self.rounds)
        return Slope(max(0.0, min(1.0, self.value)), self.error, self.rounds)


@dataclass(frozen=True)
class Gain:
    """A share of the launch, and the interval that it lies in; `told` is whether that says something of it."""

    value: float
    low: float
    high: float
    told: bool


def gain_of(raw: float, error: float | None, most: float, other: float | None = None) -> Gain:
    """What is won by a region of which no unit has more than `most` of its time, and so no launch can win more. The
    interval reaches from `raw` to what was found another way, and the error beyond. It is told where it is small beside
    the most, the error no larger than it, and where something of what was found can be."""
    value = min(max(raw, 0.0), most) if math.isfinite(raw) else 0.0
    if error is None or not math.isfinite(raw):
        return Gain(value, 0.0, most, False)
    ends = (raw, raw if other is None else other)
    low, high = (min(max(end, 0.0), most) for end in (min(ends) - error, max(ends) + error))
    possible = -error <= max(ends) and min(ends) <= most + error and error <= max(most, SMALL)
    return Gain(value, low, high, possible and (high - low) / 2 <= max(TELLS * most, SMALL))


def slope_of(times: np.ndarray, step: float, late: float = 0.0) -> Slope:
    """`times` has a row for each round and a column for each dose; one dose makes `step` of delay. Each round has a
    slope of its own (least squares): what the machine does from round to round does not touch it. The median of these
    is taken, with the interval of its order statistics, which holds whatever they are distributed like. `late` is the
    part of a dose by which each delay may be longer than it is meant to be: it widens the interval."""
    times = np.asarray(times, float)
    if not len(times) or step <= 0:
        return Slope(math.nan, None, len(times))
    doses = np.array(DOSES, float)
    weights = (doses - doses.mean()) / ((doses - doses.mean()) ** 2).sum()
    slopes = times @ weights / step
    value, error = median_of(slopes)
    if error is not None:
        error += late * float(np.abs(weights).sum()) / 2
    return Slope(value, error, len(slopes))


def alike(units: np.ndarray) -> np.ndarray:
    """Of rounds, whose launches were on so many units each, those whose launches can be held against each other: one
    that had another unit beside it, which the others had not, is shorter for that and for no delay."""
    units = np.asarray(units, float)
    return units.max(axis=1) <= ALIKE * units.min(axis=1)


def beside(units: np.ndarray, usual: float) -> np.ndarray:
    """A row for each launch or round: how many units were at work, and how many usually are."""
    return np.column_stack([units, np.full(len(units), usual)])


def sharing(units: float, unit: np.ndarray, count: np.ndarray, last: int) -> float:
    """How many units share what is added to a region, given the unit of each program of a launch, how often the region
    ran in it, and which unit ended last. What is in every program alike is shared by all, since programs are handed out
    to whoever is free. What a few have stays where they ran: of that it counts what the last unit has."""
    mine, whole = float(count[unit == last].sum()), float(count.sum())
    uneven = float(count.max(initial=0.0)) * len(count) > UNEVEN * whole
    return min(units, whole / mine) if uneven and mine > 0 else units


def beside_each_other(
    launch: np.ndarray, unit: np.ndarray, start: np.ndarray, stop: np.ndarray
) -> np.ndarray:
    """For each launch how many units share what is added to its programs, given on which unit each program ran and
    when. Programs are handed out as units become free, so what is added is shared by all that work at the end, however
    late they came: the time that the units worked, over the mean time from a unit's first program to the launch's end.
    A launch that one unit did alone, because the others were not awake yet, has 1; so has one that was kept waiting for
    a processor, since what is added to it is added all the same."""
    found: list[float] = []
    for one in np.unique(launch):
        mine = launch == one
        end = stop[mine].max()
        begun = [start[mine & (unit == n)].min() for n in np.unique(unit[mine])]
        there = float(np.mean([end - at for at in begun]))
        worked = float((stop[mine] - start[mine]).sum())
        found.append(max(1.0, worked / there) if there > 0 else math.nan)
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
