"""Experiments, tried: what each brought, with its noise, beside what did not help.

In comes a launch that can be run again; out goes what each change brought, what did not help, what cannot run, and what
computes something else. Nothing is advised that was not run, whose results were not compared with those of the launch
as it is, or whose gain is not larger than the noise, twice: of many that are tried some seem to help by chance.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.session.evidence import evidence_of
from tileprobe.session.experiments import Experiment, experiments
from tileprobe.session.relaunching import Relaunch, taken_ns
from tileprobe.session.same_results import different
from tileprobe.targets.base import Target
from tileprobe.tools.slopes import median_of

ROUNDS = 8  # at least, where time is not exact
MOST_ROUNDS = 400
LEAST = 0.005  # of the launch: a smaller gain is no advice
HELPS, NO_HELP, UNKNOWN, OTHER, CANNOT = (
    "helps",
    "does not help",
    "cannot be told",
    "changes results",
    "cannot run",
)


@dataclass(frozen=True)
class Outcome:
    """`verdict`: `helps`, `does not help`, `cannot be told`, `changes results`, `cannot run`. `gain` is the share of
    the launch's time that is gone, `error` half its 95 % interval, 0 where time is exact. `why` may have many lines.
    `fact` is the number that spoke for it, with where it is from; `how` an edit that does what was tried."""

    changes: dict[str, Any]
    because: str
    verdict: str
    took_ns: float | None = None
    gain: float | None = None
    error: float | None = None
    why: str = ""
    fact: dict[str, Any] | None = None
    how: str = ""


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
    exact = hasattr(target, "scales")
    found = evidence_of(launch, exact)
    trying = Trying(launch, target)
    outcomes: list[Outcome] = []
    wanted = experiments(launch, exact, found, getattr(target, "cache_bytes", None))
    for n, experiment in enumerate(wanted):
        left = until - time.monotonic()
        if left <= 0:
            break
        progress(f"{launch.name}: {experiment.text}, {n + 1} of {len(wanted)}")
        outcomes.append(trying.outcome(experiment, left / (len(wanted) - n)))
    tried, untried = wanted[: len(outcomes)], wanted[len(outcomes) :]
    both = together(tried, outcomes)
    if both is not None and until > time.monotonic():
        outcomes.append(trying.outcome(both, until - time.monotonic()))
    left = [{"changes": each.changes, "because": each.because, "fact": _data(each)} for each in untried]
    return Advice(launch.name, trying.took_ns, ranked(outcomes), found.edits, left)


def ranked(outcomes: list[Outcome]) -> list[Outcome]:
    """What helps first, the most first; then what did not, and last what could not be held against anything."""
    order = {HELPS: 0, UNKNOWN: 1, NO_HELP: 1}
    return sorted(outcomes, key=lambda each: (order.get(each.verdict, 2), -(each.gain or 0.0)))


def together(tried: list[Experiment], outcomes: list[Outcome]) -> Experiment | None:
    """The best of each name, if there are several."""
    helped = [(e, o) for e, o in zip(tried, outcomes) if o.verdict == HELPS]
    best: dict[str, Any] = {}
    edits: list[str] = []
    for experiment, _ in sorted(helped, key=lambda pair: -(pair[1].gain or 0.0)):
        if best.keys().isdisjoint(experiment.changes):
            best |= experiment.changes
            edits += experiment.edits
    return Experiment(best, "each of them helped alone", None, tuple(edits)) if len(best) > 1 else None


def verdict(gain: float, error: float | None) -> str:
    if error is None or (abs(gain) <= error and error > LEAST):
        return UNKNOWN
    return HELPS if gain - error > LEAST else NO_HELP


def _data(experiment: Experiment) -> dict[str, Any] | None:
    return None if experiment.fact is None else asdict(experiment.fact)


class Trying:
    """The launch as it is: its time and its results, which all others are held against."""

    def __init__(self, launch: Relaunch, target: Target) -> None:
        self.launch, self.target = launch, target
        self.exact = hasattr(target, "scales")
        self.plain = Experiment({}, "")
        self.took_ns = self._took(self.plain)
        self.results = launch.tensors()

    def outcome(self, experiment: Experiment, seconds: float) -> Outcome:
        told = {"fact": _data(experiment), "how": experiment.how}
        changes, because = experiment.changes, experiment.because
        try:
            if not self.exact:  # it may reach beyond its tensors now: only looked at first
                self._run(experiment, check_bounds=True)
            took = self._took(experiment)
            wrong = different(self.results, self.launch.tensors())
            if wrong:
                return Outcome(changes, because, OTHER, took, why=wrong, **told)
            gain, error = 1 - took / self.took_ns, 0.0
            if not self.exact:
                gain, error = self._in_turns(experiment, seconds / 2)
                # what stands out among all that were tried is seen anew
                if verdict(gain, error) == HELPS:
                    gain, error = self._in_turns(experiment, seconds / 2)
        except (KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            why = str(error).strip() or type(error).__name__
            return Outcome(changes, because, CANNOT, why=why, **told)
        return Outcome(changes, because, verdict(gain, error), took, gain, error, **told)

    def _run(self, experiment: Experiment, **more: Any) -> None:
        self.launch.restore()
        self.launch.run(edit=",".join(experiment.edits), **experiment.constants, **more)

    def _took(self, experiment: Experiment) -> float:
        self.launch.restore()
        run = lambda: self.launch.run(edit=",".join(experiment.edits), **experiment.constants)  # noqa: E731
        if hasattr(self.target, "running_on"):
            with self.target.running_on(None, 1.0):  # type: ignore[attr-defined]  # every run begins with empty caches
                took = taken_ns(run, self.target)
        else:
            took = taken_ns(run, self.target)
        if took is None:
            raise TileProbeError(f"{self.launch.name}: this target does not say how long launches take")
        return took

    def _in_turns(self, experiment: Experiment, seconds: float) -> tuple[float, float | None]:
        """With the change and without by turns; what the machine does meanwhile happens to both."""
        gains: list[float] = []
        until = time.monotonic() + seconds
        while len(gains) < ROUNDS or (time.monotonic() < until and len(gains) < MOST_ROUNDS):
            if len(gains) % 2:
                changed, plain = self._took(experiment), self._took(self.plain)
            else:
                plain, changed = self._took(self.plain), self._took(experiment)
            gains.append(1 - changed / plain)
        return median_of(np.array(gains))
