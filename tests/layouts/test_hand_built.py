"""Layouts built by hand, small enough to check by eye: streams, pipelined pairs, narrow clocks, circular loops."""

import pytest
from record_blocks import Block, intervals

from tileprobe.errors import TileProbeError, UnsupportedError
from tileprobe.ir.layout import (
    PUSHED,
    Body,
    Capabilities,
    Layout,
    Span,
    Stamp,
    StreamItems,
    allocate,
)
from tileprobe.ir.machine import Clock, GlobalTimer
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.trace.model import KINDS
from tileprobe.trace.replay import Calibration

# -- streams -------------------------------------------------------------------------------------------------

TWO = allocate(
    [
        StreamItems([Stamp(0), Stamp(1)], "default", 2),
        StreamItems([Stamp(2), Stamp(3)], "partition 1", 1),
    ],
    spans=[Span(0, 0, 1), Span(1, 2, 3)],
    clock_bits=20,
    granularity="warp",
)


def test_each_instance_has_its_own_block_and_its_own_turns():
    """The clock of warp 1 turns over between its records, those of the others do not."""
    turn = 1 << 20
    block = Block(TWO)
    block.open(0, 0, unit=3, begin=100).put(0, 110).put(1, 150)
    block.open(0, 1, unit=3, begin=5 * turn - 10)
    block.put(0, 5 * turn - 1, instance=1).put(1, 5 * turn + 4, instance=1)
    block.open(1, 0, unit=4, begin=200).put(2, 300).put(3, 310)
    found = block.decode()
    assert intervals(found, None, "stream", "unit", "region") == [
        (-1, 110, 150, 0, 3, 0),
        (-1, 300, 310, 2, 4, 1),
        (-1, 5 * turn - 1, 5 * turn + 4, 1, 3, 0),
    ]
    assert found.losses[0].kept == 6


def test_an_instance_that_did_not_run_leaves_nothing():
    block = Block(TWO).open(0, 0).put(0, 10).put(1, 20).put(0, 30, instance=1).put(1, 40, instance=1)
    assert intervals(block.decode(), None, "stream") == [(-1, 10, 20, 0)]


def test_instances_have_names():
    assert [TWO.stream_name(n) for n in range(3)] == ["default / warp 0", "default / warp 1", "partition 1"]
    whole = allocate([Stamp(0)])
    assert whole.stream_name(0) == ""
    groups = allocate([StreamItems([Stamp(0)], instances=2)], granularity="warp_group")
    assert groups.stream_name(1) == "warp group 1"
    with pytest.raises(IndexError):
        whole.stream_name(1)


def test_probes_of_one_stream_do_not_delay_another():
    block = Block(TWO).open(0, 0).open(0, 1).open(1, 0)
    for n in range(2):
        block.put(0, 100, instance=n).put(1, 200, instance=n)
    block.put(2, 100).put(3, 200)
    columns = block.decode(calibration=Calibration(cost_ticks=10)).columns
    assert columns["start_corrected"].tolist() == [100, 100, 100]
    assert columns["stop_corrected"].tolist() == [190, 190, 190]


def pair_of_streams(producers, consumers, start_ahead=0, stop_ahead=0):
    return allocate(
        [
            StreamItems([Body(0, 4, (Stamp(0),))], "producer", producers),
            StreamItems([Body(1, 4, (Stamp(1), Stamp(2)))], "consumer", consumers),
        ],
        spans=[
            Span(0, 0, 2, "async", start_ahead, -1, stop_ahead),
            Span(1, 1, 2, "wait", stop_ahead, -1, stop_ahead),
        ],
        granularity="warp",
    )


def test_a_producer_meets_every_consumer():
    block = Block(pair_of_streams(1, 2, start_ahead=1)).open(0, 0, unit=1).trip(0, 3)
    for i in range(3):
        block.put(0, 10 + i, i)
    for n in range(2):
        block.open(1, n, unit=2 + n).trip(1, 3, instance=n)
        for i in range(3):
            block.put(1, 100 * n + 50 + i, i, instance=n).put(2, 100 * n + 60 + i, i, instance=n)
    found = block.decode()
    assert intervals(found, "async", "stream") == [
        (1, 10, 61, 0), (1, 10, 161, 0), (2, 11, 62, 0), (2, 11, 162, 0),
    ]  # fmt: skip
    edges = found.edges
    assert set(edges["kind"]) == {"issue-wait"}
    ends = zip(*(edges[name].tolist() for name in ("from_stream", "from_unit", "to_stream", "to_unit")))
    assert sorted(ends) == [(0, 1, 1, 2), (0, 1, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3)]


