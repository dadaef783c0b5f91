"""A simulated GPU as Triton's benchmarking sees a device. Its time is the number of instructions it has issued:
launches return when they are finished, and the same launch takes the same time whenever it is measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tileprobe.targets.immediate import interface

INSTRUCTIONS_PER_MS = 1e6  # what a millisecond is until instructions are timed


class _Counter(threading.local):
    """Warp instructions that the launches of a thread have issued. A thread's count begins where the largest stands, so
    that launches of two threads at once do not lengthen each other."""

    largest = 0

    def __init__(self) -> None:
        self.issued = _Counter.largest

    def add(self, issued: int) -> None:
        self.issued += issued
        _Counter.largest = max(_Counter.largest, self.issued)


Counter = _Counter()


Interface = interface(lambda: Counter.issued, INSTRUCTIONS_PER_MS)


def benchmark(call: Callable[[], Any], *_: Any, quantiles: Sequence[float] | None = None, **__: Any) -> Any:
    """One run is enough: the next would take exactly as long."""
    before = Counter.issued
    call()
    took = max(Counter.issued - before, 1) / INSTRUCTIONS_PER_MS
    return [took] * len(quantiles) if quantiles else took
