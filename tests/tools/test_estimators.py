"""Spreads of totals, intervals of shares, overheads: against values worked out by hand or from a textbook's table."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tileprobe.tools.accounting import interrupted
from tileprobe.tools.doubt import doubtful_ns
from tileprobe.tools.figures import NORMAL, Spread, spread_of_total, student, together, weighted_quantile
from tileprobe.tools.overhead import MANY, overhead
from tileprobe.tools.regions import Regions, region_tree
from tileprobe.tools.times import HIDDEN, CostDoubt, cost_doubt, how_sure, region_times
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Work
from tileprobe.trace.in_place import UNSURE

# 97.5 % points of Student's t, as every textbook prints them.
TABLE = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228}
BEYOND = {11: 2.201, 12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042, 60: 2.000, 120: 1.980}


@pytest.mark.parametrize("freedom", [*TABLE, *BEYOND])
def test_students_t_is_the_textbooks(freedom):
    assert student(freedom) == pytest.approx((TABLE | BEYOND)[freedom], abs=3e-3)


def test_students_t_between_whole_degrees_and_below_one():
    assert student(1.5) == pytest.approx((12.706 + 4.303) / 2)
    assert student(9.25) == pytest.approx(2.262 + 0.25 * (2.228 - 2.262))
    assert student(0.999) == student(math.nan) == math.inf
    assert student(1e9) == pytest.approx(1.959964, abs=1e-6)


def test_the_spread_of_a_total_is_that_of_its_samples():
    """2, 4, 6 have a variance of 4: three of them 12."""
    spread = spread_of_total(np.array([[2.0, 4.0, 6.0], [5.0, 5.0, 5.0]]))
    assert spread.variance.tolist() == [12.0, 0.0]
    assert spread.freedom.tolist() == [2.0, 2.0]
    assert spread.half_width() == pytest.approx([4.303 * math.sqrt(12), 0.0])
    one = spread_of_total(np.array([[1.0], [2.0]]))
    assert one.variance.tolist() == [math.inf] * 2
    assert one.freedom.tolist() == [0.0] * 2
    assert one.half_width().tolist() == [math.inf] * 2


def test_degrees_of_freedom_of_a_sum_are_those_of_welch_and_satterthwaite():
    """Variances 4 (2 degrees) and 9 (6 degrees): 13^2 / (16 / 2 + 81 / 6) = 7.86."""
    whole = together([Spread(np.array([4.0]), np.array([2.0])), Spread(np.array([9.0]), np.array([6.0]))])
    assert whole.variance.tolist() == [13.0]
    assert whole.freedom == pytest.approx([169 / 21.5])
    unknown = Spread(np.array([math.inf]), np.array([0.0]))
    lost = together([whole, unknown])
    assert (lost.variance.tolist(), lost.freedom.tolist()) == ([math.inf], [0.0])
    nothing = together([Spread(np.array([0.0]), np.array([3.0]))])
    assert (nothing.half_width().tolist(), nothing.freedom.tolist()) == ([0.0], [1.0])


def test_a_weighted_quantile_at_the_border_is_the_lower_value():
    frame = pl.DataFrame({"v": [3.0, 1.0, 2.0], "w": [0.1, 0.7, 0.2]})
    at = lambda share: frame.select(weighted_quantile("v", "w", share)).item()
    assert [at(0.7), at(0.71), at(0.9), at(0.91), at(1.0)] == [1.0, 2.0, 2.0, 3.0, 3.0]


# -- intervals of a kernel's regions ------------------------------------------------------------------------------

REGIONS = [Region(0, "k", "kernel"), Region(1, "dot", "dot", 0, depth=1)]


def made(times, *, works=None, ran=None, hz=1e9, calibration=None):
    """`times` are (kernel, dot) of each launch."""
    rows = []
    for n, (whole, dot) in enumerate(times):
        rows += [(n, 0, 0, whole), (n, 1, 0, dot)]
    trace = Trace.build(
        dict(zip(("launch", "region", "start", "stop"), zip(*rows))),
        kernels=[Kernel(0, "k", "cpu", Clock(hz), calibration=calibration or {})],
        launches=[Launch(n, work=(works or {}).get(n, 0)) for n in range(len(times))],
        regions=REGIONS,
    )
    return replace(trace, works=[Work(n, 0, ran=count) for n, count in (ran or {}).items()])


def test_the_interval_of_a_total_and_of_a_share():
    """Three launches of a work that ran six times. The dot's share of 600 is a half; what is off is 50, 0, -50."""
    trace = made([(100, 100), (200, 100), (300, 100)], ran={0: 6})
    whole, dot = region_tree(trace, trace.kernels[0]).to_dicts()
    assert (whole["total_ns"], dot["total_ns"], dot["share"]) == (1200.0, 600.0, 0.5)
    off = 4.303 * 2 * math.sqrt(3 * 100**2)
    assert whole["high_ns"] - 1200 == pytest.approx(off)
    assert whole["low_ns"] == 0.0  # not below nothing
    assert (dot["low_ns"], dot["high_ns"]) == (600.0, 600.0)
    assert dot["share_error"] == pytest.approx(4.303 * 2 * math.sqrt(3 * 50**2) / 1200)
    assert whole["share_error"] == 0.0
    assert dot["basis"] == "launches"


