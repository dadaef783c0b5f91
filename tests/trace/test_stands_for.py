"""What a recorded iteration stands for, and by how much its time is stretched: single blocks, figures by hand.

A loop begins at tick 1000. Its iterations begin 100 ticks apart and last 80, so 20 pass between two of them.
"""

import numpy as np
import pytest

from tileprobe.ir.layout import EPOCH, PUSHED, Body, Span, Stamp, allocate
from tileprobe.ir.regions import Region
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.trace import Clock, Kernel, Launch, Trace
from tileprobe.trace.decode import decode, read_rows
from tileprobe.trace.stand_ins import _Size, _sizes
from tileprobe.trace.weights import _ends

ROOM = 4
SPANS = [Span(0, 0, 3), Span(1, 1, 2)]
COUNTED = allocate([Stamp(0), Body(0, ROOM, (Stamp(1), Stamp(2))), Stamp(3)], spans=SPANS)
REGIONS = [Region(0, "loop", "loop"), Region(1, "iteration", "iteration", 0)]


def block(trips, numbers, *, end, begin=1000, before=10, lasts=80, layout=COUNTED, epoch=1):
    """One program: the iterations `numbers` lie in the places from the first on."""
    words = np.zeros(layout.block_words, np.uint64)
    words[EPOCH] = epoch
    words[layout.slots[0].base], words[layout.slots[3].base] = begin, end
    words[layout.loops[0].trip_base] = (epoch << 32) | trips
    for place, number in enumerate(numbers):
        start = begin + before + 100 * number
        words[layout.slots[1].place([place])] = start
        words[layout.slots[2].place([place])] = start + lasts
    return words


def stands(blocks, every=None, programs=None, **more):
    """Weight and fit of the iterations, each program's first one."""
    sampling = Sampling(loops={0: every or Every()})
    found = decode(
        np.stack(blocks), COUNTED, epochs=[1], programs=programs or len(blocks), sampling=sampling, **more
    ).columns
    inner = found["region"] == 1
    by_program = {}
    for program, weight, fit in zip(*(found[n][inner].tolist() for n in ("program", "weight", "fit"))):
        by_program.setdefault(program, (weight, fit))
    return by_program


# -- loops with places --------------------------------------------------------------------------------------------


def test_the_first_iterations_fill_the_loop():
    """Four of eight, 80 of every 100 ticks. Behind the first 10 ticks the loop has 1140, so iterations have 912 of
    them: twice as many as recorded, nearly half as long again."""
    assert stands([block(8, range(4), end=2150)])[0] == (2.0, pytest.approx(912 * 4 / (8 * 320)))


def test_the_last_iterations_fill_the_loop():
    """Iterations 4 to 7 of eight; the last one ends at 1790, 30 ticks before the loop does."""
    weight, fit = stands([block(8, range(4, 8), end=1820)], Every(phase=-4))[0]
    assert weight == 2.0
    assert fit == pytest.approx((820 - 30) * 80 / 100 * 4 / (8 * 320))


def test_strided_iterations_have_no_neighbours_and_nothing_is_between():
    """Iterations 0, 3 and 6 of eight: all but the ticks before the first is theirs."""
    weight, fit = stands([block(8, (0, 3, 6), end=1850)], Every(3))[0]
    assert weight == pytest.approx(8 / 3)
    assert fit == pytest.approx((850 - 10) * 3 / (8 * 240))
    # the last of ten is iteration 9: what comes behind it is no iteration either
    weight, fit = stands([block(10, (0, 3, 6, 9), end=2050)], Every(3))[0]
    assert weight == pytest.approx(10 / 4)
    assert fit == pytest.approx((1050 - 10 - 60) * 4 / (10 * 320))


def test_where_records_are_passed_strided_iterations_stand_for_all():
    """As above, 840 ticks inside: eight times 80 are iterations, the rest is between them."""
    weight, fit = stands([block(8, (0, 3, 6), end=1850)], Every(3), passed=True)[0]
    assert (weight, fit) == (pytest.approx(8 / 3), pytest.approx(1.0))
    # What is between is the same in all runs together: 40 ticks an iteration of 16, once 50 and once 30.
    blocks = [block(8, (0, 3, 6), end=1010 + 8 * 120 + more) for more in (80, -80)]
    found = stands(blocks, Every(3), passed=True)
    assert [fit for _, fit in found.values()] == [pytest.approx(90 / 80), pytest.approx(70 / 80)]
    # No more than there is time for.
    _, fit = stands([block(8, (0, 3, 6), end=1010 + 8 * 60)], Every(3), passed=True)[0]
    assert fit == pytest.approx(60 / 80)


