"""Which launches, programs and iterations are recorded: at random, from a seed, so that no pattern can hide."""

import argparse
import random

import numpy as np
import pytest
import session_kernels as K
import triton
import triton.language as tl

import tileprobe
from tileprobe.cli import run
from tileprobe.ir.sampling import Every
from tileprobe.session.choices import Choice, odd_prime
from tileprobe.session.draws import Draw
from tileprobe.session.works import PLAIN, PROBED, Work


@triton.jit
def told_by_memory_kernel(x, out, counts, BLOCK: tl.constexpr):
    """Its arguments do not say how much there is to do."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(tl.load(counts)):
        total += tl.exp(tl.load(x + at) * 0.001) * i
    tl.store(out + at, total)


class _Target:
    doses, hides_records = (1, 3), False


class _Kernel:
    name, target, machine, key = "kernel", _Target(), "cpu", 1


def doses(launches, seed=0, **more):
    work = Work(_Kernel(), (4, 1, 1), seed=seed, **more)  # type: ignore[arg-type]
    found = []
    for _ in range(launches):
        found.append(work.next_dose(alternate=True))
        if found[-1] > PLAIN:
            work.began(found[-1])
    return found


def iterations(session, launch=None):
    frame = session.trace.to_polars().filter(region_kind="iteration")
    return frame if launch is None else frame.filter(launch=launch)


def test_light_and_heavy_in_turns_are_both_recorded():
    """Every other launch without probes would never see the heavy one."""
    with tileprobe.profile(programs="all") as session:
        for _ in range(6):
            K.launch(K.loop_kernel, 2, 2)
            K.launch(K.loop_kernel, 2, 60)
    works = {work.arguments.split(";")[0]: work for work in session.trace.works}
    assert {name: work.ran for name, work in works.items()} == {"n=2": 6, "n=60": 6}
    assert all(work.probed and work.plain for work in works.values())
    assert iterations(session)["iteration"].max() == 59
    of = {launch.id: launch.work for launch in session.trace.launches}
    heavy = works["n=60"].id
    assert {of[launch] for launch in iterations(session).filter(iteration=59)["launch"]} == {heavy}


def test_what_the_arguments_do_not_tell_is_not_missed_either():
    x, out = K.arrays(2)
    counts = np.zeros(1, np.int32)
    with tileprobe.profile(programs="all") as session:
        for turn in range(40):
            counts[0] = 30 if turn % 2 else 1
            told_by_memory_kernel[(2,)](x, out, tileprobe.array(counts), BLOCK=K.BLOCK)
    (work,) = session.trace.works
    assert work.ran == 40
    recorded = [launch.id for launch in session.trace.launches if launch.probed]
    heavy = iterations(session).filter(iteration=29)["launch"].n_unique()
    assert 0.2 * len(recorded) < heavy < 0.8 * len(recorded)


def test_no_turn_of_any_period_is_left_out():
    """Whatever every n-th launch does: it is recorded about as often as the others."""
    drawn = np.array([doses(601, seed)[1:] for seed in range(50)])
    for period in range(2, 13):
        for phase in range(period):
            mine = drawn[:, phase::period]
            assert 0.42 < (mine == PLAIN).mean() < 0.58
            assert (mine[:, 12:] == PROBED).any(axis=1).mean() > 0.9


def test_the_first_launch_is_recorded_and_both_sorts_come_soon():
    for seed in range(20):
        found = doses(13, seed)
        assert found[0] == PROBED
        assert (found.count(PLAIN), found.count(3)) == (6, 2)
    assert doses(100).count(3) == 4  # enough to learn what a record costs


def test_the_same_seed_draws_the_same():
    assert doses(60, seed=5) == doses(60, seed=5) != doses(60, seed=6)
    assert doses(60, arguments="n=1") != doses(60, arguments="n=2")  # works do not move in step


@pytest.mark.parametrize("seed", [0, 7])
def test_the_seed_is_kept_and_repeats_a_session(seed):
    def chosen(seed):
        with tileprobe.profile(seed=seed, programs="random:3") as session:
            for _ in range(12):
                K.launch(K.scale_kernel, 16, 2.0)
        assert session.trace.meta["seed"] == seed
        return [(launch.probed, launch.sampling.get("chosen")) for launch in session.trace.launches]

    assert chosen(seed) == chosen(seed) != chosen(seed + 1)


# -- programs -----------------------------------------------------------------------------------------------


def test_programs_without_room_are_left_out_at_random():
    """In every launch other ones: with a fixed choice the rest would never be seen."""
    with tileprobe.profile(alternate=False, programs="all", launch_mb=0.01) as session:
        for _ in range(12):
            K.launch(K.loop_kernel, 16, 2)
    frame = session.trace.to_polars().filter(region_kind="kernel")
    assert frame.filter(launch=0)["program"].n_unique() < 8
    assert frame["program"].n_unique() == 16


def test_each_program_has_its_turn():
    """All phases come before one comes again, in an order that is no pattern."""
    choice, draw = Choice("auto"), Draw(3)
    rounds = [[choice.sampling(1000, draw, stride=7).programs.phase for _ in range(7)] for _ in range(3)]
    assert all(sorted(phases) == list(range(7)) for phases in rounds)
    assert len({tuple(phases) for phases in rounds}) > 1
    assert rounds[0] not in ([0, 1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0])


def test_strides_have_no_factor_in_common_with_a_pattern():
    assert [odd_prime(n) for n in (1, 2, 3, 4, 8, 9, 15, 90)] == [3, 3, 3, 5, 11, 11, 17, 97]
    assert Choice("auto").sampling(1000, Draw(), stride=8).programs.stride == 11
    assert Choice("25%").sampling(1000, Draw()).programs.stride == 4  # as asked for


def test_a_phase_is_never_beyond_the_last_program():
    draw = Draw()
    for _ in range(20):
        assert len(Choice("1%").sampling(3, draw).recorded(3, 3)) == 1


# -- iterations ---------------------------------------------------------------------------------------------


def test_a_loop_with_more_iterations_than_room_is_covered_whole():
    """The first launch has the beginning; later ones spread what fits over all of it."""
    trips, room = 500, 64
    with tileprobe.profile(alternate=False, programs="all", capacity=room) as session:
        for _ in range(6):
            K.launch(K.loop_kernel, 2, trips)
    first = iterations(session, 0).filter(program=0)["iteration"].sort().to_list()
    assert first == list(range(room))
    starts = set()
    for launch in range(1, 6):
        for program in (0, 1):
            found = iterations(session, launch).filter(program=program)["iteration"].sort().to_numpy()
            (stride,) = set(np.diff(found).tolist())
            assert stride == odd_prime(trips // room + 1)
            assert found[0] < stride
            assert found[-1] >= trips - stride
            starts.add(int(found[0]))
    assert len(starts) == 5


def test_short_runs_of_a_long_loop_keep_an_iteration():
    """Runs of one loop differ; the phase must leave something of the shortest."""
    seen, draw = {0: (64, 1000, 3)}, Draw()
    for _ in range(12):
        every = Choice("all").sampling(1, draw, trips=seen).loop(0)
        assert every.stride == odd_prime(16)
        assert every.index(every.phase, 3) == 0


def test_every_fourth_iteration_begins_anywhere():
    with tileprobe.profile(alternate=False, programs="all", iterations="every:4") as session:
        for _ in range(9):
            K.launch(K.loop_kernel, 1, 22)
    found = [set(iterations(session, n)["iteration"].to_list()) for n in range(9)]
    assert found[0] == set(range(0, 22, 4))
    assert set().union(*found) == set(range(22))
    assert all(one == set(range(min(one), 22, 4)) for one in found)


def test_the_first_and_the_last_iterations_stay_what_was_asked_for():
    for text in ("first:3", "last:3"):
        choice = Choice("all", text)
        plain = choice.sampling(1, Draw()).loop(0)
        assert choice.sampling(1, Draw(), trips={0: (2, 1000, 1000)}).loop(0) == plain
    assert Choice("all", "every:8").sampling(1, Draw(), trips={0: (4, 16, 16)}).loop(0).stride == 8
    assert isinstance(Choice("all").sampling(1, Draw()).loop(0), Every)


def test_draws_do_not_touch_the_random_numbers_of_the_program():
    random.seed(3)
    expected = random.random()
    random.seed(3)
    with tileprobe.profile() as session:
        for _ in range(4):
            K.launch(K.scale_kernel, 2, 2.0)
    assert random.random() == expected
    assert session.trace.launches


def test_the_seed_is_an_option_of_the_command():
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    assert run.session_options(parser.parse_args(["--seed", "7", "script.py"]))["seed"] == 7
    assert run.session_options(parser.parse_args(["script.py"]))["seed"] == 0
