"""A launch that is watched: when its programs start and end, and what the system took from them."""

from __future__ import annotations

import itertools
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from handmade_kernels import AWAY, COUNT, SLOW, kernel, launch_block

from tileprobe.targets.cpu import pool

AWAY_NS = 20_000_000


class Watch:
    """What a session's watch notes."""

    def __init__(self):
        self.taken_ns: int | None = None
        self.start_ns = self.stop_ns = 0
        self.began_and_ended = (0, 0)
        self.ran_ns: int | None = None

    def start(self):
        self.start_ns = time.perf_counter_ns()

    def ended(self, taken_ns=None, duration_ns=0, began_ns=0, ran_ns=None):
        self.stop_ns, self.taken_ns, self.ran_ns = time.perf_counter_ns(), taken_ns, ran_ns
        self.began_and_ended = began_ns, began_ns + duration_ns


def watched(which: pool.Pool, body: str, programs: int) -> Watch:
    counts, watch = np.zeros(programs, np.int32), Watch()
    block = launch_block(counts)
    assert which.run(kernel(body), block.ctypes.data, programs, 0, watch) == 0  # type: ignore[arg-type]
    assert (counts == 1).all()
    return watch


@pytest.fixture(params=[1, 2, 4])
def some_pool(request):
    made = pool.Pool(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("programs", [1, 2, 6])
def test_time_off_the_core_is_known(some_pool, programs):
    """Each program is away for at least 20 ms, on whatever thread."""
    watch = watched(some_pool, AWAY, programs)
    assert watch.taken_ns is not None
    assert watch.taken_ns >= programs * AWAY_NS * 0.95
    threads = min(some_pool.threads, programs)
    assert watch.taken_ns <= threads * (watch.stop_ns - watch.start_ns)


def test_each_launch_has_its_own(some_pool):
    long, short = watched(some_pool, AWAY, 4), watched(some_pool, COUNT, 4)
    assert long.taken_ns is not None
    assert short.taken_ns is not None
    assert short.taken_ns < long.taken_ns
    assert short.taken_ns <= some_pool.threads * (short.stop_ns - short.start_ns)


def test_it_is_not_asked_for_when_nobody_watches(some_pool):
    watched(some_pool, COUNT, 4)
    counts = np.zeros(4, np.int32)
    assert some_pool.run(kernel(AWAY), launch_block(counts).ctypes.data, 4, 0) == 0
    assert some_pool._block.watched.value == 0
    assert some_pool._block.taken.value < AWAY_NS


def test_the_wait_for_another_launch_is_no_part_of_it():
    """Two threads launch at once: the second one starts when the first has ended."""
    made = pool.Pool(2)
    found: list[Watch] = []
    threads = [threading.Thread(target=lambda: found.append(watched(made, SLOW, 16))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = sorted((watch.start_ns, watch.stop_ns) for watch in found)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(times))
    made.close()


@pytest.mark.parametrize("programs", [1, 2, 64])
def test_programs_are_timed_where_they_run(some_pool, programs):
    """Not by Python, which may have to wait for its lock before and behind them: here for 50 ms each."""
    code = some_pool._code

    def late(*arguments):
        time.sleep(0.05)
        status = code.run(*arguments)
        time.sleep(0.05)
        return status

    some_pool._code = SimpleNamespace(**{**vars(code), "run": late})
    watch = watched(some_pool, COUNT, programs)
    some_pool._code = code
    began, ended = watch.began_and_ended
    assert watch.start_ns + 50_000_000 <= began <= ended <= watch.stop_ns - 50_000_000


def test_time_away_is_part_of_the_duration(some_pool):
    watch = watched(some_pool, AWAY, 2)
    began, ended = watch.began_and_ended
    assert ended - began >= AWAY_NS * 0.95


def test_what_programs_ran_for_is_told_from_what_they_waited_for(some_pool):
    """Programs that sleep for 20 ms each have hardly run; three million turns take half a millisecond at 6 GHz."""
    for body, least in ((SLOW, 500_000), (AWAY, 0), (SLOW, 500_000)):
        before = time.process_time_ns()
        watch = watched(some_pool, body, 4)
        assert watch.ran_ns is not None
        assert 4 * least <= watch.ran_ns <= time.process_time_ns() - before
