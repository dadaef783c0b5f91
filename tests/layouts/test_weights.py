"""Programs of which only some is recorded: what is there stands for all that happened, in number and in time."""

import os
import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

sys.path.insert(0, os.path.dirname(__file__))
from record_executor import launch
from record_programs import For, If, Part, Stage, lay_out, programs

from tileprobe.ir.layout import Body, Span, Stamp, StreamItems, allocate
from tileprobe.ir.regions import Region
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.trace.blocks import fixed_loops
from tileprobe.trace.cursor_weights import _share_missing, within
from tileprobe.trace.decode import decode

everys = st.builds(Every, st.integers(1, 4), st.integers(0, 3), st.sampled_from([2**31 - 1, 1, 2]))
samplings = st.one_of(
    st.builds(Sampling, everys, st.dictionaries(st.integers(-1, 3), everys, max_size=3)),
    st.builds(lambda chosen: Sampling(chosen=tuple(chosen)), st.lists(st.integers(0, 6), unique=True)),
)


def read(run, sampling, count, **more):
    return decode(run.words, run.laid.layout, epochs=[7], programs=count, sampling=sampling, **more)


def counts(decoded):
    columns = decoded.columns
    return {
        int(region): float(columns["weight"][columns["region"] == region].sum())
        for region in np.unique(columns["region"])
    }


def happened(run):
    """Every execution of a region, recorded or not."""
    return Counter(region for _, _, region, *_ in run.intervals)


@settings(max_examples=150, deadline=None)
@given(programs(uniform=True, pipes=False, streams=1), samplings, st.integers(1, 5), st.integers(1, 4))
def test_weights_add_up_to_what_happened(program, sampling, count, blocks):
    """Whatever sampling leaves out and whatever has no room, in nests of any depth."""
    run = launch(lay_out(program), sampling, count, blocks)
    true = happened(run)
    for region, weight in counts(read(run, sampling, count)).items():
        assert weight == pytest.approx(true[region])


@settings(max_examples=100, deadline=None)
@given(programs(uniform=True, pipes=False, streams=1, circular=True), samplings, st.integers(1, 4))
def test_what_was_overwritten_is_stood_for(program, sampling, count):
    run = launch(lay_out(program, strategy="circular"), sampling, count, count)
    true = happened(run)
    for region, weight in counts(read(run, sampling, count)).items():
        assert weight == pytest.approx(true[region])


@settings(max_examples=60, deadline=None)
@given(programs(roomy=True), st.integers(1, 4))
def test_what_is_all_there_stands_for_itself(program, count):
    decoded = read(
        launch(lay_out(program, cursor_capacity=4000), Sampling(), count, count), Sampling(), count
    )
    assume(not any(losses.lost for losses in decoded.losses))
    if decoded.columns:
        assert (decoded.columns["weight"] == 1).all()
        assert (decoded.columns["fit"] == 1).all()


def nest(trip, capacity, inner=3, vary=0):
    """A loop in a loop, each with a stage; regions 0 outer loop, 1 stage, 2 inner loop, 3 stage."""
    body = (Stage(1), For(1, 2, 64, inner, vary, (Stage(3),)))
    return lay_out([Part(1, (For(0, 0, capacity, trip, 0, body),))])


def scaled(decoded):
    columns = decoded.columns
    time = (columns["stop"] - columns["start"]) * columns["weight"] * columns["fit"]
    return {int(r): float(time[columns["region"] == r].sum()) for r in np.unique(columns["region"])}


def whole(laid, **how):
    """The same program with room for everything."""
    return scaled(read(launch(laid, Sampling(), 1, 1, **how), Sampling(), 1))


