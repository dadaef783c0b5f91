"""Loops of which a launch recorded no iteration, though they ran in it: others of its work stand for it."""

import numpy as np
import pytest

from tileprobe.ir.layout import Body, Span, Stamp, allocate
from tileprobe.trace.unseen_loops import Ran, stand_for_unseen

INNER = Body(1, 4, (Stamp(2), Stamp(3)), counted=False)
LAYOUT = allocate(
    [Body(0, 4, (Stamp(0), INNER, Stamp(1)), counted=False)],
    spans=[Span(0, 0, 1), Span(1, 2, 3)],
    cursor_capacity=8,
)


def table(launches, regions):
    ones = np.ones(len(launches))
    return {"launch": np.array(launches), "region": np.array(regions), "weight": ones, "fit": ones.copy()}


def test_launches_that_saw_a_loop_stand_for_those_of_their_work_that_did_not():
    """Launches 0 to 2 are one work, 3 another. The inner loop had 10 iterations in each, and launches 0 and 1 saw none
    of it."""
    pieces = [table([0, 1], [0, 0]), table([2, 2, 3], [0, 1, 1])]
    ran = [Ran(0, n, 5, 5) for n in range(4)] + [Ran(1, n, 10, 2 * (n > 1)) for n in range(4)]
    stand_for_unseen(pieces, ran, LAYOUT, {0: "a", 1: "a", 2: "a", 3: "b"})
    assert pieces[0]["weight"].tolist() == [1, 1]
    assert pieces[1]["weight"].tolist() == [1, 3, 1]
    assert pieces[1]["fit"].tolist() == pytest.approx(
        [1, 1 / 3, 1]
    )  # its time was scaled up where it was seen


def test_a_loop_that_nobody_saw_or_that_did_not_run_changes_nothing():
    piece = table([0, 1], [0, 1])
    stand_for_unseen([piece], [Ran(1, 0, 10, 0), Ran(1, 1, 0, 0)], LAYOUT, {0: "a", 1: "a"})
    stand_for_unseen([piece], [Ran(1, 0, 0, 0), Ran(1, 1, 9, 1)], LAYOUT, {0: "a", 1: "a"})
    assert piece["weight"].tolist() == piece["fit"].tolist() == [1, 1]
