"""What holds a stage up: flows of kernels that are known, limits and traces by hand, stalls of a simulated GPU."""

import math

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.ir.flows import Cost, Costs, Flow, read, together, written
from tileprobe.targets.cpu.host import host
from tileprobe.tools.parallelism import Parallelism, limits
from tileprobe.tools.stalls import stalls
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace

COSTS = Costs(
    {
        "fma f32": Cost(4.0, 0.5, "floating point"),
        "load": Cost(5.0, 1.0, "loads"),
        "store": Cost(0.0, 1.0, "stores"),
    },
    issue_ns=0.25,
    window=200.0,
    said="by hand",
)


@triton.jit
def chained(x, out, N: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    y = tl.load(x + i)
    for _ in tl.static_range(N):
        y = y * 0.5 + 1.0
    tl.store(out + i, y)


@triton.jit
def summed(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + i) * 2.0, 0))


@triton.jit
def rooted(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.sqrt(tl.load(x + i)) / 3.0 - tl.exp(tl.load(x + i)))


def flows_of(kernel, *args, min_cost=0, **meta):
    with tileprobe.use("cpu"), tileprobe.profile(tools=["parallelism"], min_cost=min_cost) as session:
        kernel[(1,)](*args, **meta)
    found = [flow for region in session.trace.regions for flow in read(region.flows)]
    return found, session


def arrays(count):
    return tileprobe.array(np.ones(count, np.float32)), tileprobe.array(np.zeros(count, np.float32))


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    """Nothing is measured."""
    monkeypatch.setattr("tileprobe.targets.cpu.latencies.costs", lambda: COSTS)


def vectors(count):
    return count * 4 / host().vector_bytes


def test_a_chain_is_as_long_as_it_was_written():
    (flow,), _ = flows_of(chained, *arrays(1024), N=40, BLOCK=1024)
    assert flow.work == {"load": vectors(1024), "fma f32": 40 * vectors(1024), "store": vectors(1024)}
    assert flow.chain == {"load": 1.0, "fma f32": 40.0}  # a store is nobody's operand
    registers = flow.work["load"] / flow.strands
    assert registers in (1.0, 2.0, 4.0) and flow.times == 1.0


def test_a_reduction_is_one_by_one():
    found, _ = flows_of(summed, *arrays(4096), BLOCK=4096)
    flow = max(found, key=lambda one: sum(one.work.values()))
    assert flow.strands == 1.0
    registers = flow.work["add f32"] / flow.chain["add f32"]  # side by side
    assert registers in (1.0, 2.0, 4.0)
    assert flow.work["add f32"] == flow.work["load"] == vectors(4096)


def test_roots_quotients_and_functions_are_told_apart():
    (flow,), _ = flows_of(rooted, *arrays(512), BLOCK=512)
    count = vectors(512)
    assert {name: flow.work[name] for name in ("sqrt f32", "div f32", "exp f32", "add f32")} == {
        "sqrt f32": count, "div f32": count, "exp f32": count, "add f32": count,
    }  # fmt: skip
    assert "exp f32" in flow.chain and "sqrt f32" not in flow.chain  # the longer of the two ways


def test_off_means_off():
    with tileprobe.use("cpu"), tileprobe.profile(tools=["regions"], min_cost=0) as session:
        chained[(1,)](*arrays(64), N=4, BLOCK=64)
    assert not any(region.flows for region in session.trace.regions)
    assert "costs" not in session.trace.meta
    (finding,) = Parallelism().read(session.trace).findings
    assert finding.level == "warning"


# -- limits -------------------------------------------------------------------------------------------------------


def test_one_chain_takes_its_latencies():
    found = limits(Flow({"load": 1, "fma f32": 100}, {"load": 1, "fma f32": 100}), COSTS)
    assert (found.limit, found.latency_ns, found.chain_ns) == ("latency", 405.0, 405.0)
    assert (found.unit_ns, found.issue_ns, found.unit) == (50.0, 101 * 0.25, "floating point")


