"""A first launch that found caches and memory cold: it counts once, says so, and is in nothing that is said of launches
in general."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tileprobe.ir.machine import INSTRUCTIONS
from tileprobe.tools.compare import compare
from tileprobe.tools.figures import student
from tileprobe.tools.iterations import Iterations
from tileprobe.tools.kernels import kernel_totals
from tileprobe.tools.overhead import overhead
from tileprobe.tools.programs import Programs
from tileprobe.tools.regions import Regions, region_tree
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit, Work
from tileprobe.trace.cold import cold_launches, own_ns
from tileprobe.trace.works import left_out, standing_for
from tileprobe.views.html.distributions import distributions

WARM, PROGRAMS = 1000, 4  # ns of a program, half of them in its loop of two iterations


def trace(first=10.0, recorded=5, plain=3, ran=20, noise=0.0, meta=None, **of_first):
    """One work. The first launch takes `first` times as long, all of the difference in the store of program 2."""
    rng = np.random.default_rng(0)
    rows, launches, clock = [], [], 0
    more = round((first - 1) * PROGRAMS * WARM)
    for launch in range(recorded):
        began = clock
        for program in range(PROGRAMS):
            loop = WARM // 2
            rest = WARM - loop + round(noise * WARM * rng.random())
            rest += more if launch == 0 and program == 2 else 0
            rows += [(launch, program, 0, -1, clock, clock + loop + rest)]
            rows += [(launch, program, 1, -1, clock, clock + loop)]
            half = loop // 2
            rows += [(launch, program, 2, n, clock + n * half, clock + (n + 1) * half) for n in range(2)]
            rows += [(launch, program, 3, -1, clock + loop, clock + loop + rest)]
            clock += loop + rest
        kept = Losses(PROGRAMS * 10)
        launches.append(Launch(launch, 0, (PROGRAMS,), began, clock - began, losses=kept, preempted_ns=0.0))
    usual = PROGRAMS * WARM * 0.95
    launches += [
        Launch(recorded + n, 0, (PROGRAMS,), clock, usual, False, preempted_ns=0.0) for n in range(plain)
    ]
    launches[0] = replace(launches[0], **of_first)
    keys = ("launch", "program", "region", "iteration", "start", "stop")
    regions = [
        Region(0, "k", "kernel", None, 0, "k.py", 1, 9),
        Region(1, "loop @ 3", "loop", 0, 0, "k.py", 3, 5, 1),
        Region(2, "iteration", "iteration", 1, 0, "k.py", 3, 5, 2),
        Region(3, "store @ 7", "store", 0, 0, "k.py", 7, 7, 1),
    ]
    built = Trace.build(
        {key: np.array(column, np.int64) for key, column in zip(keys, zip(*rows))},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9), calibration={"cost_ticks": 5.0, "dose_ticks": 10.0})],
        launches=launches,
        regions=regions,
        units=[Unit(0, "core 0")],
    )
    works = [Work(0, 0, (PROGRAMS,), ran=ran, probed=recorded, plain=plain)]
    return replace(built, works=works, meta=meta or {})


def test_it_is_the_first_where_it_took_much_longer_than_every_other():
    assert cold_launches(trace()) == {0}
    assert cold_launches(trace(first=1.0)) == set()
    assert cold_launches(trace(first=1.4)) == set()
    assert (
        cold_launches(trace(recorded=1, plain=8)) == set()
    )  # nobody else was recorded that could stand for the rest
    assert cold_launches(trace(recorded=2, plain=1)) == set()  # two others are no measure
    assert cold_launches(trace(recorded=2, plain=2)) == {0}
    slow = trace(first=2.0)
    slow.launches[3] = replace(slow.launches[3], duration_ns=9 * slow.launches[3].duration_ns)
    assert cold_launches(slow) == set()  # others take as long at times


def test_what_the_system_or_the_probes_took_is_not_cold():
    longer = 3 * PROGRAMS * WARM  # than the others
    assert cold_launches(trace(first=4.0)) == {0}
    assert cold_launches(trace(first=4.0, preempted_ns=longer)) == set()
    assert cold_launches(trace(first=4.0, losses=Losses(longer // 10))) == set()  # 10 ns a record, by dose
    assert cold_launches(trace(meta={"launches": {"skip": 2}})) == set()  # it was not the first
    counts = trace()
    counts.kernels[0] = replace(counts.kernels[0], clock=Clock(1e9, INSTRUCTIONS))
    assert cold_launches(counts) == set()


def test_it_stands_for_itself_and_the_others_for_the_rest():
    found = trace()
    assert standing_for(found) == {0: 1.0, **dict.fromkeys(range(1, 5), 19 / 4)}
    tree = region_tree(found, found.kernels[0])
    whole = tree.row(0, named=True)
    assert whole["total_ns"] == pytest.approx((10 + 19) * PROGRAMS * WARM)
    assert whole["count"] == pytest.approx(20 * PROGRAMS)


def test_a_kernels_total_has_it_once():
    row = kernel_totals(trace()).row(0, named=True)
    assert row["total_ns"] == pytest.approx((10 + 19 * 0.95) * PROGRAMS * WARM)
    assert row["each_ns"] == pytest.approx(row["total_ns"] / 20)


def test_intervals_are_of_the_others():
    found = trace(noise=0.2)
    row = region_tree(found, found.kernels[0]).row(0, named=True)
    samples = found.intervals.filter((found.intervals["region"] == 0) & (found.intervals["launch"] > 0))
    sums = samples.with_columns(ns=samples["stop_ns"] - samples["start_ns"]).group_by("launch").sum()["ns"]
    error = student(3) * float(sums.std()) * math.sqrt(4) * 19 / 4
    assert row["high_ns"] - row["total_ns"] == pytest.approx(error, rel=0.02)
    sampled = trace(noise=0.2, losses=Losses(10, 10))  # a part of the first is a sample of it
    wider = region_tree(sampled, sampled.kernels[0]).row(0, named=True)
    assert wider["high_ns"] - wider["total_ns"] > 2 * error


def test_it_is_said_with_the_region_that_took_the_time():
    (said,) = [f for f in Regions().read(trace()).findings if "first launch" in f.text]
    assert said.text.startswith(
        "k: the first launch took 9.9 times as long as the others (cold), most of that in store @ 7;"
    )
    assert said.data["launches"] == [0] and said.kernel == 0
    beside = trace()
    beside.launches += [
        Launch(100 + n, 0, (9,), 0.0, 1e6, False, work=1, preempted_ns=0.0) for n in range(40)
    ]
    assert said.text in [f.text for f in Regions().read(beside).findings]  # others of its own work
    assert not [f for f in Regions().read(trace(first=1.0)).findings if "first launch" in f.text]


def test_nothing_about_launches_in_general_is_made_of_it():
    found = trace()
    assert left_out(found) == {0}
    assert not Programs().read(found).findings  # without it no program is slower than others
    assert Programs().read(found).tables[0].frame["slowest"].item() != 2
    cells = distributions(found, found.kernels[0], left_out(found))[3]["programs"]["ns"]
    assert cells == [WARM // 2] * PROGRAMS
    steps = Iterations().read(found).tables[0].frame
    assert steps["recorded"].item() == 2


def test_what_probes_cost_is_not_made_of_it():
    found = trace(recorded=4, plain=4)
    assert overhead(found, found.kernels[0]).percent == pytest.approx(100 * (1 / 0.95 - 1), abs=0.1)
    assert overhead(found, found.kernels[0]).high < 10  # the first would widen it


def test_a_comparison_does_not_take_it_for_noise():
    before, after = trace(first=8.0), trace(first=2.0)
    row = compare(before, after).tables[0].frame.row(0, named=True)
    assert row["launches_a"] == row["launches_b"] == 4
    assert row["noise"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("calibration", "taken"),
    [({"dose_ticks": 4.0, "cost_ticks": 2.0}, 20.0), ({"cost_ticks": 2.0}, 10.0), ({}, 0.0)],
)
def test_what_a_first_launch_took_by_itself(calibration, taken):
    """Ten records at 2 GHz, each of them as doses say; a launch without probes has none."""
    kernel = Kernel(0, "k", "cpu", Clock(2e9), calibration=calibration)
    launch = Launch(0, 0, (1,), duration_ns=1000.0, preempted_ns=100.0, losses=Losses(10))
    assert own_ns(launch, kernel) == 900.0 - taken
    assert own_ns(replace(launch, probed=False), kernel) == 900.0
    assert own_ns(Launch(0, 0, (1,), losses=Losses(10)), kernel) == -taken
