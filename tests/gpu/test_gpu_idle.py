"""Loops that never run: compilers take them out with their records, and nothing should be said to be lost."""

from dataclasses import replace

import pytest
from gpu_cases import plain, probed

from tileprobe.targets.gpu.compile import add_probes
from tileprobe.targets.gpu.evidence import read_code, remarks
from tileprobe.targets.gpu.machine_code import lost_records
from tileprobe.tools.plan import Plan


@pytest.fixture(scope="module")
def made():
    return probed("two_turns", "gfx942")


def test_what_goes_with_a_loop_that_never_runs_is_not_lost(made):
    code = read_code(made.kernel)
    gone = lost_records(code, made.records)
    assert set(gone) == {slot.id for slot in made.layout.slots if slot.loops}
    assert made.idle == (frozenset(gone),)
    assert lost_records(code, made.records, made.idle) == []
    assert remarks(made) == []


def test_a_record_before_such_a_loop_can_be_lost(made):
    code = read_code(made.kernel)
    first = min(made.records)
    cut = replace(code, instructions=tuple(op for op in code.instructions if op.slot != first), following=())
    assert lost_records(cut, made.records, made.idle) == [first]


def test_a_loop_of_which_some_records_are_there_runs(made):
    """Then the others are lost, whatever its bounds say."""
    code = read_code(made.kernel)
    other = next(slot for slot in made.records if slot not in made.idle[0])
    gone = min(made.idle[0])
    assert gone in lost_records(code, made.records, (made.idle[0] | {other},))


@pytest.mark.parametrize(
    ("name", "target"), [("two_turns", "sm80"), ("matmul", "gfx942"), ("nested_loops", "sm90")]
)
def test_loops_that_may_run_are_not_taken_for_such(name, target):
    """On NVIDIA the pipelined loop has all iterations; others depend on what the kernel is given."""
    assert probed(name, target).idle == ()


def test_what_never_runs_was_not_moved():
    """With fewer records the stores before the loop would be held against those in it."""
    made = add_probes(
        plain("two_turns", "gfx942"), Plan(loops=True, iterations=True, kinds=("dot",)).pipeline("ttgir")
    )
    assert made.idle
    assert remarks(made) == []