def test_works_add_up_in_an_interval():
    """Two works of three launches each: variances add, and so do their degrees of freedom where they are equal."""
    times = [(100, 10), (110, 10), (120, 10), (500, 10), (510, 10), (520, 10)]
    trace = made(times, works={n: n // 3 for n in range(6)}, ran={0: 3, 1: 3})
    whole = region_tree(trace, trace.kernels[0]).row(0, named=True)
    assert whole["high_ns"] - whole["total_ns"] == pytest.approx(2.776 * math.sqrt(2 * 3 * 100))


def test_a_work_that_was_recorded_once_makes_programs_the_basis():
    trace = made([(100, 10), (100, 10), (900, 10)], works={2: 1}, ran={0: 2, 1: 1})
    sure = how_sure(trace, trace.kernels[0], region_times(trace), [(0, 0), (0, 1)], [True, False])
    assert sure.basis == ""
    assert np.isinf(sure.total_ns).all()
    nobody = how_sure(trace, trace.kernels[0], region_times(trace), [], [])
    assert (len(nobody.total_ns), nobody.basis) == (0, "")


def taking_out(trace, ns):
    """The intervals without so many nanoseconds of records."""
    return trace.intervals.with_columns(stop_ns=pl.col("stop_ns") - ns, probes_ns=ns.cast(pl.Float32))


def test_the_doubt_about_a_records_cost_is_one_for_all_launches():
    """On 2 GHz the dot's raw 400 ticks are 200 ns; replay left 150. The cost is known to a quarter of itself."""
    known = {"cost_ticks": 40.0, "error_ticks": 10.0, "doses": [1, 3]}
    trace = made([(1000, 400)] * 4, hz=2e9, calibration=known)
    trace.frame = taking_out(trace, 50.0 * (pl.col("region") == 1))
    dot = region_tree(trace, trace.kernels[0]).row(1, named=True)
    assert dot["high_ns"] - dot["total_ns"] == pytest.approx(NORMAL * 0.25 * 4 * 50)
    assert dot["share_error"] == pytest.approx(
        NORMAL * 0.25 * 4 * 50 / 2000
    )  # nothing was taken out of the whole
    coarse = {"cost_ticks": 0.5, "error_ticks": 0.125}  # a clock of 100 MHz ticks less than once a record
    for change, doubt in (
        ({"error_ticks": 90.0}, 1.0),
        (coarse, 0.25),
        ({"doses": []}, 0.0),
        ({"cost_ticks": 0.0}, 0.0),
    ):
        trace.kernels[0] = replace(trace.kernels[0], calibration=known | change)
        dot = region_tree(trace, trace.kernels[0]).row(1, named=True)
        assert dot["high_ns"] - dot["total_ns"] == pytest.approx(NORMAL * doubt * 4 * 50)


def test_what_a_core_hides_of_a_record_is_the_same_in_the_next_run():
    """The cost is known exactly: what is in doubt of it is what a core may hide, which another run would not have
    otherwise."""
    known = {"cost_ticks": 40.0, "error_ticks": 0.0, "doses": [1, 3]}
    trace = made([(1000, 400)] * 4, calibration=known)
    trace.frame = taking_out(trace, 50.0 * (pl.col("region") == 1))
    dot = region_tree(trace, trace.kernels[0]).row(1, named=True)
    assert dot["share_error"] == pytest.approx(HIDDEN * 4 * 50 / 4000)
    assert dot["share_noise"] == pytest.approx(0.0, abs=1e-6)
    trace.kernels[0] = replace(trace.kernels[0], calibration=known | {"error_ticks": 10.0})
    dot = region_tree(trace, trace.kernels[0]).row(1, named=True)
    assert dot["share_noise"] == pytest.approx(NORMAL * 0.25 * 4 * 50 / 4000)


def test_how_records_share_their_cost_is_in_doubt_and_not_what_all_of_them_cost():
    """100 ns of records by dose in the whole, 50 of them in the dot; in place they cost 10 of it, known to 1 %. What
    the code around them takes is known to 2 % of all times."""
    known = {"cost_ticks": 4.0, "error_ticks": 0.4, "dose_ticks": 40.0, "noise_ticks": 0.2, "doses": [1, 3]}
    trace = made([(1000, 400)] * 4, calibration=known | {"code_error": 0.02})
    trace.frame = taking_out(trace, pl.when(pl.col("region") == 1).then(50.0).otherwise(100.0))
    whole, dot = region_tree(trace, trace.kernels[0]).to_dicts()
    alike = [NORMAL * math.hypot(0.01 * 4 * cost, 0.02 * total) for cost, total in ((100, 3600), (50, 1400))]
    split = NORMAL * UNSURE * 4 * 50 * math.sqrt(0.5)
    assert whole["high_ns"] - whole["total_ns"] == pytest.approx(alike[0])
    assert dot["high_ns"] - dot["total_ns"] == pytest.approx(math.hypot(alike[1], split))
    moved = 4 * (50 - 100 * 1400 / 3600)
    assert dot["share_error"] == pytest.approx(math.hypot(NORMAL * 0.01 * moved, split) / 3600)
    assert dot["share_noise"] == pytest.approx(NORMAL * 0.005 * moved / 3600)


def test_a_doubt_that_is_everywhere_as_large_moves_no_share():
    """Replay took a fifth out of the whole and of the dot."""
    known = {"cost_ticks": 40.0, "error_ticks": 10.0, "doses": [1, 3]}
    trace = made([(1000, 400)] * 4, calibration=known)
    trace.frame = taking_out(trace, (pl.col("stop_ns") - pl.col("start_ns")) * 0.2)
    whole, dot = region_tree(trace, trace.kernels[0]).to_dicts()
    assert dot["high_ns"] - dot["total_ns"] == pytest.approx(NORMAL * 0.25 * 4 * 80)
    assert (whole["share_error"], dot["share_error"]) == (pytest.approx(0.0), pytest.approx(0.0))


@pytest.mark.parametrize("few", [7, 9])
def test_the_quickest_launches_are_held_against_all_of_their_work(few):
    """Light launches, of which a half is the dot, and heavy ones, of which it is nearly all; however many of either
    were recorded, the quickest of each have the shares that all have."""
    times = [(100, 50)] * 8 + [(10_000, 9_900)] * few
    trace = made(times, works={n: int(n >= 8) for n in range(8 + few)}, ran={0: 8, 1: few})
    assert interrupted(trace, trace.kernels[0]).drift_points == pytest.approx(0.0)


@pytest.mark.parametrize(("alone", "off"), [(2, 300.0), (3, 200.0)])
def test_three_launches_that_did_not_wait_say_what_another_may_have_lost(alone, off):
    """A launch of 1,200 ns waited for 300 of them, unrecognised. It was no more than 200 longer than three others; two
    are too few to say so."""
    trace = made([(1000, 10)] * alone + [(1200, 10)])
    trace.launches[-1] = replace(trace.launches[-1], preempted_ns=300.0)
    assert doubtful_ns(trace, trace.kernels[0], region_times(trace)) == pytest.approx(off)
    trace.regions = [
        replace(trace.regions[0], kind="hardware"),
        *trace.regions[1:],
    ]  # whatever its root is called
    assert doubtful_ns(trace, trace.kernels[0], region_times(trace)) == pytest.approx(off)


def test_what_was_taken_is_no_correction():
    known = {"cost_ticks": 40.0, "error_ticks": 10.0, "doses": [1, 3]}
    trace = made([(1000, 400)] * 4, calibration=known)
    trace.frame = trace.intervals.with_columns(pl.lit(100.0, pl.Float32).alias("taken_ns"))
    dot = region_tree(trace, trace.kernels[0]).row(1, named=True)
    assert (dot["total_ns"], dot["taken_ns"], dot["interrupted"]) == (1200.0, 400.0, 4)
    assert dot["high_ns"] == pytest.approx(1200.0)


def test_weights_and_fits_multiply_into_totals():
    """Two launches of a work that ran four times; a dot stands for three, whose time is half as long again."""
    trace = made([(1000, 100), (1000, 300)], ran={0: 4})
    dot = pl.col("region") == 1
    trace.frame = trace.intervals.with_columns(
        pl.when(dot).then(3.0).otherwise(1.0).cast(pl.Float32).alias("weight"),
        pl.when(dot).then(1.5).otherwise(1.0).cast(pl.Float32).alias("fit"),
    )
    row = region_tree(trace, trace.kernels[0]).row(1, named=True)
    assert (row["total_ns"], row["count"], row["recorded_ns"], row["recorded_count"]) == (
        3600.0,
        12,
        400.0,
        2,
    )
    assert (row["mean_ns"], row["p50_ns"], row["p95_ns"], row["estimate"]) == (300.0, 100.0, 300.0, True)
    assert row["recorded"] == pytest.approx(400 / 3600)
    kernel = region_tree(trace, trace.kernels[0]).row(0, named=True)
    assert (kernel["self_ns"], kernel["estimate"], kernel["recorded"]) == (400.0, False, 0.5)


def test_what_is_scaled_up_does_not_outgrow_what_it_lies_in():
    """The loop is measured, 100 ns; one iteration of 11 ns that stands for ten would be 110."""
    rows = {
        "launch": [0, 0],
        "program": [0, 0],
        "region": [0, 1],
        "start": [0, 0],
        "stop": [100, 11],
        "weight": [1.0, 10.0],
    }
    trace = Trace.build(
        rows,
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0)],
        regions=[Region(0, "loop", "loop"), Region(1, "iteration", "iteration", 0, depth=1)],
    )
    tree = region_tree(trace, trace.kernels[0])
    assert tree["total_ns"].to_list() == [100.0, 100.0]
    assert tree["self_ns"].to_list() == [0.0, 100.0]


