"""What regions are in the plain run, by lines: from logs made by hand, and of a kernel that ran."""

from types import SimpleNamespace

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.ir.regions import Region
from tileprobe.targets.simgpu.timing import plain
from tileprobe.targets.simgpu.timing.log import EVENT, Logged
from tileprobe.targets.simgpu.timing.loops import Loop
from tileprobe.tools.verified import verified

# Lines of instructions: 0 and 1 in front, 2 to 4 a loop, 5 behind it
LINES = np.array([1, 2, 4, 3, 4, 2])
REGIONS = [
    Region(0, "k", "kernel", None, 0, "k.py", 1, 5),
    Region(1, "loop @ 3", "loop", 0, 0, "k.py", 3, 4, 1),
    Region(2, "iteration", "iteration", 1, 0, "k.py", 3, 4, 2),
    Region(3, "dot @ 4", "dot", 2, 0, "k.py", 4, 4, 3),
    Region(4, "load @ 2", "load", 0, 0, "k.py", 2, 2, 1),
    Region(5, "async copy @ 4", "async", 2, 0, "k.py", 4, 4, 3),
]


def told(events, monkeypatch, warps=False, programs=(0,), multiprocessors=1, regions=REGIONS):
    program = SimpleNamespace(lines=LINES, files=np.zeros(6, int), texts=["NOP"] * 6)
    monkeypatch.setattr(plain, "loops_of", lambda _: [Loop(2, 4, frozenset({2, 3, 4}))])
    log = np.zeros(len(events), EVENT)
    for n, (warp, pc, cycle) in enumerate(events):
        log[n]["warp"], log[n]["pc"], log[n]["cycle"] = warp, pc, cycle
    took = SimpleNamespace(log=Logged({0: log}, multiprocessors))
    return plain.plain_truth(program, took, regions, warps, np.array(programs))


ONE = [
    (0, pc, cycle)
    for pc, cycle in ((0, 0), (1, 5), (2, 10), (3, 14), (4, 30), (2, 40), (3, 41), (4, 50), (5, 70))
]


def test_from_the_first_to_the_last_issue(monkeypatch):
    found = told(ONE, monkeypatch)
    assert (found[0].ticks, found[0].count) == (70, 1)
    assert (found[1].ticks, found[1].count) == (40, 1)  # 10 to 50
    assert (found[2].ticks, found[2].count) == (40, None)  # iterations are as long as their loop
    assert (found[3].ticks, found[3].count) == (30, 2)  # 10 to 30, 40 to 50
    assert 5 not in found


def test_what_lies_between_and_is_others_is_counted(monkeypatch):
    found = told(ONE, monkeypatch)
    assert found[3].others == 4 + 1  # line 3, up to 14 and to 41
    assert found[1].others == 0


def test_in_front_of_a_loop_and_behind_it_are_two(monkeypatch):
    found = told(ONE, monkeypatch)
    assert (found[4].ticks, found[4].count) == (0, 2)


def test_the_first_warp_that_has_any_counts_or_all_that_record(monkeypatch):
    both = [*ONE, *((1, pc, 2 * cycle) for _, pc, cycle in ONE)]
    assert told(both, monkeypatch)[1].ticks == 40
    assert (told(both, monkeypatch, warps=True)[1].ticks, told(both, monkeypatch, warps=True)[1].count) == (
        120,
        2,
    )
    late = [(0, 0, 0), *((1, pc, cycle) for _, pc, cycle in ONE)]
    assert told(late, monkeypatch)[1].ticks == 40  # warp 0 is in no loop


def test_programs_of_multiprocessors_that_were_left_out_are_like_the_others(monkeypatch):
    found = told(ONE, monkeypatch, programs=(0, 1), multiprocessors=2)
    assert (found[1].ticks, found[1].count) == (80, 2)
    assert told(ONE, monkeypatch, programs=(3,)) == {}


def test_loops_of_the_same_lines_are_not_told_apart(monkeypatch):
    twice = [*REGIONS, Region(6, "loop @ 3", "loop", 0, 0, "k.py", 3, 4, 1)]
    found = told(ONE, monkeypatch, regions=twice)
    assert not {1, 2, 3, 6} & set(found) and 0 in found


@triton.jit
def grow(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for step in range(n):
        at = x + step * BLOCK + i
        tl.store(at, tl.load(at) + 1.0)


def test_a_verified_launch_has_both_truths():
    x, n = tileprobe.array(np.zeros(12 * 512, np.float32)), 12
    with (
        tileprobe.use("sim:a100", check=False, verify=True, cold=True),
        tileprobe.profile(programs="all", max_overhead=1.0, alternate=False, min_cost=0.0) as session,
    ):
        for _ in range(4):
            grow[(1,)](x, n, BLOCK=512, num_warps=2)
    truth = verified(session.trace, session.trace.kernels[0])
    rows = {row.region.kind: row for row in truth.regions}
    loop, each = rows["loop"], rows["iteration"]
    assert loop.plain_ns == pytest.approx(loop.true_ns, rel=0.1)
    assert each.plain_ns == pytest.approx(loop.plain_ns)
    assert 0 <= loop.interleaved_percent < 5
    assert loop.code_percent == pytest.approx(100 * (loop.true_ns / loop.plain_ns - 1))
    assert rows["kernel"].plain_ns < truth.plain_ns


def test_loops_in_loops_are_regions_in_regions(monkeypatch):
    """Most lines of the outer loop are the inner one's, and its branch is there, too."""
    program = SimpleNamespace(lines=np.array([1, 3, 4, 4, 4, 4]), files=np.zeros(6, int), texts=["NOP"] * 6)
    regions = [
        Region(0, "k", "kernel", None, 0, "k.py", 1, 5),
        Region(1, "loop @ 2", "loop", 0, 0, "k.py", 2, 5, 1),
        Region(2, "iteration", "iteration", 1, 0, "k.py", 2, 5, 2),
        Region(3, "loop @ 4", "loop", 2, 0, "k.py", 4, 4, 3),
    ]
    outer, inner = Loop(1, 4, frozenset({1, 2, 3, 4})), Loop(2, 3, frozenset({2, 3}))
    monkeypatch.setattr(plain, "loops_of", lambda _: [outer, inner])
    assert plain._loops(program, regions) == {1: [outer], 3: [inner]}
    monkeypatch.setattr(plain, "loops_of", lambda _: [inner])  # the outer one was unrolled
    assert plain._loops(program, regions) == {1: [inner]}  # passed more often than the region: not compared
