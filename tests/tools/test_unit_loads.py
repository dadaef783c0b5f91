"""Programs on units, kernels beside each other and iterations of loops: figures that can be worked out by hand."""

from dataclasses import replace

import polars as pl
import pytest

from tileprobe.tools.iterations import Iterations, iteration_times, trips
from tileprobe.tools.kernels import kernel_totals
from tileprobe.tools.programs import Programs, balance, program_times, unit_loads
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit, Work

# -- programs and units -----------------------------------------------------------------------------------------


KERNEL = (Region(0, "k", "kernel"),)


def programs_of(rows, *, hz=1e9, more=None, regions=KERNEL):
    """`rows` are (launch, program, unit, start, stop)."""
    columns = dict(zip(("launch", "program", "unit", "start", "stop"), zip(*rows)))
    columns |= {"region": [0] * len(rows)} | (more or {})
    launches = [Launch(n, 0, (8,)) for n in sorted({row[0] for row in rows})]
    units = [Unit(0, "core 0"), Unit(1, "core 1")]
    kernels = [Kernel(0, "k", "cpu", Clock(hz))]
    return Trace.build(columns, kernels=kernels, launches=launches, regions=list(regions), units=units)


def times_of(trace):
    return program_times(trace, trace.kernels[0])


UNEVEN = [(0, 0, 0, 0, 100), (0, 1, 1, 0, 300), (1, 0, 0, 1000, 1100), (1, 1, 1, 1000, 1100)]


def test_balance_is_the_mean_of_the_launches_and_the_tail_a_share_of_all_units_time():
    """Launch 0: 100 and 300 ns, so 1.5 times the mean and 200 of 600 idle; launch 1 is even, 0 of 200."""
    assert balance(times_of(programs_of(UNEVEN))) == {"imbalance": 1.25, "tail": 0.25, "units": 2.0}


def test_nothing_is_balanced():
    nothing = times_of(programs_of(UNEVEN)).clear()
    assert balance(nothing) == {"imbalance": 1.0, "tail": 0.0, "units": 0.0}


def test_what_is_uneven_is_said():
    found = [f for f in Programs().read(programs_of(UNEVEN)).findings if "chance" not in f.text]
    assert [f.text for f in found] == [
        "k: the busiest unit works 25 % more than the mean",
        "k: at the end of a launch units stand idle for 25 % of their time",
    ]
    assert all(f.data == {"imbalance": 1.25, "tail": 0.25, "units": 2.0} and f.kernel == 0 for f in found)


@pytest.mark.parametrize(("longer", "said"), [(221, 0), (223, 1)])
def test_a_twentieth_is_where_unevenness_begins(longer, said):
    """200 and 221 ns: 1.0499 times the mean; 223: 1.054. Idle are 21 of 442 and 23 of 446: 4.8 and 5.2 %."""
    found = Programs().read(programs_of([(0, 0, 0, 0, 200), (0, 1, 1, 0, longer)])).findings
    assert len(found) == 2 * said


def test_a_long_tail_is_said_as_it_is():
    """990 of 2000 ns."""
    found = Programs().read(programs_of([(0, 0, 0, 0, 10), (0, 1, 1, 0, 1000)])).findings
    assert found[1].text == "k: at the end of a launch units stand idle for 50 % of their time"


def test_one_unit_cannot_be_uneven():
    assert Programs().read(programs_of([(0, 0, 0, 0, 100), (0, 1, 0, 100, 900)])).findings == []


def test_a_unit_is_busy_once_and_works_for_each_of_its_programs():
    """Core 0: programs at 0-100 and 50-150 and, with twice the weight, 200-400; core 1: 0-175."""
    rows = [(0, 0, 0, 0, 100), (0, 1, 0, 50, 150), (0, 2, 0, 200, 400), (0, 3, 1, 0, 175)]
    trace = programs_of(rows, more={"weight": [1.0, 1.0, 2.0, 1.0]})
    first, second = unit_loads(trace, times_of(trace)).to_dicts()
    assert first == {
        "unit": "core 0",
        "share": 1.0,
        "busy_ns": 350.0,
        "work_ns": 600.0,
        "programs": 4,
        "at_once": 2,
        "mean_ns": 150.0,
        "p95_ns": 200.0,
        "slowest": 2,
    }
    assert (second["unit"], second["share"], second["busy_ns"], second["at_once"]) == (
        "core 1",
        0.5,
        175.0,
        1,
    )
    assert second["slowest"] == 3


