"""Kernels and grids of every shape: no loop, no program, a million programs, no iteration, early return."""

import numpy as np
import pytest
import session_kernels as K

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.targets.cpu.kernel import CpuKernel

ALL = {"alternate": False, "programs": "all", "min_cost": 0.0}


def intervals(session, name):
    frame = session.trace.to_polars()
    return frame.filter(frame["name"] == name)


def test_a_kernel_with_no_loop():
    with tileprobe.profile(**ALL) as session:
        K.launch(K.scale_kernel, 5, 2.0)
    assert intervals(session, "scale_kernel").height == 5
    session.report()


def test_a_kernel_with_nothing_worth_a_probe():
    out = tileprobe.array(np.zeros(8, np.int32))
    with tileprobe.profile(alternate=False) as session:
        K.tiny_kernel[(8,)](out)
    assert list(out.numpy()) == list(range(8))
    assert intervals(session, "tiny_kernel").height == 8


def test_an_empty_grid():
    with tileprobe.profile(**ALL) as session:
        x, out = K.arrays(1)
        K.scale_kernel[(0,)](x, out, 2.0, BLOCK=K.BLOCK)
    assert session.trace.losses.kept == 0
    session.report()


def test_a_million_programs_stay_in_the_budget():
    count = 1_000_000
    out = tileprobe.array(np.zeros(count, np.int32))
    with tileprobe.profile(alternate=False, programs="all", launch_mb=4) as session:
        K.tiny_kernel[(count,)](out)
    np.testing.assert_array_equal(np.asarray(out.numpy()), np.arange(count))
    losses = session.trace.losses
    assert 0 < losses.kept * 8 < 4 * 2**20
    assert losses.kept + losses.sampled_out == pytest.approx(2 * count, rel=0.01)
    assert losses.lost == 0


def test_a_loop_of_zero_iterations():
    with tileprobe.profile(**ALL) as session:
        K.launch(K.loop_kernel, 3, 0)
    assert intervals(session, "iteration").height == 0
    assert intervals(session, "loop_kernel").height == 3
    session.report()


def test_early_return():
    with tileprobe.profile(**ALL) as session:
        out = K.launch(K.early_kernel, 6, 4)
    assert out[: 4 * K.BLOCK].any()
    assert not out[4 * K.BLOCK :].any()
    assert intervals(session, "early_kernel").height == 6
    (stage,) = [r.name for r in session.trace.regions if "store" in r.kind]
    assert sorted(intervals(session, stage)["program"]) == [0, 1, 2, 3]


def test_a_while_loop_counts_its_iterations():
    with tileprobe.profile(**ALL) as session:
        K.launch(K.while_kernel, 3, 4)
    found = intervals(session, "iteration").group_by("program").len().sort("program")
    assert found["len"].to_list() == [4, 5, 6]


def test_that_the_end_of_a_while_loop_is_not_known_before_is_said():
    with tileprobe.profile(**ALL, iterations="last:2") as session:
        K.launch(K.while_kernel, 3, 4)
    (note,) = session.trace.meta["notes"]
    assert "in 1 of 1 launches others stand for them" in note


@pytest.mark.parametrize(
    "wrong",
    [
        {"programs": "random:-3"},
        {"programs": "random:0"},
        {"programs": "-5"},
        {"programs": "99999999999999999999"},
        {"programs": "1e-300%"},
        {"iterations": "every:4294967296"},
        {"iterations": "last:99999999999999999999"},
        {"tools": ()},
        {"max_overhead": 0},
    ],
)
def test_choices_that_mean_nothing_are_refused(wrong):
    with pytest.raises(TileProbeError):
        tileprobe.profile(**wrong)


def test_more_iterations_than_room_are_counted_as_lost():
    with tileprobe.profile(**ALL, capacity=4) as session:
        K.launch(K.loop_kernel, 2, 10)
    assert intervals(session, "iteration").height == 8
    assert session.trace.losses.lost > 0


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("all", list(range(10))),
        ("every:3", [0, 3, 6, 9]),
        ("first:2", [0, 1]),
        ("last:3", [7, 8, 9]),
    ],
)
def test_iterations_are_chosen_at_run_time(choice, expected):
    with tileprobe.profile(**ALL, iterations=choice) as session:
        K.launch(K.loop_kernel, 2, 10)
    found = intervals(session, "iteration").filter(program=1).sort("iteration")
    assert found["iteration"].to_list() == expected


@pytest.mark.parametrize(
    ("choice", "expected"), [("0,3,9", [0, 3, 9]), ("25%", slice(None, None, 4)), ("random:4", None)]
)
def test_programs_are_chosen_at_run_time(choice, expected):
    plain = K.launch(K.loop_kernel, 10, 3)
    with tileprobe.profile(**(ALL | {"programs": choice})) as session:
        probed = K.launch(K.loop_kernel, 10, 3)
    np.testing.assert_array_equal(plain, probed)
    found = sorted(set(intervals(session, "loop_kernel")["program"].to_list()))
    if isinstance(expected, slice):
        expected = list(range(10))[found[0] :: expected.step]
    assert found == expected if expected is not None else len(found) == 4


def test_sampling_changes_without_another_compilation(monkeypatch):
    compiled = []
    original = CpuKernel.compile

    def counted(kernel, pipeline):
        compiled.append(pipeline)
        return original(kernel, pipeline)

    monkeypatch.setattr(CpuKernel, "compile", counted)
    with tileprobe.profile(**(ALL | {"programs": "50%"})) as session:
        K.launch(K.loop_kernel, 4, 6)
        K.launch(K.loop_kernel, 4, 6)
    assert len(compiled) == 1
    first, second = (
        set(intervals(session, "loop_kernel").filter(launch=n)["program"].to_list()) for n in (0, 1)
    )
    assert first | second == {0, 1, 2, 3}
    assert first != second


def test_a_costly_choice_is_thinned_out():
    """Tiny programs: records of all of them would take much of the time."""
    out = tileprobe.array(np.zeros(4096, np.int32))
    with tileprobe.profile(alternate=False, max_overhead=0.001) as session:
        for _ in range(3):
            K.tiny_kernel[(4096,)](out)
    kept = [launch.losses.kept for launch in session.trace.launches]
    assert kept[0] == 2 * 4096
    assert kept[1] < kept[0]
    assert session.trace.launches[1].losses.sampled_out > 0
