"""What adds up and what was interrupted, on traces whose figures can be worked out by hand.

One nanosecond is one tick. A launch is given as (kernel, dot) times; the dot lies at the kernel's start.
"""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tileprobe.tools.accounting import Interrupted, accounted, interrupted
from tileprobe.tools.kernels import Known, kernel_totals, known_of, own_and_least, own_lengths
from tileprobe.tools.regions import region_tree
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit, Work
from tileprobe.views.header import notes

REGIONS = [Region(0, "k", "kernel"), Region(1, "dot", "dot", 0, depth=1)]
QUIET = Interrupted(0, 0, 9, 0.0, 0.0, known=True, outliers=0, error_points=0.5, busy=0.0, drift_points=0.0)


def trace_of(times, *, waited=None, taken=None, works=None, ran=None, target="cpu"):
    rows = []
    for n, (whole, dot) in enumerate(times):
        at = 1_000_000 * n
        rows += [(n, 0, at, at + whole), (n, 1, at, at + dot)]
    columns: dict[str, Any] = dict(zip(("launch", "region", "start", "stop"), zip(*rows)))
    columns["taken_ns"] = [(taken or {}).get(row[0], 0.0) for row in rows]
    launches = [
        Launch(
            n,
            duration_ns=float(whole),
            work=(works or {}).get(n, 0),
            preempted_ns=None if waited is None else waited.get(n, 0.0),
        )
        for n, (whole, _) in enumerate(times)
    ]
    made = Trace.build(
        columns, kernels=[Kernel(0, "k", target, Clock(1e9))], launches=launches, regions=REGIONS
    )
    return replace(made, works=[Work(n, 0, (1,), ran=count) for n, count in (ran or {}).items()])


def found(trace):
    return interrupted(trace, trace.kernels[0])


# -- programs against their launches ----------------------------------------------------------------------------


def placed(programs, durations, *, weight=1.0, target="cpu", grid=4):
    """`programs` are (launch, program, unit, start, stop)."""
    names = ("launch", "program", "unit", "start", "stop")
    columns: dict[str, Any] = dict(zip(names, zip(*programs))) | {"region": [0] * len(programs)}
    columns["weight"] = [weight] * len(programs)
    return Trace.build(
        columns,
        kernels=[Kernel(0, "k", target, Clock(1e9))],
        launches=[Launch(n, 0, (grid,), 0.0, duration) for n, duration in enumerate(durations)],
        regions=REGIONS[:1],
        units=[Unit(n, f"unit {n}") for n in range(3)],
    )


def test_the_share_of_programs_is_that_of_the_middle_launch_with_its_range():
    """Two threads for 100 ns each in launches of 100, 200 and 400 ns: 100, 50 and 25 percent."""
    programs = [(n, p, p, 1000 * n, 1000 * n + 100) for n in range(3) for p in range(2)]
    trace = placed(programs, [100.0, 200.0, 400.0], grid=2)
    shown = accounted(trace, trace.kernels[0])
    assert shown is not None
    assert (shown.percent, shown.threads) == (pytest.approx(50.0), 2)
    assert (shown.low, shown.high) == (pytest.approx(27.5), pytest.approx(95.0))


def test_launches_without_a_duration_or_without_probes_do_not_count():
    programs = [(0, 0, 0, 0, 100), (1, 0, 0, 1000, 1100)]
    trace = placed(programs, [200.0, None], grid=1)
    shown = accounted(trace, trace.kernels[0])
    assert shown is not None
    assert (shown.percent, shown.low, shown.high) == (50.0, 50.0, 50.0)
    trace.launches[0] = replace(trace.launches[0], duration_ns=None)
    assert accounted(trace, trace.kernels[0]) is None
    trace.launches = [replace(launch, duration_ns=100.0, probed=False) for launch in trace.launches]
    assert accounted(trace, trace.kernels[0]) is None


