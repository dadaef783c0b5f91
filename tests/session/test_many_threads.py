"""Threads that launch at the same time: nothing is lost, and nobody's time is counted twice."""

import itertools
import threading
import time

import pytest
import session_kernels as K

import tileprobe
from tileprobe.plugins import targets
from tileprobe.session.manager import manager

THREADS, LAUNCHES, PROGRAMS, TRIPS = 8, 12, 3, 4


def together(work, threads=THREADS):
    """Runs `work(number)` in threads that begin at the same moment; raises what they raise."""
    gate, errors = threading.Barrier(threads), []

    def run(number):
        gate.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    made = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()
    if errors:
        raise errors[0]


def several(number):
    for _ in range(LAUNCHES):
        K.launch(K.loop_kernel, PROGRAMS, TRIPS)


def test_eight_threads_lose_nothing_and_wait_for_one_another():
    """Launches of one process run one after another: their durations must not overlap."""
    with tileprobe.profile(alternate=False, programs="all") as session:
        began = time.perf_counter_ns()
        together(several)
        took = time.perf_counter_ns() - began
    trace = session.trace
    assert len(trace.launches) == THREADS * LAUNCHES
    (work,) = trace.works
    assert work.ran == work.probed == THREADS * LAUNCHES
    frame = trace.to_polars()
    assert len(frame.filter(region_kind="iteration")) == THREADS * LAUNCHES * PROGRAMS * TRIPS
    assert len(frame.filter(region_kind="kernel")) == THREADS * LAUNCHES * PROGRAMS
    assert trace.losses.lost == 0
    times = sorted((launch.start_ns, launch.start_ns + launch.duration_ns) for launch in trace.launches)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(times))
    assert sum(stop - start for start, stop in times) <= took


def test_eight_threads_with_all_sorts_of_launches():
    """Plain, probed and dosed launches of several works, drawn under the same lock: each is counted once."""

    def mixed(number):
        for turn in range(LAUNCHES):
            K.launch(K.loop_kernel, PROGRAMS, 3 + (number + turn) % 3)

    with tileprobe.profile(programs="all") as session:
        together(mixed)
    works = session.trace.works
    assert len(works) == 3
    assert sum(work.ran for work in works) == THREADS * LAUNCHES
    assert sum(work.probed + work.plain + work.dosed for work in works) == THREADS * LAUNCHES
    assert len(session.trace.launches) == sum(work.probed + work.plain for work in works)


def test_sessions_that_begin_and_end_while_others_launch():
    stop = threading.Event()

    def launching(number):
        while not stop.is_set():
            assert K.launch(K.scale_kernel, 2, 2.0).shape == (2 * K.BLOCK,)

    threads = [threading.Thread(target=launching, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            with tileprobe.profile(alternate=False) as session:
                while session.seen.get("scale_kernel", 0) < 4:
                    time.sleep(0.001)
            seen = session.seen["scale_kernel"]
            trace = session.trace
            assert len(trace.launches) == seen == sum(work.ran for work in trace.works)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not manager.flights


def test_a_session_that_ends_waits_for_a_launch_under_way(monkeypatch):
    """The launch of another thread is in the trace although the block was left before it was over."""
    from tileprobe.session.recorded import Watch

    begun, left = threading.Event(), threading.Event()
    stop = Watch.stop

    def slow(self):
        begun.set()
        left.wait(0.2)
        stop(self)

    monkeypatch.setattr(Watch, "stop", slow)
    with tileprobe.profile(alternate=False) as session:
        thread = threading.Thread(target=K.launch, args=(K.scale_kernel, 2, 2.0))
        thread.start()
        begun.wait()
    left.set()
    assert len(session.trace.launches) == 1
    thread.join()


class _Elsewhere:
    """A tensor that is not in this machine's memory: found out when the arguments are packed."""

    device, is_cpu, shape = "cuda:0", False, (2 * K.BLOCK,)

    def __init__(self, like):
        self.dtype = like.dtype

    def data_ptr(self):
        return 64


def test_a_wrong_argument_leaves_nothing_under_way():
    x, out = K.arrays(2)
    memory = targets()["cpu"].memory
    with tileprobe.profile(alternate=False) as session:
        K.launch(K.scale_kernel, 2, 2.0)
        waiting = len(memory._free)
        with pytest.raises(TypeError, match=r"'out'.*cuda:0"):
            K.scale_kernel[(2,)](x, _Elsewhere(out), 2.0, BLOCK=K.BLOCK)
        assert not manager.flights
        assert len(memory._free) == waiting
        K.launch(K.scale_kernel, 2, 2.0)
    assert session.seen == {"scale_kernel": 3}
    assert sum(work.probed for work in session.trace.works) == 2


def test_sessions_of_several_threads_each_see_one_work():
    """Three sessions begin and end at their own time, with seeds of their own; all launch the same. Launches of all
    threads are seen by all that are on, and are one work."""
    seen, start = {}, threading.Barrier(3)

    def go(number):
        start.wait()
        with tileprobe.profile(seed=number) as session:
            for _ in range(5 + number):
                K.launch(K.loop_kernel, 4, 6)
        seen[number] = session.trace.works

    threads = [threading.Thread(target=go, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, works in seen.items():
        assert len(works) == 1, works
        assert 5 + number <= works[0].ran <= 5 + 6 + 7
        assert works[0].probed
