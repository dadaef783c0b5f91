"""Iterations of nested loops, pairs across them, cursors that overflow: single blocks decoded by eye."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import (
    BEGIN,
    EPOCH,
    GLOBAL_BEGIN,
    PUSHED,
    UNIT,
    Body,
    Span,
    Stamp,
    StreamItems,
    allocate,
)
from tileprobe.ir.machine import Clock, GlobalTimer
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.trace import Kernel, Launch, Losses, Region, Trace
from tileprobe.trace.decode import decode, read_rows
from tileprobe.trace.replay import Calibration, gaps
from tileprobe.trace.works import with_works


class Block:
    """The words of one program of a layout, written by slot."""

    def __init__(self, layout, unit=0):
        self.layout = layout
        self.words = np.zeros(layout.block_words, np.uint64)
        self.words[[EPOCH, UNIT]] = 1, unit

    def trip(self, loop, count, *outer):
        this = self.layout.loops[loop]
        self.words[this.trip_base + sum(i * s for i, s in zip(outer, this.strides))] = (1 << 32) | count
        return self

    def put(self, slot, clock, *places):
        self.words[self.layout.slots[slot].place(places)] = clock
        return self

    def push(self, *records):
        """(slot, iteration, clock) of the cursor's segment."""
        at = self.layout.streams[0].cursor_base + 2 * int(self.words[PUSHED])
        for slot, iteration, clock in records:
            self.words[at : at + 2] = (iteration << 32) | slot, clock
            self.words[PUSHED] += np.uint64(1)
            at += 2
        return self

    def rows(self, *names, **more):
        found = decode(self.words, self.layout, epochs=[1], programs=1, **more).columns
        return sorted(zip(*(found[name].tolist() for name in names)))


def nest(**more):
    """An outer loop with room for 3, an inner one with room for 4, and a mark in it."""
    return allocate([Body(0, 3, (Body(1, 4, (Stamp(0),)),))], spans=[Span(0, 0, 0, "mark")], **more)


def filled(layout, outer, inner, kept_outer, kept_inner):
    """Clocks are 100 times the outer iteration and the inner one, and 1000."""
    block = Block(layout).trip(0, outer)
    for place, i in enumerate(kept_outer):
        block.trip(1, inner, place)
        for at, j in enumerate(kept_inner):
            block.put(0, 1000 + 100 * i + j, place, at)
    return block


@pytest.mark.parametrize(
    ("loops", "kept_outer", "kept_inner"),
    [
        ({}, (0, 1, 2), (0, 1, 2, 3)),
        ({0: Every(2, 1), 1: Every(2)}, (1, 3, 5), (0, 2, 4)),
        ({0: Every(phase=-2), 1: Every(3, 1)}, (4, 5), (1, 4)),
        ({0: Every(phase=-1), 1: Every(phase=-1)}, (5,), (4,)),
        ({1: Every(phase=-3)}, (0, 1, 2), (2, 3, 4)),
    ],
)
def test_iterations_of_a_nest_are_numbered_by_both_loops(loops, kept_outer, kept_inner):
    """Six outer iterations, five inner ones in each; which run of the inner loop it was is told by `outer`."""
    block = filled(nest(), 6, 5, kept_outer, kept_inner)
    found = block.rows("outer", "iteration", "start", sampling=Sampling(loops=loops))
    expected = [(i, j, 1000 + 100 * i + j) for i in kept_outer for j in kept_inner]
    assert found == expected


def test_three_loops_deep_every_run_has_a_number_of_its_own():
    layout = allocate([Body(0, 2, (Body(1, 3, (Body(2, 2, (Stamp(0),)),)),))], spans=[Span(0, 0, 0, "mark")])
    block = Block(layout).trip(0, 2)
    for i in range(2):
        block.trip(1, 3, i)
        for j in range(3):
            block.trip(2, 2, i, j)
            for k in range(2):
                block.put(0, 1 + 100 * i + 10 * j + k, i, j, k)
    assert block.rows("outer", "iteration", "start") == [
        (3 * i + j, k, 1 + 100 * i + 10 * j + k) for i in range(2) for j in range(3) for k in range(2)
    ]


