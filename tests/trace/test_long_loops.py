"""Long loops and launches that differ: the part of a loop that left no record is no interruption, a launch that saw a
part only is stood for by others like it, and so is one that had to wait."""

from dataclasses import replace

import numpy as np
import pytest
from planted import Kernel, launch, trace_of, tree

from tileprobe.ir.sampling import Every, Sampling
from tileprobe.tools.accounting import interrupted
from tileprobe.trace import Clock, Launch, Losses, Region, Trace
from tileprobe.trace import Kernel as TraceKernel
from tileprobe.trace.works import left_out, standing_for

SLICE = 6_000_000  # ticks


def launches_of(trace):
    return [each.id for each in trace.launches]


def iterations(trips):
    """What the stage takes in a loop of so many: 2 us each."""
    return 2000.0 * trips


# -- gaps in which iterations ran that left no record ---------------------------------------------------------


@pytest.mark.parametrize("trips", [(20, 4000), (4000, 2000)])
def test_the_part_of_a_long_loop_that_had_no_room_is_no_interruption(trips):
    """One launch that waited somewhere, and programs of which two run far longer than there is room for."""
    kernel, rng = Kernel(room=256), np.random.default_rng(1)
    of = lambda program: {5: trips[1], 6: trips[0]}.get(program, 20)
    run = launch(kernel, of, 16, noise=rng, waited=40_000_000)
    trace = trace_of(kernel, [run])
    found = tree(trace)
    whole = 14 * iterations(20) + iterations(trips[0]) + iterations(trips[1])
    assert found["loop @ 3"]["interrupted"] == 0
    assert found["exp @ 4"]["total_ns"] == pytest.approx(whole, rel=0.02)
    assert interrupted(trace, trace.kernels[0]).partial == 1


def test_launches_whose_loops_differ_are_not_taken_for_interrupted():
    """Three times as many iterations in every third launch, each beyond its room; every launch waited for a while."""
    kernel, rng = Kernel(room=16), np.random.default_rng(2)
    trips = [100, 100, 300] * 4
    runs = [launch(kernel, n, 4, noise=rng, waited=3_000_000) for n in trips]
    found = tree(trace_of(kernel, runs))
    assert found["loop @ 3"]["taken_ns"] == 0
    assert found["exp @ 4"]["total_ns"] == pytest.approx(sum(4 * iterations(n) for n in trips), rel=0.01)


def test_an_interruption_between_kept_iterations_is_found():
    """Every seventh iteration is recorded; 3 ms are taken in one that is not."""
    kernel, rng = Kernel(room=16), np.random.default_rng(3)
    every = Sampling(loops={0: Every(7, 2)})
    quiet = [launch(kernel, 100, 4, noise=rng, waited=0, sampling=every) for _ in range(5)]
    taken = lambda program, slot, iteration: SLICE if (program, slot, iteration) == (2, 6, 40) else 0
    struck = launch(kernel, 100, 4, noise=rng, waited=3_000_000, sampling=every, more=taken)
    found = tree(trace_of(kernel, [*quiet, struck]))
    assert found["loop @ 3"]["taken_ns"] == pytest.approx(3e6, rel=0.01)
    assert found["exp @ 4"]["mean_ns"] == pytest.approx(2000, rel=0.01)


def test_stages_are_told_apart_though_iterations_are_left_out():
    """The gap from one kept iteration to the next is long; those within one are compared as ever."""
    kernel, rng = Kernel(room=16), np.random.default_rng(4)
    every = Sampling(loops={0: Every(7, 2)})
    taken = lambda program, slot, iteration: SLICE if (program, slot, iteration) == (1, 6, 44) else 0
    runs = [launch(kernel, 100, 4, noise=rng, waited=0, sampling=every) for _ in range(5)]
    runs.append(launch(kernel, 100, 4, noise=rng, waited=3_000_000, sampling=every, more=taken))
    assert tree(trace_of(kernel, runs))["exp @ 4"]["interrupted"] == 1


# -- launches that others stand for ---------------------------------------------------------------------------


def alternating(light, heavy, waited, count=12):
    """Light and heavy launches of one work; the heavy ones had to wait."""
    kernel, rng = Kernel(room=4096), np.random.default_rng(5)
    runs = []
    for _ in range(count):
        runs.append(launch(kernel, light, 4, noise=rng, waited=0))
        runs.append(launch(kernel, heavy, 4, noise=rng, waited=waited))
    return trace_of(kernel, runs)


def test_long_launches_that_waited_are_not_left_out_for_short_ones():
    trace = alternating(20, 2000, waited=1_000_000)
    assert not left_out(trace)
    count = tree(trace)["exp @ 4"]["count"]
    assert count == 12 * 4 * (20 + 2000)


def test_launches_that_waited_are_left_out_for_those_alike():
    trace = alternating(2000, 2000, waited=1_000_000)
    assert left_out(trace) == set(launches_of(trace)[1::2])
    assert standing_for(trace) == pytest.approx({n: 2.0 * (n % 2 == 0) for n in launches_of(trace)})
    said = interrupted(trace, trace.kernels[0])
    assert (said.launches, said.beginnings, said.partial) == (12, 0, 0)


