"""Slopes of a kernel's time over a delay: by hand, and with noise that is known."""

import itertools
import math

import numpy as np
import pytest

from tileprobe.tools.slopes import (
    DOSES,
    FEW,
    SMALL,
    TELLS,
    Slope,
    alike,
    beside_each_other,
    gain_of,
    median_of,
    sharing,
    slope_of,
)

STEPS = np.array(DOSES, float)


def rounds(slope, count=20, step=100.0, noise=0.0, drift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    base = 1000.0 + drift * np.arange(count)
    return base[:, None] + slope * step * STEPS + noise * rng.normal(size=(count, len(DOSES)))


@pytest.mark.parametrize("slope", [0.0, 0.4, 1.0])
def test_exact_times_give_the_slope(slope):
    found = slope_of(rounds(slope), 100.0)
    assert found.value == pytest.approx(slope) and found.error == pytest.approx(0) and found.told
    assert found.rounds == 20
    assert slope_of(rounds(slope), 50.0).value == pytest.approx(2 * slope)


def test_what_changes_from_round_to_round_does_not_matter():
    assert slope_of(rounds(0.5, drift=500.0), 100.0).value == pytest.approx(0.5)


def test_a_straight_line_through_all_doses():
    assert slope_of(np.array([[0.0, 0.0, 0.0, 100.0]]), 100.0).value == pytest.approx(0.3)
    assert slope_of(np.array([[0.0, 100.0, 0.0, 0.0]]), 100.0).value == pytest.approx(-0.1)


def test_one_round_in_which_something_else_ran_is_no_slope():
    times = rounds(0.0)
    times[3, 3] += 1e6
    assert slope_of(times, 100.0).value == pytest.approx(0) and slope_of(times, 100.0).told


def test_noise_that_is_larger_than_the_delay_cannot_be_told():
    assert not slope_of(rounds(1.0, noise=500.0), 100.0).told
    found = slope_of(rounds(1.0, noise=20.0), 100.0)
    assert found.told and found.error is not None and 0 < found.error < TELLS
    few = slope_of(rounds(1.0, count=FEW - 1), 100.0)
    assert few.error is None and not few.told and few.value == pytest.approx(1)
    assert math.isnan(slope_of(np.zeros((0, 4)), 100.0).value)
    assert not Slope(1.0, TELLS + 0.01, 9).told and Slope(1.0, TELLS, 9).told


def test_the_interval_holds_what_was_planted_about_as_often_as_it_says():
    hits = sum(
        abs(found.value - 0.7) <= (found.error or 0)
        for found in (slope_of(rounds(0.7, noise=30.0, seed=n), 100.0) for n in range(200))
    )
    assert hits >= 186  # of 190 that are expected


def test_a_median_and_its_ranks():
    assert median_of(np.arange(9.0)) == (4.0, 4.0)
    value, error = median_of(np.arange(101.0))
    assert value == 50 and error == 11  # 0.98 * sqrt(101) = 9.85, and half a rank
    assert median_of(np.arange(3.0)) == (1.0, None)


def handed_out(programs, lasts, late):
    """Programs handed out one by one to units that come when `late` says; (unit, start, stop) of each."""
    free, rows = list(late), []
    for _ in range(programs):
        unit = int(np.argmin(free))
        rows.append((unit, free[unit], free[unit] + lasts))
        free[unit] += lasts
    return rows


def shared_by(*launches):
    rows = [(n, *row) for n, launch in enumerate(launches) for row in launch]
    return beside_each_other(*(np.array(column) for column in zip(*rows)))


def test_how_many_units_share_a_delay():
    even = [(0, 0, 100), (1, 0, 100), (0, 100, 200), (1, 100, 200)]
    alone = [(1, 50, 150), (1, 150, 250), (1, 250, 350), (1, 350, 450)]
    late = [(0, 0, 100), (0, 100, 200), (0, 200, 300), (1, 200, 300)]
    odd = [(0, 0, 100), (1, 0, 100), (0, 100, 200)]  # both have 100 of 200 on average
    gap = [(0, 0, 50), (0, 150, 200)]  # it waited for 100 of 200, and was one core all the same
    assert shared_by(even, alone, late, odd, gap).tolist() == [2, 1, 2, 1.5, 1]
    assert math.isnan(shared_by([(0, 5, 5)])[0])


@pytest.mark.parametrize("late", [(0, 0), (0, 1500), (0, 5900), (0, 9000), (0, 100, 700, 2000)])
def test_what_every_program_is_delayed_by_has_a_slope_of_1(late):
    """However late units come: even those that come when all is done."""
    programs, lasts, dose = 640, 10, 0.5
    launches = [handed_out(programs, lasts + n * dose, late) for n in DOSES]
    times = np.array([[max(stop for _, _, stop in launch) for launch in launches]])
    (cores,) = shared_by(launches[0])
    assert slope_of(times, dose * programs / cores).value == pytest.approx(1, abs=0.02)


def test_what_is_not_known_of_doses_widens_the_interval():
    assert slope_of(rounds(0.5), 100.0, 0.5).error == pytest.approx(0.2)
    for late in itertools.product((0.0, 0.5), repeat=len(DOSES)):  # each may be half of a dose longer
        found = slope_of(rounds(0.5) + 0.5 * 100.0 * np.array(late), 100.0, 0.5)
        assert abs(found.value - 0.5) <= (found.error or 0) + 1e-9
    assert Slope(2.0, 0.1, 9).scaled(0.25) == Slope(2.0, 0.6, 9)
    assert Slope(2.0, None, 3).scaled(0.25).error is None


def test_a_slope_lies_between_nothing_and_all():
    assert Slope(1.1, 0.2, 9).bounded() == Slope(1.0, 0.2, 9)
    assert Slope(-0.1, 0.2, 9).bounded() == Slope(0.0, 0.2, 9)
    assert Slope(0.5, 0.2, 9).bounded() == Slope(0.5, 0.2, 9)
    for beyond in (Slope(1.3, 0.2, 9), Slope(-0.3, 0.2, 9)):  # nothing that can be is within the error
        assert beyond.bounded().error is None and not beyond.bounded().told
        assert 0 <= beyond.bounded().value <= 1
    assert Slope(3.0, None, 2).bounded() == Slope(1.0, None, 2)
    told = Slope(0.9, 0.2, 9)
    assert (told.low, told.high) == (pytest.approx(0.7), 1.0)
    assert (Slope(0.1, 0.2, 9).low, Slope(0.1, 0.2, 9).high) == (0.0, pytest.approx(0.3))


def test_no_region_wins_more_than_it_takes():
    exact = gain_of(0.4, 0.0, 0.5)
    assert (exact.value, exact.low, exact.high, exact.told) == (0.4, 0.4, 0.4, True)
    most = gain_of(0.55, 0.1, 0.5)  # noise reaches beyond what the region takes
    assert (most.value, most.low, most.high, most.told) == (0.5, pytest.approx(0.45), 0.5, True)
    least = gain_of(-0.05, 0.1, 0.5)
    assert (least.value, least.low, least.high, least.told) == (0.0, 0.0, pytest.approx(0.05), True)
    for raw, error in ((1.137, 0.36), (-0.7, 0.36)):  # no error explains it
        beyond = gain_of(raw, error, 0.5)
        assert not beyond.told and 0 <= beyond.low <= beyond.value <= beyond.high <= 0.5
    wide = gain_of(0.25, 0.2, 0.5)
    assert not wide.told and (wide.low, wide.high) == (pytest.approx(0.05), pytest.approx(0.45))
    assert not gain_of(0.5, 0.6, 0.5).told  # all that can be, and more, is within the error
    assert not gain_of(-0.55, 0.6, 0.5).told  # nor where noise was larger, and the other way
    assert gain_of(0.004, SMALL, 0.01).told  # little is little
    both = gain_of(0.3, 0.05, 0.5, 0.4)  # found twice: the interval has both, with the error beyond either
    assert (both.value, both.low, both.high) == (0.3, pytest.approx(0.25), pytest.approx(0.45))
    both = gain_of(0.3, 0.05, 0.5, 0.2)
    assert (both.value, both.low, both.high) == (0.3, pytest.approx(0.15), pytest.approx(0.35))
    assert gain_of(0.6, 0.05, 0.5, 0.5).told  # what can be is one of both
    unknown = gain_of(0.2, None, 0.5)
    assert (unknown.value, unknown.low, unknown.high, unknown.told) == (0.2, 0.0, 0.5, False)
    nothing = gain_of(math.nan, 0.1, 0.5)
    assert (nothing.value, nothing.low, nothing.high, nothing.told) == (0.0, 0.0, 0.5, False)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_was_measured_what_is_told_can_be(seed):
    rng = np.random.default_rng(seed)
    for raw, error, most in zip(rng.normal(0, 2, 50), rng.exponential(1, 50), rng.random(50)):
        gain, slope = gain_of(raw, error, most), Slope(raw, error, 9).bounded()
        assert (
            0 <= gain.low <= gain.value <= gain.high <= most
            and 0 <= slope.low <= slope.value <= slope.high <= 1
        )


def test_rounds_with_another_core_in_one_launch_do_not_count():
    units = np.array([[1, 1, 1.2, 1], [2, 1.9, 2, 2], [1, 1, 2, 1], [2, 2, 2, 1.3]])
    assert alike(units).tolist() == [True, True, False, False]


def test_who_shares_a_delay():
    unit, even = np.array([0, 0, 0, 1]), np.ones(4)
    assert sharing(2.0, unit, even, 0) == sharing(2.0, unit, even, 1) == 2.0  # whoever is free takes the next
    tail = np.array([0.0, 0, 0, 9])
    assert sharing(2.0, unit, tail, 1) == 1.0  # the one that all wait for has all of it
    assert sharing(2.0, unit, tail, 0) == 2.0  # nothing is known of what a slower one would change
    assert sharing(2.0, unit, np.array([3.0, 0, 0, 9]), 1) == pytest.approx(12 / 9)
    assert sharing(1.0, unit, np.array([3.0, 0, 0, 9]), 1) == 1.0
    assert sharing(2.0, unit, np.zeros(4), 0) == 2.0
