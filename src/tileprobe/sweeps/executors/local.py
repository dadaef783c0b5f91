"""Processes on this machine, as many as wanted."""

from __future__ import annotations

import os
import select

from tileprobe.sweeps.outcome import Outcome
from tileprobe.sweeps.points import Task
from tileprobe.sweeps.process import Process


class Local:
    def __init__(self, jobs: int = 0) -> None:
        self.jobs = jobs or len(os.sched_getaffinity(0))
        self.where = f"{self.jobs} process{'es' if self.jobs > 1 else ''} here"
        self.idle = [Process() for _ in range(self.jobs)]
        self.busy: dict[str, Process] = {}

    def room(self) -> int:
        return self.jobs

    def submit(self, task: Task, seconds: float | None) -> None:
        process = self.idle.pop()
        self.busy[task.point] = process
        process.start(task.to_json(), seconds)

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        left = [process.left() for process in self.busy.values()]
        select.select(self.busy.values(), [], [], min([seconds, *(s for s in left if s is not None)]))
        found = []
        for point, process in list(self.busy.items()):
            if (outcome := process.finished()) is not None:
                self.idle.append(self.busy.pop(point))
                found.append((point, outcome))
        return found

    def close(self) -> None:
        for process in (*self.idle, *self.busy.values()):
            process.close()