def test_every_phase_together_is_the_truth():
    """Iterations that differ, in a loop without records around it: one phase may be off, their mean is not."""
    laid = lay_out([Part(1, (For(0, 0, 64, 12, 0, (Stage(1), Stage(2))),))])
    true = whole(laid, seed=4)
    found = []
    for phase in range(4):
        sampling = Sampling(loops={-1: Every(4, phase)})
        decoded = read(launch(laid, sampling, 1, 1, seed=4), sampling, 1)
        columns = decoded.columns
        time = (columns["stop"] - columns["start"]) * columns["weight"]
        found.append([time[columns["region"] == region].sum() for region in (1, 2)])
    assert np.mean(found, axis=0) == pytest.approx([true[1], true[2]])
    assert np.std(found, axis=0).min() > 0


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(loops={0: Every(4, 1)}), Sampling(loops={0: Every(5)})]
)
def test_iterations_that_stand_for_others_fill_the_measured_loop(sampling):
    laid = nest(trip=40, capacity=8)
    decoded = read(launch(laid, sampling, 1, 1), sampling, 1)
    time, number = scaled(decoded), counts(decoded)
    assert number == pytest.approx({0: 1, 1: 40, 2: 40, 3: 120})
    assert time[1] + time[2] <= time[0]
    assert time[1] + time[2] > 0.6 * time[0]  # a part of the loop is in none of its stages
    assert time[3] < time[2]


def test_a_loop_that_slows_down_where_nobody_looked_adds_up():
    """The first 8 of 64 iterations have room, and the others take ten times as long."""
    laid = lay_out([Part(1, (For(0, 0, 8, 64, 0, (Stage(1),)),))])
    run = launch(laid, Sampling(), 1, 1)
    layout = laid.layout
    stop = layout.slots[laid.slots[0, "stop"]].base
    recorded = read(run, Sampling(), 1)
    took = recorded.columns["stop"][recorded.columns["region"] == 1].max() - int(run.words[0, 8])
    run.words[0, stop] = int(run.words[0, 8]) + int(took * (1 + 70))
    time = scaled(read(run, Sampling(), 1))
    plain = scaled(recorded)
    assert time[1] / time[0] == pytest.approx(plain[1] / plain[0], abs=0.05)
    assert time[1] > 8 * plain[1]


def test_runs_without_a_recorded_iteration_are_stood_for_by_the_others():
    """Runs of 1 to 3 iterations, of which those behind the second are looked at: short runs have none."""
    laid = lay_out([Part(1, (For(0, 0, 64, 12, 0, (For(1, 1, 64, 1, 2, (Stage(2),)),)),))])
    sampling = Sampling(loops={1: Every(3, 1)})
    run = launch(laid, sampling, 1, 1)
    decoded = read(run, sampling, 1)
    assert (decoded.columns["region"] == 2).sum() < 12  # a run of one iteration has no second
    assert counts(decoded)[2] == pytest.approx(happened(run)[2])


@pytest.mark.parametrize("distance", [0, 1, 2])
@pytest.mark.parametrize("trips", [3, 20])
def test_pairs_across_iterations_are_stood_for(distance, trips):
    """Issues that run ahead of their waits, in a loop with room for four iterations."""
    layout = allocate(
        [Body(0, 4, (Stamp(0), Stamp(1)))], spans=[Span(0, 0, 1, "async", start_ahead=distance)]
    )
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, 0], words[0, 8] = 1, (1 << 32) | trips
    kept = min(trips, 4)
    words[0, 9 : 9 + 2 * kept] = 1 + np.arange(2 * kept) * 10
    decoded = decode(words, layout, epochs=[1], programs=1)
    assert len(decoded.columns["weight"]) == kept - distance
    assert decoded.columns["weight"].sum() == pytest.approx(trips - distance)


# -- loops whose records go to the cursor's segment: a stream counts their iterations -------------------------

iterations = st.builds(Every, st.integers(1, 4), st.integers(0, 3), st.sampled_from([2**31 - 1, 1, 2]))


