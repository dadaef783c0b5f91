"""What a session makes of launches whose times are known: rates, corrections, short room, interruptions."""

import numpy as np
import polars as pl
import pytest
from planted import GAPS, HZ, Kernel, launch, trace_of, tree

from tileprobe.ir.layout import EPOCH
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.trace import Trace

LASTS = sum(GAPS.values()) - sum(GAPS[slot] for slot in (4, 5, 6, 7))  # ticks of a program without iterations
ITERATION = sum(GAPS[slot] for slot in (4, 5, 6, 7))


# -- the clock and the correction -----------------------------------------------------------------------------


@pytest.mark.parametrize("hz", [1e9, 2e9, 3.1e9])
def test_ticks_become_time_by_the_rate_of_the_clock(hz):
    """A clock rate that is off by any factor moves every time by it."""
    kernel = Kernel(hz=hz)
    trace = trace_of(kernel, [launch(kernel)])
    assert trace.kernels[0].clock.hz == hz
    took = tree(trace)["exp @ 4"]["mean_ns"]
    assert took == pytest.approx(GAPS[6] * 1e9 / hz, rel=1e-6)
    programs = trace.intervals.filter(pl.col("region") == 0)
    last = programs["stop_ns"].max() - programs["start_ns"].min()
    assert last == pytest.approx(trace.launches[0].duration_ns, rel=0.01)


def test_corrected_times_differ_from_raw_ones_as_planted():
    """Each record takes 30 ticks. Launches that write it three times tell, and the session's times are without it."""
    kernel, rng = Kernel(), np.random.default_rng(1)
    once = [launch(kernel, cost=30, noise=rng, programs=16) for _ in range(6)]
    thrice = [launch(kernel, cost=30, dose=3, noise=rng, programs=16) for _ in range(6)]
    trace = trace_of(kernel, once, thrice)
    assert trace.kernels[0].calibration["cost_ticks"] == pytest.approx(30, abs=1)
    truth = (LASTS + 8 * ITERATION) * 1e9 / HZ
    raw = trace.intervals.filter(pl.col("region") == 0).select(
        (pl.col("stop") - pl.col("start")).alias("ticks"),
        (pl.col("stop_ns") - pl.col("start_ns")).alias("ns"),
    )
    # 39 records after the first, and noise of 1.6 ticks in the mean before each
    noise = 39 * 1.6 * 1e9 / HZ
    assert raw["ns"].mean() == pytest.approx(truth + noise, rel=0.002)
    difference = (raw["ticks"] * 1e9 / HZ - raw["ns"]).mean()
    assert difference == pytest.approx(39 * 30 * 1e9 / HZ, rel=0.05)


def test_without_launches_to_learn_from_nothing_is_corrected():
    kernel = Kernel()
    trace = trace_of(kernel, [launch(kernel, cost=30)])
    frame = trace.intervals
    lasted = (frame["stop"] - frame["start"]) * 1e9 / HZ
    assert (frame["stop_ns"] - frame["start_ns"]).to_numpy() == pytest.approx(lasted.to_numpy())


def test_a_heavy_work_is_not_calibrated_with_a_light_one():
    """The dosed launches are of a work with long iterations; against the light one's a record would cost thousands."""
    kernel, rng = Kernel(), np.random.default_rng(2)
    heavy = {**GAPS, 6: 20_000}
    light = [launch(kernel, noise=rng, cost=30, work="light") for _ in range(6)]
    long = [launch(kernel, noise=rng, cost=30, gaps=heavy, work="heavy") for _ in range(6)]
    dosed = [launch(kernel, noise=rng, cost=30, dose=3, gaps=heavy, work="heavy") for _ in range(6)]
    trace = trace_of(kernel, [*long, *light], dosed)
    assert trace.kernels[0].calibration["cost_ticks"] == pytest.approx(30, abs=3)


# -- loops with more iterations than room ---------------------------------------------------------------------


@pytest.mark.parametrize("every", [Every(), Every(4), Every(7, 3), Every(count=8), Every(phase=-8)])
def test_a_loop_of_2000_iterations_with_room_for_256_is_99_percent_in_its_line(every):
    kernel = Kernel(room=256)
    sampling = Sampling(loops={-1: every})
    found = tree(trace_of(kernel, [launch(kernel, 2000, 2, sampling=sampling)]))
    line = found["exp @ 4"]
    assert line["share"] > 0.99
    assert (line["count"], line["estimate"]) == (4000, True)
    assert line["recorded_count"] <= 512
    assert line["total_ns"] == pytest.approx(4000 * GAPS[6] * 1e9 / HZ, rel=0.005)
    assert line["mean_ns"] == pytest.approx(GAPS[6] * 1e9 / HZ, rel=0.005)
    assert found["loop @ 3"]["self_ns"] < 0.01 * found["k"]["total_ns"]
    assert not found["k"]["estimate"]


