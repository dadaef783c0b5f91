"""What a record costs where it stands: learnt from launches that recorded no iterations, and given back to the work
beside it."""

import math

import numpy as np
import pytest

from tileprobe.ir.layout import EPOCH, PUSHED, UNIT, Body, Span, Stamp, allocate
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.trace.decode import decode, read_rows
from tileprobe.trace.in_place import BEFORE, UNSURE, InPlace, _code, _gaps, _launches, _ratio, in_place
from tileprobe.trace.replay import Calibration

COST, TRIPS = 20, 10
LOOP = allocate(
    [Stamp(0), Body(0, TRIPS, (Stamp(1), Stamp(2))), Stamp(3)], spans=[Span(0, 0, 3), Span(1, 1, 2)]
)
LIGHT = Sampling(loops={0: Every(count=0)})
DOSED = Calibration(float(COST), 0.0, {}, (1, 3))


def words_of(programs, *, cost, light=False, pace=1.0, noise=None):
    """Programs of so many ticks of work each, ten iterations, in which a record takes `cost`."""
    words = np.zeros((len(programs), LOOP.block_words), np.uint64)
    for number, (block, work) in enumerate(zip(words, programs)):
        block[EPOCH], block[UNIT], clock = 1, number, 1000.0
        block[LOOP.loops[0].trip_base] = (1 << 32) | TRIPS
        block[LOOP.slots[0].base] = clock
        more = 0.0 if noise is None else noise.normal(0, 30)
        for n in range(TRIPS):
            for slot, part in ((1, 0.1), (2, 0.9)):
                clock += pace * part * work / TRIPS
                if not light:
                    clock += cost
                    block[LOOP.slots[slot].base + n * LOOP.loops[0].stride] = round(clock)
        block[LOOP.slots[3].base] = round(clock + cost + more)
    return words


def rows_of(launches, sampling=None):
    words = np.stack(launches)
    rows, _ = read_rows(words, LOOP, epochs=[1] * len(words), programs=words.shape[1], sampling=sampling)
    return rows


WORK = [3000 + 1000 * n for n in range(12)]  # programs that differ by more than all their records


def learnt(cost, *, launches=6, light=4, paces=(1.0,), noise=None):
    both = [words_of(WORK, cost=cost, noise=noise) for _ in range(launches)]
    few = [
        words_of(WORK, cost=cost, light=True, pace=paces[n % len(paces)], noise=noise) for n in range(light)
    ]
    return in_place(rows_of(both), rows_of(few, LIGHT), DOSED)


def test_every_program_of_a_launch_is_looked_at():
    """Ten iterations of two records and one behind them: 21 times 20 ticks, of all programs alike."""
    rows = rows_of([words_of(WORK, cost=COST) for _ in range(2)])
    found = _launches(rows, DOSED)
    assert [one.program.tolist() for one in found] == [list(range(12))] * 2
    assert found[0].delay.tolist() == [21.0 * COST] * 12
    assert found[0].ticks - found[0].delay == pytest.approx(np.array(WORK, float), abs=1.0)


@pytest.mark.parametrize("cost", [0, 2, 5, 20])
def test_programs_without_records_in_their_loops_tell_what_these_cost(cost):
    found = learnt(cost)
    assert found.share == pytest.approx(max(cost / COST, 0.01), abs=0.005)
    assert found.error < 0.01


def test_programs_are_held_against_themselves():
    """The light launches saw the long programs only, and in another order."""
    both = rows_of([words_of(WORK, cost=4) for _ in range(4)])
    few = [words_of(WORK, cost=4, light=True) for _ in range(3)]
    for words in few:
        words[:6, EPOCH] = 0
    found = in_place(both, rows_of(few, LIGHT), DOSED)
    assert found.share == pytest.approx(0.2, abs=0.01)


def test_with_nothing_to_hold_against_it_a_record_may_cost_anything():
    assert learnt(5, light=1) == InPlace(BEFORE, UNSURE, 0.0)
    assert learnt(5, launches=1) == InPlace(BEFORE, UNSURE, 0.0)
    same = rows_of([words_of(WORK, cost=5) for _ in range(4)])
    assert in_place(same, same, DOSED) == InPlace(BEFORE, UNSURE, 0.0)
    assert InPlace(BEFORE, UNSURE, 0.0).code == 1.0  # nothing is taken out of the code around records


