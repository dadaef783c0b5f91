"""Records as they come seldom: copies of later loops, nests that differ between programs, halves of pairs."""

from types import SimpleNamespace

import numpy as np
import pytest
from record_blocks import Block, intervals

from tileprobe.ir.layout import EPOCH, PUSHED, Body, Span, Stamp, allocate
from tileprobe.ir.regions import Region
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.trace import cursor_weights
from tileprobe.trace.cursor_weights import Runs, _fit
from tileprobe.trace.decode import decode, read_rows
from tileprobe.trace.model import KINDS
from tileprobe.trace.replay import Calibration


def test_copies_peeled_off_the_second_loop_meet_its_waits():
    spans = [Span(0, 1, 2, "async", 0, 1, 0), Span(0, 3, 2, "async", 1, -1, 0)]
    layout = allocate(
        [Body(0, 2, (Stamp(0),)), Stamp(1), Body(1, 4, (Stamp(2), Stamp(3)))],
        spans=spans,
    )
    block = Block(layout).open(0).trip(0, 2).put(0, 5, 0).put(0, 6, 1).put(1, 10).trip(1, 2)
    for i in range(2):
        block.put(2, 100 * (i + 1), i).put(3, 100 * (i + 1) + 50, i)
    assert intervals(block.decode(), "async") == [(0, 10, 100), (1, 150, 200)]


def test_a_pair_of_peeled_copies_stands_for_the_iterations_around_it():
    """Four iterations of the outer loop, two of them recorded: each stands for two, also where the inner loop ran
    once and its copies before and behind it meet."""
    span = Span(0, 0, 2, "async", 0, 0, -1, 0)
    layout = allocate([Body(1, 2, (Stamp(0), Body(0, 4, (Stamp(1),)), Stamp(2)))], spans=[span])
    block = Block(layout).open(0).trip(1, 4)
    for i in range(2):
        block.trip(0, 1, i).put(0, 100 * i + 10, i).put(1, 100 * i + 20, i, 0).put(2, 100 * i + 30, i)
    assert intervals(block.decode(), "async", "weight") == [(0, 10, 30, 2.0), (0, 110, 130, 2.0)]


def test_a_trip_count_of_a_later_launch_is_not_taken_for_this_one():
    layout = allocate([Body(0, 4, (Stamp(0),))])
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, EPOCH] = 3
    for epoch, trips in ((2, 0), (3, 7), (4, 0)):
        words[0, layout.loops[0].trip_base] = (epoch << 32) | 7
        rows = read_rows(words, layout, epochs=[3], programs=1)[0][0]
        assert rows.trips(0).tolist() == [trips]


def test_the_last_iterations_of_nests_have_numbers_of_their_own():
    """Of three loops the middle one keeps its last iteration, which is another one from run to run."""
    nest = Body(0, 4, (Body(1, 1, (Body(2, 2, (Stamp(0), Stamp(1))),)),))
    layout = allocate([nest], spans=[Span(0, 0, 1)])
    block = Block(layout).open(0).trip(0, 2)
    for i, trips in enumerate((10, 9)):
        block.trip(1, trips, i).trip(2, 1, i, 0).put(0, 100 * i + 1, i, 0, 0).put(1, 100 * i + 5, i, 0, 0)
    found = block.decode(sampling=Sampling(loops={1: Every(phase=-1)}))
    outer = [row[3] for row in intervals(found, None, "outer")]
    assert outer == [9, 11 + 8]


