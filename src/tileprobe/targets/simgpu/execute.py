"""Runs a launch: deals programs to threads, calls the engine, and says what went wrong.

Programs whose order can be seen (atomics on global memory, loads that others' stores are to be seen by) run on one
thread in the order of their numbers; all others are dealt out. Either way the result is the same bits whatever the
number of threads. A program of the first kind that does not come to an end soon may be waiting for one that has not
begun: then more of them are taken up, as many as the machine holds at a time, and run in turns.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from tileprobe.targets.simgpu import memory, race_report, report, system
from tileprobe.targets.simgpu.blocks import Image, Worker, address
from tileprobe.targets.simgpu.circles import Circles
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.loop import run
from tileprobe.targets.simgpu.errors import KernelFault

_QUANTUM = 20_000_000  # instructions between two looks at Ctrl-C
_PATIENCE = 1_000_000  # instructions of a program, after which it may be waiting for another
_TURN = 20_000  # that each has in its turn, then
_PIECES = 16  # of a launch for each thread
_ALONE_SECONDS = (
    1e-3  # that the first thread works before others are started, which takes about a tenth of that
)
_LOOK = 20_000_000  # instructions between two looks at whether programs go round in circles
STEP_LIMIT = 500_000_000  # of one program, before it is taken for endless
_TOGETHER = 16  # times that limit, of programs that take turns while none of them ends


def execute(
    made: Image,
    grid: tuple[int, int, int],
    threads: int,
    step_limit: int = STEP_LIMIT,
    checks: int = 0,
    resident: int = 1,
) -> int:
    """Runs all programs of a grid, of which so many are resident at a time. How many instructions that took."""
    programs = grid[0] * grid[1] * grid[2]
    if programs == 0:
        return 0
    if made.program.atomic:
        with watched(made, grid):
            return _in_turns(made, grid, step_limit, checks, max(1, resident // made.cluster))
    with watched(made, grid):
        return _Dealt(made, grid, step_limit, checks).run(max(1, min(threads, programs)))


def others(
    made: Image, grid: tuple[int, int, int], pieces: Iterable[tuple[int, int]], threads: int, step_limit: int,
    checks: int,
) -> int:  # fmt: skip
    """Runs some programs of a launch that others of were timed of: first and end of each row. How many instructions."""
    return _Dealt(made, grid, step_limit, checks).run(max(1, threads), pieces)


class _Dealt:
    """Programs in pieces of the grid, each taken by the thread that is free: one that the system keeps waiting does not
    hold up the others. Threads beside the caller's are started only if there is work for some time."""

    def __init__(self, made: Image, grid: tuple[int, int, int], step_limit: int, checks: int) -> None:
        self.made, self.grid, self.step_limit, self.checks = made, grid, step_limit, checks
        self._pieces: deque[tuple[int, int]] = deque()
        self._working = 0

    def run(self, threads: int, rows: Iterable[tuple[int, int]] | None = None) -> int:
        """How many instructions it took. `rows`: first and end of those programs that are run, if not all."""
        programs = self.grid[0] * self.grid[1] * self.grid[2]
        size = max(1, programs // (_PIECES * threads)) if threads > 1 else programs
        for first, end in [(0, programs)] if rows is None else rows:
            self._pieces.extend((n, min(n + size, end)) for n in range(first, end, size))
        if threads == 1:
            return self._work()
        with ThreadPoolExecutor(threads - 1) as pool:
            helpers: list[Future[int]] = []

            def help_out() -> None:
                helpers.extend(pool.submit(self._work) for _ in range(threads - 1 - len(helpers)))

            return self._work(help_out) + sum(helper.result() for helper in helpers)

    def _work(self, soon: Callable[[], None] | None = None) -> int:
        """Runs pieces until none is left; `soon` is called once the first ones have taken a while."""
        worker, begun = Worker(self.made, self.grid, 0, 1, self.checks), time.perf_counter()
        self._working += 1
        try:
            while self._pieces:
                try:
                    piece = self._pieces.popleft()
                except IndexError:  # another thread has taken the last one
                    break
                worker.take(*piece)
                _drive(worker, self.step_limit, alone=lambda: self._working == 1)
                if soon is not None and time.perf_counter() - begun > _ALONE_SECONDS:
                    soon()
                    soon = None
        except BaseException:
            self._pieces.clear()  # the others end with what they have
            raise
        finally:
            self._working -= 1
        return worker.worker_field(at.WORKER_STEPS)


@contextmanager
def watched(made: Image, grid: tuple[int, int, int]) -> Iterator[None]:
    """Raises what the checks of races have found, behind what stopped the kernel, if anything did."""
    watch = made.watch
    if watch is None:
        yield
        return
    try:
        yield
        made.races = race_report.faults(watch, grid)
        said = race_report.text_of(watch, made.races)
    except KernelFault as error:
        said = race_report.text_of(watch, race_report.faults(watch, grid))
        if said:
            error.args = (f"{error}\n{said}",)
        raise
    finally:
        watch.close()
    if said:
        race_report.tell(watch, said)


def _in_turns(made: Image, grid: tuple[int, int, int], step_limit: int, checks: int, resident: int) -> int:
    """One program after another as long as each ends by itself; those that do not end take turns with others."""
    programs, begun, turn, quantum, issued = grid[0] * grid[1] * grid[2], 1, 0, _PATIENCE, 0
    crew = [Worker(made, grid, 0, programs, checks)]
    waiting = _Waiting(step_limit)
    while crew:
        worker = crew[turn % len(crew)]
        before = worker.worker_field(at.WORKER_STEPS)
        if _drive(worker, step_limit, quantum):
            if begun < programs:
                worker.take(begun, programs)
                begun += 1
            else:
                issued += worker.worker_field(at.WORKER_STEPS)
                crew.remove(worker)
            waiting = _Waiting(step_limit)
            continue
        if begun < programs and len(crew) < resident:
            crew.append(Worker(made, grid, begun, programs, checks))
            begun += 1
            waiting = _Waiting(step_limit)
        elif quantum == _TURN:
            waiting.goes_on(crew, worker, worker.worker_field(at.WORKER_STEPS) - before)
        quantum = _TURN
        turn = (turn + 1) % len(crew)
    return issued


class _Waiting:
    """Programs that take turns while none ends: whether they can."""

    def __init__(self, step_limit: int) -> None:
        self._limit, self._circles = _TOGETHER * step_limit, Circles()
        self._issued, self._turns, self._look = 0, 0, _LOOK

    def goes_on(self, crew: list[Worker], worker: Worker, issued: int) -> None:
        self._issued += issued
        self._turns += 1
        if self._turns % len(crew) or self._issued < self._look:
            return
        self._look = self._issued + _LOOK
        if self._issued > self._limit:
            raise report.endless(worker, self._limit)
        if after := self._circles.closed(crew, self._issued):
            raise report.in_circles(worker, after, len(crew))


def _drive(
    worker: Worker, step_limit: int, quantum: int = 0, alone: Callable[[], bool] = lambda: True
) -> bool:
    """Runs a worker's programs to their end, or for so many instructions; whether they have ended. A program that
    nobody but itself can change, being `alone`, is stopped where it goes round in circles."""
    block, circles, number = address(worker.block), Circles(), -1
    while True:
        how = run(block, quantum or min(_QUANTUM, step_limit + 1))
        if how == at.FINISHED:
            return True
        if how == at.QUANTUM:
            if worker.get(at.CTA_STEPS) > step_limit:
                raise report.endless(worker, step_limit)
            if quantum:
                return False
            if number != worker.worker_field(at.WORKER_NEXT):  # another program
                circles, number = Circles(), worker.worker_field(at.WORKER_NEXT)
            after = circles.closed([worker], worker.get(at.CTA_STEPS)) if alone() else 0
            if after:
                raise report.in_circles(worker, after)
            continue
        if how == at.FAULT and found(worker):
            continue
        if how == at.SYSTEM_CALL:
            system.call(worker)
            continue
        raise report.fault(worker) if how == at.FAULT else report.deadlock(worker)


def found(worker: Worker) -> bool:
    """Whether the address that the kernel may not touch belongs to a tensor after all; the instruction runs again."""
    if worker.get(at.CTA_ERROR) != at.OUT_OF_BOUNDS or not worker.image.searches:
        return False
    span = memory.find(worker.get(at.CTA_ERROR_ADDRESS))
    if span is None:
        return False
    worker.allow(span)
    worker.set(at.CTA_ERROR, at.OK)
    return True
