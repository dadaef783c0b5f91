"""What is usual before a record, what was taken there, and what a record costs: small cases with figures by hand."""

import math

import numpy as np
import pytest

from tileprobe.ir.layout import EPOCH, PUSHED, Body, Span, Stamp, allocate
from tileprobe.trace.blocks import read_rows
from tileprobe.trace.cursor import Pushed, read
from tileprobe.trace.decode import decode
from tileprobe.trace.interrupted import Interruptions, Usual, usual_gaps
from tileprobe.trace.order import Residual
from tileprobe.trace.replay import Calibration, _last_copies, calibrate

THREE = allocate([Stamp(0), Stamp(1), Stamp(2)], spans=[Span(0, 0, 2), Span(1, 0, 1), Span(2, 1, 2)])


def words_of(gaps, layout=THREE):
    """A program for each pair of gaps before slots 1 and 2, in one launch or, nested, in several."""
    blocks = np.zeros((len(gaps), layout.block_words), np.uint64)
    for block, steps in zip(blocks, gaps):
        block[EPOCH] = 1
        block[[slot.base for slot in layout.slots]] = 1000 + np.cumsum([0, *steps])
    return blocks


def rows_of(*launches, layout=THREE):
    words = np.stack([words_of(gaps, layout) for gaps in launches])
    rows, _ = read_rows(words, layout, epochs=[1] * len(words), programs=words.shape[1])
    return [(part, read(part)) for part in rows]


# -- what is usual ------------------------------------------------------------------------------------------------


def test_undisturbed_launches_may_take_half_as_long_again():
    usual = usual_gaps(rows_of([(100, 10), (200, 10), (300, 10)]), 3, 50.0, undisturbed=True)
    assert usual.median[1:3].tolist() == [200.0, 10.0]
    assert np.isnan(usual.median[[0, 3, 4, 5]]).all()
    assert usual.limit.tolist() == [math.inf, 1.5 * 300, 1.5 * 10, *[math.inf] * 3]


def test_of_disturbed_ones_the_spread_below_the_middle_tells():
    """Eleven gaps 100, 110 ... 200: a tenth of the way is 110, the middle 150, so up to 150 + 8 * 40."""
    usual = usual_gaps(rows_of([(100 + 10 * n, 7) for n in range(11)]), 3, 50.0, undisturbed=False)
    assert (usual.median[1], usual.limit[1]) == (150.0, 150 + 8 * 40)


def test_what_a_quarter_of_the_gaps_do_is_usual():
    """One or two of eight are far beyond the others: two are a quarter."""
    for many, limit in ((1, 100.0), (2, math.inf)):
        gaps = [(100, 7)] * (8 - many) + [(9000, 7)] * many
        assert usual_gaps(rows_of(gaps), 3, 50.0, undisturbed=False).limit[1] == limit


def test_what_a_program_does_in_most_launches_is_its_own():
    """Program 1 takes 900 in two of three launches. A program that was recorded once has no such habit."""
    usual = usual_gaps(
        rows_of([(100, 7), (900, 7)], [(100, 8), (900, 8)], [(100, 9), (150, 9)]), 3, 50.0, True
    )
    assert usual.again == {(1, 0): 100.0, (1, 1): 900.0, (2, 0): 8.0, (2, 1): 8.0}
    assert usual_gaps(rows_of([(100, 7), (900, 7)]), 3, 50.0, True).again == {}


def test_the_longest_gap_of_each_launch_counts():
    layout = allocate([Stamp(0), Body(0, 2, (Stamp(1),))], spans=[])
    words = np.zeros((2, 1, layout.block_words), np.uint64)
    for launch, (first, second) in enumerate(((50, 500), (300, 30))):
        words[launch, 0, EPOCH] = 1
        words[launch, 0, layout.slots[0].base] = 1000
        words[launch, 0, layout.loops[0].trip_base] = (1 << 32) | 2
        words[launch, 0, layout.slots[1].base :][:2] = 1000 + np.cumsum([first, second])
    rows, _ = read_rows(words, layout, epochs=[1, 1], programs=1)
    usual = usual_gaps([(rows[0], read(rows[0]))], 2, 0.0, True)
    assert usual.again == {(1, 0): 400.0}  # between 500 and 300