def test_who_is_left_out_is_stood_for_by_those_alike_alone():
    """Light ones stand for themselves, heavy ones that were left alone also for heavy ones that waited."""
    kernel, rng = Kernel(room=4096), np.random.default_rng(6)
    light = [launch(kernel, 20, 4, noise=rng, waited=0) for _ in range(10)]
    heavy = [launch(kernel, 1000, 4, noise=rng, waited=0) for _ in range(8)]
    struck = [launch(kernel, 1000, 4, noise=rng, waited=500_000) for _ in range(4)]
    trace = trace_of(kernel, [*light, *heavy, *struck])
    assert standing_for(trace) == pytest.approx(
        {
            **dict.fromkeys(range(10), 1.0),
            **dict.fromkeys(range(10, 18), 1.5),
            **dict.fromkeys(range(18, 22), 0.0),
        }
    )
    assert tree(trace)["exp @ 4"]["count"] == 4 * (10 * 20 + 12 * 1000)


def test_a_launch_that_saw_the_beginning_is_stood_for_by_those_that_cover_the_loop():
    """The last tenth of the iterations takes ten times as long."""
    kernel, rng = Kernel(room=256), np.random.default_rng(7)
    late = lambda program, slot, iteration: 36_000 if slot == 6 and iteration >= 3600 else 0
    first = launch(kernel, 4000, 4, noise=rng, waited=0, more=late)
    rest = [
        launch(
            kernel, 4000, 4, noise=rng, waited=0, more=late, sampling=Sampling(loops={0: Every(17, phase)})
        )
        for phase in (0, 5, 11)
    ]
    trace = trace_of(kernel, [first, *rest])
    assert left_out(trace) == {0}
    assert standing_for(trace) == pytest.approx({0: 0.0, 1: 4 / 3, 2: 4 / 3, 3: 4 / 3})
    found = tree(trace)["exp @ 4"]
    assert found["total_ns"] == pytest.approx(4 * 4 * (3600 * 2000 + 400 * 20_000), rel=0.02)
    assert found["count"] == pytest.approx(4 * 4 * 4000, rel=0.01)
    said = interrupted(trace, trace.kernels[0])
    assert (said.launches, said.beginnings, said.partial) == (0, 1, 0)
    assert "1 launch saw a part of a long loop only" in said.text


def test_a_launch_that_is_the_only_long_one_stays():
    kernel, rng = Kernel(room=256), np.random.default_rng(8)
    runs = [launch(kernel, 100, 4, noise=rng, waited=0) for _ in range(9)]
    runs.append(launch(kernel, 4000, 4, noise=rng, waited=0))
    trace = trace_of(kernel, runs)
    assert not left_out(trace)
    assert tree(trace)["exp @ 4"]["count"] == pytest.approx(4 * (9 * 100 + 4000))
    assert interrupted(trace, trace.kernels[0]).partial == 1


def test_a_long_one_without_room_that_waited_is_not_stood_for_by_short_ones():
    """Its threads waited for longer than its programs' time, so that alone it could have been short. They ran, too."""
    trace = nested([1000, 100, 110], [1, 1, 1])
    trace.launches[0] = replace(trace.launches[0], preempted_ns=1200.0)
    assert left_out(trace) == {0}
    trace.launches[0] = replace(trace.launches[0], ran_ns=600.0)
    assert not left_out(trace)


def nested(lasted, seen):
    """Launches of so long a time each, of so many recorded executions; the first had no room for all iterations."""
    rows = [(n, 0, 0, whole) for n, whole in enumerate(lasted)]
    rows += [(n, 1, 0, 1) for n, count in enumerate(seen) for _ in range(count)]
    return Trace.build(
        dict(zip(("launch", "region", "start", "stop"), zip(*rows))),
        kernels=[TraceKernel(0, "k", "cpu", Clock(1e9))],
        launches=[
            Launch(n, 0, (1,), 0.0, float(whole), losses=Losses(9, 0, 0 if n else 5))
            for n, whole in enumerate(lasted)
        ],
        regions=[Region(0, "k", "kernel"), Region(1, "sin", "sin", 0, depth=1)],
    )


def test_a_launch_that_saw_nothing_of_an_inner_loop_is_stood_for_by_those_that_took_as_long():
    """The inner loop runs in the last outer iterations, of which the first launch has no records."""
    assert left_out(nested([1000, 1000, 1100], [1, 300, 300])) == {0}
    assert not left_out(nested([1000, 100, 110], [1, 1, 1]))  # others did not do the same


def test_recorded_iterations_that_are_not_like_the_others_are_said_to():
    """All that was recorded of the loop are its first 256 iterations, a tenth as long as the last tenth."""
    kernel, rng = Kernel(room=256), np.random.default_rng(7)
    late = lambda program, slot, iteration: 36_000 if slot == 6 and iteration >= 3600 else 0
    trace = trace_of(kernel, [launch(kernel, 4000, 4, noise=rng, waited=0, more=late)])
    said = interrupted(trace, trace.kernels[0])
    assert said.stretched == pytest.approx((3600 + 400 * 10) / 4000, rel=0.03)
    assert said.stretched_in == "loop @ 3"
    assert not said.trusted
    assert "loop @ 3 took 1.9 times as long as its recorded iterations say" in said.text
    even = trace_of(kernel, [launch(kernel, 4000, 4, noise=rng, waited=0)])
    assert interrupted(even, even.kernels[0]).stretched == pytest.approx(1.0, rel=0.01)