def test_where_records_are_passed_a_part_stands_for_no_more_than_itself():
    """One of eight, or every second one of the first half: nobody knows how long the others took, and no neighbours say
    what is between."""
    layout = allocate([Stamp(0), Body(0, 1, (Stamp(1), Stamp(2))), Stamp(3)], spans=SPANS)
    for end, fit in ((2150, 1.0), (1010 + 8 * 40, 0.5)):
        words = block(8, range(1), end=end, layout=layout)
        found = decode(words, layout, epochs=[1], programs=1, passed=True).columns
        assert found["fit"][found["region"] == 1] == pytest.approx(fit)
    assert stands([block(20, (0, 2, 4, 6), end=4000)], Every(2), passed=True)[0] == (5.0, 1.0)


def test_a_phase_leaves_the_beginning_in_the_loop():
    weight, fit = stands([block(8, (1, 5), end=1850)], Every(4, 1))[0]
    assert (weight, fit) == (4.0, pytest.approx(850 * 2 / (8 * 160)))


def test_two_neighbours_are_enough_to_know_what_is_between():
    """Room for two of four: 80 ticks are an iteration, 20 lie behind it."""
    layout = allocate([Stamp(0), Body(0, 2, (Stamp(1), Stamp(2))), Stamp(3)], spans=SPANS)
    words = block(4, range(2), end=1460, layout=layout)
    found = decode(words, layout, epochs=[1], programs=1).columns
    inner = found["region"] == 1
    assert found["weight"][inner].tolist() == [2.0, 2.0]
    assert found["fit"][inner] == pytest.approx(450 * 80 / 100 * 2 / (4 * 160))


def test_a_single_recorded_iteration_is_the_first_as_well():
    """One of three: what came before it is no iteration, and there is no neighbour to tell what is between."""
    layout = allocate([Stamp(0), Body(0, 1, (Stamp(1), Stamp(2))), Stamp(3)], spans=SPANS)
    found = decode(block(3, range(1), end=1370, layout=layout), layout, epochs=[1], programs=1).columns
    inner = found["region"] == 1
    assert (found["weight"][inner].tolist(), found["fit"][inner].tolist()) == (
        [3.0],
        [pytest.approx(360 / 240)],
    )


def test_iterations_take_no_less_than_what_was_recorded_of_them():
    """A loop that ends right behind the fourth of five iterations has no time for a fifth."""
    assert stands([block(5, range(4), end=1390)])[0] == (1.25, pytest.approx(4 / 5))


def test_what_is_all_there_stands_for_itself():
    assert stands([block(4, range(4), end=9000)])[0] == (1.0, 1.0)
    assert stands([block(3, range(3), end=9000)])[0] == (1.0, 1.0)


def test_without_records_around_the_loop_there_is_no_fit():
    words = block(8, range(4), end=9000)
    words[COUNTED.slots[3].base] = 0
    assert stands([words])[0] == (2.0, 1.0)


def test_runs_without_a_record_are_stood_for_by_those_with_one():
    """Every third from 1 on. Program 1 has one iteration, number 0, and none of them recorded. Program 0 has
    four of which two are: it stands for five, and its 500 ticks for 600."""
    words = [block(5, (1, 4), end=1500), block(1, (), end=1100)]
    weight, fit = stands(words, Every(3, 1))[0]
    assert weight == pytest.approx(5 / 2 * 6 / 5)
    own = (500 - 10) * 2 / (5 * 160)  # the last iteration is recorded and ends 10 ticks before the loop
    assert fit == pytest.approx(own * (600 / 500) / (6 / 5))


def test_programs_that_were_left_out_are_stood_for():
    sampling = Sampling(programs=Every(4, 1))
    words = np.stack([block(4, range(4), end=1400)] * 2)
    found = decode(words, COUNTED, epochs=[1], programs=8, sampling=sampling)
    assert found.columns["program"].tolist() == [1, 5] + [1] * 4 + [5] * 4
    assert (found.columns["weight"] == 4.0).all()
    losses = found.losses[0]
    assert (losses.kept, losses.sampled_out, losses.lost) == (20, 60, 0)