def test_as_many_strands_run_at_once_as_fit_into_the_window():
    flow = Flow({"fma f32": 50 * 40}, {"fma f32": 50}, strands=40)
    assert limits(flow, COSTS).latency_ns == pytest.approx(40 * 200 / 4)  # four strands of fifty
    wide = Flow({"fma f32": 10 * 40}, {"fma f32": 10}, strands=40)
    found = limits(wide, COSTS)
    assert found.latency_ns == pytest.approx(40 * 40 / 20)
    assert (found.limit, found.least_ns) == ("floating point", 200.0)
    few = Flow({"fma f32": 10 * 2}, {"fma f32": 10}, strands=2)
    assert limits(few, COSTS).latency_ns == 40.0  # both at once


def test_loads_and_issue_are_limits_too():
    assert limits(Flow({"load": 90, "fma f32": 10}, {"load": 1}, 90), COSTS).limit == "loads"
    costs = Costs(COSTS.classes, 2.0, 200.0, "")
    assert limits(Flow({"load": 10, "store": 10, "fma f32": 10}, {"load": 1}, 10), costs).limit == "issue"


def test_a_class_that_nobody_knows_has_no_limit():
    assert limits(Flow({"weird": 1}, {}), COSTS) is None


def trace_of(flows, ns=500, costs=COSTS):
    regions = [Region(0, "k", "kernel"), Region(1, "mul + add @ 3", "mul+add", 0, flows=written(flows))]
    return Trace.build(
        {"region": [0, 1], "start": [0, 10], "stop": [ns + 20, ns + 10]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (1,), 0.0, ns + 20.0)],
        regions=regions,
        meta={"costs": {"cpu": costs.to_json()}},
    )


def told(trace):
    result = Parallelism().read(trace)
    return [row for table in result.tables for row in table.frame.to_dicts()], result.findings


def test_what_holds_a_stage_up_is_said_with_its_size():
    chain = Flow({"fma f32": 120}, {"fma f32": 120})
    (row,), (finding,) = told(trace_of([chain]))
    assert (row["limit"], row["limit_ns"], row["measured_ns"]) == ("latency", 480.0, 500.0)
    assert row["reached"] == pytest.approx(0.96)
    assert row["in_flight"] == pytest.approx(480 / 500)
    assert row["could"] == pytest.approx(4 / 0.5)
    assert "held up by latency: a chain of 480 ns" in finding.text
    (row,), (finding,) = told(trace_of([Flow({"fma f32": 960}, {"fma f32": 1}, 960)]))
    assert (row["limit"], "floating point: 480 ns of 500 ns" in finding.text) == ("floating point", True)


def test_time_that_operations_do_not_explain_is_memory():
    (row,), (finding,) = told(trace_of([Flow({"load": 100}, {"load": 1}, 100)]))
    assert (row["limit"], row["limit_ns"]) == ("loads", 100.0)
    assert finding.data["limit"] == "memory" and "memory" in finding.text


def test_stages_of_a_region_run_one_after_another():
    flows = [Flow({"fma f32": 50}, {"fma f32": 50}, times=2), Flow({"fma f32": 8}, {"fma f32": 8})]
    (row,), _ = told(trace_of(flows))
    assert row["limit_ns"] == (2 * 50 + 8) * 4


def test_costs_and_flows_come_back_as_they_were(tmp_path):
    flows = (Flow({"load": 1.0}, {"load": 1.0}, 3.0, 2.0),)
    assert read(written(flows)) == flows
    assert together([flows[0], flows[0]]) == [Flow({"load": 1.0}, {"load": 1.0}, 3.0, 4.0)]
    assert Costs.of(COSTS.to_json()) == COSTS
    trace = trace_of(flows)
    trace.save(tmp_path / "t.parquet")
    assert told(Trace.load(tmp_path / "t.parquet"))[0] == told(trace)[0]


@pytest.mark.parametrize("damaged", ["", "{", "[1]", '[{"work": 3}]', "null"])
def test_damaged_flows_are_none(damaged):
    assert read(damaged) == ()


@pytest.mark.parametrize("damaged", [None, 3, {}, {"classes": 1}, {**COSTS.to_json(), "window": math.inf}])
def test_damaged_costs_are_none(damaged):
    assert Costs.of(damaged) is None


# -- simulated GPUs -----------------------------------------------------------------------------------------------


