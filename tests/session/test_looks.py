"""What share of a launch regions have: of launches that are alike, alone and as they run."""

from dataclasses import replace

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.session import delaying, looks
from tileprobe.session.looks import LOOPS, PLAN, Look, looked_at, looks_without, regions_in
from tileprobe.session.relaunching import Took, relaunching
from tileprobe.tools.slopes import DOSES, FEW
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit


def look(shares, cores, **more):
    given = {
        "most": 0.9,
        "records": 0.0,
        "count": 8.0,
        "programs": [(np.zeros(2), np.full(2, 4.0), 0)],
    } | more
    return Look(np.array(shares, float), np.array(cores, float), **given)


def test_launches_on_as_many_cores_as_usual_say_what_a_region_has():
    one = look([0.1] * FEW + [0.9] * (FEW + 1), [1.0] * FEW + [2.0] * (FEW + 1))
    assert one.share(1.0)[0] == pytest.approx(0.1) and one.share(2.0)[0] == pytest.approx(0.9)
    few = look([0.1] * (FEW - 1) + [0.9] * 20, [1.0] * (FEW - 1) + [2.0] * 20)
    assert few.share(1.0)[0] == pytest.approx(0.9)  # too few are alike: all say it


def test_a_share_is_of_all_that_threads_do_but_for_records_and_what_the_system_took():
    """Programs of 80 of a launch's 100 ns, of which records cost 8; the region 36, of which records cost 4."""
    columns = {
        "region": [0, 1], "start": [0, 10], "stop": [80, 46], "start_ns": [0.0, 10.0], "stop_ns": [72.0, 42.0],
        "probes_ns": [8.0, 4.0],
    }  # fmt: skip
    trace = Trace.build(
        columns,
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (1,), 0.0, 100.0, ran_ns=100.0, preempted_ns=500.0)],
        regions=[Region(0, "k", "kernel"), Region(1, "loop @ 3", "loop", 0)],
        units=[Unit(0, "core 0")],
    )
    (found,) = regions_in(trace, "loop").values()
    assert found.shares == pytest.approx([32 / (100 - 8)])
    assert found.records == pytest.approx(4 / 72) and found.count == 1
    assert found.most == pytest.approx(32 / 72 * 72 / 92)


@triton.jit
def looped(x, n):
    i = tl.arange(0, 64)
    a = tl.load(x + i)
    for _ in range(n):
        a = tl.sqrt(a + 1.0)
    tl.store(x + i, a)


@pytest.mark.parametrize(
    ("word", "plans"),
    [("loop", [LOOPS, replace(LOOPS, fenced=True)]), ("sqrt", [replace(PLAN, fenced=True)])],
)
def test_regions_are_looked_at_alone_and_loops_without_records_within(monkeypatch, word, plans):
    asked = []

    def question(one):
        trace = looked_at(one, PLAN, 0.05)
        found = regions_in(trace, word)

        def seen(launch, plan, seconds):
            asked.append(plan)
            return looked_at(launch, plan, seconds)

        monkeypatch.setattr(looks, "looked_at", seen)
        alone, usual = looks_without(one, trace, found, word, 0.05)
        assert alone.keys() == usual.keys() == found.keys() and len(found) == 1
        ((number, before),) = found.items()
        assert alone[number] is not before and (usual[number] is not before) == (word == "loop")
        assert alone[number].count == before.count

    x = tileprobe.array(np.ones(64, np.float32))
    with tileprobe.use("cpu", threads=1), relaunching(question):
        looped[(2,)](x, 5)
    assert asked == plans


def test_rounds_of_launches_on_other_cores_than_usual_do_not_count():
    """Each dose adds 10 an execution on one core, the usual number; on two, with other work, it seems to add more."""
    alone = look([0.5] * 9, [1.0] * 9)
    usual, other = (
        [[Took(1000.0 + step * dose * 80, 1.0) for dose in DOSES] for _ in range(9)] for step in (1, 5)
    )
    usual = [[Took(each.ns, each.ns) for each in row] for row in usual]
    other = [[Took(each.ns, 2 * each.ns) for each in row] for row in other]
    doses = [list(column) for column in zip(*usual, *other)]
    region = Region(1, "loop @ 3", "loop", 0, 0, "k.py", 3, 9)
    row = delaying._row(region, alone, alone, doses, 10.0, 1000, 1.0, 0.0, 1000.0, 1.0, 0.0)
    assert (row.rounds, row.slope.rounds) == (18, 9)
    assert row.slope.value == pytest.approx(1.0, abs=0.01) and row.saved.value == pytest.approx(0.5, abs=0.02)
    wide = delaying._row(
        region, look([0.4] * 9, [1.0] * 9), alone, doses, 10.0, 1000, 1.0, 0.0, 1000.0, 1.0, 0.0
    )
    assert wide.share == pytest.approx(0.5) and wide.overlapping == pytest.approx(0.4)
    assert wide.saved.low < 0.4 < 0.5 <= wide.saved.high  # from one to the other
