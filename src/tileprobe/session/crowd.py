"""Whether others wanted the processor while a session was on.

A launch of some microseconds is hardly ever interrupted, and still finds the caches of a busy machine. The system
counts how often it let something else run in place of this process: out goes that number by the second of its time.
"""

from __future__ import annotations

try:
    import resource
except ImportError:  # no Unix
    resource = None  # type: ignore[assignment]

_ENOUGH_S = 0.02  # of processor time, below which the number says nothing


class Crowd:
    def __init__(self) -> None:
        self._first = self._last = (0, 0.0)
        self._on = False

    def start(self) -> None:
        self._first, self._on = _so_far(), True

    def stop(self) -> None:
        self._last, self._on = _so_far(), False

    def switched_per_s(self) -> float | None:
        """None where it is not known, or hardly any time has passed."""
        last = _so_far() if self._on else self._last
        switches, seconds = last[0] - self._first[0], last[1] - self._first[1]
        return switches / seconds if resource is not None and seconds >= _ENOUGH_S else None


def _so_far() -> tuple[int, float]:
    """Involuntary switches and seconds of processor time of this process."""
    if resource is None:
        return 0, 0.0
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nivcsw, usage.ru_utime + usage.ru_stime