def counted(rows):
    columns = {name: [row[n] for row in rows] for n, name in enumerate(("file", "line", "name", "value"))}
    return Trace.build(
        {"region": [0], "start": [0], "stop": [10]},
        kernels=[Kernel(0, "k", "sim:a100", Clock(1e9, "simulated"))],
        launches=[Launch(0, 0, (1,), 0.0, 10.0)],
        regions=[Region(0, "k", "kernel")],
        counters=columns,
    )


def test_what_warps_wait_for_is_said_line_by_line():
    rows = [
        ("k.py", 3, "issued", 10.0),
        ("k.py", 3, "stall long_scoreboard", 80.0),
        ("k.py", 3, "stall wait", 10.0),
    ]
    rows += [
        ("k.py", 4, "issued", 60.0),
        ("k.py", 4, "stall math_pipe_throttle", 40.0),
        ("", 0, "flops", 3.0),
    ]
    trace = counted(rows)
    found = stalls(trace, trace.kernels[0])
    first, second = found.table.to_dicts()
    assert (first["line"], first["share"], first["mostly"], first["of_it"]) == (
        3,
        0.5,
        "long_scoreboard",
        0.8,
    )
    assert (second["issued"], second["issue_share"]) == (60, pytest.approx(6 / 7))
    assert second["reasons"] == "math_pipe_throttle 40"
    assert "warps issue in 35.0 % of their cycles" in found.findings[0].text
    assert found.findings[0].data["shares"] == {
        "long_scoreboard": 0.4,
        "math_pipe_throttle": 0.2,
        "wait": 0.05,
    }
    assert "line 3 has 50 % of the time of warps, 80 % of it long_scoreboard" in found.findings[1].text


def test_without_stalls_there_is_no_table():
    trace = counted([("k.py", 3, "issued", 10.0)])
    assert stalls(trace, trace.kernels[0]) is None


def test_a_simulated_gpu_waits_for_its_products_one_by_one():
    x, out = arrays(32)
    profiled = tileprobe.profile(tools=["parallelism"])
    with tileprobe.use("sim:a100", timed=True, check=False, threads=1), profiled as session:
        chained[(1,)](x, out, N=200, BLOCK=32, num_warps=1)
    rows, findings = told(session.trace)
    line = chained.fn.__code__.co_firstlineno + 5
    row = next(row for row in rows if row["line"] == line)
    assert (row["mostly"], row["issued"] - 200 in range(4)) == ("wait", True)  # and its constants
    assert row["of_it"] * row["cycles"] == pytest.approx(200 * 3, rel=0.05)  # four cycles a multiply-add
    assert any(f.data.get("line") == line and f.data["stall"] == "wait" for f in findings)


@triton.jit
def narrow(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(tl.float32) + 1.0)


@triton.jit
def locked(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(out + i, tl.load(x + i))


def test_a_conversion_is_an_instruction_and_no_function():
    x, out = tileprobe.array(np.ones(512, np.float16)), tileprobe.array(np.zeros(512, np.float32))
    (flow,), _ = flows_of(narrow, x, out, BLOCK=512)
    assert not any("exp" in name for name in flow.work)


def test_what_becomes_code_that_nobody_measured_has_no_row():
    assert flows_of(locked, *arrays(512), BLOCK=512)[0] == []
    x, out = (
        tileprobe.array(np.ones(512, np.float32), "float8_e5m2"),
        tileprobe.array(np.zeros(512, np.float32)),
    )
    assert flows_of(narrow, x, out, BLOCK=512)[0] == []


def test_a_limit_far_above_what_was_measured_is_no_answer():
    _, findings = told(trace_of([Flow({"fma f32": 400}, {"fma f32": 400})]))
    assert [f.data["limit"] for f in findings] == ["unknown"] and "is not known" in findings[0].text


def test_a_stage_of_little_time_is_not_worth_a_sentence():
    trace = Trace.build(
        {"region": [0, 1], "start": [0, 10], "stop": [20_000, 510]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (1,), 0.0, 20_000.0)],
        regions=trace_of([Flow({"fma f32": 120}, {"fma f32": 120})]).regions,
        meta={"costs": {"cpu": COSTS.to_json()}},
    )
    (row,), findings = told(trace)
    assert row["share"] == pytest.approx(0.025) and findings == []