def test_a_small_grid_has_no_more_threads_than_programs():
    """Launch 0 has four programs on two threads, launch 1 has one: that one can only fill one thread."""
    programs = [(0, p, p % 2, 100 * (p // 2), 100 * (p // 2) + 100) for p in range(4)]
    programs.append((1, 0, 0, 1000, 1100))
    trace = placed(programs, [200.0, 100.0])
    trace.launches[1] = replace(trace.launches[1], grid=(1,))
    shown = accounted(trace, trace.kernels[0])
    assert shown is not None
    assert (shown.threads, shown.low, shown.high) == (2, pytest.approx(100.0), pytest.approx(100.0))


def test_where_programs_were_left_out_units_tell_the_threads():
    """Every second program was recorded. A core runs one at a time; a unit of a GPU as many as were seen at once."""
    programs = [(0, 0, 0, 0, 100), (0, 2, 0, 50, 150), (0, 4, 1, 0, 100), (0, 6, 1, 100, 200)]
    for target, threads in (("cpu", 2), ("sim:a100", 3)):
        trace = placed(programs, [200.0], weight=2.0, target=target, grid=8)
        shown = accounted(trace, trace.kernels[0])
        assert shown is not None
        assert shown.threads == threads
        assert shown.percent == pytest.approx(100 * 2 * 400 / (200 * threads))


# -- what was taken ---------------------------------------------------------------------------------------------


def test_what_was_taken_is_a_share_of_all_that_passed():
    """The third launch lasted 140 ns, of which 20 were taken; the others 100."""
    shown = found(trace_of([(100, 50)] * 3 + [(140, 50)], taken={3: 20.0}, waited={3: 20.0}))
    assert (shown.programs, shown.recorded, shown.known, shown.outliers) == (1, 4, True, 0)
    assert shown.percent == pytest.approx(100 * 20 / 440)
    assert shown.doubtful_percent == 0.0
    assert shown.busy == 0.25


def test_what_waiting_does_not_explain_is_in_doubt():
    """The last launch waited; 20 ns of that were found. Its own 130 ns are 30 more than a quick launch takes."""
    times = [(100, 50)] * 3 + [(150, 50)]
    shown = found(trace_of(times, taken={3: 20.0}, waited={3: 45.0}))
    assert shown.doubtful_percent == pytest.approx(100 * 25 / 450)  # waited, and not found
    shown = found(trace_of(times, taken={3: 20.0}, waited={3: 90.0}))
    assert shown.doubtful_percent == pytest.approx(100 * 30 / 450)  # no more than it took longer


def test_a_quick_launch_that_waited_has_lost_nothing():
    shown = found(trace_of([(90, 50), (100, 50), (100, 50), (100, 50)], waited={0: 30.0}))
    assert shown.doubtful_percent == 0.0


def test_works_are_in_doubt_each_by_itself_and_for_what_they_stand_for():
    """The first work's launches stand for two each; the second was recorded once, so anything of it may be waiting."""
    times = [(100, 50), (100, 50), (100, 50), (140, 50), (1000, 10)]
    trace = trace_of(times, waited={3: 30.0, 4: 70.0}, works={4: 1}, ran={0: 8, 1: 1})
    shown = found(trace)
    assert shown.doubtful_percent == pytest.approx(100 * (2 * 30 + 70) / (2 * 440 + 1000))


def test_a_launch_is_left_alone_up_to_a_hundredth_of_its_time():
    times = [(1000, 500)] * 4
    assert found(trace_of(times, waited={0: 10.0})).busy == 0.0
    assert found(trace_of(times, waited={0: 10.1, 1: 11.0})).busy == 0.5


def test_the_drift_is_that_of_the_quickest_quarter():
    """Eight launches: in the two quick ones the dot has a fifth of the time, in the six slow ones a half."""
    shown = found(trace_of([(1000, 200)] * 2 + [(2000, 1000)] * 6, waited={}))
    assert shown.drift_points == pytest.approx(100 * (6400 / 14_000 - 0.2))
    few = found(trace_of([(1000, 200)] * 2 + [(2000, 1000)] * 5, waited={}))
    assert few.drift_points == 0.0


def test_a_quarter_of_twelve_launches_is_three():
    """Three quick launches with a fifth in the dot, one a little slower with all of it, eight slow ones with a half."""
    times = [(1000, 200)] * 3 + [(1100, 1100)] + [(2000, 1000)] * 8
    everything = (600 + 1100 + 8000) / (3000 + 1100 + 16_000)
    assert found(trace_of(times, waited={})).drift_points == pytest.approx(100 * (everything - 0.2))


def test_the_drift_looks_at_each_work_by_itself():
    """Quick launches of the short work and of the long one; together they would all be of the short one."""
    short = [(100, 50)] * 8
    long = [(1000, 100)] * 2 + [(1100, 100)] * 6
    trace = trace_of(short + long, waited={}, works=dict.fromkeys(range(8, 16), 1), ran={0: 8, 1: 8})
    quick, everything = (100 + 200) / (200 + 2000), (400 + 800) / (800 + 8600)
    assert found(trace).drift_points == pytest.approx(100 * abs(quick - everything))


def test_outliers_are_counted_where_nobody_knows_of_waiting():
    """More than four times the median of its own launch; four times is not more."""
    lasted = [100, 100, 100, 400, 401]
    rows = [(0, p, 0, 0, t) for p, t in enumerate(lasted)] + [(1, p, 0, 0, 1000) for p in range(3)]
    trace = placed(rows, [1000.0, 1000.0])
    assert found(trace).outliers == 1
    trace.launches = [replace(launch, preempted_ns=0.0) for launch in trace.launches]
    assert found(trace).outliers == 0


def test_the_error_is_that_of_the_least_certain_share():
    trace = trace_of([(100, 50), (100, 52), (100, 48)], waited={})
    off = 4.303 * (3 * 4) ** 0.5 / 300  # shares of 0, 2 and -2 beside the mean, of three launches
    assert found(trace).error_points == pytest.approx(100 * off)
    assert found(trace_of([(100, 50)], waited={})).error_points == float("inf")


# -- in words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, ""),
        ({"launches": 1}, "1 launch had to wait for a processor and is left out"),
        ({"launches": 1200}, "1,200 launches had to wait for a processor and are left out"),
        (
            {"programs": 1, "percent": 1.25},
            "1 program, 1.2 % of the time, was interrupted and taken out",
        ),
        (
            {"programs": 2, "percent": 0.5, "launches": 3},
            "3 launches had to wait for a processor and are left out; "
            "2 programs, 0.5 % of the time, were interrupted and taken out",
        ),
        (
            {"doubtful_percent": 2.6, "doubtful_points": 2.01, "programs": 4},
            "the operating system took up to 3 % of the time where it could not be told from the kernel's own: "
            "the shares cannot be trusted",
        ),
        (
            {"doubtful_percent": 2.6, "doubtful_points": 2.0, "launches": 1},
            "the operating system took up to 3 % of the time where it could not be told from the kernel's own: "
            "totals may be too long by that; 1 launch had to wait for a processor and is left out",
        ),
        (
            {"stretched": 18.04, "stretched_in": "loop @ 9"},
            "loop @ 9 took 18.0 times as long as its recorded iterations say: those without a record are not like "
            "them, and the shares inside cannot be trusted",
        ),
        (
            {"busy": 0.2, "drift_points": 4.0},
            "the machine was busy, shares may be off by 6 points: they cannot be trusted",
        ),
        (
            {"busy": 0.2, "error_points": float("inf")},
            "the machine was busy, too little was recorded for shares: they cannot be trusted",
        ),
        (
            {"known": False, "outliers": 5},
            "5 programs took far longer than is usual; whether interrupted is not known",
        ),
        ({"known": True, "outliers": 5}, ""),
    ],
)
def test_what_is_said(changes, text):
    assert replace(QUIET, **changes).text == text


def test_what_is_trusted():
    assert replace(QUIET, doubtful_percent=90.0, doubtful_points=2.0).trusted
    assert not replace(QUIET, doubtful_percent=2.01, doubtful_points=2.01).trusted
    assert replace(QUIET, stretched=1.5).trusted
    assert not replace(QUIET, stretched=1.51).trusted
    assert replace(QUIET, stretched=0.67).trusted
    assert not replace(QUIET, stretched=0.66).trusted
    assert replace(QUIET, busy=0.1, drift_points=9.0).trusted
    assert not replace(QUIET, busy=0.11, drift_points=9.0).trusted
    assert replace(QUIET, error_points=1.2, drift_points=1.6 / 1.5).off_points == pytest.approx(2.0)
    assert replace(QUIET, busy=0.9, error_points=1.2, drift_points=1.06).steady
    assert not replace(QUIET, busy=0.9, error_points=1.2, drift_points=1.07).steady


def test_kernels_without_records_are_undisturbed():
    trace = replace(trace_of([(100, 50)]), launches=[])
    trace.frame = trace.intervals.filter(pl.col("launch") > 9)
    shown = found(trace)
    assert (shown.percent, shown.doubtful_percent, shown.busy, shown.known) == (0.0, 0.0, 0.0, False)


# -- launches that waited -----------------------------------------------------------------------------------------


def test_what_was_taken_from_programs_is_no_time_of_theirs():
    """Every fourth program was recorded: 100 ns each, one of them interrupted for 900. Four launches of 200 ns on two
    threads."""
    programs = [(n, 0, n % 2, 1000 * n, 1000 * n + (1000 if n == 1 else 100)) for n in range(4)]
    trace = placed(programs, [200.0] * 4, weight=4.0, grid=4)
    trace.frame = trace.intervals.with_columns(
        pl.when(pl.col("launch") == 1).then(900.0).otherwise(0.0).cast(pl.Float32).alias("taken_ns")
    )
    shown = accounted(trace, trace.kernels[0])
    assert shown is not None
    assert (shown.percent, shown.high) == (pytest.approx(100.0), pytest.approx(100.0))


def test_launches_that_were_left_alone_say_what_adds_up():
    programs = [(n, 0, 0, 10_000 * n, 10_000 * n + (900 if n else 100)) for n in range(4)]
    trace = placed(programs, [1000.0] * 4, grid=1)
    trace.launches[0] = replace(trace.launches[0], preempted_ns=500.0)
    shown = accounted(trace, trace.kernels[0])
    assert shown is not None
    assert (shown.low, shown.high) == (pytest.approx(90.0), pytest.approx(90.0))
    trace.launches[1] = replace(trace.launches[1], preempted_ns=500.0)  # two others are too few
    shown = accounted(trace, trace.kernels[0])
    assert shown is not None
    assert shown.low == pytest.approx(10.0 + 0.15 * 80.0)


def test_a_launch_whose_threads_waited_for_longer_than_it_lasted_took_some_time():
    """Two threads waited for 120 ns together in a launch of 100: it would have taken 40 by itself."""
    waited = [Launch(0, duration_ns=100.0, preempted_ns=120.0)]
    assert own_lengths(waited, Known()) == [pytest.approx(40.0)]
    assert own_lengths([Launch(0, duration_ns=100.0, preempted_ns=30.0)], Known()) == [70.0]
    assert own_lengths([*waited, Launch(1, duration_ns=60.0, preempted_ns=0.0)], Known()) == [60.0, 60.0]
    assert own_lengths([Launch(0, duration_ns=0.0, preempted_ns=5.0)], Known()) == [0.0]


def test_what_threads_waited_for_delays_a_launch_by_their_part():
    """80 ns of 100, on one thread and on four; a grid of two programs has no more than two."""
    launch = Launch(0, grid=(4,), duration_ns=100.0, preempted_ns=80.0)
    for threads, own in ((1, 20.0), (4, 80.0)):
        assert own_lengths([launch], Known(threads)) == [pytest.approx(own)]
    assert own_lengths([replace(launch, grid=(2,))], Known(4)) == [pytest.approx(60.0)]


def test_no_launch_is_shorter_than_its_longest_program():
    launch = Launch(0, grid=(2,), duration_ns=100.0, preempted_ns=95.0)
    assert own_lengths([launch], Known(1, {0: 35.0})) == [35.0]
    assert own_lengths([launch], Known(1, {0: 200.0})) == [100.0]  # nor longer than it was
    other = Launch(1, grid=(2,), duration_ns=100.0, preempted_ns=95.0, probed=False)
    assert own_lengths([launch, other], Known(1, {0: 35.0})) == [35.0, 35.0]  # the same work


def test_a_launch_that_waited_is_as_long_as_those_that_had_not():
    """Between 10 and 1000 ns, where others took 100, 110 and 120; one of 2000 ns is no measure for it."""
    alone = [Launch(n, duration_ns=float(x), preempted_ns=0.0) for n, x in enumerate((100, 110, 120, 2000))]
    waited = Launch(9, duration_ns=1000.0, preempted_ns=990.0)
    assert own_lengths([*alone, waited], Known())[-1] == pytest.approx(110.0)
    long = Launch(9, duration_ns=1000.0, preempted_ns=100.0)  # 900 at the least
    assert own_lengths([*alone, long], Known())[-1] == 900.0


def test_a_heavy_launch_that_waited_is_not_taken_for_a_light_one():
    alone = [Launch(n, duration_ns=100.0, preempted_ns=0.0) for n in range(5)]
    heavy = Launch(9, duration_ns=1000.0, preempted_ns=300.0)
    assert own_lengths([*alone, heavy], Known())[-1] == 700.0
    # Two threads that waited for longer than it lasted: what they ran for tells it from the others.
    busy = Launch(9, grid=(4,), duration_ns=1000.0, preempted_ns=1300.0)
    assert own_lengths([*alone, busy], Known(2))[-1] == 100.0
    assert own_and_least([*alone, replace(busy, ran_ns=600.0)], Known(2))[-1] == (350.0, 300.0)
    assert own_lengths([*alone, replace(busy, ran_ns=800.0)], Known(2))[-1] == 400.0
    # and no launch took longer than they ran for: a thread that waited while the others had nothing to do
    struck = Launch(9, grid=(4,), duration_ns=1000.0, preempted_ns=940.0)
    assert own_lengths([struck], Known(2)) == [530.0]
    assert own_lengths([replace(struck, ran_ns=70.0)], Known(2)) == [70.0]


def test_kernels_of_recorded_programs_are_known():
    programs = [(0, p, p % 2, 100 * (p // 2), 100 * (p // 2) + 70 + p) for p in range(4)]
    trace = placed(programs, [300.0])
    known = known_of(trace, trace.kernels[0])
    assert (known.threads, dict(known.longest_ns)) == (2, {0: 73.0})
    trace.launches[0] = replace(trace.launches[0], preempted_ns=299.0)
    assert kernel_totals(trace)["each_ns"].to_list() == [pytest.approx(300 - 299 / 2)]


# -- what cannot be told ------------------------------------------------------------------------------------------


def test_launches_that_all_waited_are_no_measure_for_each_other():
    """Each lost 60 of its 100 ns: that all took as long does not say that nothing was taken."""
    times = [(100, 50)] * 6
    assert found(trace_of(times, waited=dict.fromkeys(range(6), 60.0))).doubtful_percent == pytest.approx(
        60.0
    )
    three = found(
        trace_of(times, waited=dict.fromkeys(range(3), 60.0))
    )  # three others took as long by themselves
    assert three.doubtful_percent == 0.0


def test_totals_may_be_too_long_by_what_is_in_doubt():
    """Six launches of 100 ns that all lost up to 60: the kernel's 600 ns are 240 at the least, its dot's 300 none."""
    trace = trace_of([(100, 50)] * 6, waited=dict.fromkeys(range(6), 60.0))
    rows = region_tree(trace, trace.kernels[0])
    assert rows["low_ns"].to_list() == [pytest.approx(240.0), 0.0]
    assert rows["high_ns"].to_list() == rows["total_ns"].to_list() == [600.0, 300.0]


def test_the_total_of_a_kernel_may_be_too_long_by_what_its_threads_waited():
    """A program of 100 ns in each launch of 100; one thread waited for 60 of them. Nothing says within what."""
    trace = trace_of([(100, 50)] * 6, waited=dict.fromkeys(range(6), 60.0), ran={0: 6})
    (row,) = kernel_totals(trace).iter_rows(named=True)
    assert (row["total_ns"], row["low_ns"], row["high_ns"]) == (600.0, pytest.approx(240.0), 600.0)
    alone = trace_of([(100, 50)] * 6, waited={0: 60.0}, ran={0: 6})
    (row,) = kernel_totals(alone).iter_rows(named=True)
    assert row["low_ns"] == 600.0  # the others took as long by themselves


@pytest.mark.parametrize(
    ("dot", "points"),
    [
        (100, 0.0),  # all of the time is in it, and so was what was taken
        (50, 12.5),  # 30 of 80, or 50 of 80
        (10, 10.0),  # all of the dot may have been somebody else's
    ],
)
def test_what_is_in_doubt_moves_a_share_by_no_more_than_it_can(dot, points):
    """A fifth of the time may be somebody else's."""
    shown = found(trace_of([(100, dot)], waited={0: 20.0}))
    assert shown.doubtful_percent == pytest.approx(20.0)
    assert shown.doubtful_points == pytest.approx(points)


def test_programs_that_come_to_more_than_all_are_said_to():
    said = {}
    for percent in (110, 111):
        trace = placed([(0, 0, 0, 0, percent)], [100.0], grid=1)
        said[percent] = " ".join(notes(trace, trace.kernels[0], QUIET))
    assert "programs account for 110 % of the launches' time" in said[110]
    assert "the recorded programs, scaled up, come to 111 %" in said[111]