@settings(max_examples=300, deadline=None)
@given(
    programs(pipes=False, streams=1),
    st.dictionaries(st.integers(-1, 5), iterations, max_size=4),
    st.integers(1, 4),
    st.sampled_from([7, 40, 4000]),
)
def test_what_is_recorded_of_any_while_loop_stands_for_all_of_it(program, loops, count, room):
    """Branches, `while` loops and nests of both, whatever sampling leaves out and whatever has no room."""
    laid, sampling = lay_out(program, cursor_capacity=room), Sampling(loops=loops)
    run = launch(laid, sampling, count, count)
    found, true = counts(read(run, sampling, count)), happened(run)
    for region in found:
        slots = [laid.layout.slots[laid.slots[region, end]] for end in ("start", "stop")]
        innermost = slots[0].loops[-1:]
        if slots[0].cursor and innermost and not any(slot.branch for slot in slots):
            assert found[region] == pytest.approx(true[region])


def uncounted(body, trip, capacity, sampling, regions=None, vary=0, count=1, **how):
    """A `while` loop: region 0, and what is in it."""
    loop = For(0, 0, 64, trip, vary, body, counted=False)
    laid = lay_out([Part(1, (loop,))], cursor_capacity=capacity)
    regions = regions or [Region(0, "loop", "loop"), Region(1, "iteration", "iteration", 0)]
    run = launch(laid, sampling, count, count, step=3, **how)
    return run, read(run, sampling, count, regions=regions)


@pytest.mark.parametrize("every", [Every(), Every(4), Every(7, 3), Every(count=9)])
def test_iterations_of_a_while_loop_are_counted_and_fill_it(every):
    run, decoded = uncounted((Stage(1),), 200, 60, Sampling(loops={-1: every}))
    assert (decoded.columns["region"] == 1).sum() < 60
    assert counts(decoded)[1] == pytest.approx(200)
    assert happened(run)[1] == 200
    _, all_of_it = uncounted((Stage(1),), 200, 4000, Sampling())
    assert scaled(decoded)[1] == pytest.approx(scaled(all_of_it)[1], rel=0.25)
    assert scaled(decoded)[1] < scaled(decoded)[0]


@pytest.mark.parametrize("every", [Every(5, 4), Every(9, 8, 1)])
def test_programs_without_a_recorded_iteration_of_a_while_loop_are_stood_for(every):
    """Programs of 3 to 6 iterations, of which the fourth or the eighth is the first to be looked at."""
    run, decoded = uncounted((Stage(1),), 3, 60, Sampling(loops={0: every}), vary=6, count=7)
    assert happened(run)[1] == sum(range(3, 10))
    assert 0 < (decoded.columns["region"] == 1).sum() < 7
    assert counts(decoded)[1] == pytest.approx(happened(run)[1])


@pytest.mark.parametrize("every", [Every(4), Every(3, 0), Every(9), Every(count=1)])
def test_short_runs_of_a_while_loop_are_not_counted_as_if_they_were_long(every):
    """Each run has one to three iterations and records its first: one in `every` it is not."""
    inner = For(1, 2, 64, 1, 2, (Stage(3),), counted=False)
    kinds = ("loop", "iteration", "loop", "iteration")
    regions = [Region(n, kind, kind, n - 1 if n else None) for n, kind in enumerate(kinds)]
    run, decoded = uncounted((Stage(1), inner), 80, 2000, Sampling(loops={1: every}), regions)
    assert (decoded.columns["region"] == 3).sum() == 80
    assert happened(run)[3] > 120
    assert counts(decoded)[3] == pytest.approx(happened(run)[3])


