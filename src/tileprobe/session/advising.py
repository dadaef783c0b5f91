"""Experiments that need no edit, tried: other numbers of stages and warps, sizes of blocks and orders of programs.

In comes a launch that can be run again; out goes what each change brought, with its noise, beside what did not help,
what cannot run, and what computes something else. Nothing is advised that was not run, whose results were not compared
with those of the launch as it is, or whose gain is not larger than the noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.session.evidence import Evidence, evidence_of
from tileprobe.session.relaunching import Relaunch, taken_ns
from tileprobe.targets.base import Target
from tileprobe.tools.slopes import median_of

ROUNDS = 8  # at least, where time is not exact
LEAST = 0.005  # of the launch: a smaller gain is no advice
# How far results may be off, as a share of the largest, in units of the last place of their type: sums in another
# order, of some thousands of terms, stay within it
_LAST_PLACES = 256
_NARROW = {2: 2**-7}  # of types of two bytes, of which NumPy may know one as numbers of four (bfloat16)


@dataclass(frozen=True)
class Experiment:
    """What is changed, and why."""

    changes: dict[str, Any]
    because: str

    @property
    def text(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.changes.items())


@dataclass(frozen=True)
class Outcome:
    """`verdict`: `helps`, `does not help`, `cannot be told`, `changes results`, `cannot run`. `gain` is the share of
    the launch's time that is gone, `error` half its 95 % interval, 0 where time is exact. `why` may have many lines."""

    changes: dict[str, Any]
    because: str
    verdict: str
    took_ns: float | None = None
    gain: float | None = None
    error: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Advice:
    kernel: str
    took_ns: float
    outcomes: list[Outcome]
    edits: list[dict[str, Any]]
    untried: list[dict[str, Any]]


def advise(launch: Relaunch, target: Target, seconds: float, progress: Callable[[str], None]) -> Advice:
    """Tries what the evidence speaks for, for at most about so many seconds."""
    until = time.monotonic() + seconds
    progress(f"{launch.name}: looking")
    found = evidence_of(launch)
    trying = _Trying(launch, target)
    outcomes: list[Outcome] = []
    wanted = experiments(launch, hasattr(target, "scales"), found)
    for n, experiment in enumerate(wanted):
        left = until - time.monotonic()
        if left <= 0:
            break
        progress(f"{launch.name}: {experiment.text}, {n + 1} of {len(wanted)}")
        outcomes.append(trying.outcome(experiment, left / (len(wanted) - n)))
    untried = wanted[len(outcomes) :]
    together = _together(outcomes)
    if together is not None and until > time.monotonic():
        outcomes.append(trying.outcome(together, until - time.monotonic()))
    outcomes.sort(key=lambda each: -(each.gain if each.gain is not None else -1e9))
    left = [{"changes": each.changes, "because": each.because} for each in untried]
    return Advice(launch.name, trying.took_ns, outcomes, found.edits, left)