def test_losses_of_iterations_and_of_programs():
    """Two records outside and two an iteration. Of eight iterations sampling wants every second, four, and all fit.
    Three programs are wanted, two have a block: one more is lost, with what it would have kept."""
    sampling = Sampling(programs=Every(2), loops={0: Every(2)})
    words = np.stack([block(8, (0, 2, 4, 6), end=1900)] * 2)
    losses = decode(words, COUNTED, epochs=[1], programs=6, sampling=sampling).losses[0]
    wanted, everything = 2 + 2 * 4, 2 + 2 * 8
    assert losses.kept == 2 * wanted
    assert losses.lost == wanted
    assert losses.sampled_out == 3 * everything + 3 * (everything - wanted)


def test_losses_of_iterations_without_room():
    losses = decode(np.stack([block(10, range(4), end=2100)]), COUNTED, epochs=[1], programs=1).losses[0]
    assert (losses.kept, losses.sampled_out, losses.lost) == (10, 0, 12)
    nobody = decode(np.stack([block(4, (), end=0)]) * 0, COUNTED, epochs=[1], programs=1)
    assert (nobody.losses[0].kept, nobody.losses[0].lost) == (0, 0)


def test_losses_in_a_nest():
    """Six outer iterations with room for two; in each recorded one five inner ones with room for three."""
    layout = allocate(
        [Body(0, 2, (Stamp(0), Body(1, 3, (Stamp(1),))))],
        spans=[Span(0, 0, 0, "mark"), Span(1, 1, 1, "mark")],
    )
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, EPOCH] = 1
    words[0, layout.loops[0].trip_base] = (1 << 32) | 6
    inner = layout.loops[1]
    for outer in range(2):
        words[0, layout.slots[0].place([outer])] = 1 + outer
        words[0, inner.trip_base + outer * inner.strides[0]] = (1 << 32) | 5
        for place in range(3):
            words[0, layout.slots[1].place([outer, place])] = 10 + place
    found = decode(words, layout, epochs=[1], programs=1)
    assert found.losses[0].kept == 2 + 6
    assert found.losses[0].lost == 4 + (30 - 6)
    weight = found.columns["weight"]
    assert weight[found.columns["region"] == 0].tolist() == [3.0] * 2
    assert weight[found.columns["region"] == 1] == pytest.approx(3.0 * 5 / 3)


def test_losses_in_a_nest_whose_outer_loop_has_room_for_one():
    """Of 6 outer iterations one is kept, and of its 5 inner ones 3."""
    layout = allocate([Body(0, 1, (Stamp(0), Body(1, 3, (Stamp(1),))))], spans=[Span(0, 0, 0), Span(1, 1, 1)])
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, EPOCH] = 1
    words[0, layout.loops[0].trip_base] = (1 << 32) | 6
    words[0, layout.loops[1].trip_base] = (1 << 32) | 5
    words[0, layout.slots[0].place([0])] = 1
    for place in range(3):
        words[0, layout.slots[1].place([0, place])] = 10 + place
    found = decode(words, layout, epochs=[1], programs=1)
    assert (found.losses[0].kept, found.losses[0].lost) == (1 + 3, 5 + 27)


def test_a_region_that_only_begins_with_a_loop_does_not_measure_it():
    """The region ends with a stage behind the loop: its time is not that of the iterations."""
    spans = [Span(0, 0, 4), Span(1, 1, 2)]
    items = [Stamp(0), Body(0, ROOM, (Stamp(1), Stamp(2))), Stamp(3), Stamp(4)]
    layout = allocate(items, spans=spans)
    words = block(8, range(4), end=1900, layout=layout)
    words[layout.slots[4].base] = 9000
    found = decode(words[None], layout, epochs=[1], programs=1).columns
    inner = found["region"] == 1
    assert set(zip(found["weight"][inner].tolist(), found["fit"][inner].tolist())) == {(2.0, 1.0)}


# -- loops whose records lie in the cursor's segment; a program says how many iterations they had ----------------


