"""Programs and iterations are chosen at run time on a GPU, and what was chosen stands for the rest: machine code is
executed by the simulated GPU, whose clock counts instructions, so that every iteration takes as long as the others."""

from functools import cache

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.session.session import Session
from tileprobe.tools.regions import Regions


@triton.jit
def uneven(x, out, BLOCK: tl.constexpr):
    """Programs of 10 to 18 iterations, about ten instructions each."""
    program = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(10 + program % 5 * 2):
        total += tl.load(x + step % 4 * BLOCK + i)
        tl.store(out + program * BLOCK + i, total)


@cache
def totals(programs="all", iterations="all"):
    with tileprobe.use("sim:a100"):
        x, out = (tileprobe.array(np.zeros((rows, 64), np.float32)) for rows in (4, 20))
        with Session(min_cost=0.0, programs=programs, iterations=iterations, seed=3) as session:
            for _ in range(18):
                uneven[(20,)](x, out, BLOCK=64, num_warps=2)
    assert not session.problems
    table = Regions().read(session.trace).tables[0]
    return {row["kind"]: row for row in table.frame.iter_rows(named=True)}


@pytest.mark.parametrize(
    ("iterations", "inside"),
    [
        ("every:2", 0.03),
        ("every:3", 0.03),
        ("every:7", 0.03),
        ("first:4", 0.1),
        ("last:4", 0.2),
        ("first:1", 0.03),
    ],
)
def test_iterations_stand_for_those_that_were_left_out(iterations, inside):
    """Loops and all that is in them, in time and in number. What lies before the first iteration is counted among them
    where that was not recorded."""
    everything, found = totals(), totals(iterations=iterations)
    for kind in ("kernel", "loop"):
        assert found[kind]["total_ns"] == pytest.approx(everything[kind]["total_ns"], rel=0.1)
    for kind in ("iteration", "load", "store"):
        assert found[kind]["recorded_count"] < everything[kind]["recorded_count"]
        assert found[kind]["count"] == pytest.approx(everything[kind]["count"], rel=0.01)
        assert found[kind]["total_ns"] == pytest.approx(everything[kind]["total_ns"], rel=inside)


@pytest.mark.parametrize(("programs", "share"), [("50%", 0.5), ("random:5", 0.25), ("0,5,9", 3 / 20)])
def test_programs_stand_for_those_that_were_left_out(programs, share):
    everything, found = totals(), totals(programs)
    near = 0.1 if programs != "0,5,9" else 0.35  # two of these three are the shortest there are
    for kind in ("kernel", "loop", "iteration", "load", "store"):
        assert found[kind]["total_ns"] == pytest.approx(everything[kind]["total_ns"], rel=near)
    assert found["kernel"]["count"] == everything["kernel"]["count"]
    assert found["kernel"]["recorded_count"] == pytest.approx(
        share * everything["kernel"]["recorded_count"], rel=0.01
    )


def test_both_at_once():
    everything, found = totals(), totals("50%", "every:3")
    for kind in ("kernel", "loop", "iteration", "load", "store"):
        assert found[kind]["total_ns"] == pytest.approx(everything[kind]["total_ns"], rel=0.1)