def test_a_circular_nest_keeps_the_last_of_each_loop():
    """Five inner iterations with room for four: 1 to 4, the last in place 0. Four outer ones: 1 to 3."""
    layout = nest(strategy="circular")
    block = Block(layout).trip(0, 4)
    for i in (1, 2, 3):
        block.trip(1, 5, i % 3)
        for j in (1, 2, 3, 4):
            block.put(0, 1000 + 100 * i + j, i % 3, j % 4)
    assert block.rows("outer", "iteration", "start") == [
        (i, j, 1000 + 100 * i + j) for i in (1, 2, 3) for j in (1, 2, 3, 4)
    ]


def test_pairs_across_iterations_stay_within_their_run():
    """An issue is one iteration ahead of its wait. Each of two runs of four iterations has three pairs."""
    layout = allocate(
        [Body(0, 2, (Body(1, 4, (Stamp(0), Stamp(1))),))], spans=[Span(0, 0, 1, "async", start_ahead=1)]
    )
    block = Block(layout).trip(0, 2)
    for i in range(2):
        block.trip(1, 4, i)
        for j in range(4):
            block.put(0, 1000 * (i + 1) + 10 * j, i, j).put(1, 1000 * (i + 1) + 10 * j + 5, i, j)
    assert block.rows("outer", "iteration", "start", "stop") == [
        (i, j + 1, 1000 * (i + 1) + 10 * j, 1000 * (i + 1) + 10 * (j + 1) + 5)
        for i in range(2)
        for j in range(3)
    ]


def test_a_pair_outside_of_loops_has_no_iteration():
    parts = [StreamItems([Stamp(0)], "producer"), StreamItems([Stamp(1)], "consumer")]
    layout = allocate(parts, spans=[Span(0, 0, 1, "async")])
    block = Block(layout).put(0, 10)
    other = layout.streams[1].base
    block.words[other + EPOCH], block.words[other + layout.slots[1].base] = 1, 30
    assert block.rows("kind", "iteration", "outer", "start", "stop") == [(1, -1, 0, 10, 30)]


def test_a_record_in_a_branch_that_was_not_taken_makes_no_interval():
    layout = allocate([Stamp(0, branch=True), Stamp(1)], spans=[Span(0, 0, 1)])
    assert Block(layout).put(1, 20).rows("start", "stop") == []
    assert Block(layout).put(0, 20).rows("start", "stop") == []
    assert Block(layout).put(0, 1).put(1, 2).rows("start", "stop") == [(1, 2)]


def test_buffers_of_signed_words_are_read_as_well():
    layout = allocate([Stamp(0), Stamp(1)], spans=[Span(0, 0, 1)])
    words = Block(layout).put(0, 5).put(1, 9).words
    for kind in (np.int64, np.uint64):
        columns = decode(words.view(kind), layout, epochs=[1], programs=1).columns
        assert (columns["start"].tolist(), columns["stop"].tolist()) == ([5], [9])
    with pytest.raises(TileProbeError, match="a record buffer of"):
        decode(words.view(np.uint32), layout, epochs=[1], programs=1)


@pytest.mark.parametrize("bits", [20, 32, 64])
def test_narrow_counters_of_a_unit_count_on(bits):
    """A machine whose own counter has 20 bits; two programs on one unit, the second three turns later."""
    turn, epoch = 1 << 20, 0 if bits == 64 else 1 << 32
    layout = allocate([Stamp(0), Stamp(1)], spans=[Span(0, 0, 1)], clock_bits=bits)
    words = np.zeros((2, layout.block_words), np.uint64)
    for block, begin in zip(words, (100, 3 * turn + 50)):
        block[[EPOCH, BEGIN, GLOBAL_BEGIN]] = 1, begin % turn, 1000 + begin
        block[8], block[9] = (epoch | (begin + n) % turn for n in (5, 9))
    clock = Clock(1e9, bits=20)
    found = decode(words, layout, epochs=[1], programs=2, clock=clock, timer=GlobalTimer(1e9)).columns
    assert found["start"].tolist() == [105, 3 * turn + 55]
    alone = decode(words, layout, epochs=[1], programs=2).columns
    assert alone["start"].tolist() == [105, 55]


