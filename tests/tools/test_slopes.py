"""Slopes of a kernel's time over a delay: by hand, and with noise that is known."""

import math

import numpy as np
import pytest

from tileprobe.tools.slopes import DOSES, FEW, TELLS, Slope, median_of, slope_of

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