def test_nothing_was_recorded_and_nothing_is_usual():
    rows, _ = read_rows(np.zeros((1, THREE.block_words), np.uint64), THREE, epochs=[1], programs=1)
    usual = usual_gaps([(rows[0], read(rows[0]))], 3, 50.0, True)
    assert usual.again == {}
    assert np.isinf(usual.limit).all()


# -- what was taken -----------------------------------------------------------------------------------------------

USUAL = Usual(np.array([np.nan, 100.0, 100.0]), np.array([np.inf, 450.0, 450.0]))


def taken(gaps, waited, usual=USUAL, least=50.0):
    """Ticks that are taken out of the whole, before slot 1 and before slot 2, of each program."""
    words = words_of(gaps)
    interruptions = Interruptions([usual], [waited], least)
    found = decode(words, THREE, epochs=[1], programs=len(words), interruptions=interruptions).columns[
        "taken"
    ]
    return found.reshape(3, -1).T.tolist()


def test_what_is_beyond_the_usual_is_taken_where_the_launch_waited_as_long():
    """A gap of 600 is 500 beyond the median. Waiting is measured elsewhere: a tenth more is allowed for."""
    assert taken([(600, 100)], 455.0) == [[500.0, 500.0, 0.0]]
    assert taken([(600, 100)], 454.0) == [[0.0, 0.0, 0.0]]
    assert taken([(600, 100)], None) == [[0.0, 0.0, 0.0]]
    assert taken([(500, 100)], 9000.0) == [[0.0, 0.0, 0.0]]  # as long as is usual, and the least
    assert taken([(501, 100)], 9000.0) == [[401.0, 401.0, 0.0]]


def test_a_wait_shorter_than_the_least_is_no_interruption():
    quick = Usual(np.array([np.nan, 0.0, 0.0]), np.array([np.inf, 0.0, 0.0]))
    assert taken([(60, 5)], 60.0, quick, least=60.0)[0][0] == 0.0  # the gap itself must be longer
    assert taken([(61, 5)], 60.0, quick, least=60.0)[0][0] == 61.0
    assert taken([(61, 5)], 59.9, quick, least=60.0)[0][0] == 0.0


def test_the_longest_gaps_come_first_as_long_as_the_wait_lasts():
    """Excesses of 500, 900 and 700 with room for 1,650: 900 and 700; the third no longer fits."""
    assert taken([(600, 1000), (800, 100)], 1500.0) == [[900.0, 0.0, 900.0], [700.0, 700.0, 0.0]]
    assert taken([(600, 1000), (800, 100)], 2000.0) == [[1400.0, 500.0, 900.0], [700.0, 700.0, 0.0]]


def test_what_a_program_does_every_time_is_not_taken():
    """Program 0 usually takes 400 before slot 1: up to 1.5 times and a little that is its own."""
    habit = Usual(USUAL.median, USUAL.limit, {(1, 0): 400.0})
    assert taken([(650, 100), (100, 100)], 9000.0, habit)[0][0] == 0.0
    assert taken([(651, 100), (100, 100)], 9000.0, habit)[0][0] == 551.0
    assert taken([(100, 100), (650, 100)], 9000.0, habit)[1][0] == 550.0


def test_each_launch_has_its_own_usual_and_its_own_wait():
    words = np.stack([words_of([(600, 100)]), words_of([(600, 100)])])
    patient = Usual(USUAL.median, np.array([np.inf, 700.0, 700.0]))
    for usual, waited, expected in (
        ([USUAL, patient], [900.0, 900.0], [500.0, 0.0]),
        ([USUAL, USUAL], [0.0, 900.0], [0.0, 500.0]),
    ):
        found = decode(
            words, THREE, epochs=[1, 1], programs=1, interruptions=Interruptions(usual, waited, 50.0)
        )
        assert found.columns["taken"][found.columns["region"] == 0].tolist() == expected