def test_kernels_that_did_not_run_have_no_table():
    trace = made([(100, 10)])
    trace.kernels.append(Kernel(1, "other", "cpu", Clock(1e9)))
    result = Regions().read(trace)
    assert [table.title for table in result.tables] == ["k"]
    assert result.tables[0].kernel == 0


# -- overhead -----------------------------------------------------------------------------------------------------


def cost_of(plain, probed, counts=None, **kernel):
    launches = [Launch(n, duration_ns=d, probed=n >= len(plain)) for n, d in enumerate([*plain, *probed])]
    trace = replace(made([(1000, 10)], **kernel), launches=launches)
    if counts:
        trace.kernels[0] = replace(trace.kernels[0], clock=Clock(1e9, counts))
    return overhead(trace, trace.kernels[0])


def test_three_of_each_sort_are_needed():
    found = cost_of([100.0] * 3, [101.0] * 2)
    assert found.why == "3 launches of a work with and without probes are needed, not 2"
    assert (found.percent, found.low, found.high, found.measurable) == (None, None, None, False)
    found = cost_of([100.0] * 3, [101.0] * 3)
    assert (found.percent, found.measurable, found.why) == (pytest.approx(1.0), True, "")
    assert cost_of([], [100.0]).why.endswith("not 0")


def test_an_interval_of_one_point_either_way_is_fine():
    """Between -1 and 1 percent is an answer; between -3 and 3 is none."""
    near = cost_of([1000.0, 1005.0, 1010.0] * 4, [1000.0, 1005.0, 1010.0] * 4)
    assert near.percent == pytest.approx(0.0)
    assert near.measurable
    assert near.low is not None
    assert near.high is not None
    assert near.low < 0 < near.high
    wide = cost_of([1000.0, 1050.0, 1100.0] * 4, [1000.0, 1050.0, 1100.0] * 4)
    assert not wide.measurable
    assert wide.why == "launches of the same work differ by more than the probes cost"