def while_layout(room, **more):
    loop = Body(0, 1, (Stamp(1), Stamp(2)), counted=False)
    return allocate([Stamp(0), loop, Stamp(3)], spans=SPANS, cursor_capacity=room, **more)


def while_block(numbers, *, end, total, pushed=None, room=16, runs=(1000,), lasts=80):
    """Iterations `numbers` of each run of a `while` loop that had `total`; a run begins 10 ticks before its iteration
    0."""
    layout = while_layout(room)
    words = np.zeros((1, layout.block_words), np.uint64)
    at = layout.streams[0].cursor_base
    records = [
        ((number << 32) | slot, begin + 10 + 100 * number + (lasts if slot == 2 else 0))
        for begin in runs
        for number in numbers
        for slot in (1, 2)
    ]
    words[0, EPOCH], words[0, PUSHED] = 1, len(records) if pushed is None else pushed
    words[0, layout.loops[0].trip_base] = (1 << 32) | total
    words[0, layout.slots[0].base], words[0, layout.slots[3].base] = 1000, end
    for tag, clock in records:
        words[0, at], words[0, at + 1] = tag, clock
        at += 2
    return words, layout


def while_stands(numbers, every=None, regions=REGIONS, **how):
    words, layout = while_block(numbers, **how)
    sampling = Sampling(loops={0: every or Every()})
    found = decode(words, layout, epochs=[1], programs=1, sampling=sampling, regions=regions)
    inner = found.columns["region"] == 1
    kept = list(zip(found.columns["weight"][inner].tolist(), found.columns["fit"][inner].tolist()))
    assert len(set(kept)) == 1
    return kept[0], found.losses[0]


def test_records_that_did_not_fit_are_stood_for_by_those_that_did():
    """Four records fit of ten: two iterations stand for five. They last 80 ticks each and are 20 apart."""
    (weight, fit), losses = while_stands((0, 1), end=1900, total=5, pushed=10, room=4)
    assert (weight, fit) == (2.5, pytest.approx(900 * 80 / 100 / (2.5 * 160)))
    assert (losses.kept, losses.sampled_out, losses.lost) == (6, 0, 6)


def test_every_fourth_iteration_of_a_while_loop_stands_for_all_that_were_counted():
    """Iterations 0, 4 and 8 of eleven. They begin 100 ticks apart and take 80; of the 20 between them the loop has as
    much as it takes before the first, 10: of its 1100 ticks 80 of 90 are theirs."""
    (weight, fit), losses = while_stands((0, 4, 8), Every(4), end=2100, total=11)
    assert (weight, fit) == (pytest.approx(11 / 3), pytest.approx(1100 * 80 / 90 / (11 * 80)))
    assert (losses.kept, losses.sampled_out, losses.lost) == (8, 2 * 8, 0)


def test_a_while_loop_without_losses_stands_for_itself():
    assert while_stands((0, 1, 2), end=9000, total=3)[0] == (1.0, 1.0)


@pytest.mark.parametrize("end", [1200, 9000])
@pytest.mark.parametrize("total", [2, 3, 7])
def test_the_first_iterations_of_a_while_loop_stand_for_all_whatever_time_they_took(end, total):
    """Iterations 0 and 1 take 80 ticks each, 20 apart. A thread that was put aside behind them makes no iterations."""
    (weight, fit), losses = while_stands((0, 1), Every(count=2), end=end, total=total)
    assert weight == pytest.approx(total / 2)
    inside = max((end - 1000) * 80 / 100, 160)
    assert fit == pytest.approx(1.0 if total == 2 else inside / (total * 80))
    assert losses.sampled_out == 2 * (total - 2)


def test_without_regions_nobody_knows_how_long_a_while_loop_took():
    assert while_stands((0, 1), regions=[], end=1900, total=5, pushed=10, room=4)[0] == (2.5, 1.0)
    assert while_stands((0, 1), Every(count=2), regions=[], end=1690, total=9)[0] == (4.5, 1.0)


def test_a_count_of_another_launch_says_nothing():
    """Nor does that of a program that did not come to its end: what was recorded is all that is known."""
    words, layout = while_block((0, 1), end=1900, total=5)
    words[0, layout.loops[0].trip_base] += 1 << 32
    found = decode(words, layout, epochs=[1], programs=1, regions=REGIONS).columns
    assert set(found["weight"]) == set(found["fit"]) == {1.0}


