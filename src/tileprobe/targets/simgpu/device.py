"""A simulated GPU as Triton's benchmarking sees a device. Its time is the number of instructions it has issued:
launches return when they are finished, and the same launch takes the same time whenever it is measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

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


class Event:
    """A point in time, in the manner of `torch.cuda.Event`."""

    def __init__(self, enable_timing: bool = True, **_: Any):
        self._at = 0

    def record(self, stream: Any = None) -> None:
        self._at = Counter.issued

    def elapsed_time(self, end: Event) -> float:
        """At least one instruction, as callers divide by it."""
        return max(end._at - self._at, 1) / INSTRUCTIONS_PER_MS

    def synchronize(self) -> None: ...

    def wait(self, stream: Any = None) -> None: ...

    def query(self) -> bool:
        return True


class Interface:
    """What `triton.testing` uses of a module such as `torch.cuda`."""

    Event = Event

    @staticmethod
    def synchronize(device: Any = None) -> None: ...

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def set_device(device: Any) -> None: ...

    @staticmethod
    def current_stream(device: Any = None) -> int:
        return 0

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return True


def benchmark(call: Callable[[], Any], *_: Any, quantiles: Sequence[float] | None = None, **__: Any) -> Any:
    """One run is enough: the next would take exactly as long."""
    before = Counter.issued
    call()
    took = max(Counter.issued - before, 1) / INSTRUCTIONS_PER_MS
    return [took] * len(quantiles) if quantiles else took