def test_inner_loops_count_by_what_the_outer_ones_stand_for():
    """Program 0 runs the inner loop twice with 8 iterations; program 1 four times with 3, of which two runs are
    placed and no iteration is chosen: 16 of 16 + 4 * 3 iterations lie in runs that have records."""
    layout = allocate([Body(0, 2, (Body(1, 2, (Stamp(0), Stamp(1))),))], spans=[Span(0, 0, 1)])
    first, second = Block(layout).open(0).trip(0, 2), Block(layout).open(0).trip(0, 4)
    for i in range(2):
        first.trip(1, 8, i)
        second.trip(1, 3, i)
        for n in range(2):
            clock = 1000 * i + 100 * n
            first.put(0, clock + 10, i, n).put(1, clock + 20, i, n)
    words = np.stack([first.words, second.words])
    found = decode(words, layout, epochs=[1], programs=2, sampling=Sampling(loops={1: Every(4, 3)}))
    assert found.columns["weight"].tolist() == pytest.approx([8 / 2 * 28 / 16] * 4)


# -- the cursor -----------------------------------------------------------------------------------------------


def pushed_words(layout, records):
    words = np.zeros(layout.block_words, np.uint64)
    words[EPOCH], words[PUSHED], base = 1, len(records), layout.streams[0].cursor_base
    for n, (slot, iteration, clock) in enumerate(records):
        words[base + 2 * n : base + 2 * n + 2] = slot | iteration << 32, clock
    return words


def loop_of(*slots, spans):
    return allocate(
        [Body(0, 4, tuple(map(Stamp, slots)), counted=False)], spans=list(spans), cursor_capacity=20
    )


def test_a_start_in_one_program_does_not_meet_a_stop_in_the_next():
    layout = loop_of(0, 1, spans=[Span(0, 0, 1)])
    words = np.stack([pushed_words(layout, [(0, 0, 100)]), pushed_words(layout, [(1, 0, 200)])])
    assert not decode(words, layout, epochs=[1], programs=2).columns["region"].tolist()


def test_a_pair_in_the_cursor_costs_what_its_records_do():
    """An issue at 100, one more record, a wait from 200 to 300; ten ticks each, and nothing is known to stand still."""
    layout = loop_of(0, 1, 2, 3, spans=[Span(0, 0, 3, "async"), Span(1, 2, 3, "wait")])
    words = pushed_words(layout, [(0, 0, 100), (1, 0, 150), (2, 0, 200), (3, 0, 300)])
    columns = decode(words, layout, epochs=[1], programs=1, calibration=Calibration(cost_ticks=10)).columns
    length = dict(zip(columns["kind"].tolist(), columns["stop_corrected"] - columns["start_corrected"]))
    assert length[KINDS.index("async")] == 180
    assert length[KINDS.index("wait")] == 100


def runs_of(row, start, stop, run=(), number=(), begin=(), end=(), stands=1.0):
    whole = [np.array(part, np.int64) for part in (row, start, stop)]
    each = [np.array(part, np.int64) for part in (run, number)]
    return Runs(*whole, np.full(len(row), stands), *each, np.array(begin, float), np.array(end, float))


class Two:
    """Two rows of one launch."""

    launch = np.zeros(2, np.int64)

    def __len__(self):
        return 2


def fit_of(runs, total, seen=None):
    """What the iterations of the first row, of `total` in all, are multiplied by."""
    recorded = np.bincount(runs.row[runs.run], minlength=2).astype(float) if seen is None else np.array(seen)
    return _fit(runs, Two(), np.array([float(total), 0.0]), recorded)[0]


def test_the_time_between_two_runs_is_not_between_iterations():
    """Iteration 0 of one run and iteration 1 of the next are no neighbours; before the first there are 5 ticks."""
    runs = runs_of([0, 0], [0, 100], [50, 150], [0, 1], [0, 1], [5, 105], [25, 125])
    assert fit_of(runs, 4) == pytest.approx(100 * 20 / 25 / (4 * 20))


def test_gaps_longer_than_iterations_count_for_the_loop():
    """Neighbours of 10 ticks, 40 apart: a third of the run is spent in iterations, each of which stands for two."""
    runs = runs_of([0], [0], [200], [0, 0], [0, 1], [0, 50], [10, 60])
    assert fit_of(runs, 4) == pytest.approx(200 / 5 / (2 * 20))