def test_interruptions_among_records_of_a_cursor():
    """Records of a `while` loop are put among the others by clock: 600 before the second of them."""
    layout = allocate(
        [Stamp(0), Body(0, 1, (Stamp(1), Stamp(2)), counted=False), Stamp(3)],
        spans=[Span(0, 0, 3), Span(1, 1, 2)],
        cursor_capacity=4,
    )
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, EPOCH], words[0, PUSHED] = 1, 2
    words[0, layout.slots[0].base], words[0, layout.slots[3].base] = 1000, 1800
    at = layout.streams[0].cursor_base
    words[0, at : at + 4] = (1, 1100, 2, 1700)
    usual = Usual(np.array([np.nan, 100, 100, 100.0]), np.array([np.inf, 500, 500, 500.0]))
    found = decode(
        words, layout, epochs=[1], programs=1, interruptions=Interruptions([usual], [900.0], 50.0)
    ).columns
    assert found["taken"].tolist() == [500.0, 500.0]


# -- what a record costs ------------------------------------------------------------------------------------------


def cost(doses):
    """From gaps before slots 1 and 2, of three programs or more, at each dose; nested for several launches."""
    return calibrate({dose: [rows for rows, _ in rows_of(*launches)] for dose, launches in doses.items()})


HALF = 0.5 * math.sqrt(3)  # the standard error of three gaps, of which the middle one is left


def test_the_cost_is_the_slope_over_the_doses():
    """100, 130 and 160 ticks before slot 1, 50, 80 and 110 before slot 2: 30 for each further record."""
    found = cost({dose: [[(70 + 30 * dose, 20 + 30 * dose)] * 3] for dose in (1, 2, 3)})
    assert found.cost_ticks == pytest.approx(30.0)
    assert found.slots == {1: pytest.approx(30.0), 2: pytest.approx(30.0)}
    slope_error = math.sqrt(2) * HALF / 2  # weights -1/2, 0, 1/2
    assert found.error_ticks == pytest.approx(slope_error / math.sqrt(2))
    assert found.doses == (1, 2, 3)


def test_slopes_that_differ_are_trusted_as_far_as_they_are_sure():
    """Doses 1 and 3. Slopes of 10 and 30 with variances v: DerSimonian and Laird's spread is 200 - v."""
    found = cost({1: [[(100, 100)] * 3], 3: [[(120, 160)] * 3]})
    variance = 2 * HALF**2 / 4
    spread = 200 - variance
    assert found.cost_ticks == pytest.approx(20.0)
    assert found.error_ticks == pytest.approx(math.sqrt(200 / 2))
    assert found.slots == {1: pytest.approx(20 - 10 * spread / 200), 2: pytest.approx(20 + 10 * spread / 200)}


def test_a_cost_is_never_below_nothing():
    found = cost({1: [[(100, 100)] * 3], 3: [[(40, 40)] * 3]})
    assert (found.cost_ticks, found.slots) == (0.0, {1: 0.0, 2: 0.0})


def test_fewer_than_three_gaps_say_nothing():
    found = cost({1: [[(100, 100)] * 2], 3: [[(160, 160)] * 2]})
    assert (found.cost_ticks, found.error_ticks, found.slots, found.doses) == (0.0, 0.0, {}, (1, 3))
    assert cost({1: [[(100, 100)] * 3], 3: [[(160, 160)] * 3]}).cost_ticks == pytest.approx(30.0)


def test_a_slot_with_too_few_gaps_does_not_hide_the_next():
    """Of three programs one did not reach slot 1: two gaps before it, three before slot 2."""
    doses = {}
    for dose in (1, 3):
        words = words_of([(100, 40 + 30 * dose)] * 3)
        words[0, THREE.slots[1].base] = 0
        words[0, THREE.slots[2].base] = 1000 + 40 + 30 * dose
        rows, _ = read_rows(words, THREE, epochs=[1], programs=3)
        doses[dose] = rows
    found = calibrate(doses)
    assert found.slots == {2: pytest.approx(30.0)}


TURNS = 2  # of a `while` loop between slots 0 and 3