@pytest.mark.parametrize("every", [Every(4), Every(count=3)])
@pytest.mark.parametrize("outer", [Every(), Every(2, 1), Every(count=2)])
def test_a_while_loop_in_a_counted_loop_is_counted_in_every_program(every, outer):
    """Programs and rounds of the outer loop are two things: each program has six runs of the inner one."""
    inner = For(1, 2, 64, 9, 2, (Stage(3),), counted=False)
    laid = lay_out([Part(1, (For(0, 0, 8, 6, 0, (inner,)),))], cursor_capacity=2000)
    kinds = ("loop", "iteration", "loop", "iteration")
    regions = [Region(n, kind, kind, n - 1 if n else None) for n, kind in enumerate(kinds)]
    sampling = Sampling(loops={0: outer, 1: every})
    run = launch(laid, sampling, 3, 3, step=3)
    decoded = read(run, sampling, 3, regions=regions)
    found, whole = counts(decoded), whole_of(laid, 3, regions)
    assert found[2] == happened(run)[2] == 18
    assert found[3] == pytest.approx(happened(run)[3])
    assert scaled(decoded)[3] == pytest.approx(whole[3], rel=0.3)
    assert scaled(decoded)[3] < scaled(decoded)[2]


def whole_of(laid, count, regions):
    return scaled(read(launch(laid, Sampling(), count, count, step=3), Sampling(), count, regions=regions))


def test_records_in_branches_alone_stand_for_what_was_chosen():
    """Every second iteration takes the branch; nothing says how many iterations were looked at."""
    for every in (Every(), Every(3), Every(count=30)):
        run, decoded = uncounted((If(0, (Stage(1),)),), 90, 4000, Sampling(loops={0: every}))
        assert counts(decoded)[1] == pytest.approx(happened(run)[1], rel=0.05)


@pytest.mark.parametrize("room", [60, 61, 62, 63, 64, 65, 66, 67])
def test_a_run_whose_end_had_no_room_is_stood_for(room):
    """While loops in a while loop: the segment is full in the middle of a run, whose iterations then lie in none that
    has an end."""
    inner = For(1, 2, 64, 3, 0, (Stage(3),), counted=False)
    laid = lay_out([Part(1, (For(0, 0, 64, 20, 0, (Stage(1), inner), counted=False),))], cursor_capacity=room)
    kinds = ("loop", "iteration", "loop", "iteration")
    regions = [Region(n, kind, kind, n - 1 if n else None) for n, kind in enumerate(kinds)]
    run = launch(laid, Sampling(), 1, 1, step=3)
    found = counts(read(run, Sampling(), 1, regions=regions))
    for region in (1, 2, 3):
        assert found[region] == pytest.approx(happened(run)[region], rel=1e-9)


def test_a_record_lies_in_the_run_of_its_own_row_that_has_begun_and_not_ended():
    """Runs from 10 to 20 and 30 to 40 in row 0, from 15 to 25 in row 2."""
    runs = np.array([0, 0, 2]), np.array([10.0, 30.0, 15.0]), np.array([20.0, 40.0, 25.0])
    row = np.array([0, 0, 0, 0, 1, 2, 2])
    clock = np.array([5.0, 20.0, 25.0, 30.0, 15.0, 14.0, 16.0])
    assert within(*runs, row, clock).tolist() == [-1, 0, -1, 1, -1, -1, 2]


def test_rows_with_records_stand_for_those_of_their_launch_without():
    rows = SimpleNamespace(launch=np.array([0, 0, 1, 1, 2]))
    amount, seen = np.array([1.0, 1.0, 6.0, 2.0, 5.0]), np.array([1, 0, 3, 0, 0])
    found = _share_missing(rows, amount, seen)  # type: ignore[arg-type]
    assert found.tolist() == pytest.approx([2.0, 2.0, 8 / 6, 8 / 6, 1.0])  # of the last nothing was seen


def test_loops_with_places_are_those_of_their_own_stream():
    streams = [StreamItems([Body(n, 4, (Stamp(n),))], f"part {n}") for n in range(3)]
    layout = allocate(streams, granularity="warp")
    assert [[loop.id for loop in fixed_loops(layout, n)] for n in range(3)] == [[0], [1], [2]]