def test_runs_that_stand_for_others_are_as_long_as_all_of_them():
    runs = runs_of([0], [0], [200], [0, 0], [0, 1], [0, 10], [10, 20], stands=3.0)
    assert fit_of(runs, 4) == pytest.approx(3 * 200 / (4 * 10))


def test_where_all_iterations_are_there_none_is_made_longer():
    runs = runs_of([0], [0], [200], [0, 0], [0, 1], [0, 10], [10, 20])
    assert fit_of(runs, 2) == 1.0


@pytest.mark.parametrize(
    ("first", "fit"),
    [
        (0, 2 / 3),  # 10 of 15 ticks are an iteration's
        (3, 2 / 3),  # no iteration came first: 12 ticks before the fourth say nothing
        (-3, 0.9),  # before the first one the loop takes 1 tick of 10: more is not its own
    ],
)
def test_what_a_loop_takes_between_iterations_is_told_from_every_fourth_of_them(first, fit):
    """Iterations of 10 ticks begin 15 apart; four were recorded, each of which stands for four, in a run of 240."""
    own = 10 / 9 if first < 0 else 12.0
    numbers = [max(first, 0) + 4 * n for n in range(4)]
    begin = [own + 15.0 * number for number in numbers]
    runs = runs_of([0], [0], [240], [0] * 4, numbers, begin, [at + 10 for at in begin])
    assert fit_of(runs, 16) == pytest.approx(240 * fit / 160)


def test_what_a_loop_takes_before_its_only_recorded_iteration_is_what_it_takes_between():
    runs = runs_of([0], [0], [300], [0], [0], [5], [20])
    assert fit_of(runs, 15) == pytest.approx(300 * 15 / 20 / (15 * 15))


def test_rows_without_a_recorded_iteration_are_stood_for_by_how_long_they_lasted():
    """Row 1 had as many iterations as row 0, in three times its time, and none was chosen."""
    runs = runs_of([0, 1], [0, 1000], [100, 1300], [0, 0], [0, 1], [0, 50], [50, 100])
    found = _fit(runs, Two(), np.array([2.0, 2.0]), np.array([2.0, 0.0]))
    assert found[0] == pytest.approx((100 + 300) / 100 / 2)


def test_a_loop_that_ran_empty_in_another_program_adds_nothing():
    runs = runs_of([0, 1], [0, 1000], [100, 1300], [0, 0], [0, 1], [0, 50], [50, 100])
    assert fit_of(runs, 2) == 1.0


def test_iterations_that_have_no_records_say_nothing_about_a_loop():
    layout = loop_of(0, 1, spans=[Span(2, 0, 1)])
    regions = [
        Region(0, "loop", "loop", None, 0, "k.py", 1, 2, 0),
        Region(1, "iteration", "iteration", 0, 0, "k.py", 1, 2, 1),
        Region(2, "exp", "exp", 1, 0, "k.py", 2, 2, 2),
    ]
    rows = SimpleNamespace(layout=layout)
    assert cursor_weights._iterations(rows, layout.loops[0], regions) is None


def test_records_of_an_inner_loop_do_not_cut_a_run_in_two():
    """A `while` in a `while`: iterations of the outer one are one run, whatever the inner one records between."""
    inner = Body(1, 4, (Stamp(1),), counted=False)
    layout = allocate(
        [Body(0, 4, (Stamp(0), inner, Stamp(2)), counted=False)], spans=[Span(0, 0, 2)], cursor_capacity=20
    )
    records = [(0, 0, 10), (1, 0, 11), (1, 1, 12), (2, 0, 13), (0, 1, 20), (1, 0, 21), (2, 1, 22)]
    columns = decode(pushed_words(layout, records), layout, epochs=[1], programs=1).columns
    assert columns["outer"].tolist() == [0, 0]
    assert columns["iteration"].tolist() == [0, 1]
