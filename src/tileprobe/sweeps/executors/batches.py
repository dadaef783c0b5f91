"""Points that are short go to a cluster several at a time, so that what a task costs there is small beside them.

How many follows from how long points took: a task is to take about a quarter of a second. Long points go one by one.
"""

from __future__ import annotations

from tileprobe.sweeps.outcome import DIED, LATE, Outcome
from tileprobe.sweeps.points import Task

TASK_S = 0.25
MOST = 64
_NEW = 0.2  # the weight of the last point in the mean


class Batches:
    def __init__(self) -> None:
        self.waiting: list[Task] = []
        self.mean_s = TASK_S  # of a point, as far as is known

    @property
    def size(self) -> int:
        """Points of a task."""
        return max(1, min(MOST, int(TASK_S / max(self.mean_s, 1e-6))))

    def add(self, task: Task) -> None:
        self.waiting.append(task)

    def take(self) -> list[list[Task]]:
        """All that waits, in tasks."""
        tasks, self.waiting, size = self.waiting, [], self.size
        return [tasks[n : n + size] for n in range(0, len(tasks), size)]

    def learn(self, outcome: Outcome) -> None:
        if outcome.kind not in (DIED, LATE):
            self.mean_s += _NEW * (outcome.seconds - self.mean_s)
