"""A session's room for records: what is kept of a long run, and that what is missing is said."""

import json

import numpy as np
import session_kernels as K

import tileprobe
from tileprobe.session.budget import Budget
from tileprobe.session.recorded import Recorded
from tileprobe.session.works import Work

ALL = {"alternate": False, "programs": "all"}


class _Target:
    doses = (1, 3)


class _Kernel:
    def __init__(self, name):
        self.name, self.target, self.machine, self.key = name, _Target(), "cpu", name


def filled(launches, total_kb=64, words=64, seed=0, kernels=("only",)):
    """A budget and the works of some kernels after so many launches of each, in turns. Start times count launches."""
    budget = Budget(1.0, total_kb / 1024)
    works = [Work(_Kernel(name), (4, 1, 1), seed=seed) for name in kernels]  # type: ignore[arg-type]
    for n in range(launches):
        for work in works:
            work.ran += 1
            if work.next_dose(alternate=False) < 0 or not budget.has_room(work):
                continue
            work.began(1)
            run = Recorded((4, 1, 1), start_ns=n + 1, dose=1, words=np.zeros((4, words), np.uint64))
            work.runs.append((None, run))
            budget.add(work, run)
            if budget.used >= budget.shared:
                budget.make_room(works)
    return budget, works


def test_what_is_left_comes_from_the_whole_run():
    """Not from its beginning: each tenth of the run has about a tenth of what is kept."""
    kept = []
    for seed in range(40):
        _, (work,) = filled(2000, seed=seed)
        kept += [run.start_ns for _, run in work.runs]
    shares = np.histogram(kept, 10, (0, 2000))[0] / len(kept)
    assert (abs(shares - 0.1) < 0.05).all()


def test_the_room_is_kept_and_every_launch_is_accounted_for():
    budget, works = filled(3000, kernels=("one", "other"))
    assert sum(work.nbytes for work in works) == budget.used <= budget.total
    for work in works:
        assert len(work.runs) > 3
        assert len(work.runs) + work.unrecorded == work.ran == 3000


def test_a_kernel_that_comes_late_is_recorded():
    budget = Budget(1.0, 1.0)
    works = []
    for number in range(200):
        work = Work(_Kernel(f"kernel {number}"), (4, 1, 1))  # type: ignore[arg-type]
        works.append(work)
        assert budget.has_room(work) == (budget.used < budget.total)
        if not budget.has_room(work):
            break
        blocks = max(1, budget.blocks(work, 64))
        run = Recorded((4, 1, 1), dose=1, words=np.zeros((blocks, 8), np.uint64))
        work.runs.append((None, run))
        budget.add(work, run)
    assert number > 20  # each takes a part of what is left


def test_a_spent_budget_is_said_and_the_second_kernel_appears(capsys):
    with tileprobe.profile(**ALL, total_mb=0.02) as session:
        for _ in range(40):
            K.launch(K.loop_kernel, 4, 6)
        for _ in range(3):
            K.launch(K.scale_kernel, 4, 2.0)
    trace = session.trace
    assert {kernel.name for kernel in trace.kernels} == {"loop_kernel", "scale_kernel"}
    (loops,) = [work for work in trace.works if trace.kernels[work.kernel].name == "loop_kernel"]
    assert loops.ran == 40
    assert loops.probed + loops.unrecorded == 40
    assert loops.unrecorded > 10
    budget = trace.meta["budget"]
    assert budget["spent"]
    assert budget["not_recorded"][0]["kernel"] == "loop_kernel"
    assert budget["not_recorded"][0]["launches"] == loops.unrecorded
    session.report()
    said = " ".join(capsys.readouterr().out.split())
    assert f"0.02 MB for records were used up: {loops.unrecorded} launches of loop_kernel" in said
    json.dumps(trace.meta)


def test_a_budget_that_is_enough_is_not_mentioned(capsys):
    with tileprobe.profile(**ALL) as session:
        K.launch(K.loop_kernel, 4, 6)
    assert session.trace.meta["budget"] == {"megabytes": 64.0, "spent": False, "not_recorded": []}
    session.report()
    assert "used up" not in capsys.readouterr().out


def test_the_first_launch_is_recorded_however_small_the_room_is():
    with tileprobe.profile(**ALL, total_mb=0.001) as session:
        for _ in range(5):
            K.launch(K.loop_kernel, 4, 99)
    assert [launch.probed for launch in session.trace.launches] == [True]
    (work,) = session.trace.works
    assert (work.ran, work.probed, work.unrecorded) == (5, 1, 4)


def test_launches_that_are_not_looked_at_are_counted():
    with tileprobe.profile(skip=2, take=3, alternate=False) as session:
        for _ in range(9):
            K.launch(K.scale_kernel, 2, 2.0)
    (work,) = session.trace.works
    assert (work.ran, work.probed, work.unrecorded) == (9, 3, 0)
