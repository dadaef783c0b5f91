"""The driver of a sweep: points in, and each that ends goes into the ledger, once.

What is there already is not run again. A point that raised, took too long or lost its worker gets a bounded number of
further attempts, and is then written down as failed with its reason; a mistake in its settings is final at once. The
driver keeps no more points under way than workers can take, so a grid may be large, and stopping is quick.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.executors.base import Executor
from tileprobe.sweeps.ledger import Ledger
from tileprobe.sweeps.outcome import DONE, REFUSED, UNFIT, Outcome
from tileprobe.sweeps.points import Point, Work

WAIT_S = 0.5
_WINDOW = 400  # outcomes that the speed is taken from


@dataclass
class Standing:
    """How far a sweep is."""

    total: int
    there: int = 0  # results that earlier runs left
    ended: int = 0  # in this run
    failed: int = 0
    retried: int = 0
    under_way: int = 0
    workers: bool = True
    begun: float = field(default_factory=time.monotonic)
    times: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def end(self) -> None:
        self.ended += 1
        self.times.append(time.monotonic())

    @property
    def per_s(self) -> float | None:
        """Points a second, lately."""
        if not self.times:
            return None
        whole = len(self.times) == self.ended  # the first is still in the window
        since, count = (self.begun, len(self.times)) if whole else (self.times[0], len(self.times) - 1)
        return count / max(time.monotonic() - since, 1e-9)

    @property
    def left_s(self) -> float | None:
        speed = self.per_s
        return None if speed is None else max(self.total - self.there - self.ended, 0) / speed


@dataclass
class Rules:
    retries: int = 3
    seconds: float | None = None  # that a point may take
    settled: tuple[str, ...] = (DONE,)  # outcomes of earlier runs that stand

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise TileProbeError(f"--retries must be zero or more, found {self.retries}")
        if self.seconds is not None and not self.seconds > 0:
            raise TileProbeError(f"--point-seconds must be more than zero, found {self.seconds:g}")


class Driver:
    def __init__(
        self,
        work: Work,
        ledger: Ledger,
        executor: Executor,
        rules: Rules,
        tell: Callable[[Standing], None] = lambda standing: None,
    ) -> None:
        self.work, self.ledger, self.executor, self.rules, self.tell = work, ledger, executor, rules, tell
        self.again: deque[Point] = deque()
        self.under_way: dict[str, Point] = {}
        self.attempts: dict[str, int] = {}
        self.standing = Standing(0)
        self.warm = not work.first_alone

    def run(self, settings: Iterable[dict[str, Any]], count: int) -> list[str]:
        """Brings every point to an end; gives their digests, in order. `count` is for those who wait."""
        self.standing.total += count
        wanted: list[str] = []
        points = self._missing(settings, wanted)
        more = True
        while more or self.under_way or self.again:
            more = self._fill(points) if more or self.again else False
            self.tell(self.standing)
            for digest, outcome in self.executor.wait(WAIT_S) if self.under_way else self._idle(more):
                self._end(digest, outcome)
        self.tell(self.standing)
        return wanted

    def _missing(self, settings: Iterable[dict[str, Any]], wanted: list[str]) -> Iterator[Point]:
        """The points that have to run."""
        seen: set[str] = set()
        for each in settings:
            digest = self.work.digest(each)
            again = digest in seen
            seen.add(digest)
            if again:
                self.standing.total -= 1
                continue
            wanted.append(digest)
            if self.ledger.outcome(digest) in self.rules.settled:
                self.standing.there += 1
            else:
                yield Point(digest, each)

    def _fill(self, points: Iterator[Point]) -> bool:
        """Hands out points while there is room; whether there are more."""
        room = self.executor.room()
        self.standing.workers = room > 0
        while len(self.under_way) < (room if self.warm else min(room, 1)):
            point = self.again.popleft() if self.again else next(points, None)
            if point is None:
                return False
            self.under_way[point.digest] = point
            self.attempts[point.digest] = self.attempts.get(point.digest, 0) + 1
            self.executor.submit(self.work.task(point), self.rules.seconds)
        self.standing.under_way = len(self.under_way)
        return True

    def _idle(self, more: bool) -> list[tuple[str, Outcome]]:
        """Nothing is under way: either all is done, or there are no workers."""
        if (more or self.again) and not self.standing.workers:
            time.sleep(WAIT_S)
        return []

    def _end(self, digest: str, outcome: Outcome) -> None:
        point = self.under_way.pop(digest, None)
        if point is None:  # it has ended before
            return
        self.warm = True
        if outcome.kind == UNFIT:
            raise TileProbeError(outcome.reason)
        attempts = self.attempts[digest]
        if outcome.kind not in (DONE, REFUSED) and attempts <= self.rules.retries:
            self.again.append(point)
            self.standing.retried += 1
            return
        del self.attempts[digest]
        said = {"result": outcome.result} if outcome.kind == DONE else {"reason": outcome.reason}
        self.ledger.add(
            {
                "point": digest, "settings": point.settings, "outcome": outcome.kind, **said,
                "seconds": round(outcome.seconds, 6), "attempts": attempts, "worker": outcome.worker,
            }
        )  # fmt: skip
        self.standing.failed += outcome.kind != DONE
        self.standing.end()
