"""A device whose launches have ended when they return, as Triton's benchmarking sees one: events and streams.

In comes how the device tells the time; out goes what `triton.testing` uses of a module such as `torch.cuda`.
Synchronising is nothing, and an event is a reading of the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Event:
    """A point in time, in the manner of `torch.cuda.Event`."""

    per_ms = 1e6  # ticks of the clock

    @staticmethod
    def now() -> float:
        raise NotImplementedError

    def __init__(self, enable_timing: bool = True, **_: Any):
        self.at = 0.0

    def record(self, stream: Any = None) -> None:
        self.at = self.now()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another. At least a tick, as callers divide by it."""
        return max(end.at - self.at, 1) / self.per_ms

    def synchronize(self) -> None: ...

    def wait(self, stream: Any = None) -> None: ...

    def query(self) -> bool:
        return True


class Interface:
    """What `triton.testing` uses of a module such as `torch.cuda`. `device` is what its current one is called."""

    Event: type[Event]
    device: Any = 0

    @staticmethod
    def synchronize(device: Any = None) -> None: ...

    @classmethod
    def current_device(cls) -> Any:
        return cls.device

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


def interface(now: Callable[[], float], ticks_per_ms: float, device: Any = 0) -> type[Interface]:
    timed = type("Event", (Event,), {"now": staticmethod(now), "per_ms": ticks_per_ms})
    return type("Interface", (Interface,), {"Event": timed, "device": device})
