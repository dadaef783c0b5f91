"""A simulated GPU as Triton's benchmarking sees a device. Its time is what launches took on the chip, or, where they
are not timed, the number of instructions they issued: launches return when they are finished, and the same launch takes
the same time whenever it is measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tileprobe.targets.immediate import Event, interface

_NS_PER_MS = 1e6


class _Counter(threading.local):
    """Warp instructions that the launches of a thread have issued, and the nanoseconds that passed on the chip; where a
    launch is not timed, an instruction is taken for one. A thread's counts begin where the largest stand, so that
    launches of two threads at once do not lengthen each other."""

    largest, latest = 0, 0.0

    def __init__(self) -> None:
        self.issued, self.passed_ns = _Counter.largest, _Counter.latest

    def add(self, issued: int, ns: float) -> None:
        self.issued += issued
        self.passed_ns += ns
        _Counter.largest = max(_Counter.largest, self.issued)
        _Counter.latest = max(_Counter.latest, self.passed_ns)

    @contextmanager
    def beside(self) -> Iterator[Callable[[], float]]:
        """What is launched in the block happens beside the program's own time. Gives the nanoseconds since its
        beginning."""
        issued, passed = self.issued, self.passed_ns
        try:
            yield lambda: self.passed_ns - passed
        finally:
            self.issued, self.passed_ns = issued, passed


Counter = _Counter()


def around_ns() -> float:
    """What two events measure beyond the launches between them, where launches take time."""
    from triton.runtime import driver

    from tileprobe.targets.simgpu.settings import settings

    active: Any = driver.active
    machine = getattr(active, "machine", None)
    return machine.timing.events_ns if settings.timed and machine is not None else 0.0


Interface = interface(lambda: Counter.passed_ns, _NS_PER_MS)


class _Event(Interface.Event):
    """An event of a GPU is a command of its own: the next launch begins a while after it."""

    def elapsed_time(self, end: Event) -> float:
        taken = end.at - self.at
        return (max(taken, 1) + (around_ns() if taken > 0 else 0)) / _NS_PER_MS


Interface.Event = _Event
