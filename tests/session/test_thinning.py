"""How many programs are recorded follows from what recording them is seen to cost."""

import random

import pytest

from tileprobe.session.thinning import AIM, HEADER, LEAST, SWITCH, UNKNOWN, UNSURE, Thinning

PROGRAMS, PLAIN_NS, ALLOWED = 1000, 1e6, 0.01


def session(cost_ns, launches, *, floor_ns=10.0, records=8, noise=0.0, seed=0):
    """Launches in turns, on a machine where recording a program takes `cost_ns`; returns the strides in use."""
    rng = random.Random(seed)
    thinning, strides = Thinning(ALLOWED), []
    for _ in range(launches):
        thinning.plain(PLAIN_NS * (1 + rng.gauss(0, noise)))
        recorded = PROGRAMS // thinning.stride
        strides.append(thinning.stride)
        took = PLAIN_NS * (1 + rng.gauss(0, noise)) + cost_ns * recorded
        thinning.guess(records * recorded, recorded, floor_ns, workers=1)
        thinning.probed(took, recorded, PROGRAMS)
    return strides


def overhead(cost_ns, stride):
    return cost_ns * (PROGRAMS // stride) / PLAIN_NS


def test_the_first_launch_is_recorded_whole_and_the_second_goes_by_the_guess():
    guess_ns = UNKNOWN * 10.0 * (8 + HEADER + SWITCH)
    strides = session(cost_ns=100.0, launches=2)
    assert strides[0] == 1
    wanted = guess_ns * PROGRAMS / (AIM * ALLOWED * PLAIN_NS)
    assert strides[1] - 1 < wanted <= strides[1]


@pytest.mark.parametrize("cost_ns", [20.0, 100.0, 200.0, 600.0, 3000.0])
def test_whatever_recording_costs_the_share_is_kept(cost_ns):
    """600 and 3000 ns are far above the guess of 340 ns: a core whose clock is slow, stages no longer fused."""
    last = session(cost_ns, launches=40)[-1]
    assert overhead(cost_ns, last) <= ALLOWED


def test_a_cost_below_the_guess_lets_more_programs_be_recorded():
    strides = session(cost_ns=20.0, launches=40)
    assert strides[-1] < strides[1]
    least_ns = LEAST * 10.0 * (8 + HEADER)
    assert overhead(least_ns, strides[-1] - 1) > AIM * ALLOWED  # as many as fit


def test_noise_is_not_taken_for_a_cost():
    """Launches that scatter by 5 % say nothing about a cost of 2 %: the guess stays."""
    ends = [session(cost_ns=150.0, launches=30, noise=0.05, seed=seed) for seed in range(20)]
    guessed = ends[0][1]
    assert sum(strides[-1] > 3 * guessed for strides in ends) <= 1
    assert all(overhead(150.0, strides[-1]) <= 2 * ALLOWED for strides in ends)


def test_a_stride_is_never_longer_than_the_launch():
    assert session(cost_ns=1e9, launches=20)[-1] <= PROGRAMS


def test_programs_on_several_workers_cost_a_launch_less():
    one, two = Thinning(ALLOWED), Thinning(ALLOWED)
    one.guess(8000, PROGRAMS, 10.0, workers=1)
    two.guess(8000, PROGRAMS, 10.0, workers=2)
    assert one.cost_ns() == 2 * two.cost_ns()  # type: ignore[operator]


def test_a_pace_that_changes_is_not_taken_for_a_cost():
    """Launches of the beginning are slower, all programs are recorded then, and later ones run three times as fast."""
    rng = random.Random(1)
    thinning, strides = Thinning(ALLOWED), []
    for n in range(60):
        pace = PLAIN_NS * (3 if n < 8 else 1)
        thinning.plain(pace * (1 + rng.gauss(0, 0.003)))
        recorded = PROGRAMS // thinning.stride
        thinning.guess(8 * recorded, recorded, 1.0, workers=1)
        took = pace * (1 + rng.gauss(0, 0.003)) + 10.0 * recorded
        thinning.probed(took, recorded, PROGRAMS)
        strides.append(thinning.stride)
    assert max(strides) <= 5  # the guess: 34 ns for each of 1000 programs, in 8 us of the 1 ms


def test_a_dear_record_is_found_dear_long_before_it_is_beyond_doubt():
    """Recording costs 800 ns a program where 340 are guessed, and launches scatter by 1.5 %."""
    ends = [session(cost_ns=800.0, launches=40, noise=0.015, seed=seed)[-1] for seed in range(20)]
    went_by_the_guess = session(cost_ns=800.0, launches=2)[-1]
    assert overhead(800.0, went_by_the_guess) > 1.8 * ALLOWED
    assert sum(overhead(800.0, stride) for stride in ends) / 20 <= 1.2 * ALLOWED


def test_a_measurement_above_the_guess_counts_by_how_sure_it_is():
    thinning = Thinning(ALLOWED, guess_ns=100.0)
    for cost, error, expected in ((300.0, 0.0, 300.0), (300.0, UNSURE * 100.0, 200.0), (300.0, 1e9, 100.0)):
        thinning._measured = lambda cost=cost, error=error: (cost, error)  # type: ignore[method-assign]
        assert thinning.cost_ns() == pytest.approx(expected)


def test_no_record_costs_less_than_the_least():
    """Launches with records that seem quicker than those without: recording all of them would not be free."""
    thinning = Thinning(ALLOWED)
    thinning.guess(8 * PROGRAMS, PROGRAMS, 10.0, workers=1)
    for _ in range(20):
        thinning.plain(PLAIN_NS)
        thinning.probed(0.9 * PLAIN_NS, 30, PROGRAMS)
    assert thinning.cost_ns() == LEAST * 10.0 * (8 + HEADER)
    assert thinning.stride == 8


def test_a_recorded_launch_is_held_against_the_middle_one_of_three_before_it():
    """Plain launches of 10, 20 and 30 us: one with records that takes 24 costs 4 more."""
    thinning = Thinning(ALLOWED, guess_ns=100.0)
    for duration in (10_000, 20_000, 30_000):
        thinning.plain(duration)
    thinning.probed(24_000, 8, 8)
    assert list(thinning._more[8]) == [4_000]


def test_a_launch_over_an_empty_grid_leaves_out_nothing():
    thinning = Thinning(ALLOWED)
    thinning.guess(0, 1, 10.0, workers=1)
    thinning.plain(PLAIN_NS)
    thinning.probed(PLAIN_NS, 1, 0)
    assert thinning.stride == 1
