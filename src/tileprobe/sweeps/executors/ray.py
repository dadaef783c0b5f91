"""A Ray instance: the one of an address, of RAY_ADDRESS, or one on this machine that ends with the run.

Attempts are the driver's business: Ray itself retries nothing, so that each is counted and told.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.executors.base import Lost
from tileprobe.sweeps.executors.batches import Batches
from tileprobe.sweeps.outcome import DIED, RAISED, UNFIT, Outcome
from tileprobe.sweeps.points import Task
from tileprobe.sweeps.remote import perform

_LOOK_S = 2.0
_AHEAD = 2
_STORE_BYTES = 100_000_000  # of an instance that is ours: results are small


class Ray:
    def __init__(self, where: str) -> None:
        import ray

        self.where, self.ray = where, ray
        self.perform = ray.remote(max_retries=0, num_cpus=1)(perform)
        self.points: dict[Any, list[str]] = {}
        self.batches = Batches()
        self.seconds: float | None = None
        self.cores, self.looked = 0, -_LOOK_S

    def room(self) -> int:
        if time.monotonic() - self.looked >= _LOOK_S:
            with self._lost_if_gone():
                self.cores = int(self.ray.cluster_resources().get("CPU", 0))
            self.looked = time.monotonic()
        return self.cores * _AHEAD * self.batches.size

    def submit(self, task: Task, seconds: float | None) -> None:
        self.seconds = seconds
        self.batches.add(task)

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        with self._lost_if_gone():
            for batch in self.batches.take():
                reference = self.perform.remote([task.to_json() for task in batch], self.seconds)
                self.points[reference] = [task.point for task in batch]
            waiting = list(self.points)
            done, _ = self.ray.wait(waiting, num_returns=1, timeout=seconds)
            if done:  # and what else is there by now
                done, _ = self.ray.wait(waiting, num_returns=len(waiting), timeout=0)
            found: list[tuple[str, Outcome]] = []
            for one in done:
                points = self.points.pop(one)
                found += zip(points, self._outcomes(one, len(points)))
        for _, outcome in found:
            self.batches.learn(outcome)
        return found

    def _outcomes(self, reference: Any, count: int) -> list[Outcome]:
        errors = self.ray.exceptions
        try:
            return [Outcome.of(said) for said in self.ray.get(reference)]
        except (
            errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError, errors.ObjectLostError,
        ) as error:  # fmt: skip
            outcome = Outcome(DIED, f"a worker died with it ({type(error).__name__})")
        except (errors.RayTaskError, errors.RaySystemError) as error:
            outcome = Outcome(RAISED, f"{type(error).__name__}: {error}")
            if isinstance(getattr(error, "cause", error), ImportError):
                outcome = Outcome(
                    UNFIT, f"a worker cannot import TileProbe: {error}; install it on all workers"
                )
        return [outcome] * count

    @contextlib.contextmanager
    def _lost_if_gone(self):
        try:
            yield
        except (self.ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
            raise Lost(f"{self.where} is gone ({type(error).__name__}: {str(error)[:200]})") from None

    def close(self) -> None:
        with contextlib.suppress(Exception):
            for one in self.points if self.ray.is_initialized() else ():
                self.ray.cancel(one, force=True)
        with contextlib.suppress(Exception):
            self.ray.shutdown()


def connect(address: str, jobs: int) -> Ray:
    os.environ.setdefault(
        "RAY_ENABLE_AUTO_CONNECT", "0"
    )  # or it would look for another instance when ours is gone
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    given = f"ray://{address}" if address else os.environ.get("RAY_ADDRESS", "")
    if given and given != "local":
        try:
            ray.init(address=given, **quiet)
        except (OSError, RuntimeError, ValueError, ImportError) as error:
            said = str(error).strip().split("\n")[0][:200]
            raise TileProbeError(
                f"no Ray instance answers at {given} ({said}): ray://host:port is the port of its client server"
                " (`ray start --head` prints it, 10001 if none is given); on a machine of the cluster set RAY_ADDRESS"
                " to host:port of its head and use --on ray"
            ) from None
        return Ray(given)
    count = jobs or len(os.sched_getaffinity(0))
    ray.init(
        address="local", num_cpus=count, include_dashboard=False, object_store_memory=_STORE_BYTES, **quiet
    )
    return Ray(f"Ray here, {count} workers")