def test_programs_count_each_by_itself():
    first, layout = while_block((0, 1), end=1390, total=4)
    second, _ = while_block((0, 1), end=1990, total=10)
    found = decode(
        np.concatenate([first, second]),
        layout,
        epochs=[1],
        programs=2,
        sampling=Sampling(loops={0: Every(count=2)}),
        regions=REGIONS,
    ).columns
    inner = found["region"] == 1
    weights = dict(zip(found["program"][inner].tolist(), found["weight"][inner].tolist()))
    assert weights == {0: 2.0, 1: 5.0}


def test_a_program_without_losses_stands_for_itself_beside_one_with():
    """Both have room for four records; the first wrote ten, the second four in a loop of 900 ticks."""
    first, layout = while_block((0, 1), end=1900, total=5, pushed=10, room=4)
    second, _ = while_block((0, 1), end=1900, total=2, room=4)
    words = np.concatenate([first, second])
    found = decode(words, layout, epochs=[1], programs=2, regions=REGIONS).columns
    mine = (found["region"] == 1) & (found["program"] == 1)
    assert (set(found["weight"][mine]), set(found["fit"][mine])) == ({1.0}, {1.0})


def test_how_large_a_launch_was_counts_what_its_records_stand_for():
    """One program of 100 ns that stands for three, each of half its time; a loop inside adds executions, no time."""
    trace = Trace.build(
        {"launch": [0, 0, 1], "region": [0, 1, 0], "start": [0, 10, 0], "stop": [100, 60, 7]}
        | {"weight": [3.0, 5.0, 1.0], "fit": [0.5, 9.0, 1.0]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (3,), preempted_ns=40.0, ran_ns=120.0), Launch(1, 0, (1,))],
        regions=[Region(0, "k", "kernel"), Region(1, "loop", "loop", 0)],
    )
    assert _sizes(trace, [0]) == {0: _Size(8.0, 120.0, 150.0)}
    assert _sizes(trace, [1]) == {1: _Size(1.0, 7.0, 7.0)}


def test_a_loop_is_measured_by_the_records_right_beside_it():
    """Not by those with others between, nor by those of another stream or around a loop of it."""
    rows, _ = read_rows(block(3, (0, 1, 2), end=1300)[None, None], COUNTED, epochs=[1], programs=1)
    start, stop = _ends(rows[0], COUNTED.loops[0])
    assert (start.base, stop.base) == (COUNTED.slots[0].base, COUNTED.slots[3].base)
    for items in (
        [Stamp(0), Stamp(4), Body(0, ROOM, (Stamp(1), Stamp(2))), Stamp(3)],
        [Stamp(0), Body(0, ROOM, (Stamp(1), Stamp(2))), Stamp(4), Stamp(3)],
    ):
        apart = allocate(items, spans=SPANS)
        words = np.zeros((1, 1, apart.block_words), np.uint64)
        words[..., EPOCH] = 1
        rows, _ = read_rows(words, apart, epochs=[1], programs=1)
        assert _ends(rows[0], apart.loops[0]) is None


def test_what_while_loops_ran_is_of_all_programs_of_the_launch():
    """Two launches, of eight programs every fourth: the iterations of two programs are those of eight."""
    words = np.stack([np.concatenate([while_block(range(n), end=2000, total=n)[0]] * 2) for n in (3, 2)])
    found = decode(
        words,
        while_layout(16),
        epochs=[1, 1],
        programs=8,
        sampling=Sampling(Every(4)),
        launches=[5, 7],
        regions=REGIONS,
    )
    assert [(one.loop, one.launch, one.total) for one in found.ran] == [(0, 5, 24.0), (0, 7, 16.0)]
    assert set(zip(found.columns["launch"].tolist(), found.columns["weight"].tolist())) == {
        (5, 4.0),
        (7, 4.0),
    }


@pytest.mark.parametrize(
    ("count", "counted", "about"), [(15, True, True), (16, True, False), (16, False, True)]
)
def test_a_launch_of_half_as_many_executions_again_did_something_else(count, counted, about):
    """Where executions are counted at all; the times alone would allow it."""
    one, other = _Size(10, 50.0, 150.0), _Size(count, 50.0, 150.0)
    assert one.about(other, counted) == other.about(one, counted) == about