def test_of_counted_instructions_one_launch_of_each_sort_is_needed():
    """A simulator counts the same every time."""
    assert cost_of([100.0], [104.0], counts="instructions").percent == pytest.approx(4.0)
    without = cost_of([], [100.0], counts="instructions")
    assert (without.percent, without.measurable) == (None, False)
    assert without.why == "1 launches of a work with and without probes are needed, not 0"


def test_only_the_latest_launches_count():
    """Before the last 200 of each sort the machine was three times slower."""
    old, new = [3000.0] * 150, [1000.0] * MANY
    found = cost_of([*old, *new], [*([9000.0] * 150), *([1020.0] * MANY)])
    assert found.percent == pytest.approx(2.0)


def test_the_estimate_is_the_records_cost_in_all_programs_time():
    """40 records of 24 ticks at 2 GHz, 12 ns, in 500 ns: 96 percent, known to a twelfth of it."""
    known = {"cost_ticks": 24.0, "error_ticks": 2.0}
    trace = made([(1000, 10)], hz=2e9, calibration=known)
    trace.launches[0] = replace(trace.launches[0], losses=Losses(40, 7, 9))
    found = overhead(trace, trace.kernels[0])
    assert (found.record_cost_ns, found.estimated_percent) == (12.0, pytest.approx(96.0))
    assert found.estimated_error == pytest.approx(NORMAL / 12 * 96)
    trace.kernels[0] = replace(trace.kernels[0], calibration={"cost_ticks": 24.0, "error_ticks": 99.0})
    assert overhead(trace, trace.kernels[0]).estimated_error == pytest.approx(NORMAL * 96)
    trace.kernels[0] = replace(trace.kernels[0], calibration={"cost_ticks": 24.0})
    assert overhead(trace, trace.kernels[0]).estimated_error == 0.0
    trace.kernels[0] = replace(trace.kernels[0], calibration={})
    unknown = overhead(trace, trace.kernels[0])
    assert (unknown.record_cost_ns, unknown.estimated_percent, unknown.estimated_error) == (None, None, None)


