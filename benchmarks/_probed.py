"""Runs variants of the same launch in turns: without probes, with the probes of a plan, with sampling.

Used by the benchmarks of overhead and accuracy. Launches run on one thread and are timed in CPU time of that
thread, so that other programs on the machine only disturb them through the caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tileprobe.ir.sampling import Every, Sampling
from tileprobe.session.choices import Choice
from tileprobe.session.draws import Draw
from tileprobe.session.recorded import Recorded, Watch
from tileprobe.session.thinning import Thinning
from tileprobe.targets.base import Kernel, Variant, launches
from tileprobe.targets.cpu import clock_source, pool
from tileprobe.tools.plan import Plan

LEARNT = 64  # launches of each sort, before the number of programs to record is settled


@dataclass
class Side:
    """One way to run the launch. `plan` None is without probes; `work` is the launch if it is a special one."""

    name: str
    plan: Plan | None = None
    choice: Choice = field(default_factory=lambda: Choice("all"))
    copies: int = 1
    light: bool = False  # no iteration of a loop is recorded
    thinning: Thinning | None = None  # as in sessions: leaves out programs until probes take an allowed share
    work: Callable[[], Any] | None = None
    draw: Draw = field(default_factory=Draw)
    runs: int = 0
    times_ns: list[int] = field(default_factory=list)
    recorded: list[Recorded] = field(default_factory=list)
    variants: dict[Any, Variant] = field(default_factory=dict)

    @property
    def stride(self) -> int:
        return 1 if self.thinning is None else self.thinning.stride


class _Timed(Watch):
    def start(self) -> None:
        super().start()
        self.cpu_ns = time.thread_time_ns()

    def stop(self) -> None:
        self.cpu_ns = time.thread_time_ns() - self.cpu_ns

    def read(self) -> Recorded:
        """What was recorded. Not read by `stop`: the next launch would find the caches full of it."""
        if self._ready is not None:
            self._read(self._ready)
        return self.recorded


class Turns:
    """The observer: every launch takes the side whose turn it is."""

    def __init__(self, keep: int = 0) -> None:
        self.keep = keep
        self.side = Side("plain")
        self.again = False
        self.watch: _Timed | None = None

    def observe(
        self, kernel: Kernel, grid: tuple[int, int, int], plain: int, arguments: tuple[Any, ...] = ()
    ) -> Watch:
        side = self.side
        if self.again and self.watch is not None:
            return self.watch
        if self.watch is not None:
            self.watch.abort()  # its buffer is used again, as in a session
        done: Callable[[Recorded | None], None] = lambda recorded: None  # noqa: E731
        if side.plan is None:
            self.watch = _Timed(kernel, grid, done)
            return self.watch
        if kernel.key not in side.variants:
            side.variants[kernel.key] = kernel.compile(side.plan.pipeline("tile", copies=side.copies))
        sampling = side.choice.sampling(int(np.prod(grid)), side.draw, side.stride)
        if side.light:
            sampling = Sampling(loops={-1: Every(count=0)})
        variant = side.variants[kernel.key]
        self.watch = _Timed(kernel, grid, done, variant, sampling, dose=side.copies, plain=plain)
        self.kernel = kernel
        return self.watch

    def run(self, side: Side, work: Callable[[], Any], again: bool = False) -> None:
        """One launch. `again` uses what was prepared for the one before, so that nothing runs in between."""
        self.side, self.again = side, again
        (side.work or work)()
        assert self.watch is not None
        side.runs += 1
        side.times_ns.append(self.watch.cpu_ns)
        if self.watch.parameters and again and len(side.recorded) < self.keep:
            side.recorded.append(replace(self.watch.read()))


def learn(turn: Turns, plain: Side, side: Side, work: Callable[[], Any]) -> None:
    """Finds how many programs to leave out, from as many launches as a session of a second sees. As there, what comes
    next is drawn: a launch finds what the one before, and reading its records, left in the caches."""
    thinning = side.thinning
    assert thinning is not None
    floor_ns = clock_source.floor_ticks() * 1e9 / clock_source.rate_hz()
    order = np.random.default_rng(0)
    for probed in order.permutation([False] * LEARNT + [True] * LEARNT):
        turn.run(side if probed else plain, work)
        if not probed:
            thinning.plain(plain.times_ns[-1])
            continue
        assert turn.watch is not None
        recorded = turn.watch.read()
        assert recorded.words is not None
        thinning.guess(recorded.kept(), len(recorded.words), floor_ns, workers=1)
        thinning.probed(side.times_ns[-1], len(recorded.words), recorded.programs)


@contextmanager
def turns(keep: int = 0) -> Iterator[Turns]:
    """Launches in this block are on one thread and go where `Turns.run` says."""
    threads = pool.wanted_threads()
    pool.set_threads(1)
    made = Turns(keep)
    unsubscribe = launches.subscribe(made.observe)
    try:
        yield made
    finally:
        unsubscribe()
        pool.set_threads(threads)


def alternate(
    turn: Turns, sides: list[Side], work: Callable[[], Any], seconds: float, least: int = 20
) -> None:
    """Runs all sides in turns, in another order each round; the first round warms up.

    A launch runs slower or faster by what ran just before it. Each side runs twice; the second run, with the
    parameters and the buffer of the first, counts.
    """
    order = np.random.default_rng(0)
    for side in sides:
        turn.run(side, work)
    for side in sides:
        if side.thinning is not None:
            learn(turn, sides[0], side, work)
    for side in sides:
        side.times_ns.clear()
        side.recorded.clear()
    end = time.monotonic() + seconds
    rounds = 0
    while rounds < least or time.monotonic() < end:
        for n in order.permutation(len(sides)):
            turn.run(sides[n], work)
            sides[n].times_ns.pop()
            turn.run(sides[n], work, again=True)
        rounds += 1


def medians(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One row for the same work in several processes: medians of the numbers, the rest as it is."""
    merged: dict[str, Any] = {}
    for key, first in rows[0].items():
        values = [row[key] for row in rows]
        if isinstance(first, dict):
            merged[key] = medians(values)
        elif isinstance(first, (int, float)) and not isinstance(first, bool):
            merged[key] = type(first)(np.median(values))
        else:
            merged[key] = first
    return merged


def typical(times_ns: list[int]) -> float:
    """The mean of the fastest twentieth: what the work takes when nothing else gets in its way."""
    fastest = np.sort(times_ns)[: max(3, len(times_ns) // 20)]
    return float(fastest.mean())