def test_as_many_producers_as_consumers_meet_one_to_one():
    block = Block(pair_of_streams(2, 2))
    for n in range(2):
        block.open(0, n).trip(0, 1, instance=n).put(0, 10 + n, 0, instance=n)
        block.open(1, n).trip(1, 1, instance=n).put(1, 20 + n, 0, instance=n).put(2, 30 + n, 0, instance=n)
    assert intervals(block.decode(), "async") == [(0, 10, 30), (0, 11, 31)]


# -- pipelined loops -----------------------------------------------------------------------------------------


def pipelined(capacity=8, **more):
    """Two copies are issued ahead of the loop, one wait stands behind it: (issue 0, issue 1) loop (wait, issue)
    (wait)."""
    starts = ((0, 0, 0), (1, 1, 0), (4, 2, -1))
    stops = ((2, 3, -1, -1), (5, 6, -1, 0))
    pairs = [
        Span(0, slot, done, "async", ahead, peeled, late, off)
        for slot, ahead, peeled in starts
        for _, done, late, off in stops
    ]
    waits = [Span(1, wait, done, "wait", late, off, late, off) for wait, done, late, off in stops]
    loop = Body(0, capacity, (Stamp(2), Stamp(3), Stamp(4)))
    items = [Stamp(0), Stamp(1), loop, Stamp(5), Stamp(6)]
    return allocate(items, spans=[*pairs, *waits], **more)


def fill_pipelined(layout, trip, places=lambda i: i):
    block = Block(layout).open(0).trip(0, trip).put(0, 10).put(1, 20)
    for i in range(trip):
        at = places(i)
        if at is not None:
            block.put(2, 100 * (i + 1), at).put(3, 100 * (i + 1) + 30, at).put(4, 100 * (i + 1) + 50, at)
    return block.put(5, 100 * (trip + 1)).put(6, 100 * (trip + 1) + 30)


def test_issues_meet_their_waits_across_prologue_loop_and_epilogue():
    """The wait of iteration i is for i - 1, and the one behind the loop for the last."""
    found = fill_pipelined(pipelined(), 4).decode()
    assert intervals(found, "async") == [(0, 10, 230), (1, 20, 330), (2, 150, 430), (3, 250, 530)]
    assert intervals(found, "wait") == [
        (-1, 100, 130), (0, 200, 230), (1, 300, 330), (2, 400, 430), (3, 500, 530),
    ]  # fmt: skip
    assert len(found.edges["launch"]) == 4


@pytest.mark.parametrize(("trip", "expected"), [(1, [(0, 10, 230)]), (2, [(0, 10, 230), (1, 20, 330)])])
def test_a_short_loop_joins_both_peeled_copies(trip, expected):
    assert intervals(fill_pipelined(pipelined(), trip).decode(), "async") == expected


def test_sampling_keeps_pairs_of_which_both_ends_were_kept():
    """Every second iteration from 1 on: waits 1, 3 and 5 are there (for 0, 2 and 4), issues of 3, 5 and 7."""
    sampling = Sampling(loops={0: Every(2, 1)})
    keep = lambda i: (i - 1) // 2 if i % 2 else None
    found = fill_pipelined(pipelined(), 7, keep).decode(sampling=sampling)
    assert intervals(found, "async") == [(0, 10, 230)]
    assert intervals(found, "wait") == [(0, 200, 230), (2, 400, 430), (4, 600, 630), (6, 800, 830)]
    third = Sampling(loops={0: Every(3, 1)})
    found = fill_pipelined(pipelined(), 7, lambda i: (i - 1) // 3 if i % 3 == 1 else None).decode(
        sampling=third
    )
    assert (3, 250, 530) in intervals(found, "async")


def test_the_last_iterations_of_a_circular_loop():
    """Seven iterations, three places: 4, 5 and 6 are left, in places 1, 2 and 0."""
    layout = pipelined(3, strategy="circular")
    found = fill_pipelined(layout, 7, lambda i: i % 3).decode()
    assert intervals(found, "wait") == [(3, 500, 530), (4, 600, 630), (5, 700, 730), (6, 800, 830)]
    assert intervals(found, "async") == [(6, 550, 830)]
    assert found.losses[0].kept == 4 + 3 * 3
    assert found.losses[0].lost == 3 * 4


