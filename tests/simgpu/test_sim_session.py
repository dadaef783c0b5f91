"""A session on a simulated GPU: machine code with records is executed, and what comes back is what the kernel did."""

import io
import re

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.session.session import Session
from tileprobe.targets.simgpu.device import Counter
from tileprobe.tools.regions import Regions
from tileprobe.views.html import page
from tileprobe.views.json_report import trace_to_json
from tileprobe.views.screen import Screen
from tileprobe.views.terminal import print_report


@triton.jit
def running_sum(x, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(count):
        total += tl.load(x + i) * step
        tl.store(out + i, total)


@pytest.fixture(scope="module")
def profiled():
    """Twelve launches of four programs, seven iterations each."""
    x = np.arange(256, dtype=np.float32)
    with tileprobe.use("sim:a100"):
        source, out = tileprobe.array(x), tileprobe.array(np.zeros(256, np.float32))
        with Session(min_cost=0.0, programs="all") as session:
            for _ in range(12):
                running_sum[(4,)](source, out, 7, BLOCK=64)
        result = np.array(out.numpy())
    return session, result, x * 21


def test_results_are_those_of_the_kernel(profiled):
    _, result, expected = profiled
    assert np.array_equal(result, expected)


def test_every_iteration_of_every_program_is_there_and_in_order(profiled):
    session, _, _ = profiled
    assert not session.problems
    trace = session.trace
    assert [kernel.target for kernel in trace.kernels] == ["sim:a100"]
    iterations = [region.id for region in trace.regions if region.kind == "iteration"]
    whole = [region.id for region in trace.regions if region.kind == "kernel"]
    probed = [launch.id for launch in trace.launches if launch.probed]
    assert probed
    for launch in probed:
        rows = trace.intervals.filter(trace.intervals["launch"] == launch)
        for program in range(4):
            mine = rows.filter(rows["program"] == program)
            steps = mine.filter(mine["region"].is_in(iterations)).sort("iteration")
            assert steps["iteration"].to_list() == list(range(7))
            assert (steps["start"] <= steps["stop"]).all()
            assert (steps["start"].to_numpy()[1:] >= steps["stop"].to_numpy()[:-1]).all()
            kernel = mine.filter(mine["region"].is_in(whole))
            assert kernel["start"][0] <= steps["start"].min()
            assert kernel["stop"][0] >= steps["stop"].max()


def test_doses_say_what_the_machine_code_says_of_a_record(profiled):
    """The simulated clock counts the warp's instructions until it has time: a read and a store, everywhere in the loop.
    Before it the compiler places other instructions among them as it likes."""
    session, _, _ = profiled
    (kernel,) = session.trace.kernels
    costs = [kernel.calibration["slots"][str(slot)] for slot in (3, 4, 5)]
    assert costs == pytest.approx([2.0] * 3, abs=0.05)
    assert abs(kernel.calibration["cost_ticks"] - 2.0) < 3 * kernel.calibration["error_ticks"]


def test_instructions_are_not_shown_as_time(profiled):
    """The same unit in records and launches, printed as what it is, with a remark, in every form of the report."""
    session, _, _ = profiled
    trace = session.trace
    (kernel,) = trace.kernels
    assert (kernel.clock.name, kernel.clock.hz) == ("instructions", 1e9)
    plain = [launch for launch in trace.launches if not launch.probed]
    with tileprobe.use("sim:a100"):
        before = Counter.issued
        x = tileprobe.array(np.zeros(256, np.float32))
        running_sum[(4,)](x, x, 7, BLOCK=64)
        issued = Counter.issued - before
    assert plain
    assert min(launch.duration_ns for launch in plain) == issued
    assert not trace.domains
    out = io.StringIO()
    print_report(trace, [Regions().read(trace)], Screen(out, width=150))
    said = out.getvalue()
    assert "no time is simulated" in said
    assert "instr each" in said
    assert "account for" not in said
    assert not re.search(r"\d (ns|µs)\b(?! of Python)", said)
    report = trace_to_json(trace)
    assert report["unit"] == "instructions"
    assert "no time is simulated" in report["remarks"][0]
    html = page(trace)
    assert "no time is simulated" in html
    assert '"unit":"instructions"' in html