def test_units_without_a_name_have_their_number():
    trace = programs_of([(0, 0, 7, 0, 100)])
    assert unit_loads(trace, times_of(trace))["unit"].to_list() == ["unit 7"]


def test_a_program_lasts_from_its_first_start_to_its_last_stop_without_what_was_taken():
    """Two streams of one program on a clock of 2 GHz: 100 to 700 ticks, of which 50 ns were taken."""
    trace = programs_of(
        [(0, 0, 0, 100, 500), (0, 0, 0, 200, 700)],
        hz=2e9,
        more={"stream": [0, 1], "taken_ns": [50.0, 20.0], "weight": [3.0, 2.0]},
    )
    (row,) = times_of(trace).to_dicts()
    assert (row["raw_ns"], row["lasted_ns"], row["taken_ns"], row["weight"]) == (300.0, 250.0, 50.0, 2.0)
    assert (row["start_ns"], row["stop_ns"], row["lane"]) == (0.0, 300.0, 0)


def test_without_a_region_for_the_kernel_all_of_its_intervals_are_the_program():
    stages = (Region(0, "dot", "dot"),)
    trace = programs_of([(0, 0, 0, 0, 100), (0, 0, 0, 150, 400)], regions=stages)
    assert times_of(trace)["lasted_ns"].to_list() == [400.0]


def slow(*lasted):
    """Programs on one core, one after another; a list a launch."""
    rows = []
    for launch, times in enumerate(lasted):
        at = 10_000 * launch
        for program, time in enumerate(times):
            rows.append((launch, program, 0, at, at := at + time))
    return [f for f in Programs().read(programs_of(rows)).findings if "program" in f.text]


def test_slow_is_more_than_twice_the_median_of_three_programs_or_more():
    assert slow([100, 100, 200]) == []
    assert slow([0, 0, 5]) == []
    (found,) = slow([100, 100, 201])
    assert found.text == "k: the slowest program, 2, takes 2.0 times the median"
    assert found.data == {"program": 2, "median_ns": 100.0, "worst_ns": 201.0}
    assert slow([100, 900]) == []


def test_slow_once_is_chance_and_slow_twice_is_not():
    """Program 1 takes 500 ns once. In the other launches it takes 200, twice the median: that is usual."""
    (found,) = slow([100, 500, 100, 100], [100, 200, 100, 100], [100, 200, 100, 100])
    assert found.text == "k: program 1 took 5.0 times the median in one launch and not in others: by chance"
    assert found.data["once"] is True
    (found,) = slow([100, 500, 100, 100], [100, 201, 100, 100], [100, 201, 100, 100])
    assert found.text == "k: the slowest program, 1, takes 5.0 times the median"


# -- kernels ----------------------------------------------------------------------------------------------------


def timed(kernel, durations, *, probed=True, work=0, first=0):
    return [
        Launch(first + n, kernel, (1,), 0.0, d, probed=probed, work=work) for n, d in enumerate(durations)
    ]


def kernels_of(launches, works=()):
    names = sorted({launch.kernel for launch in launches})
    recorded = [launch for launch in launches if launch.probed]
    trace = Trace.build(
        {
            "launch": [launch.id for launch in recorded],
            "region": [launch.kernel for launch in recorded],
            "start": [0] * len(recorded),
            "stop": [50 * (launch.kernel + 1) for launch in recorded],
        },
        kernels=[Kernel(n, f"k{n}", "cpu", Clock(1e9)) for n in names],
        launches=launches,
        regions=[Region(n, f"k{n}", "kernel", None, n) for n in names],
    )
    return kernel_totals(replace(trace, works=list(works))).to_dicts()


def test_a_kernels_total_is_the_mean_launch_times_those_that_ran():
    """k0: 10 of 100 ns and 2 of 700 ns; k1: 4 of 650 ns. k1 is longer, and comes first."""
    launches = [*timed(0, [90.0, 100.0, 110.0]), *timed(0, [700.0], work=1, first=10)]
    launches += timed(1, [640.0, 660.0], work=2, first=20)
    works = [Work(0, 0, ran=10), Work(1, 0, (2,), ran=2), Work(2, 1, ran=4)]
    one, zero = kernels_of(launches, works)
    assert (zero["name"], zero["total_ns"], zero["launches"], zero["recorded"]) == ("k0", 2400.0, 12, 4)
    assert (zero["each_ns"], zero["estimate"]) == (200.0, True)
    assert (one["name"], one["total_ns"], one["share"]) == ("k1", 2600.0, 0.52)
    assert zero["share"] == 0.48


