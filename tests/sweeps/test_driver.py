"""The driver, with an executor that does as it is told."""

from collections import deque

import pytest

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.driver import Driver, Rules, Standing
from tileprobe.sweeps.executors.base import Lost
from tileprobe.sweeps.ledger import Ledger
from tileprobe.sweeps.outcome import DIED, DONE, LATE, RAISED, REFUSED, UNFIT, Outcome
from tileprobe.sweeps.points import Work
from tileprobe.sweeps.progress import duration, words


class Told:
    """Outcomes by x, one for each attempt, then results; the order of points is turned round."""

    where = "here"

    def __init__(self, outcomes=None, room=4, twice=False, lost_after=None):
        self.outcomes = {x: deque(kinds) for x, kinds in (outcomes or {}).items()}
        self.roomy, self.twice, self.lost_after = room, twice, lost_after
        self.tasks, self.ran, self.most = [], [], 0

    def room(self):
        return self.roomy() if callable(self.roomy) else self.roomy

    def submit(self, task, seconds):
        self.tasks.append(task)
        self.most = max(self.most, len(self.tasks))

    def wait(self, seconds):
        if self.lost_after is not None and len(self.ran) >= self.lost_after:
            raise Lost("gone")
        task = self.tasks.pop()
        x = task.settings["x"]
        self.ran.append(x)
        kind = self.outcomes[x].popleft() if self.outcomes.get(x) else DONE
        outcome = Outcome(
            kind, "" if kind == DONE else f"it {kind}", {"y": x} if kind == DONE else None, 0.5, "w"
        )
        return [(task.point, outcome)] * (2 if self.twice else 1)

    def close(self):
        pass


def points(n):
    return [{"x": x} for x in range(n)]


def test_every_point_once_and_no_more_under_way_than_there_is_room(swept):
    executor = Told(room=3)
    found = swept(executor, "square", points(20))
    assert [e["settings"]["x"] for e in found] == list(range(20))
    assert sorted(executor.ran) == list(range(20))
    assert executor.most == 3


def test_an_outcome_that_comes_twice_counts_once(swept, tmp_path):
    swept(Told(twice=True), "square", points(5))
    assert len((tmp_path / "s.jsonl").read_text().splitlines()) == 6  # with the header


@pytest.mark.parametrize("kind", [RAISED, DIED, LATE])
def test_attempts_are_bounded(swept, kind):
    executor = Told({1: [kind] * 9, 2: [kind] * 2})
    said = []
    found = swept(executor, "square", points(4), retries=2, tell=lambda s: said.append(words(s)))
    assert [e["outcome"] for e in found] == [DONE, kind, DONE, DONE]
    assert [e["attempts"] for e in found] == [1, 3, 3, 1]
    assert found[1]["reason"] == f"it {kind}"
    assert "result" not in found[1]
    assert executor.ran.count(1) == 3
    assert said[-1].endswith("1 failed, 4 tried again")


def test_a_mistake_in_settings_is_not_tried_again(swept):
    executor = Told({1: [REFUSED] * 9})
    assert swept(executor, "square", points(2))[1]["outcome"] == REFUSED
    assert executor.ran.count(1) == 1


def test_a_worker_that_cannot_do_the_work_ends_the_sweep(swept):
    with pytest.raises(TileProbeError, match="it unfit"):
        swept(Told({1: [UNFIT]}), "square", points(3))


def test_what_is_there_is_not_run_again_but_what_failed_is(swept):
    swept(Told({1: [REFUSED], 2: [RAISED] * 9}), "square", points(3), retries=0)
    executor = Told()
    standings = []
    found = swept(executor, "square", points(4), tell=lambda s: standings.append((s.there, s.ended, s.total)))
    assert sorted(executor.ran) == [1, 2, 3]
    assert [e["outcome"] for e in found] == [DONE] * 4
    assert standings[-1] == (1, 3, 4)


def test_what_is_settled_is_for_the_rules_to_say(swept):
    swept(Told({1: [REFUSED]}), "square", points(3))
    executor = Told()
    swept(executor, "square", points(3), settled=(DONE, REFUSED))
    assert not executor.ran


def test_a_cluster_that_is_lost_leaves_what_was_there(swept):
    with pytest.raises(Lost):
        swept(Told(lost_after=7), "square", points(20))
    executor = Told()
    swept(executor, "square", points(20))
    assert len(executor.ran) == 13


def test_points_wait_for_workers(swept, monkeypatch):
    from tileprobe.sweeps import driver

    rooms, said = iter([0, 0, 2]), []
    monkeypatch.setattr(driver.time, "sleep", lambda seconds: None)
    found = swept(
        Told(room=lambda: next(rooms, 2)), "square", points(3), tell=lambda s: said.append(words(s))
    )
    assert len(found) == 3
    assert said[0] == "0 of 3 points, waiting for workers"
    assert "waiting" not in said[-1]


def test_the_first_alone_compiles_for_all(tmp_path):
    most = []

    class Counted(Told):
        def wait(self, seconds):
            most.append(len(self.tasks))
            return super().wait(seconds)

    ledger = Ledger(tmp_path / "s.jsonl", "test")
    Driver(Work("sweep_functions:square", "1", first_alone=True), ledger, Counted(), Rules()).run(
        points(6), 6
    )
    assert most == [1, 4, 4, 3, 2, 1]
    ledger.close()


def test_the_same_point_twice_is_one(swept):
    executor = Told()
    assert len(swept(executor, "square", [*points(2), *points(3)])) == 3
    assert len(executor.ran) == 3


def test_how_long_it_takes(monkeypatch):
    from tileprobe.sweeps import driver

    now = [100.0]
    monkeypatch.setattr(driver.time, "monotonic", lambda: now[0])
    standing = Standing(1000, there=100, begun=100.0)
    assert standing.left_s is None
    for _ in range(100):
        now[0] += 0.5
        standing.end()
    assert standing.per_s == pytest.approx(2.0)
    assert standing.left_s == pytest.approx(400.0)
    for _ in range(450):  # it got faster: the last ones count
        now[0] += 0.1
        standing.end()
    assert standing.per_s == pytest.approx(10.0, rel=0.01)
    assert words(standing) == "650 of 1,000 points, 10/s, about 35 s left"
    assert [duration(s) for s in (5.4, 100, 7200)] == ["5 s", "2 min", "2.0 h"]


@pytest.mark.parametrize(
    ("rules", "message"), [({"retries": -1}, "--retries"), ({"seconds": 0.0}, "--point-seconds")]
)
def test_rules_that_make_no_sense(rules, message):
    with pytest.raises(TileProbeError, match=message):
        Rules(**rules)
