"""Replay on a made-up machine whose records have known costs: it finds them, and takes them out again."""

import numpy as np
import pytest

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import EPOCH, Body, Span, Stamp, allocate
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace
from tileprobe.trace.decode import decode, read_rows
from tileprobe.trace.replay import Calibration, Standstill, _random_effects, _steps, _summed, calibrate

ROUNDS = 40
LAYOUT = allocate(
    [Stamp(0), Body(0, ROUNDS, (Stamp(1), Stamp(2), Stamp(3))), Stamp(4)],
    spans=[Span(0, 0, 4), Span(1, 1, 2), Span(2, 2, 3)],
)
TRUE = {1: 500.0, 2: 80.0, 3: 3000.0, 4: 50.0}  # ticks of work before each slot


def run(costs, dose, noise=0.0, programs=30, seed=0):
    """The buffer of a launch on a machine where a record at a slot takes `costs[slot]` ticks."""
    rng = np.random.default_rng(seed + dose)
    words = np.zeros((programs, LAYOUT.block_words), np.uint64)
    words[:, EPOCH] = 1
    words[:, LAYOUT.loops[0].trip_base] = (1 << 32) | ROUNDS
    order = [0, *[1, 2, 3] * ROUNDS, 4]
    for program in range(programs):
        clock = 10_000.0
        for n, slot in enumerate(order):
            if n:
                clock += TRUE[slot] + dose * costs[slot] + abs(rng.normal(0, noise))
            if n and rng.random() < noise / 1000:
                clock += 50_000  # an interrupt
            place = LAYOUT.slots[slot]
            words[program, place.place([(n - 1) // 3] if place.loops else [])] = round(clock)
    return words


def rows(words):
    return read_rows(words, LAYOUT, epochs=[1], programs=len(words))[0]


def test_finds_a_uniform_cost():
    costs = dict.fromkeys(range(5), 30)
    found = calibrate({dose: rows(run(costs, dose)) for dose in (1, 2, 3)})
    assert found.cost_ticks == pytest.approx(30, abs=0.6)
    assert found.doses == (1, 2, 3)


def test_finds_where_a_cost_is_hidden():
    costs = {0: 30, 1: 30, 2: 30, 3: 0, 4: 30}  # behind long work a record is free
    found = calibrate({dose: rows(run(costs, dose, noise=3.0)) for dose in (1, 2, 3)})
    assert found.slots[1] == pytest.approx(30, abs=2)
    assert found.slots[3] == pytest.approx(0, abs=2)


def test_corrected_times_are_those_without_probes():
    costs = {0: 30, 1: 30, 2: 20, 3: 5, 4: 30}
    found = calibrate({dose: rows(run(costs, dose)) for dose in (1, 2, 3)})
    words = run(costs, 1)
    columns = decode(words, LAYOUT, epochs=[1], programs=len(words), calibration=found).columns
    raw = columns["stop"] - columns["start"]
    corrected = columns["stop_corrected"] - columns["start_corrected"]
    whole = columns["region"] == 0
    truth = ROUNDS * (TRUE[1] + TRUE[2] + TRUE[3]) + TRUE[4]
    assert raw[whole].mean() > truth * 1.01
    assert corrected[whole].mean() == pytest.approx(truth, rel=1e-3)
    assert corrected[columns["region"] == 1].mean() == pytest.approx(TRUE[2], rel=0.02)
    assert corrected[columns["region"] == 2].mean() == pytest.approx(TRUE[3], rel=0.001)


def test_a_machine_that_is_never_equally_fast_twice():
    """Launches differ by several percent, which behind 3,000 ticks of work is more than any record costs."""
    rng = np.random.default_rng(3)
    costs = dict.fromkeys(range(5), 30)
    doses = {}
    for dose in (1, 2, 3):
        launches = [run(costs, dose, noise=3.0, seed=10 * n) for n in range(4)]
        for words in launches:
            clock = words[:, LAYOUT.clock_words()].astype(float)
            scaled = (clock - clock[:, :1]) * rng.normal(1.0, 0.05) + clock[:, :1]
            words[:, LAYOUT.clock_words()] = scaled.round().astype(np.uint64)
        stacked = np.stack(launches)
        doses[dose] = read_rows(stacked, LAYOUT, epochs=[1] * 4, programs=30)[0]
    found = calibrate(doses)
    assert found.cost_ticks == pytest.approx(30, abs=10)
    assert found.slots[3] < 60
    assert found.error_ticks > 1


def test_interrupts_do_not_become_costs():
    costs = dict.fromkeys(range(5), 30)
    found = calibrate({dose: rows(run(costs, dose, noise=20.0)) for dose in (1, 2, 3)})
    assert found.cost_ticks == pytest.approx(30, abs=4)


def test_waits_are_not_corrected():
    layout = allocate([Stamp(0), Stamp(1), Stamp(2)], spans=[Span(0, 1, 2, "wait"), Span(1, 0, 1)])
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, EPOCH], words[0, 8:11] = 1, (100, 200, 300)
    columns = decode(words, layout, epochs=[1], programs=1, calibration=Calibration(cost_ticks=10)).columns
    length = columns["stop_corrected"] - columns["start_corrected"]
    assert length[columns["kind"] == 2].tolist() == [100]
    assert length[columns["kind"] == 0].tolist() == [90]


def test_trace_keeps_raw_and_corrected():
    layout = allocate([Stamp(0), Stamp(1)], spans=[Span(0, 0, 1)])
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, EPOCH], words[0, 8:10] = 1, (1000, 2000)
    calibration = Calibration(cost_ticks=100)
    decoded = decode(words, layout, epochs=[1], programs=1, calibration=calibration)
    kernel = Kernel(0, "k", "cpu", Clock(2e9), calibration=calibration.to_json())
    trace = Trace.build(decoded.columns, kernels=[kernel], launches=[Launch(0)], regions=[Region(0, "k")])
    row = trace.intervals.row(0, named=True)
    assert (row["start"], row["stop"], row["stop_ns"], row["value"]) == (1000, 2000, 450.0, None)
    assert decoded.columns["probes"].tolist() == [100.0]


def test_one_dose_is_refused():
    with pytest.raises(TileProbeError, match="two doses"):
        calibrate({1: rows(run(dict.fromkeys(range(5), 30), 1, programs=1))})


def test_what_records_add_up_to_begins_anew_in_each_row():
    sums, row = np.array([1.0, 3.0, 2.0, 5.0]), np.array([0, 0, 1, 1])
    assert _steps(sums, row).tolist() == [1.0, 2.0, 2.0, 3.0]
    assert len(_steps(np.zeros(0), np.zeros(0, int))) == 0


def test_standstills_one_behind_the_other_each_fall_back_to_their_issue():
    """Records of 1 tick each. In row 0 the wait at word 3 fell back to word 0, that at word 4 to word 1; in row 1 the
    one at word 3 to word 2. What comes behind them goes on from there."""
    waits = [Standstill(3, np.array([0]), np.array([0])), Standstill(3, np.array([1]), np.array([2]))]
    waits.append(Standstill(4, np.array([0]), np.array([1])))
    found = _summed(np.ones((3, 6)), waits)
    assert found.tolist() == [[1, 2, 3, 1, 2, 3], [1, 2, 3, 3, 4, 5], [1, 2, 3, 4, 5, 6]]


def test_slots_that_truly_differ_are_told_from_noise_however_large_it_is():
    """Three slopes of 20 ticks apart, each known to 2: what they differ by is theirs. DerSimonian and Laird by hand."""
    slopes, variances = np.array([0.0, 20.0, 40.0]), np.full(3, 4.0)
    mean, error, spread = _random_effects(slopes, variances)
    assert (mean, spread) == (pytest.approx(20.0), pytest.approx((200.0 - 2.0) / 0.5))
    assert error == pytest.approx(((4.0 + 396.0) / 3) ** 0.5)


def test_a_single_slot_has_its_own_slope_and_error():
    assert _random_effects(np.array([5.0]), np.array([0.25])) == (5.0, 0.5, 0.0)