def test_another_kernels_programs_are_no_part_of_the_estimate():
    trace = made([(1000, 10)], calibration={"cost_ticks": 10.0})
    trace.kernels.append(Kernel(1, "other", "cpu", Clock(1e9)))
    trace.launches = [replace(trace.launches[0], losses=Losses(5)), Launch(1, 1, losses=Losses(500))]
    assert overhead(trace, trace.kernels[0]).estimated_percent == pytest.approx(5.0)
    assert overhead(trace, trace.kernels[1]).estimated_percent is None


def test_the_interval_of_an_overhead_is_stretched_for_few_launches():
    """Of four launches one took 900: drawn again, the median is 900 in 5 % of the cases, 12.2 % below the others."""
    found = cost_of([900.0, 1000.0, 1000.0, 1000.0], [1010.0] * 4)
    assert found.percent == pytest.approx(1.0)
    assert found.high == pytest.approx(1 + 3.182 / NORMAL * (100 * (1010 / 900 - 1) - 1))
    assert found.low == pytest.approx(1.0)


@pytest.mark.parametrize("odd", [0, 6])
def test_one_launch_of_seven_is_drawn_too_seldom_to_count(odd):
    """Four of seven would have to be the odd one: 1 % of the cases, and the interval is of 95."""
    plain = [1000.0] * 7
    plain[odd] = 900.0
    found = cost_of(plain, [1010.0] * 7)
    assert (found.low, found.high) == (pytest.approx(1.0), pytest.approx(1.0))