def experiments(launch: Relaunch, gpu: bool, evidence: Evidence) -> list[Experiment]:
    """One change each, those with evidence first."""
    found: list[Experiment] = []
    constants = launch.constants
    if gpu:
        stages, warps = (
            launch.options.get(name, usual) for name, usual in (("num_stages", 3), ("num_warps", 4))
        )
        why = evidence.waits or "more or fewer loads under way"
        found += [Experiment({"num_stages": n}, why) for n in (stages + 1, stages - 1) if 1 <= n <= 6]
        why = evidence.alone or "more warps hide more, fewer have more registers"
        found += [Experiment({"num_warps": n}, why) for n in (warps * 2, warps // 2) if 1 <= n <= 16]
    for name, value in constants.items():
        if isinstance(value, bool) or not isinstance(value, int) or name in ("num_warps", "num_stages"):
            continue
        if "GROUP" in name.upper():
            why = "programs that run together use the same tiles"
            found += [Experiment({name: n}, why) for n in (1, 4, 8, 16) if n != value]
        elif value >= 16 and value & (value - 1) == 0:
            smaller, larger = Experiment({name: value // 2}, ""), Experiment({name: value * 2}, "")
            why = evidence.tail or "a block of another size"
            found += [Experiment(each.changes, why) for each in (smaller, larger)]
    return found


def _together(outcomes: list[Outcome]) -> Experiment | None:
    """The best of each name, if there are several."""
    best: dict[str, Any] = {}
    for each in sorted((o for o in outcomes if o.verdict == "helps"), key=lambda o: -(o.gain or 0.0)):
        for name, value in each.changes.items():
            best.setdefault(name, value)
    return Experiment(best, "each of them helped alone") if len(best) > 1 else None


class _Trying:
    """The launch as it is: its time and its results, which all others are held against."""

    def __init__(self, launch: Relaunch, target: Target) -> None:
        self.launch, self.target = launch, target
        self.exact = hasattr(target, "scales")
        self.took_ns = self._took({})
        self.results = launch.tensors()

    def outcome(self, experiment: Experiment, seconds: float) -> Outcome:
        changes, because = experiment.changes, experiment.because
        try:
            if (
                not self.exact
            ):  # with blocks of another size it may reach beyond its tensors: only looked at first
                self.launch.restore()
                self.launch.run(**changes, check_bounds=True)
            took = self._took(changes)
            wrong = different(self.results, self.launch.tensors())
            if wrong:
                return Outcome(changes, because, "changes results", took, why=wrong)
            gain, error = (1 - took / self.took_ns, 0.0) if self.exact else self._in_turns(changes, seconds)
        except (KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            return Outcome(changes, because, "cannot run", why=str(error).strip() or type(error).__name__)
        if error is None or (abs(gain) <= error and error > LEAST):
            return Outcome(changes, because, "cannot be told", took, gain, error)
        verdict = "helps" if gain - error > LEAST else "does not help"
        return Outcome(changes, because, verdict, took, gain, error)

    def _took(self, changes: dict[str, Any]) -> float:
        self.launch.restore()
        run = lambda: self.launch.run(**changes)  # noqa: E731
        if hasattr(self.target, "running_on"):
            with self.target.running_on(None, 1.0):  # type: ignore[attr-defined]  # every run begins with empty caches
                took = taken_ns(run, self.target)
        else:
            took = taken_ns(run, self.target)
        if took is None:
            raise TileProbeError(f"{self.launch.name}: this target does not say how long launches take")
        return took

    def _in_turns(self, changes: dict[str, Any], seconds: float) -> tuple[float, float | None]:
        """With the change and without by turns; what the machine does meanwhile happens to both."""
        gains: list[float] = []
        until = time.monotonic() + seconds
        while len(gains) < ROUNDS or (time.monotonic() < until and len(gains) < 400):
            with_, without = (changes, {}) if len(gains) % 2 else ({}, changes)
            first, second = self._took(with_), self._took(without)
            changed, plain = (first, second) if len(gains) % 2 else (second, first)
            gains.append(1 - changed / plain)
            if time.monotonic() > until + seconds and len(gains) >= ROUNDS:
                break
        return median_of(np.array(gains))


def different(expected: list[tuple[str, np.ndarray]], found: list[tuple[str, np.ndarray]]) -> str:
    """Which results are not the same within rounding, in a sentence; nothing if all are."""
    for (name, before), (_, after) in zip(expected, found, strict=True):
        if before.dtype.kind not in "fc":
            if not np.array_equal(before, after):
                return (
                    f"{name} has other values in {int((before != after).sum()):,} of {before.size:,} places"
                )
            continue
        if not np.array_equal(np.isfinite(before), np.isfinite(after)):
            return f"{name} is not finite in other places"
        kept = np.isfinite(before)
        largest = float(np.abs(before[kept]).max(initial=0.0))
        off = float(np.abs(before[kept].astype(np.float64) - after[kept]).max(initial=0.0))
        if off > largest * tolerance(before.dtype):
            return f"{name} differs by up to {off:.3g}, where its largest value is {largest:.3g}"
    return ""


def tolerance(dtype: np.dtype) -> float:
    """As a share of the largest value."""
    return _NARROW.get(dtype.itemsize, _LAST_PLACES * float(np.finfo(dtype).eps))
