"""Loops of machine code, found by branches that go back to where every way came from."""

from types import SimpleNamespace

import numpy as np

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.timing.loops import loops_of


def program(*texts):
    """Branches name the number of an instruction."""
    uops = np.zeros((len(texts), 16), np.int32)
    for n, text in enumerate(texts):
        if "`(" in text:
            uops[n, at.I0] = int(text.partition("`(")[2].rstrip(")"))
    return SimpleNamespace(texts=list(texts), uops=uops)


WORK = ["FADD R0, R0, R1"] * 8


def found(*texts):
    return [(loop.head, loop.branch, len(loop.body)) for loop in loops_of(program(*texts))]


def test_a_branch_back_is_a_loop():
    assert found("MOV R0, R1", *WORK, "@P0 BRA `(1)", "EXIT") == [(1, 9, 9)]


def test_loops_within_loops_come_behind_them():
    texts = ["MOV R0, R1", *WORK, *WORK, "@P0 BRA `(9)", "IADD3 R2, R2, 1, RZ", "@P1 BRA `(1)", "EXIT"]
    assert found(*texts) == [(1, 19, 19), (9, 17, 9)]


def test_a_slow_way_behind_the_end_belongs_to_its_loop_and_is_none_itself():
    # 3: a wait that fails goes to 12, which comes back to 4
    texts = [
        "MOV R0, R1",
        "NOP",
        "NOP",
        "@!P0 BRA `(12)",
        *WORK[:6],
        "@P1 BRA `(1)",
        "EXIT",
        "NOP",
        "BRA `(4)",
    ]
    assert found(*texts) == [(1, 10, 12)]


def test_what_jumps_back_to_code_that_can_be_entered_elsewhere_is_no_loop():
    # 9 goes back to 2, which is also reached past 1: from 0 directly to the middle
    texts = ["@P0 BRA `(5)", "NOP", "NOP", *WORK[:6], "@P1 BRA `(2)", "EXIT"]
    assert found(*texts) == []


def test_short_loops_that_only_wait_are_none():
    assert found("SYNCS.PHASECHK P0", "@!P0 BRA `(0)", *WORK, "EXIT") == []


def test_several_ways_back_are_one_loop_and_what_follows_no_branch_is_not_in_it():
    texts = ["NOP", *WORK, "@P0 BRA `(1)", "NOP", "@P1 BRA `(1)", "EXIT", *WORK, "BRA `(21)"]
    assert found(*texts) == [(1, 11, 11)]


def test_a_branch_by_a_predicate_operand_may_be_passed():
    assert found(*WORK, "BRA P0, `(0)", "EXIT") == [(0, 8, 9)]
    assert found(*WORK, "BRA `(0)", "EXIT") == [(0, 8, 9)]