def test_one_launch_has_its_programs_as_samples():
    """Three programs of 10, 20 and 30 ns, the second without the branch: 10, 0 and 30 ns of it."""
    rows = [(0, 0, 100), (1, 0, 200), (2, 0, 300), (0, 1, 10), (2, 1, 30)]
    columns = dict(zip(("program", "region", "stop"), zip(*rows))) | {"start": [0] * len(rows)}
    kernels = [Kernel(0, "k", "cpu", Clock(1e9))]
    trace = Trace.build(columns, kernels=kernels, launches=[Launch(0, 0, (3,))], regions=REGIONS)
    whole, dot = region_tree(trace, trace.kernels[0]).to_dicts()
    assert whole["high_ns"] - 600 == pytest.approx(4.303 * math.sqrt(3 * 100**2))
    assert dot["high_ns"] - 40 == pytest.approx(4.303 * math.sqrt(3 * np.var([10, 0, 30], ddof=1)))
    assert dot["basis"] == "programs"


def test_one_work_that_was_recorded_once_makes_programs_the_basis_of_all():
    """Two launches of a work and one of another, each of two programs."""
    rows = [(launch, program, 100 + 7 * launch + program) for launch in range(3) for program in range(2)]
    columns = dict(zip(("launch", "program", "stop"), zip(*rows))) | {"start": [0] * 6, "region": [0] * 6}
    launches = [Launch(n, 0, (2,), work=int(n == 2)) for n in range(3)]
    trace = Trace.build(
        columns, kernels=[Kernel(0, "k", "cpu", Clock(1e9))], launches=launches, regions=REGIONS
    )
    trace = replace(trace, works=[Work(0, 0, ran=2), Work(1, 0, ran=1)])
    assert region_tree(trace, trace.kernels[0])["basis"].to_list() == ["programs"]


def test_no_share_is_off_by_more_than_all():
    """Two launches in which the dot took everything and next to nothing."""
    trace = made([(100, 100), (1000, 1)])
    assert region_tree(trace, trace.kernels[0]).row(1, named=True)["share_error"] == 1.0


def test_what_is_in_doubt_of_the_cost_of_records():
    """Where nobody knows how the places of records differ, nothing of it is learnt anew by each run."""
    known = {"cost_ticks": 10.0, "error_ticks": 2.0, "doses": [1, 3], "dose_ticks": 20.0}
    for noise, learnt in ((None, 0.0), (4.0, NORMAL * 0.2)):
        more = {} if noise is None else {"noise_ticks": noise, "code_error": 0.01}
        found = cost_doubt(Kernel(0, "k", "cpu", Clock(1e9), calibration=known | more))
        assert (found.all_alike, found.learnt) == (pytest.approx(NORMAL * 0.1), pytest.approx(learnt))
        assert found.code == (NORMAL * 0.01 if more else 0.0)
    assert cost_doubt(Kernel(0, "k", "cpu", Clock(1e9))) == CostDoubt(0.0, 0.0, 0.0, 0.0)
