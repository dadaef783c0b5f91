"""Corrected times of pairs whose ends lie in two streams or two iterations, with what they carry."""

import numpy as np
import pytest
from planted import Kernel, launch, trace_of, tree

from tileprobe.ir.layout import BEGIN, EPOCH, Body, Span, Stamp, StreamItems, allocate
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.trace import Launch
from tileprobe.trace.decode import decode
from tileprobe.trace.order import _in_order
from tileprobe.trace.replay import Calibration
from tileprobe.trace.stand_ins import undisturbed


def words_of(layout, clocks, trips=()):
    """One program; `clocks` by slot, or by (slot, iteration)."""
    words = np.zeros(layout.block_words, np.uint64)
    for stream in layout.streams:
        words[stream.base + EPOCH], words[stream.base + BEGIN] = 1, 1
    for loop, count in enumerate(trips):
        one = layout.loops[loop]
        words[layout.streams[one.stream].base + one.trip_base] = 1 << 32 | count
    for where, clock in clocks.items():
        slot, *indices = where if isinstance(where, tuple) else (where,)
        one = layout.slots[slot]
        words[layout.streams[one.stream].base + one.place(indices)] = clock
    return words


TWO = allocate(
    [StreamItems([Stamp(0), Stamp(1)], "producer"), StreamItems([Stamp(2), Stamp(3)], "consumer")],
    spans=[Span(0, 1, 2, "async"), Span(1, 2, 3)],
    granularity="warp",
)


def test_each_end_is_corrected_by_the_probes_of_its_own_stream():
    """Ten ticks a record: one before the issue, none before the wait."""
    words = words_of(TWO, {0: 100, 1: 150, 2: 300, 3: 400})
    found = decode(words, TWO, epochs=[1], programs=1, calibration=Calibration(cost_ticks=10))
    assert found.edges["from_tick_corrected"].tolist() == [140]
    assert found.edges["to_tick_corrected"].tolist() == [300]


@pytest.mark.parametrize(("stop", "corrected"), [(145, 135), (155, 150), (170, 160)])
def test_a_pair_that_was_in_order_stays_in_order(stop, corrected):
    """The record at 80 delayed its own stream by ten ticks, and not the other, where the operation began at 150. What
    ended before it began, by the clocks of two streams, is not made to look as if it had not."""
    layout = allocate(
        [StreamItems([Stamp(0)], "producer"), StreamItems([Stamp(1), Stamp(2), Stamp(3)], "consumer")],
        spans=[Span(0, 0, 3, "async"), Span(1, 1, 2)],
        granularity="warp",
    )
    words = words_of(layout, {0: 150, 1: 50, 2: 80, 3: stop})
    columns = decode(words, layout, epochs=[1], programs=1, calibration=Calibration(cost_ticks=10)).columns
    pair = columns["region"].tolist().index(0)
    assert (columns["start_corrected"][pair], columns["stop_corrected"][pair]) == (150, corrected)
    assert (columns["probes"][pair], columns["taken"][pair]) == (10, 0)


def test_a_value_goes_with_a_pair_across_iterations():
    layout = allocate([Body(0, 4, (Stamp(0, "i64"), Stamp(1)))], spans=[Span(0, 0, 1, "async", 1, -1, 0)])
    words = words_of(
        layout, {(0, i): 100 * i + 10 for i in range(3)} | {(1, i): 100 * i + 50 for i in range(3)}, [3]
    )
    for i in range(3):
        words[layout.slots[0].place([i]) + 1] = 7 + i
    columns = decode(words, layout, epochs=[1], programs=1).columns
    assert list(zip(columns["iteration"].tolist(), columns["value"].tolist())) == [(1, 7.0), (2, 8.0)]


def test_times_in_the_wrong_order_meet_in_the_middle():
    time = np.array([5.0, 0.0, 10.0, 4.0, 12.0, 9.0, 8.0])
    row = np.array([0, 1, 1, 1, 1, 2, 2])
    assert _in_order(time, row, np.array([1])).tolist() == [5.0, 0.0, 7.0, 7.0, 12.0, 9.0, 8.0]
    assert _in_order(np.array([9.0, 3.0, 4.0]), np.zeros(3, int), np.array([0])).tolist() == [9.0, 9.0, 9.0]


def test_programs_of_which_no_iteration_was_chosen_count_by_their_time():
    """Every second program runs a loop of three iterations, too short for the stride, each of which takes five times
    as long: all of the loop's time is that of its iterations."""
    kernel = Kernel()
    sampling = Sampling(loops={0: Every(4, 3)})
    slow = lambda program, slot, iteration: 16_000 if slot == 6 and program % 2 else 0
    runs = [
        launch(kernel, lambda program: 3 if program % 2 else 8, 8, more=slow, sampling=sampling)
        for _ in range(4)
    ]
    rows = tree(trace_of(kernel, runs))
    assert rows["iteration"]["total_ns"] == pytest.approx(rows["loop @ 3"]["total_ns"], rel=0.01)
    assert rows["iteration"]["count"] == pytest.approx(4 * 4 * (3 + 8))


def test_a_launch_that_did_not_wait_is_undisturbed_however_short():
    assert undisturbed(Launch(0))
    assert undisturbed(Launch(0, duration_ns=50.0, preempted_ns=0.0))
    assert undisturbed(Launch(0, duration_ns=50.0))
    assert not undisturbed(Launch(0, duration_ns=50.0, preempted_ns=1.0))