def test_iterations_that_get_slower_where_nobody_looked_are_not_the_loop_itself():
    kernel = Kernel(room=256)

    def slower(program, slot, iteration):
        return 8000 if slot == 6 and iteration >= 256 else 0

    found = tree(trace_of(kernel, [launch(kernel, 2000, 2, more=slower)]))
    assert found["exp @ 4"]["share"] > 0.99
    assert found["exp @ 4"]["total_ns"] == pytest.approx((2 * 256 * 4000 + 2 * 1744 * 12_000) / 2, rel=0.01)
    assert found["loop @ 3"]["self_ns"] < 0.01 * found["k"]["total_ns"]


def test_programs_left_out_are_stood_for():
    kernel = Kernel()
    sampling = Sampling(programs=Every(4, 2))
    found = tree(trace_of(kernel, [launch(kernel, 8, 32, sampling=sampling)]))
    assert (found["k"]["count"], found["k"]["recorded_count"]) == (32, 8)
    assert found["k"]["total_ns"] == pytest.approx(32 * (LASTS + 8 * ITERATION) * 1e9 / HZ)
    assert found["k"]["recorded"] == pytest.approx(0.25)
    assert found["k"]["estimate"]


def test_two_runs_of_the_same_work_agree_when_sampling_differs():
    """Ten launches of which ten, five or two were recorded, with all programs or a quarter of them."""
    totals = []
    for recorded, every in ((10, Every()), (5, Every(4, 1)), (2, Every(2))):
        kernel = Kernel()
        runs = [
            launch(kernel, work="w", programs=8, sampling=Sampling(programs=every)) for _ in range(recorded)
        ]
        totals.append(tree(trace_of(kernel, runs, ran={"w": 10}))["exp @ 4"])
    assert [row["total_ns"] for row in totals] == pytest.approx([totals[0]["total_ns"]] * 3)
    assert [row["count"] for row in totals] == [640] * 3
    assert [row["recorded"] for row in totals] == pytest.approx([1.0, 0.125, 0.1])


# -- interruptions --------------------------------------------------------------------------------------------

SLICE = 6_000_000  # ticks: 3 ms


def taken_from(program_of, slot_of, iteration_of):
    def more(program, slot, iteration):
        return SLICE if (program, slot, iteration) == (program_of, slot_of, iteration_of) else 0

    return more


def interrupted(waited, launches=6, more=None):
    kernel, rng = Kernel(), np.random.default_rng(3)
    runs = [launch(kernel, noise=rng, waited=0) for _ in range(launches - 1)]
    struck = more or taken_from(2, 6, 5)
    runs.append(launch(kernel, noise=rng, waited=waited, more=struck))
    return trace_of(kernel, runs)


def test_a_program_that_was_interrupted_counts_as_if_it_had_not_been():
    quiet, struck = tree(interrupted(0, more=lambda *_: 0)), tree(interrupted(3_000_000))
    for name in ("k", "loop @ 3", "iteration", "exp @ 4"):
        assert struck[name]["total_ns"] == pytest.approx(quiet[name]["total_ns"], rel=0.01), name
        assert struck[name]["taken_ns"] == pytest.approx(3e6, rel=0.01)
        assert struck[name]["interrupted"] == 1
    assert struck["store @ 6"]["interrupted"] == 0
    assert struck["exp @ 4"]["share"] == pytest.approx(quiet["exp @ 4"]["share"], abs=0.005)


def test_the_timeline_shows_what_happened():
    frame = interrupted(3_000_000).intervals.filter(pl.col("region") == 4)
    assert (frame["stop_ns"] - frame["start_ns"]).max() > 3e6


@pytest.mark.parametrize("waited", [None, 0, 500_000])
def test_what_the_system_did_not_take_stays(waited):
    """A gap that is longer than the launch has waited, or of which nobody knows, may be the program's own."""
    assert tree(interrupted(waited))["exp @ 4"]["interrupted"] == 0


def test_a_program_that_is_slow_every_time_is_slow_by_itself():
    """Program 1 takes 3 ms there in every launch, and the launches waited as long for something else."""
    kernel, rng = Kernel(), np.random.default_rng(4)
    own = taken_from(1, 6, 3)
    runs = [launch(kernel, noise=rng, waited=3_100_000, more=own) for _ in range(6)]
    found = tree(trace_of(kernel, runs))
    assert found["exp @ 4"]["interrupted"] == 0
    assert found["exp @ 4"]["taken_ns"] == 0


