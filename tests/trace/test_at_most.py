"""Records cannot have cost more than launches became longer."""

from types import SimpleNamespace

import numpy as np
import pytest

from tileprobe.trace import at_most
from tileprobe.trace.at_most import share_at_most


class Costs:
    def __init__(self, *costs):
        self._costs = np.array(costs, float)

    def costs(self, layout):
        return self._costs


@pytest.fixture
def rows(monkeypatch):
    """Two programs of three records each, 1000 ticks from the first to the last."""
    row, clock, slot = (
        np.array([0, 0, 0, 1, 1, 1]),
        np.array([0, 400, 1000, 50, 500, 1050]),
        np.array([0, 1, 2] * 2),
    )
    sequence = SimpleNamespace(row=row, clock=clock, slot=slot)
    monkeypatch.setattr(at_most, "in_sequence", lambda *_: sequence)
    return [(SimpleNamespace(layout=None), None)]


def share(rows, probed, plain):
    return share_at_most(rows, Costs(90, 50, 50), probed, plain)  # 100 a program behind its first record


def test_a_share_of_what_launches_became_longer(rows):
    assert share(rows, [1000.0] * 4, [950.0] * 4) == pytest.approx(0.5)
    assert share(rows, [2000.0] * 4, [1900.0] * 4) == pytest.approx(
        0.5
    )  # one behind the other: each its half
    assert share(rows, [1000.0] * 4, [800.0] * 4) == 1.0
    assert share(rows, [1000.0] * 4, [1010.0] * 4) == 0.0


def test_durations_that_differ_leave_room(rows):
    sure = share(rows, [1000.0] * 5, [990.0] * 5)
    unsure = share(rows, [1000.0, 1030, 970, 1015, 985], [990.0] * 5)
    assert sure == pytest.approx(0.1) and unsure > 0.25
    assert share(rows, [1000.0] * 5 + [9000.0], [990.0] * 5) == pytest.approx(0.1)  # one that was cold


def test_nothing_is_cut_where_nothing_is_known(rows):
    assert (
        share(rows, [1000.0], []) == share(rows, [], [1.0]) == share_at_most([], Costs(), [1.0], [1.0]) == 1.0
    )
