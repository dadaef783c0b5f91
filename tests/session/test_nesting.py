"""Nested sessions: each reads what it asked for, and says so where it could not be had."""

import pytest
import session_kernels as K

import tileprobe
from tileprobe.session.manager import manager
from tileprobe.tools.plan import Plan

ALL = {"alternate": False, "programs": "all"}


def programs(session):
    return set(session.trace.to_polars().filter(region_kind="kernel")["program"].to_list())


def iterations(session):
    return set(session.trace.to_polars().filter(region_kind="iteration")["iteration"].to_list())


def nested(outer, inner, launches=8):
    with tileprobe.profile(**(ALL | outer)) as around, tileprobe.profile(**(ALL | inner)) as within:
        for _ in range(launches):
            K.launch(K.loop_kernel, 4, 12)
    return around, within


def test_programs_and_iterations_of_both():
    around, within = nested({}, {"programs": "1,3", "iterations": "first:2"})
    assert programs(within) == {1, 3}
    assert iterations(within) == {0, 1}
    assert programs(around) == {0, 1, 2, 3}
    assert iterations(around) == set(range(12))
    for session in (around, within):
        (work,) = session.trace.works
        assert work.ran == 8
        assert 0 < work.probed < 8
    assert sum(s.trace.works[0].probed for s in (around, within)) == 8
    assert not around.problems
    assert not within.problems


@pytest.mark.parametrize(
    ("outer", "inner", "of_layout"),
    [
        ({"capacity": 256}, {"capacity": 4}, lambda layout: layout["loops"][0]["capacity"]),
        ({}, {"records": {"clock_bits": 32}}, lambda layout: layout.get("clock_bits", 64)),
    ],
)
def test_room_and_records_of_both(outer, inner, of_layout):
    found = nested(outer, inner)
    alone = [
        nested(options, options)[0] for options in (outer, inner)
    ]  # sessions that ask for the same share it
    for session, expected in zip(found, alone):
        layouts = {of_layout(kernel.layout) for kernel in session.trace.kernels}
        assert layouts == {of_layout(kernel.layout) for kernel in expected.trace.kernels}
        assert len(session.trace.kernels) == 1


def test_seeds_of_both():
    """Each session records the programs that its own seed draws, whether or not another one is on."""

    def chosen(session):
        runs = [launch for launch in session.trace.launches if launch.probed]
        return [launch.sampling["chosen"] for launch in runs]

    inner = {"programs": "random:2", "seed": 5}
    _, alone = nested({}, inner | {"take": 1}, launches=1)
    around, within = nested({"programs": "random:2", "seed": 1}, inner)
    _, outer_alone = nested({}, {"programs": "random:2", "seed": 1}, launches=1)
    assert chosen(within)[0] == chosen(alone)[0]
    assert chosen(around)[0] == chosen(outer_alone)[0]
    assert within.trace.meta["seed"] == 5


def test_the_share_of_time_that_records_may_take_is_ones_own():
    """Sessions with other limits do not share launches; with programs chosen by hand the limit means nothing."""
    a, b = tileprobe.profile(max_overhead=0.01), tileprobe.profile(max_overhead=0.5)
    assert a.choices != b.choices
    assert a.choices == tileprobe.profile(max_overhead=0.01).choices
    a, b = (tileprobe.profile(programs="all", max_overhead=share) for share in (0.01, 0.5))
    assert a.choices == b.choices


def test_the_only_launch_goes_to_the_inner_one_and_the_outer_borrows_it(capsys):
    around, within = nested({}, {"programs": "2"}, launches=1)
    assert programs(within) == programs(around) == {2}
    assert not within.problems
    around.report()
    said = " ".join(capsys.readouterr().out.split())
    assert "loop_kernel: recorded as another session that was on at the same time asked" in said


def test_what_was_borrowed_goes_when_there_is_something_of_ones_own():
    with tileprobe.profile(**ALL) as around:
        with tileprobe.profile(**(ALL | {"programs": "2"})):
            K.launch(K.loop_kernel, 4, 12)
            K.launch(K.loop_kernel, 4, 12)
        K.launch(K.loop_kernel, 4, 12)
    assert programs(around) == {0, 1, 2, 3}
    assert sum(work.ran for work in around.trace.works) == 3
    assert not around.problems


def test_sessions_that_ask_for_the_same_share_every_launch():
    around, within = nested({}, {"tools": ("iterations",)}, launches=3)
    for session in (around, within):
        assert [launch.probed for launch in session.trace.launches] == [True] * 3
        assert iterations(session) == set(range(12))


def test_a_session_with_other_probes_does_not_mix_with_what_was_before():
    """The kernel of the outer session is another one while a second plan is on: launches are counted for each."""
    with tileprobe.profile(**ALL, plan=Plan()) as around:
        for _ in range(2):
            K.launch(K.loop_kernel, 4, 12)
        with tileprobe.profile(**ALL, plan=Plan(loops=True, iterations=True)):
            for _ in range(3):
                K.launch(K.loop_kernel, 4, 12)
    trace = around.trace
    found = {work.kernel: (work.ran, work.probed) for work in trace.works}
    assert sorted(found.values()) == [(2, 2), (3, 3)]
    assert {launch.kernel for launch in trace.launches} == set(found)


def test_skip_and_take_are_ones_own():
    with tileprobe.profile(**ALL, skip=3) as around, tileprobe.profile(**ALL, take=2) as within:
        for _ in range(6):
            K.launch(K.scale_kernel, 2, 2.0)
    assert [len(session.trace.launches) for session in (around, within)] == [3, 2]


def test_leaving_twice_or_without_entering_is_harmless():
    session = tileprobe.profile()
    session.__exit__(None, None, None)
    with session:
        K.launch(K.scale_kernel, 2, 2.0)
    session.__exit__(None, None, None)
    assert len(session.trace.launches) == 1
    assert manager.leaving == 0  # launches to come have nobody to tell