def test_a_counter_that_is_narrower_than_a_word_is_unwrapped():
    """A stream over three turns of a counter of 20 bits: records with places, in a nest, and of the segment."""
    turn = 1 << 20
    inner = Body(1, 2, (Stamp(1), Stamp(2)), counted=True)
    nested = allocate(
        [Stamp(0), Body(0, 2, (inner,), counted=True), Stamp(3)], spans=[Span(0, 0, 3), Span(1, 1, 2)]
    )
    times = [turn // 2 * n + 7 for n in range(1, 7)]
    block = Block(nested).trip(0, 1).trip(1, 2, 0)
    block.words[BEGIN] = 7
    block.put(0, times[0]).put(3, times[5] % turn)
    for n, (start, stop) in enumerate((times[1:3], times[3:5])):
        block.put(1, start % turn, 0, n).put(2, stop % turn, 0, n)
    narrow = Clock(1e9, bits=20)
    found = block.rows("region", "start", "stop", clock=narrow)
    assert found == [(0, times[0], times[5]), (1, *times[1:3]), (1, *times[3:5])]
    pushed = [(slot, n // 2, time % turn) for n, (slot, time) in enumerate(zip((1, 2, 1, 2), times[1:5]))]
    block = Block(while_loop()).push(*pushed).put(0, times[0]).put(3, times[0])
    block.words[BEGIN] = times[0]
    found = block.rows("region", "start", "stop", clock=narrow)
    assert found[1:] == [(1, *times[1:3]), (1, *times[3:5])]


def test_a_stream_is_replayed_by_the_bits_that_its_counter_has():
    """Gaps between records say what a record costs: none is negative where the counter turned over."""
    layout = allocate([Stamp(0), Stamp(1)], spans=[Span(0, 0, 1)])
    block = Block(layout).put(0, (1 << 20) - 30).put(1, 12)
    block.words[BEGIN] = (1 << 20) - 40
    how = {"epochs": [1], "programs": 1, "clock": Clock(1e9, bits=20)}
    ((rows,), _) = read_rows(block.words, layout, **how)
    assert gaps(rows)[0].tolist() == [42]


# -- cursors ------------------------------------------------------------------------------------------------------


def while_loop(room=32, strategy="exact", spans=None):
    loop = Body(0, 1, (Stamp(1), Stamp(2)), counted=False)
    return allocate(
        [Stamp(0), loop, Stamp(3)],
        spans=spans or [Span(0, 0, 3), Span(1, 1, 2)],
        cursor_capacity=room,
        strategy=strategy,
    )


def test_a_start_without_a_stop_is_left_out():
    """An iteration that was left early: the next start is not its stop, and the next pair is still one."""
    block = Block(while_loop()).push((1, 0, 10), (1, 1, 20), (2, 1, 25), (2, 2, 28), (1, 3, 30), (2, 3, 33))
    found = block.rows("region", "iteration", "start", "stop")
    assert found == [(1, 1, 20, 25), (1, 3, 30, 33)]


@pytest.mark.parametrize(
    ("strategy", "pushed", "left"),
    [
        ("exact", 9, [(0, 100), (1, 102)]),
        ("circular", 2, [(0, 100)]),
        ("circular", 3, [(0, 100)]),
        ("circular", 4, [(0, 100), (1, 102)]),
        ("circular", 9, [(3, 106)]),
    ],
)
def test_a_cursor_that_overflowed_is_read_from_its_oldest_record(strategy, pushed, left):
    """Two records an iteration, room for four. Of nine the exact strategy keeps the first four, the other 5 to 8."""
    layout = while_loop(4, strategy)
    block, base = Block(layout), layout.streams[0].cursor_base
    for n in range(pushed):
        if strategy == "circular" or n < 4:
            at = base + 2 * (n % 4)
            block.words[at : at + 2] = (n // 2 << 32) | (1 + n % 2), 100 + n
    block.words[PUSHED] = pushed
    assert [row[1:] for row in block.rows("region", "iteration", "start") if row[0] == 1] == left


def test_runs_of_a_while_loop_are_told_apart():
    """Iterations 0, 1; then 0 again; then, behind a record from outside, another 1."""
    layout = allocate(
        [Body(0, 1, (Stamp(0), Body(1, 1, (Stamp(1), Stamp(2)), counted=False)), counted=False)],
        spans=[Span(0, 0, 0, "mark"), Span(1, 1, 2)],
        cursor_capacity=32,
    )
    block = Block(layout).push((0, 0, 5), (1, 0, 10), (2, 0, 11), (1, 1, 12), (2, 1, 13))
    block.push((1, 0, 20), (2, 0, 21), (0, 1, 30), (1, 1, 40), (2, 1, 41))
    found = [row for row in block.rows("region", "outer", "iteration", "start") if row[0] == 1]
    assert found == [(1, 0, 0, 10), (1, 0, 1, 12), (1, 1, 0, 20), (1, 2, 1, 40)]


def test_a_slot_that_comes_again_with_its_iteration_is_another_run():
    block = Block(while_loop()).push((1, 0, 10), (2, 0, 11), (1, 0, 20), (2, 0, 21), (1, 0, 30), (2, 0, 31))
    assert block.rows("outer", "start")[-3:] == [(0, 10), (1, 20), (2, 30)]


def test_copies_peeled_off_a_while_loop_meet_its_iterations():
    """What is issued before the loop for iteration 0 is awaited in it; the run is that of the wait."""
    spans = [Span(0, 0, 2, "async", 0, 0, 0, -1), Span(0, 1, 2, "async", 1, -1, 0, -1)]
    layout = allocate(
        [Body(1, 1, (Stamp(0), Body(0, 1, (Stamp(1), Stamp(2)), counted=False)), counted=False)],
        spans=spans,
        cursor_capacity=32,
    )
    block = Block(layout)
    block.push((0, 0, 10), (1, 0, 20), (2, 0, 25), (1, 1, 30), (2, 1, 35))
    block.push((0, 1, 110), (1, 0, 120), (2, 0, 125))
    assert block.rows("start", "stop", "iteration", "outer") == [
        (10, 25, 0, 0),
        (20, 35, 1, 0),
        (110, 125, 0, 1),
    ]


def test_payloads_follow_their_records():
    layout = allocate(
        [Body(0, 1, (Stamp(0, "i64"), Stamp(1)), counted=False)],
        spans=[Span(0, 0, 0, "value"), Span(1, 1, 1, "mark")],
        cursor_capacity=8,
    )
    payload = 1 << 31
    block = Block(layout)
    block.push((0, 0, 10), (0 | payload, 0, 77), (1, 0, 20), (0, 1, 30), (0 | payload, 1, 78))
    found = decode(block.words, layout, epochs=[1], programs=1).columns
    assert found["value"][found["region"] == 0].tolist() == [77.0, 78.0]
    assert np.isnan(found["value"][found["region"] == 1]).all()


def test_what_a_cursor_overwrote_cost_as_much_as_what_is_left():
    """Room for four records, ten were written, 10 ticks each: 10 + 6 * 10 before the first that is left."""
    layout = while_loop(4, "circular")
    block = Block(layout).put(0, 1000).put(3, 3000)
    block.push((1, 3, 1700), (2, 3, 1800), (1, 4, 1900), (2, 4, 2000))
    block.words[PUSHED] = 12  # places 0 to 3 hold records 8 to 11
    found = decode(block.words, layout, epochs=[1], programs=1, calibration=Calibration(10.0)).columns
    whole = found["region"] == 0
    assert (found["stop_corrected"] - found["start_corrected"])[whole].tolist() == [2000.0 - 13 * 10]
    assert (found["start_corrected"])[~whole].tolist() == [1700.0 - 90, 1900.0 - 110]


def test_what_a_circular_loop_overwrote_cost_as_much_as_what_is_left():
    """Two records an iteration of 7 and 3 ticks, room for three of five: two are gone, 20 ticks."""
    layout = allocate(
        [Stamp(0), Body(0, 3, (Stamp(1), Stamp(2))), Stamp(3)], spans=[Span(0, 0, 3)], strategy="circular"
    )
    block = Block(layout).trip(0, 5).put(0, 1000).put(3, 2000)
    for i in (2, 3, 4):
        block.put(1, 1100 + 100 * i, i % 3).put(2, 1150 + 100 * i, i % 3)
    costs = Calibration(1.0, slots={1: 7.0, 2: 3.0})
    found = decode(block.words, layout, epochs=[1], programs=1, calibration=costs).columns
    assert (found["stop_corrected"] - found["start_corrected"]).tolist() == [1000.0 - 5 * 10 - 1]


# -- small things -------------------------------------------------------------------------------------------------


def test_calibrations_and_losses():
    whole = Calibration(3.0, 0.5, {2: 4.0}, (1, 3))
    said = {"cost_ticks": 3.0, "error_ticks": 0.5, "slots": {"2": 4.0}, "doses": [1, 3], "passed": {}}
    assert json.loads(json.dumps(whole.to_json())) == said
    shown = replace(whole, share=0.5, share_error=0.2, share_noise=0.1).to_json()
    assert shown == {
        "cost_ticks": 1.5,
        "error_ticks": pytest.approx(math.hypot(0.25, 0.6)),
        "slots": {"2": 2.0},
        "doses": [1, 3],
        "passed": {},
        "dose_ticks": 3.0,
        "noise_ticks": pytest.approx(math.hypot(0.25, 0.3)),
        "code_share": 1.0,
        "code_error": 0.0,
    }
    assert Losses(1, 2, 3) + Losses(5, 7, 3) == Losses(6, 9, 6)


def test_edges_without_intervals_count_from_nothing():
    trace = Trace.build(
        {"region": [], "start": [], "stop": []},
        kernels=[],
        launches=[],
        regions=[],
        edges={"kind": ["issue-wait"], "from_tick": [0], "to_tick": [40]},
    )
    assert trace.edges.select("from_ns", "to_ns").row(0) == (
        0.0,
        40.0,
    )  # a nanosecond a tick, where nobody says


def test_works_that_are_made_up_count_from_nought():
    trace = Trace.build(
        {"region": [0], "start": [0], "stop": [1]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(4)],
        regions=[Region(0, "k")],
    )
    assert [work.id for work in with_works(trace).works] == [0]


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ("[]", "its description is not that of a trace"),
        ('{"format": "tileprobe-trace", "version": "2"}', "its description is not that of a trace"),
        ("{", "its description is not JSON"),
        ('{"format": "other"}', "is a 'other' file of TileProbe, not a trace"),
        (
            '{"format": "tileprobe-trace", "version": 3, "writer": "9"}',
            "has trace version 3, written by TileProbe 9",
        ),
        ('{"format": "tileprobe-trace"}', "without the column 'iteration'"),
    ],
)
def test_files_that_are_no_traces(head, text, tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"launch": [1], "kind": ["region"]}).write_parquet(path, metadata={"tileprobe": head})
    with pytest.raises(TileProbeError, match=text):
        Trace.open(path)


def test_a_program_of_a_launch_is_left_out_of_its_edges():
    trace = Trace.build(
        {"region": [0, 0], "program": [0, 1], "start": [0, 0], "stop": [9, 9]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0)],
        regions=[Region(0, "k")],
        edges={
            "kind": ["issue-wait"] * 3,
            "from_program": [0, 0, 1],
            "to_program": [0, 1, 1],
            "from_tick": [1, 2, 3],
            "to_tick": [4, 5, 6],
        },
    )
    assert trace.filter(programs=[1]).edges["from_ns"].to_list() == [3.0]
    assert trace.filter(where=pl.col("program") == 0).edges["from_ns"].to_list() == [1.0]
    kept = replace(trace).filter(programs=[0, 1])
    assert kept.edges.height == 3