def test_interruptions_are_found_when_no_launch_was_left_alone():
    """Every launch has one, each in another program and iteration."""
    kernel, rng = Kernel(), np.random.default_rng(5)
    runs = [
        launch(kernel, noise=rng, programs=8, waited=3_200_000, more=taken_from(n % 8, 6, n % 5))
        for n in range(8)
    ]
    found = tree(trace_of(kernel, runs))
    assert found["exp @ 4"]["interrupted"] == 8
    assert found["exp @ 4"]["mean_ns"] == pytest.approx(2000, rel=0.01)


def test_an_interruption_in_the_part_of_a_loop_that_had_no_room_is_found_between_launches():
    kernel, rng = Kernel(room=16), np.random.default_rng(6)
    runs = [launch(kernel, 100, 4, noise=rng, waited=0) for _ in range(5)]
    runs.append(launch(kernel, 100, 4, noise=rng, waited=3_000_000, more=taken_from(2, 6, 70)))
    found = tree(trace_of(kernel, runs))
    assert found["loop @ 3"]["interrupted"] == 1
    assert found["exp @ 4"]["mean_ns"] == pytest.approx(2000, rel=0.01)


def long_and_short(waited, launches=1, room=16):
    """Two programs whose loops run far beyond the room, among others whose loops do not."""
    kernel, rng = Kernel(room=room), np.random.default_rng(7)
    runs = []
    for n in range(launches):
        parts = [launch(kernel, trips, 1, noise=rng) for trips in (10, 2000, 10, 1000, *[10] * 12)]
        run = parts[0]
        run.words, run.grid = np.concatenate([part.words for part in parts]), (len(parts),)
        for block, part in zip(run.words, parts):  # one launch has one epoch
            block[EPOCH] = run.epoch
            trip = kernel.layout.loops[0].trip_base
            block[trip] = (run.epoch << 32) | (int(block[trip]) & 0xFFFFFFFF)
            run.duration_ns += part.duration_ns if part is not run else 0
        run.waited_ns = waited if n == launches - 1 else 0
        runs.append(run)
    return trace_of(kernel, runs)


@pytest.mark.parametrize("launches", [1, 6])
def test_iterations_without_room_are_not_taken_for_an_interruption(launches):
    """The launch waited as long as the iterations took that had no room; only the trip counts tell them apart."""
    unrecorded_ns = 1984 * ITERATION * 1e9 / HZ
    found = tree(long_and_short(unrecorded_ns, launches))
    assert found["loop @ 3"]["interrupted"] == 0
    assert found["loop @ 3"]["taken_ns"] == 0
    assert found["exp @ 4"]["mean_ns"] == pytest.approx(2000, rel=0.01)


def test_a_strided_loop_is_not_interrupted_between_its_records():
    """Launches of one work stride over a loop differently; a wide stride is no interruption."""
    kernel, rng = Kernel(room=16), np.random.default_rng(8)
    runs = [launch(kernel, 100, 4, noise=rng, waited=0, work="w") for _ in range(5)]
    wide = Sampling(loops={-1: Every(29, 3)})
    runs.append(launch(kernel, 100, 4, noise=rng, waited=29 * 2000 * 4, sampling=wide, work="w"))
    found = tree(trace_of(kernel, runs))
    assert found["iteration"]["interrupted"] == found["loop @ 3"]["interrupted"] == 0


def test_no_more_is_taken_of_an_interval_than_a_correction_leaves_of_it(tmp_path):
    """Records are learnt to cost more than the short gap before them took with one: an interruption there is nearly all
    of the interval, and a trace that says more cannot be read."""
    kernel, rng = Kernel(), np.random.default_rng(3)

    short = {**GAPS, 2: 5}
    many = [launch(kernel, gaps=short, cost=30, noise=rng, waited=0) for _ in range(8)]
    dear = [launch(kernel, gaps=short, cost=600, dose=3, noise=rng) for _ in range(6)]
    struck = lambda program, slot, iteration: SLICE if (program, slot) == (3, 2) else 0
    hit = launch(kernel, gaps=short, cost=30, noise=rng, more=struck, waited=3_000_000)
    trace = trace_of(kernel, [*many, hit], dear)
    assert trace.kernels[0].calibration["cost_ticks"] > 300
    taken = trace.intervals.filter(pl.col("taken_ns") > 0)
    assert taken.height
    assert (taken["taken_ns"] <= taken["stop_ns"] - taken["start_ns"] + 1.0).all()
    trace.save(tmp_path / "trace.parquet")
    assert Trace.load(tmp_path / "trace.parquet").intervals.height == trace.intervals.height
