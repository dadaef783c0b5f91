"""Search: points chosen by an optimiser (NSGA-II of Optuna) instead of a grid, for the front of several goals.

The optimiser is asked for a generation, all of it runs, and it is told in the order in which it was asked. So the
points follow from the seed alone, whatever runs them and in which order they end, and a search that was stopped goes on
by being told again what is in the ledger already.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.outcome import DONE
from tileprobe.sweeps.pareto import Goal
from tileprobe.sweeps.run import Running

STALE = 8  # generations without a new point: the space has no more, or the optimiser does not find them
_RANGE = re.compile(r"(?P<low>[-+.\deE]+?)\.\.(?P<high>[-+.\deE]+?)(?:\.\.(?P<step>[-+.\deE]+))?")


@dataclass(frozen=True)
class Dimension:
    """A setting that is searched: one of `values`, in their order, or a number of a range."""

    name: str
    values: tuple[Any, ...] = ()
    low: float = 0
    high: float = 0
    step: float | None = None  # a real number anywhere in the range where there is none

    @property
    def size(self) -> float:
        """How many values there are."""
        if self.values:
            return len(self.values)
        return math.inf if self.step is None else math.floor((self.high - self.low) / self.step + 1e-9) + 1

    def suggest(self, trial: Any) -> Any:
        if any(isinstance(value, str | bool) for value in self.values):
            return trial.suggest_categorical(self.name, self.values)
        if self.values:  # by their places, so that neighbours are near
            return self.values[trial.suggest_int(self.name, 0, len(self.values) - 1)]
        if self.step is not None:
            place = trial.suggest_int(self.name, 0, int(self.size) - 1)
            found = self.low + place * self.step
            return found if isinstance(found, int) else round(found, 12)
        return trial.suggest_float(self.name, self.low, self.high)


def parse_space(texts: Sequence[str], value: Callable[[str, str], Any]) -> list[Dimension]:
    """`["channels=4..32..4", "read_us=15.0..30.0", "tiling=paper,best"]`; `value(name, text)` reads a value."""
    found: list[Dimension] = []
    for text in texts:
        name, equals, said = text.partition("=")
        name, said = name.strip().replace("-", "_"), said.strip()
        if not equals or not name or not said:
            raise TileProbeError(
                f"--space {text!r}: write NAME=A,B,... or NAME=LOW..HIGH or NAME=LOW..HIGH..STEP"
            )
        if name in [one.name for one in found]:
            raise TileProbeError(f"--space {name} is given twice")
        between = _RANGE.fullmatch(said)
        if between is None:
            values = tuple(value(name, one.strip()) for one in said.split(","))
            if len(set(values)) < len(values):
                raise TileProbeError(f"--space {name}: a value stands there twice")
            found.append(Dimension(name, values))
        else:
            found.append(_range(name, said, *(one and value(name, one) for one in between.groups())))
    return found


def _range(name: str, said: str, low: Any, high: Any, step: Any) -> Dimension:
    numbers = [one for one in (low, high, step) if one is not None]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers):
        raise TileProbeError(f"--space {name}={said}: a range is of numbers")
    if not low < high or (step is not None and not 0 < step <= high - low):
        raise TileProbeError(f"--space {name}={said}: a range goes up, by steps that fit into it")
    if step is None and isinstance(low, int) and isinstance(high, int):
        step = 1
    return Dimension(name, (), low, high, step)


@dataclass
class Search:
    space: Sequence[Dimension]
    goals: Sequence[Goal]
    seed: int
    population: int

    def __post_init__(self) -> None:
        if self.population < 2:
            raise TileProbeError(f"--population must be 2 or more, found {self.population}")
        try:
            import optuna
        except ImportError:
            raise TileProbeError(
                "a search needs a package that is not there: pip install 'tileprobe[search]'"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.failed = optuna.trial.TrialState.FAIL
        self.study = optuna.create_study(
            directions=["maximize" if goal.more else "minimize" for goal in self.goals],
            sampler=optuna.samplers.NSGAIISampler(population_size=self.population, seed=self.seed),
        )

    def run(
        self,
        running: Running,
        fixed: Mapping[str, Any],
        count: int,
        figures: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> str:
        """Brings about `count` points to an end, in whole generations. `figures` gives a point's goals from its entry.
        Says why it ended before, if it did."""
        if count < 1:
            raise TileProbeError(f"--points must be one or more, found {count}")
        stale = 0
        while len(running.wanted) < count:
            if len(running.wanted) >= math.prod(one.size for one in self.space):
                return "the space has no more points"
            trials = [self.study.ask() for _ in range(self.population)]
            points = [{**fixed, **{one.name: one.suggest(trial) for one in self.space}} for trial in trials]
            digests = [running.driver.work.digest(point) for point in points]
            new = {d: point for d, point in zip(digests, points) if d not in running.wanted}
            standing = running.driver.standing
            standing.total = max(count, len(running.wanted) + len(new)) - len(new)
            running.run(new.values(), len(new))
            for trial, digest in zip(trials, digests):
                self._tell(trial, running.ledger[digest], figures)
            stale = 0 if new else stale + 1
            if stale == STALE:
                return f"the last {STALE} generations had no new points"
        return ""

    def _tell(
        self, trial: Any, entry: Mapping[str, Any], figures: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ):
        if entry["outcome"] == DONE:
            found = figures(entry)
            values = [float(found[goal.column]) for goal in self.goals]
            if all(map(math.isfinite, values)):
                self.study.tell(trial, values)
                return
        self.study.tell(trial, state=self.failed)


def random_points(space: Sequence[Dimension], seed: int) -> Iterator[dict[str, Any]]:
    """Points drawn blindly, for comparison."""
    import optuna

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
    while True:
        trial = study.ask()
        yield {one.name: one.suggest(trial) for one in space}
