"""A session learns what records in loops cost where they stand, from launches of its own that record no iterations."""

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.session import decoding
from tileprobe.session.manager import manager
from tileprobe.trace.in_place import in_place


@triton.jit
def short_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i)
    for _ in range(n):
        v = tl.exp(v) * 0.5
    tl.store(x_ptr + i, v)


def test_some_launches_record_no_iterations_and_only_tell_costs():
    x = tileprobe.array(np.zeros(8 * 256, np.float32))
    with tileprobe.profile(programs="all") as session:
        for _ in range(80):
            short_kernel[(8,)](x, 20, BLOCK=256)
        runs = [run for work in session.works() for _, run in work.runs]
    light = [run for run in runs if run.light]
    assert len(light) >= 5
    assert all(run.dose == 1 and len(run.words) == 8 for run in light)
    usual = [run for run in runs if run.probed and not run.calibrates]
    assert all(len(run.words) == 8 for run in usual)
    assert max(run.kept() for run in light) < min(run.kept() for run in usual) / 5
    trace = session.trace
    (work,) = trace.works
    assert work.dosed == sum(run.calibrates for run in runs)
    assert work.probed == len(usual) == sum(launch.probed for launch in trace.launches)
    known = trace.kernels[0].calibration
    assert 0 < known["cost_ticks"] <= 2 * known["dose_ticks"]
    assert not manager.flights


def test_launches_without_iterations_are_held_against_those_with(monkeypatch):
    held = []

    def noted(both, light, found, durations):
        held.append(
            [len(np.unique(rows.launch)) for rows in (*both, *light)] + [len(times) for times in durations]
        )
        return in_place(both, light, found, durations)

    monkeypatch.setattr(decoding, "in_place", noted)
    monkeypatch.setattr(decoding, "UNDISTURBED", 1e9)  # however busy this machine is
    x = tileprobe.array(np.zeros(8 * 256, np.float32))
    with tileprobe.profile(programs="all") as session:
        for _ in range(80):
            short_kernel[(8,)](x, 20, BLOCK=256)
    assert session.trace.launches
    ((usual, light, plain, same),) = held
    assert min(usual, light, plain) >= 5 and light == same


def test_kernels_without_loops_take_half_of_it_and_say_that_it_may_be_anything():
    @triton.jit
    def flat(x_ptr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x_ptr + i, tl.exp(tl.load(x_ptr + i)))

    x = tileprobe.array(np.zeros(1024, np.float32))
    with tileprobe.profile(programs="all") as session:
        for _ in range(80):
            flat[(1,)](x, BLOCK=1024)
        assert not [run for work in session.works() for _, run in work.runs if run.light]
    known = session.trace.kernels[0].calibration
    assert known["cost_ticks"] == pytest.approx(known["dose_ticks"] / 2)