def test_three_launches_without_probes_say_how_long_one_takes():
    with_probes = timed(0, [200.0] * 5)
    (row,) = kernels_of([*with_probes, *timed(0, [100.0] * 3, probed=False, first=10)])
    assert (row["total_ns"], row["each_ns"], row["recorded"], row["estimate"]) == (800.0, 100.0, 5, False)
    (row,) = kernels_of([*with_probes, *timed(0, [100.0] * 2, probed=False, first=10)])
    assert (row["total_ns"], row["each_ns"]) == (1200.0, pytest.approx(1200 / 7))  # then all of them count


def test_where_a_duration_is_missing_the_time_of_programs_counts_for_all():
    """k0 has no durations: then k1's are of no use either."""
    one, zero = kernels_of([*timed(0, [None]), *timed(1, [1000.0, 1000.0], first=5)])
    assert (one["total_ns"], zero["total_ns"]) == (200.0, 50.0)
    assert (one["share"], zero["share"], zero["each_ns"]) == (0.8, 0.2, None)


def test_a_work_that_never_ran_needs_no_duration():
    (row,) = kernels_of(timed(0, [100.0]), [Work(0, 0, ran=1), Work(1, 0, (2,), ran=0)])
    assert (row["total_ns"], row["estimate"]) == (100.0, False)


def test_programs_account_for_no_more_than_all_of_a_launch():
    assert kernels_of(timed(0, [100.0]))[0]["accounted"] == 0.5
    assert kernels_of(timed(0, [40.0]))[0]["accounted"] == 1.0
    assert kernels_of(timed(0, [None]))[0]["accounted"] is None


# -- iterations -------------------------------------------------------------------------------------------------

LOOP = [
    Region(0, "k", "kernel"),
    Region(1, "loop @ 3", "loop", 0, depth=1),
    Region(2, "iteration", "iteration", 1, depth=2),
]


def loop_of(runs, *, measured=True, weight=1.0):
    """`runs` are lists of how long each iteration of a run of the loop lasts."""
    rows = []
    for program, lasted in enumerate(runs):
        at = 0
        for n, time in enumerate(lasted):
            rows.append((program, 2, n, at, at := at + time, weight))
        rows += [(program, 1, -1, 0, at, 1.0)] * measured + [(program, 0, -1, 0, at, 1.0)]
    names = ("program", "region", "iteration", "start", "stop", "weight")
    return Trace.build(
        dict(zip(names, zip(*rows))),
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (len(runs),))],
        regions=LOOP,
    )


def test_a_loop_in_a_row():
    runs = [[150, 100, 100, 80], [170, 100, 120, 80], [160, 100, 110, 200]]
    (row,) = Iterations().read(loop_of(runs)).tables[0].frame.to_dicts()
    assert row == {
        "name": "loop @ 3",
        "iterations": 4,
        "recorded": 4,
        "first_ns": 160.0,
        "steady_ns": 105.0,  # between the medians 160, 100, 110, 80
        "last_ns": 120.0,
        "p95_ns": 200.0,
        "worst": 0,
    }


def test_iterations_stand_for_those_that_were_not_recorded():
    trace = loop_of([[10, 10], [10, 10]], weight=3.4)
    assert trips(trace, LOOP[2]) == pytest.approx(6.8)
    assert Iterations().read(trace).tables[0].frame["iterations"].to_list() == [7]
    unmeasured = loop_of([[10, 10], [10, 10]], measured=False, weight=3.4)
    assert trips(unmeasured, LOOP[2]) is None
    assert Iterations().read(unmeasured).tables[0].frame["iterations"].to_list() == [2]


def test_each_iteration_has_its_own_figures():
    frame = iteration_times(loop_of([[150, 10], [170, 20], [190, 60]]), LOOP[2])
    first, second = frame.to_dicts()
    assert (first["iteration"], first["count"], first["mean_ns"], first["p50_ns"]) == (0, 3, 170.0, 170.0)
    assert (second["iteration"], second["mean_ns"], second["p50_ns"], second["p95_ns"]) == (
        1,
        30.0,
        20.0,
        60.0,
    )


