"""How many points go to a cluster at a time."""

from tileprobe.sweeps.executors.batches import MOST, Batches
from tileprobe.sweeps.outcome import DIED, DONE, Outcome
from tileprobe.sweeps.points import Point, Work


def learnt(seconds, count=60, kind=DONE):
    batches = Batches()
    for _ in range(count):
        batches.learn(Outcome(kind, seconds=seconds))
    return batches


def test_short_points_go_together_and_long_ones_alone():
    assert Batches().size == 1  # nothing is known
    assert learnt(0.0249).size == 10
    assert learnt(1e-7).size == MOST
    assert learnt(30.0).size == 1
    assert learnt(1e-7, kind=DIED).size == 1  # which says nothing of points


def test_all_that_waits_is_taken_once():
    batches, work = learnt(0.05), Work("a:b", "1")
    tasks = [work.task(Point(str(n), {})) for n in range(11)]
    for task in tasks:
        batches.add(task)
    taken = batches.take()
    assert [len(one) for one in taken] == [4, 4, 3]
    assert [task for one in taken for task in one] == tasks
    assert batches.take() == []
