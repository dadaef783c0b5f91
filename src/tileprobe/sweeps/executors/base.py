"""What the driver knows of an executor: somewhere that takes tasks and gives outcomes, in any order."""

from __future__ import annotations

from typing import Protocol

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.outcome import Outcome
from tileprobe.sweeps.points import Task


class Lost(TileProbeError):
    """The cluster is gone: nothing more will come from it."""


class Executor(Protocol):
    """One file each. Every task that was taken gives one outcome, unless `wait` raises `Lost`."""

    where: str  # for people

    def room(self) -> int:
        """Tasks that may be under way at a time, by the workers there are now; 0 when there are none."""
        ...

    def submit(self, task: Task, seconds: float | None) -> None:
        """Takes a task. A point that runs longer than so many seconds is given up, and its process killed."""
        ...

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        """What ended, by digest of its point; waits for so long at most when nothing did."""
        ...

    def close(self) -> None:
        """Gives up what is under way and leaves nothing running here."""
        ...