def test_many_iterations_are_put_together_in_at_most_twelve_rows():
    """25 iterations: three in a row, the last one alone. Iteration n takes 100 + n."""
    steps = Iterations().read(loop_of([[100 + n for n in range(25)]])).tables[1].frame
    assert steps["iteration"].to_list()[:2] == ["0-2", "3-5"]
    assert steps["iteration"].to_list()[-1] == "24"
    assert steps.height == 9
    assert steps["mean_ns"].to_list()[:2] == [101.0, 104.0]
    assert steps["p95_ns"][0] == 102.0
    assert steps["count"].to_list() == [3] * 8 + [1]
    assert steps["share"].to_list()[-1] == 1.0
    assert steps["share"][0] == pytest.approx(101 / 124)
    twelve = Iterations().read(loop_of([[100] * 12])).tables[1].frame
    assert twelve["iteration"].to_list() == [str(n) for n in range(12)]


@pytest.mark.parametrize(
    ("lasted", "said"),
    [
        ([149, 100, 100], 0),
        ([150, 100, 100], 1),
        ([150, 100, 100, 100], 1),
        ([900, 100], 0),
        ([149, 90, 110], 0),  # the others are those without the first
        ([150, 90, 110], 1),
        ([0, 0, 0], 0),
        ([5, 0, 0], 0),
    ],
)
def test_a_first_iteration_half_as_long_again_is_a_warm_up(lasted, said):
    found = Iterations().read(loop_of([lasted])).findings
    assert len(found) == said
    if found:
        assert found[0].text == "k, loop @ 3: the first iteration takes 1.5 times as long as the others"
        assert found[0].data == {"first_ns": 150.0, "steady_ns": 100.0}
        assert found[0].kernel == 0


def test_iterations_of_launches_that_had_to_wait_are_left_out():
    """Nine launches, of which the last waited and took ten times as long."""
    rows = [(n, 0, 0, 1000 if n == 8 else 100) for n in range(9)]
    columns = dict(zip(("launch", "iteration", "start", "stop"), zip(*rows))) | {"region": [2] * 9}
    trace = Trace.build(
        columns,
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(n, duration_ns=100.0, preempted_ns=900.0 if n == 8 else 0.0) for n in range(9)],
        regions=LOOP,
    )
    assert iteration_times(trace, LOOP[2])["mean_ns"].to_list() == [100.0]
    trace.frame = trace.intervals.filter(pl.col("launch") > 0)
    trace.launches = trace.launches[1:]
    assert iteration_times(trace, LOOP[2])["mean_ns"].to_list() == [212.5]


def test_each_times_launches_is_the_total():
    """Light and heavy launches with the same arguments: neither the middle one nor the others alone say the total."""
    launches = timed(0, [100.0] * 6 + [10_000.0] * 2)
    (row,) = kernels_of(launches, [Work(0, 0, ran=80)])
    assert row["total_ns"] == pytest.approx(80 * 20_600 / 8)
    assert row["each_ns"] * row["launches"] == pytest.approx(row["total_ns"])
    assert row["low_ns"] < row["total_ns"] < row["high_ns"]


def test_one_launch_that_had_to_wait_does_not_put_its_kernel_first():
    """k0 takes 100 ns, and once somebody else ran for 50,000 ns meanwhile; k1 takes 300 ns."""
    struck = [replace(one, preempted_ns=50_000.0) for one in timed(0, [50_110.0], first=5)]
    calm = [
        replace(one, preempted_ns=0.0)
        for one in (*timed(0, [100.0] * 5), *timed(1, [300.0] * 6, work=1, first=9))
    ]
    one, zero = kernels_of([*calm, *struck], [Work(0, 0, ran=6), Work(1, 1, ran=6)])
    assert (one["name"], zero["name"]) == ("k1", "k0")
    assert zero["total_ns"] == pytest.approx(610.0)


def test_a_total_is_an_estimate_as_soon_as_one_launch_was_not_timed():
    kernel = Kernel(0, "k", "cpu", Clock(1e9))
    for ran, estimate in ((2, False), (3, True)):
        trace = Trace.build(
            {"launch": [0, 1], "region": [0, 0], "start": [0, 0], "stop": [100, 100]},
            kernels=[kernel],
            launches=[Launch(n, duration_ns=100.0, preempted_ns=0.0) for n in range(2)],
            regions=[Region(0, "k", "kernel")],
        )
        trace.works = [Work(0, 0, ran=ran, probed=2)]
        assert kernel_totals(trace)["estimate"].to_list() == [estimate]