def test_a_machine_that_changes_its_pace_says_little():
    """Light launches 4 % faster and slower in turns: a program of 8,500 ticks differs by 340, its records take 100."""
    found = learnt(5, paces=(0.96, 1.04))
    assert found.error > 0.2
    assert abs(found.share - 0.25) < 2 * found.error
    assert found.noise == pytest.approx(found.error * math.sqrt(1 - (found.error / UNSURE) ** 2))


def test_the_error_of_the_share_is_as_far_as_it_is_off():
    """200 trials with programs that vary by 30 ticks: about one in twenty is farther off than two deviations."""
    off = []
    for seed in range(200):
        found = learnt(8, launches=3, light=3, noise=np.random.default_rng(seed))
        off.append(abs(found.share - 0.4) / found.error)
    assert 0.02 < np.mean(np.array(off) > 1.96) < 0.25


# -- the code around records --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plain", "light", "between", "most", "code"),
    [
        ([1000.0] * 4, [1300.0] * 4, 0.0, 0.5, 1 / 1.3),  # nothing lies between programs: all of it is theirs
        ([1000.0] * 4, [1300.0] * 4, 0.1, 0.5, 1.1 / 1.3 - 0.05),  # plain ones have half of it between them
        ([1000.0] * 4, [1300.0] * 4, 0.0, 0.1, 0.9),  # no more than records in each iteration would take
        ([1000.0] * 4, [1300.0] * 4, 0.4, 0.5, 1.0),  # it may all lie between them
        ([1000.0] * 4, [900.0] * 4, 0.0, 0.5, 1.0),  # no code takes less than nothing
        ([800.0, 1200.0] * 2, [1000.0, 1300.0] * 2, 0.0, 0.5, 1.0),  # launches differ by as much
        ([1000.0], [1300.0] * 4, 0.0, 0.5, 1.0),
    ],
)
def test_code_around_records_is_told_from_launches_without_any(plain, light, between, most, code):
    assert _code(plain, light, between, most)[0] == pytest.approx(code)


def test_what_is_in_doubt_of_the_code_is_what_lies_between_programs():
    assert _code([1000.0] * 4, [1000.0] * 4, 0.0, 0.5) == (1.0, 0.0)
    assert _code([1000.0] * 4, [1000.0] * 4, 0.1, 0.5)[1] == pytest.approx(UNSURE * 0.1)
    assert _code([1000.0] * 4, [1000.0] * 4, 0.1, 0.01)[1] == pytest.approx(UNSURE * 0.01)
    spread = np.std([900.0, 1100.0] * 2, ddof=1) / 1000 / 2 * 1.2533
    assert _code([900.0, 1100.0] * 2, [1000.0] * 4, 0.0, 0.5)[1] == pytest.approx(spread)


def test_durations_tell_it_beside_the_rows():
    """Light programs of 8,500 ticks in the mean, each on a unit of its own; launches 2 % longer than plain ones."""
    both, few = ([words_of(WORK, cost=5, light=light) for _ in range(4)] for light in (False, True))
    durations = [1000.0] * 6, [1020.0] * 4
    found = in_place(rows_of(both), rows_of(few, LIGHT), DOSED, durations)
    assert found.code == pytest.approx(1 / 1.02, abs=1e-6)
    assert found.share == pytest.approx(0.25, abs=0.01)


def test_programs_of_one_unit_follow_each_other():
    gaps = _gaps(
        np.array([0, 0, 0, 0, 1]),
        np.array([0, 1, 0, 1, 0]),
        np.array([10, 10, 50, 70, 5]),
        np.array([40, 60, 90, 80, 9]),
    )
    assert np.isnan(gaps).tolist() == [True, True, False, False, True]
    assert gaps[2:4].tolist() == [10, 10]


# -- given back ---------------------------------------------------------------------------------------------------


def decoded(words, layout, share, **more):
    calibration = Calibration(float(COST), 0.0, {}, (1, 3), share=share)
    found = decode(words, layout, epochs=[1], programs=len(words), calibration=calibration, **more).columns
    lasted = found["stop_corrected"] - found["start_corrected"]
    return {int(r): lasted[found["region"] == r].tolist() for r in np.unique(found["region"])}, found


THREE = allocate([Stamp(n) for n in range(4)], spans=[Span(n, n, n + 1) for n in range(3)] + [Span(3, 0, 3)])


