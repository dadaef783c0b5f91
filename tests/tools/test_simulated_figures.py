"""Figures of machines that are simulated: counted, not sampled, and called what they are."""

import io
from dataclasses import replace

import pytest

from tileprobe.ir.machine import INSTRUCTIONS, SIMULATED
from tileprobe.tools.accounting import interrupted
from tileprobe.tools.kernels import kernel_totals
from tileprobe.tools.overhead import overhead
from tileprobe.tools.regions import Regions, region_tree
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Work
from tileprobe.views.screen import Screen
from tileprobe.views.terminal import print_report

REGIONS = [Region(0, "k", "kernel"), Region(1, "dot", "dot", 0, depth=1)]

NONE = Losses()


def made(clock, *, ran=1, launches=1, weight=1.0, losses=NONE, layout=None, **launch):
    """Three programs of 100, 200 and 300 ticks, half of each in the dot."""
    rows = [(n, p, r, 0, 100 * (p + 1) >> r) for n in range(launches) for p in range(3) for r in range(2)]
    columns = dict(zip(("launch", "program", "region", "start", "stop"), zip(*rows)))
    columns["weight"] = [weight] * len(rows)
    trace = Trace.build(
        columns,
        kernels=[Kernel(0, "k", "sim:a100", Clock(1e9, clock), layout=layout)],
        launches=[Launch(n, 0, (3,), losses=losses, **launch) for n in range(launches)],
        regions=REGIONS,
    )
    return replace(trace, works=[Work(0, 0, (3,), ran=ran, probed=launches)])


def printed(trace):
    out = io.StringIO()
    print_report(trace, [Regions().read(trace)], Screen(out, width=150))
    return out.getvalue()


@pytest.mark.parametrize("clock", [INSTRUCTIONS, SIMULATED])
def test_all_that_ran_on_a_simulated_machine_is_exact(clock):
    trace = made(clock)
    rows = region_tree(trace, trace.kernels[0])
    assert (
        rows["low_ns"].to_list() == rows["total_ns"].to_list() == rows["high_ns"].to_list() == [600.0, 300.0]
    )
    assert rows["share_error"].to_list() == [0.0, 0.0]
    assert set(rows["basis"]) == {"all"}
    said = printed(trace)
    assert "±" not in said
    assert "exact: all that ran was recorded" in said


@pytest.mark.parametrize(
    "changes",
    [{"clock": "tsc"}, {"ran": 2}, {"weight": 2.0}, {"losses": Losses(9, 1)}, {"losses": Losses(9, 0, 1)}],
)
def test_what_stands_for_something_else_has_an_interval(changes):
    """A real clock; a launch, a program or an iteration of which there is no record."""
    trace = made(**({"clock": INSTRUCTIONS} | changes))
    rows = region_tree(trace, trace.kernels[0])
    assert rows["basis"].to_list() == ["programs", "programs"]
    assert (rows["high_ns"] > rows["total_ns"]).all()
    said = printed(trace)
    assert "exact" not in said.replace("intervals, exact", "")
    assert "± is a 95 % interval" in said


def test_the_instructions_of_probes_are_named_where_they_are_in_the_figures():
    assert "exact, with what probes add" in printed(made(INSTRUCTIONS, layout={}))


def test_a_count_of_instructions_is_not_called_time():
    several = replace(
        made(INSTRUCTIONS, ran=4, launches=2),
        kernels=[Kernel(n, f"k{n}", "sim:a100", Clock(1e9, INSTRUCTIONS)) for n in range(2)],
    )
    said = printed(several)
    assert "total is the instructions of all launches" in said
    assert "50 % of the instructions was recorded" in said
    assert "of the time" not in said
    timed = printed(made("tsc", ran=4, launches=2))
    assert "50 % of the time was recorded" in timed


@pytest.mark.parametrize("clock", [INSTRUCTIONS, SIMULATED])
def test_a_busy_host_says_nothing_about_a_simulated_machine(clock):
    for name, busy in ((clock, 0.0), ("tsc", 1.0)):
        trace = made(name, duration_ns=600.0, preempted_ns=300.0)
        trace.meta["switched_per_s"] = 500.0
        assert interrupted(trace, trace.kernels[0]).busy == busy
    assert interrupted(made(clock), made(clock).kernels[0]).known


def test_launches_that_all_ran_on_a_simulated_machine_are_no_sample():
    trace = made(SIMULATED, ran=3, launches=3)
    trace.launches = [
        replace(launch, duration_ns=100.0 * (1 + launch.id), preempted_ns=0.0) for launch in trace.launches
    ]
    row = kernel_totals(trace).row(0, named=True)
    assert (row["low_ns"], row["total_ns"], row["high_ns"]) == (600.0, 600.0, 600.0)
    probed = replace(trace, kernels=[replace(trace.kernels[0], layout={})])  # what probes took is in it
    more = replace(trace, works=[replace(trace.works[0], ran=4)])
    for other in (probed, more):
        row = kernel_totals(other).row(0, named=True)
        assert row["high_ns"] > row["total_ns"]


def with_and_without(clock, probed=(148.0, 148.0), plain=(100.0,), cost_ticks=0.0):
    """Launches with probes and without, of a kernel whose records cost so much."""
    trace = made(clock, ran=len(probed) + len(plain), launches=len(probed), layout={})
    trace.kernels = [replace(trace.kernels[0], calibration={"cost_ticks": cost_ticks})]
    lasted = [*((True, ns) for ns in probed), *((False, ns) for ns in plain)]
    trace.launches = [
        Launch(n, 0, (3,), probed=p, duration_ns=ns, preempted_ns=0.0) for n, (p, ns) in enumerate(lasted)
    ]
    return trace


def test_one_simulated_launch_without_probes_says_what_they_cost():
    """Free records change the code around them: their own cost, nothing, is no estimate of that."""
    trace = with_and_without(SIMULATED, probed=(150.0, 148.0, 148.0))
    found = overhead(trace, trace.kernels[0])
    assert (found.percent, found.low, found.high) == pytest.approx((48.0, 48.0, 50.0))
    assert found.measurable
    assert found.estimated_percent is None
    assert "probes cost 48.0 % (48.0 to 50.0, measured)" in printed(trace)
    row = kernel_totals(trace).row(0, named=True)
    assert row["each_ns"] == 100.0  # as without probes
    real = with_and_without("tsc")
    assert overhead(real, real.kernels[0]).percent is None
    assert kernel_totals(real).row(0, named=True)["each_ns"] == pytest.approx(132.0)


def test_simulated_launches_that_did_other_things_measure_nothing():
    trace = with_and_without(SIMULATED, probed=(100.0, 200.0), plain=(100.0, 200.0))
    found = overhead(trace, trace.kernels[0])
    assert not found.measurable
    assert "differ by more than the probes cost" in found.why


def test_free_records_alone_have_a_cost_that_is_not_known():
    said = printed(with_and_without(SIMULATED, plain=()))
    assert "records are free, what they change in the code around them is not known (--verify)" in said
    assert "probes cost about" not in said
    assert "probes cost about" in printed(with_and_without(SIMULATED, plain=(), cost_ticks=2.0))