def looping(dose, lost=0):
    """Three programs: each record takes 30 ticks, the work before it 100. A segment has every copy of a record."""
    layout = allocate(
        [Stamp(0), Body(0, 1, (Stamp(1), Stamp(2)), counted=False), Stamp(3)],
        spans=[],
        cursor_capacity=2 * TURNS * dose,
        copies=dose,
    )
    words = np.zeros((3, layout.block_words), np.uint64)
    words[:, EPOCH], words[:, PUSHED] = 1, 2 * TURNS * dose + lost
    step, at = 100 + 30 * dose, layout.streams[0].cursor_base
    words[:, layout.slots[0].base] = 1000
    for n in range(2 * TURNS * dose):
        record, copy = divmod(n, dose)
        words[:, at + 2 * n] = (1 + record % 2) | (record // 2) << 32
        words[:, at + 2 * n + 1] = 1000 + (record + 1) * step - 30 * (dose - 1 - copy)
    words[:, layout.slots[3].base] = 1000 + (2 * TURNS + 1 + lost) * step
    return read_rows(words, layout, epochs=[1], programs=3)[0]


def test_records_of_a_while_loop_are_not_the_cost_of_the_one_behind_it():
    found = calibrate({dose: looping(dose) for dose in (1, 3)})
    assert found.slots == {slot: pytest.approx(30.0) for slot in (1, 2, 3)}


def test_records_that_a_segment_lost_are_nobodys_cost():
    """Behind a segment that is full lie records that are gone; those in it are still next to each other."""
    found = calibrate({dose: looping(dose, lost=6) for dose in (1, 3)})
    assert found.slots == {slot: pytest.approx(30.0) for slot in (1, 2)}


def test_the_error_of_a_trimmed_mean_is_that_of_its_winsorised_deviation():
    """Gaps 90, 100, 110, 100, 130: without both ends 100, 100, 110; with these in place of the ends they deviate by
    5.48."""
    gaps = [(n, 500) for n in (90, 100, 110, 100, 130)]
    found = cost({1: [gaps], 3: [[(n + 60, 560) for n, _ in gaps]]})
    errors = [deviation * math.sqrt(5) / 3 for deviation in (np.std([100, 100, 100, 110, 110], ddof=1), 0.5)]
    assert found.cost_ticks == pytest.approx(30.0)
    assert found.error_ticks == pytest.approx(1 / math.sqrt(sum(1 / (2 * e**2 / 4) for e in errors)))


@pytest.mark.parametrize("work", [101, 113, 119, 125])
def test_a_counter_that_moves_in_steps_is_seen_through(work):
    """Steps of 26 ticks, as on Zen 4 and 5: no gap is as long as the work and its records of 22 ticks are."""
    rng, doses = np.random.default_rng(work), {}
    for dose in (1, 3):
        true = np.cumsum(np.full((600, 3), work + 22.0 * dose), axis=1) + rng.integers(0, 26, (600, 1))
        stepped = 26 * (true // 26)
        doses[dose] = [[tuple(np.diff(row).astype(int)) for row in stepped]]
    assert cost(doses).cost_ticks == pytest.approx(22.0, abs=1.0)


def test_launches_that_differ_make_a_cost_less_sure():
    """Two launches a dose, 10 % apart before slot 1 and 10 % before slot 2: that is their standard deviation."""
    first, second = 95.0, 105.0
    doses = {
        dose: [[(first + 60 * (dose - 1) // 2,) * 2] * 3, [(second + 60 * (dose - 1) // 2,) * 2] * 3]
        for dose in (1, 3)
    }
    found = cost(doses)
    low = math.sqrt(50) / 100  # the deviation over the mean at dose 1, where it is larger than at dose 3
    within = HALF / math.sqrt(2)
    errors = [math.hypot(within, mean * low / math.sqrt(2)) for mean in (100, 160)]
    variance = (errors[0] ** 2 + errors[1] ** 2) / 4
    assert found.cost_ticks == pytest.approx(30.0)
    assert found.error_ticks == pytest.approx(math.sqrt(variance / 2))


# -- taking it out ------------------------------------------------------------------------------------------------


def corrected(words, layout, calibration):
    found = decode(words, layout, epochs=[1], programs=len(words), calibration=calibration)
    lasted = found.columns["stop_corrected"] - found.columns["start_corrected"]
    return dict(zip(found.columns["region"].tolist(), lasted.tolist())), found


def test_each_slot_has_its_own_cost():
    calibration = Calibration(10.0, 1.0, {1: 30.0}, (1, 3))
    lasted, found = corrected(words_of([(100, 100)]), THREE, calibration)
    assert lasted == {0: 200.0 - 30 - 10, 1: 70.0, 2: 90.0}
    assert found.residual == Residual(40.0, 0.0, 0)


def test_records_of_a_cursor_and_with_places_delay_each_other():
    """Records at 1000, 1100 and 1200 (a cursor's) and 1300: each after the first is 10 ticks late."""
    layout = allocate(
        [Stamp(0), Body(0, 1, (Stamp(1), Stamp(2)), counted=False), Stamp(3)],
        spans=[Span(0, 0, 3), Span(1, 1, 2)],
        cursor_capacity=4,
    )
    words = np.zeros((2, layout.block_words), np.uint64)
    at = layout.streams[0].cursor_base
    for block in words:
        block[EPOCH], block[PUSHED] = 1, 2
        block[layout.slots[0].base], block[layout.slots[3].base] = 1000, 1300
        block[at : at + 4] = (1, 1100, 2, 1200)
    lasted, found = corrected(words, layout, Calibration(10.0, slots={2: 25.0}))
    assert lasted == {0: 300.0 - 10 - 25 - 10, 1: 75.0}
    assert found.columns["start_corrected"].tolist() == [1000.0, 1000.0, 1090.0, 1090.0]


ASYNC = allocate(
    [Stamp(0), Stamp(1), Stamp(2), Stamp(3), Stamp(4)],
    spans=[Span(0, 0, 4), Span(1, 1, 3, "async"), Span(2, 2, 3, "wait")],
)


def asynchronous(wait):
    """Issued at 1100, waited for from 1200 on, done `wait` later, and 100 more to the end."""
    words = np.zeros((1, ASYNC.block_words), np.uint64)
    words[0, EPOCH] = 1
    words[0, 8:13] = (1000, 1100, 1200, 1200 + wait, 1300 + wait)
    return corrected(words, ASYNC, Calibration(10.0))[0]


def test_a_wait_that_stood_still_swallows_what_probes_took_since_the_issue():
    """The record at the issue delays all; the one at the wait's start does not, as that was waited anyway."""
    assert asynchronous(50) == {0: 350.0 - 10 - 10, 1: 150.0, 2: 50.0 + 10}


def test_a_wait_that_found_all_done_swallows_nothing():
    """Ten ticks are what a record takes: nobody stood still."""
    assert asynchronous(10) == {0: 310.0 - 10 - 10 - 10, 1: 110.0 - 10, 2: 10.0}
    assert asynchronous(11) == {0: 311.0 - 10 - 10, 1: 111.0, 2: 11.0 + 10}


def test_programs_are_kept_in_order_each_by_itself():
    """Gaps of 100 and 4, and records of 5 ticks: one tick too much before slot 2 of the second program."""
    calibration = Calibration(5.0)
    lasted, found = corrected(words_of([(100, 100), (100, 100)]), THREE, calibration)
    assert found.residual == Residual(20.0, 0.0, 0)
    lasted, found = corrected(words_of([(100, 100), (100, 4)]), THREE, calibration)
    assert found.residual == Residual(20.0, 1.0, 1)
    assert Residual(20.0, 1.0, 1).to_json() == {"residual_share": 0.05, "residual_records": 1}
    assert lasted[2] == 0.0
    half = decode(words_of([(100, 4)]), THREE, epochs=[1], programs=1, calibration=Calibration(4.5))
    assert half.residual == Residual(9.0, 0.5, 1)


def test_of_copies_the_last_is_kept_also_of_a_record_that_comes_again_at_once():
    """Three copies each: of iteration 5 two are left, iteration 0 comes twice as in two runs of one iteration, of
    iteration 1 the last had no room; and iteration 1 of the next row."""
    row, iteration = np.repeat([0, 1], [10, 3]), np.repeat([5, 0, 1, 1], [2, 6, 2, 3])
    nothing = np.zeros(13)
    pushed = Pushed(row, np.zeros(13, int), iteration, np.arange(13), nothing, nothing != 0, np.zeros(2))
    assert _last_copies(pushed, 3).clock.tolist() == [4, 7, 12]
    assert _last_copies(pushed, 1) is pushed