def three(*gaps):
    words = np.zeros((1, THREE.block_words), np.uint64)
    words[0, EPOCH] = 1
    words[0, [slot.base for slot in THREE.slots]] = 1000 + np.cumsum((0, *gaps))
    return words


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_program_is_shorter_by_the_share_of_its_records_cost(share):
    lasted, found = decoded(three(120, 30, 220), THREE, share)
    assert lasted[3] == [pytest.approx(370 - share * 60)]
    assert found["probes"].tolist() == [20, 20, 20, 60]  # what doses say, whatever was given back


def test_code_around_records_is_taken_out_of_all_times_alike():
    calibration = Calibration(float(COST), 0.0, {}, (1, 3), share=0.25, code=0.8)
    plain = decoded(three(120, 30, 220), THREE, 0.25)[0]
    found = decode(three(120, 30, 220), THREE, epochs=[1], programs=1, calibration=calibration).columns
    lasted = found["stop_corrected"] - found["start_corrected"]
    assert lasted.tolist() == pytest.approx([0.8 * plain[region][0] for region in range(4)])
    assert found["start_corrected"][0] == 1000


def test_what_was_hidden_goes_to_the_longer_work_beside_it():
    """100, 10 and 200 ticks of work; of each record's 20 ticks 15 are given back: of the first 100 / 110 to the work
    before it, of the second 10 / 210, and all of the last, behind which there is nothing."""
    lasted, _ = decoded(three(120, 30, 220), THREE, 0.25)
    first, second = 15 * 100 / 110, 15 * 10 / 210
    assert lasted[0] == [pytest.approx(100 + first)]
    assert lasted[1] == [pytest.approx(10 + (15 - first) + second)]
    assert lasted[2] == [pytest.approx(200 + (15 - second) + 15)]


def test_where_records_were_more_than_there_was_no_more_is_given_back_than_was_taken():
    """Gaps of 15 ticks, shorter than a record: nothing is left of them, and all but the share comes back."""
    lasted, _ = decoded(three(15, 15, 15), THREE, 0.25)
    assert lasted[3] == [pytest.approx(45 - 0.25 * 60)]
    assert min(value for values in lasted.values() for value in values) >= 0


def test_records_of_a_while_loop_are_given_back_as_well():
    loop = Body(0, 1, (Stamp(1), Stamp(2)), counted=False)
    layout = allocate([Stamp(0), loop, Stamp(3)], spans=[Span(0, 0, 3), Span(1, 1, 2)], cursor_capacity=8)
    words = np.zeros((2, layout.block_words), np.uint64)
    for block in words:
        at = layout.streams[0].cursor_base
        block[EPOCH], block[PUSHED] = 1, 4
        block[layout.slots[0].base], block[layout.slots[3].base] = 1000, 1500
        block[layout.loops[0].trip_base] = (1 << 32) | 2
        for n, (slot, clock) in enumerate(((1, 1025), (2, 1245), (1, 1270), (2, 1475))):
            block[at + 2 * n : at + 2 * n + 2] = slot | (n // 2) << 32, clock
    lasted, _ = decoded(words, layout, 0.1)
    assert lasted[0] == [pytest.approx(500 - 0.1 * 5 * COST)] * 2
    assert sum(lasted[1][:2]) > 430  # nearly all of it is work in the iterations


def test_a_share_is_as_sure_as_launches_agree():
    """Launches whose programs all took 2, 4 and 6 ticks longer where 8 were expected."""
    launch = np.repeat([0, 1, 2], 20)
    more, expected = np.repeat([2.0, 4.0, 6.0], 20), np.full(60, 8.0)
    share, error, each = _ratio(more, expected, launch)
    assert (share, each) == (0.5, 8.0)
    assert error == pytest.approx(np.sqrt(3 / 2 * 2 * 40.0**2) / 480)
    share, error, _ = _ratio(more[:40], expected[:40], launch[:40])
    assert (share, error) == (0.375, pytest.approx(np.sqrt(2 * 2 * 20.0**2) / 320))
    assert _ratio(more[:20], expected[:20], launch[:20]) is None
    assert _ratio(more, np.zeros(60), launch) is None
    assert _ratio(more[:20], expected[:20], launch[:20] + 5) is None  # launches before it are none


@pytest.mark.parametrize(("plain", "light"), [((1.0,), (2.0, 2.0)), ((1.0, 1.0), (2.0,)), ((), ())])
def test_one_launch_of_a_sort_says_nothing_of_the_code(plain, light):
    assert _code(plain, light, 0.0, 1.0) == (1.0, 0.0)
    assert _code((1.0, 1.0), (2.0, 2.0), 0.0, 1.0) == (0.5, 0.0)
