"""A Dask cluster: the scheduler of an address, or one with workers on this machine that ends with the run.

A worker that dies costs nothing: the scheduler gives its points to others, and tells of the one that killed several.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import time
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.executors.base import Lost
from tileprobe.sweeps.executors.batches import Batches
from tileprobe.sweeps.outcome import DIED, RAISED, UNFIT, Outcome
from tileprobe.sweeps.points import Task
from tileprobe.sweeps.remote import perform

CONNECT_S = 10.0
_LOOK_S = 2.0  # between two looks at how many workers there are
_AHEAD = 2  # points for each thread of a worker: the next is there when one ends


class Dask:
    def __init__(self, client: Any, cluster: Any, where: str) -> None:
        self.client, self.cluster, self.where = client, cluster, where
        self.ended: queue.SimpleQueue[tuple[list[str], list[Outcome]]] = queue.SimpleQueue()
        self.futures: dict[str, Any] = {}  # by the first point of their batch
        self.batches = Batches()
        self.seconds: float | None = None
        self.threads, self.looked = 0, -_LOOK_S

    def room(self) -> int:
        if time.monotonic() - self.looked >= _LOOK_S:
            with self._lost_if_gone():
                self.threads = sum(self.client.nthreads().values())
            self.looked = time.monotonic()
        return self.threads * _AHEAD * self.batches.size

    def submit(self, task: Task, seconds: float | None) -> None:
        self.seconds = seconds
        self.batches.add(task)

    def _send(self, batch: list[Task]) -> None:
        points = [task.point for task in batch]
        with self._lost_if_gone():
            future = self.client.submit(
                perform, [task.to_json() for task in batch], self.seconds,
                key=f"{points[0]}-{time.monotonic_ns()}", pure=False,
            )  # fmt: skip
            self.futures[points[0]] = future
            future.add_done_callback(lambda done: self.ended.put((points, _outcomes(done, len(points)))))

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        for batch in self.batches.take():
            self._send(batch)
        found: list[tuple[str, Outcome]] = []
        with contextlib.suppress(queue.Empty):
            self._collect(found, self.ended.get(timeout=seconds))
            while True:
                self._collect(found, self.ended.get_nowait())
        if not found or any(outcome.kind == _CANCELLED for _, outcome in found):
            self._check()
        return [(p, o if o.kind != _CANCELLED else Outcome(DIED, o.reason)) for p, o in found]

    def _collect(self, found: list[tuple[str, Outcome]], ended: tuple[list[str], list[Outcome]]) -> None:
        points, outcomes = ended
        self.futures.pop(points[0], None)
        for outcome in outcomes:
            self.batches.learn(outcome)
        found += zip(points, outcomes)

    def _check(self) -> None:
        if self.client.status != "running":
            raise Lost(f"the Dask scheduler at {self.where} is gone")

    @contextlib.contextmanager
    def _lost_if_gone(self):
        try:
            yield
        except Exception as error:
            raise Lost(f"the Dask scheduler at {self.where} is gone ({type(error).__name__})") from None

    def close(self) -> None:
        with contextlib.suppress(Exception):  # a cluster that is gone has nothing to cancel
            if self.futures and self.client.status == "running":
                self.client.cancel(list(self.futures.values()), force=True)
        for one in filter(None, (self.client, self.cluster)):
            with contextlib.suppress(Exception):
                one.close()


_CANCELLED = "cancelled"


def _outcomes(future: Any, count: int) -> list[Outcome]:
    """What a future that ended holds; in a thread of the client's."""
    from distributed import KilledWorker

    try:
        return [Outcome.of(said) for said in future.result()]
    except KilledWorker as error:
        last = error.last_worker.address
        outcome = Outcome(DIED, f"workers died of it, one after the other ({last} last)")
    except ImportError as error:
        outcome = Outcome(UNFIT, f"a worker cannot import TileProbe: {error}; install it on all workers")
    except BaseException as error:
        kind = _CANCELLED if type(error).__name__.endswith("CancelledError") else RAISED
        outcome = Outcome(kind, f"{type(error).__name__}: {error}")
    return [outcome] * count


def connect(address: str, jobs: int) -> Dask:
    from distributed import Client

    for name in ("distributed", "distributed.client", "distributed.core", "distributed.worker", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what concerns a user is said by us
    if address:
        try:
            return Dask(Client(f"tcp://{address}", timeout=CONNECT_S), None, f"dask://{address}")
        except (OSError, TimeoutError, ValueError) as error:
            said = str(error).split("\n")[0][:200]
            raise TileProbeError(
                f"no Dask scheduler answers at {address} ({said or type(error).__name__}): start one with `dask"
                " scheduler --port N` and workers with `dask worker tcp://host:N`, and check the address"
            ) from None
    count = jobs or len(os.sched_getaffinity(0))
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the driver, not for workers
    try:
        cluster = _started(count)
    finally:
        signal.signal(signal.SIGINT, heard)
    return Dask(Client(cluster), cluster, f"Dask here, {count} workers")


def _started(count: int) -> Any:
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=count, threads_per_worker=1, host="127.0.0.1", protocol="tcp", silence_logs=logging.CRITICAL,
        dashboard_address=None,  # pyright: ignore[reportArgumentType]  # which is how to have none
    )  # fmt: skip