@pytest.mark.parametrize(("strategy", "left"), [("exact", [0, 1]), ("circular", [3, 4])])
def test_what_did_not_fit_the_cursor_is_counted(strategy, left):
    """A `while` loop of five iterations, two records each; four records fit."""
    loop = Body(0, 1, (Stamp(0), Stamp(1)), counted=False)
    layout = allocate([loop], spans=[Span(0, 0, 1)], cursor_capacity=4, strategy=strategy)
    block, base = Block(layout).open(0), layout.streams[0].cursor_base
    for n in range(10):
        if strategy == "circular" or n < 4:
            at = base + 2 * (n % 4)
            block.words[at], block.words[at + 1] = ((n // 2) << 32) | (n % 2), 100 + n
    block.words[PUSHED] = 10
    found = block.decode()
    assert intervals(found) == [(i, 100 + 2 * i, 101 + 2 * i) for i in left]
    losses = found.losses[0]
    assert (losses.kept, losses.sampled_out, losses.lost) == (4, 0, 6)


def test_replay_of_a_circular_loop_counts_what_was_overwritten():
    layout = allocate(
        [Stamp(0), Body(0, 2, (Stamp(1), Stamp(2))), Stamp(3)],
        spans=[Span(0, 0, 3), Span(1, 1, 2)],
        strategy="circular",
    )
    block, clock = Block(layout).open(0).trip(0, 5).put(0, 1000), 1000
    for i in range(5):  # each record 7 ticks, each piece of work 50
        block.put(1, clock + 57, i % 2).put(2, clock + 114, i % 2)
        clock += 114
    block.put(3, clock + 57)
    columns = block.decode(calibration=Calibration(cost_ticks=7)).columns
    length = columns["stop_corrected"] - columns["start_corrected"]
    assert length[columns["region"] == 0].tolist() == [11 * 50]
    assert length[columns["region"] == 1].tolist() == [50, 50]


def test_a_wait_that_stood_still_cancels_the_probes_since_the_issue():
    """Issue at 100; two records of 10 ticks each; the operation ends at 300 whatever the probes do."""
    spans = [Span(0, 0, 3, "async"), Span(1, 2, 3, "wait"), Span(2, 0, 1), Span(3, 3, 4)]
    layout = allocate([Stamp(n) for n in range(5)], spans=spans)

    def corrected(wait, done):
        block = Block(layout).open(0)
        for slot, clock in enumerate((100, 150, wait, done, done + 60)):
            block.put(slot, clock)
        return intervals_corrected(block.decode(calibration=Calibration(cost_ticks=10)))

    stood = corrected(200, 300)
    assert stood["async"] == [(100, 300)]
    assert stood["wait"] == [(180, 300)]
    assert stood["region"] == [(100, 140), (300, 350)]
    found_done = corrected(200, 205)
    assert found_done["wait"] == [(180, 185)]
    assert found_done["region"] == [(100, 140), (185, 235)]


def intervals_corrected(decoded):
    found = {}
    names = ("kind", "start_corrected", "stop_corrected")
    for kind, *times in zip(*(decoded.columns[name].tolist() for name in names)):
        found.setdefault(KINDS[kind], []).append(tuple(times))
    return found


def test_a_peeled_wait_costs_nothing_either():
    layout = pipelined()
    costs = Calibration(cost_ticks=10).costs(layout)
    assert costs.tolist() == [10, 10, 10, 0, 10, 10, 0]


# -- narrow clocks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [20, 32])
def test_turns_that_left_no_record_are_reported(bits):
    turn = 1 << bits
    layout = allocate([Stamp(0), Stamp(1)], spans=[Span(0, 0, 1)], clock_bits=bits)
    clock, timer = Clock(1e9, bits=bits), GlobalTimer(1e6)  # a thousand ticks to one of the timer

    def read(took, timed):
        begin = 7 * turn + 5
        times = 1000, 1000 + round(timed / 1000)
        block = Block(layout).open(0, begin=begin, times=times).put(0, begin + 10).put(1, begin + took)
        return block.decode(clock=clock, timer=timer, launches=[9])

    fine = read(turn // 2, turn // 2 + 3000)
    assert not fine.problems
    assert fine.columns["stop"].tolist() == [7 * turn + 5 + turn // 2]
    lost = read(turn // 2 + turn, turn // 2 + turn)
    (problem,) = lost.problems
    assert (problem.what, problem.launch, problem.count) == ("wraps", 9, 1)
    assert "longer" in problem.text
    (problem,) = read(turn - 5000, 1000).problems
    assert "more time than passed" in problem.text
    silent = Block(layout).open(0, begin=5).put(0, 10).put(1, 20)
    assert not silent.decode(clock=clock, timer=timer).problems


# -- what is refused -----------------------------------------------------------------------------------------

NEST = [Stamp(0), Body(0, 4, (Stamp(1), Body(1, 4, (Stamp(2),)))), Body(2, 4, (Stamp(3),))]


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (Span(0, 0, 1), "starts in loops no loop and stops in 0"),
        (Span(0, 1, 2), "starts in loops 0 and stops in 0 / 1"),
        (Span(0, 1, 3), "starts in loops 0 and stops in 2"),
        (Span(0, 0, 1, "async", 0, 1), "does not stand beside that loop"),
        (Span(0, 0, 3, "async", 0, 0), "such ends never meet"),
        (Span(0, 0, 0, "mark", 1, -1, 1, -1), "of no loop"),
        (Span(0, 0, 0, "mark", 1, 9, 1, 9), "is not there"),
        (Span(0, 0, 12), "names a slot that is not there"),
    ],
)
def test_ends_that_cannot_meet_are_refused(span, words):
    good = allocate(NEST)
    with pytest.raises(TileProbeError, match=words):
        allocate(NEST, spans=[span])
    data = good.to_json()
    data["spans"] = [{"region": 0, "start": span.start, "stop": span.stop, "kind": span.kind} | peeled(span)]
    with pytest.raises(TileProbeError, match=words):
        Layout.from_json(data)


def peeled(span):
    return {
        name: getattr(span, name) for name in ("start_ahead", "start_peeled", "stop_ahead", "stop_peeled")
    }


def test_ends_in_two_streams_need_the_same_depth_and_matching_instances():
    deep = [StreamItems([Body(0, 4, (Body(1, 4, (Stamp(0),)),))]), StreamItems([Body(2, 4, (Stamp(1),))])]
    with pytest.raises(TileProbeError, match="2 loops deep in one stream and stops 1 deep"):
        allocate(deep, spans=[Span(0, 0, 1, "async")])
    three = [StreamItems([Stamp(0)], instances=3), StreamItems([Stamp(1)], instances=2)]
    with pytest.raises(TileProbeError, match="2 and 3 instances"):
        allocate(three, spans=[Span(0, 0, 1, "async")])
    mixed = [Body(0, 4, (Stamp(0),), counted=False), Stamp(1)]
    with pytest.raises(TileProbeError, match="trip count is not stored"):
        allocate(mixed, spans=[Span(0, 1, 1, "mark", -1, 0, -1, 0)])


@pytest.mark.parametrize(
    "wrong",
    [
        {"clock_bits": 48},
        {"clock_bits": 0},
        {"granularity": "thread"},
        {"buffer": "disk"},
        {"strategy": "luck"},
    ],
)
def test_unknown_kinds_of_records_are_refused(wrong):
    with pytest.raises(TileProbeError, match=str(next(iter(wrong.values())))):
        allocate([Stamp(0)], **wrong)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"granularity": "warp"}, "moon cannot have granularity warp; possible: program"),
        ({"buffer": "shared"}, "buffer shared; possible: global"),
        ({"strategy": "circular"}, "strategy circular; possible: exact"),
        ({"clock_bits": 20}, "clock_bits 20; possible: 64, 32"),
    ],
)
def test_a_target_refuses_what_it_cannot_do(asked, words):
    able = Capabilities(clock_bits=(64, 32))
    able.check(allocate([Stamp(0)], clock_bits=32), "moon")
    with pytest.raises(UnsupportedError, match=words):
        able.check(allocate([Stamp(0)], **asked), "moon")


def test_a_target_refuses_more_streams_than_it_has():
    with pytest.raises(UnsupportedError, match="at most 1 streams, these have 2"):
        Capabilities(granularities=("warp",), clock_bits=(20,)).check(TWO, "moon")


def test_pairs_in_three_loops_are_of_the_iterations_around_them():
    """Issued one iteration before it is awaited: of four iterations three have a pair, in each of two times three."""
    inner = Body(2, 4, (Stamp(0), Stamp(1)))
    layout = allocate([Body(0, 2, (Body(1, 3, (inner,)),))], spans=[Span(0, 0, 1, "async", start_ahead=1)])
    block, clock = Block(layout).open(0).trip(0, 2), 0
    for i in range(2):
        block.trip(1, 3, i)
        for j in range(3):
            block.trip(2, 4, i, j)
            for k in range(4):
                clock += 10
                block.put(0, clock, i, j, k).put(1, clock + 5, i, j, k)
    outer = block.decode().columns["outer"].tolist()
    assert sorted(map(outer.count, set(outer))) == [3] * 6
