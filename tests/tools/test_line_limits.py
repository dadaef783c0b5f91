"""Of the limits of stages the parts of lines: they add up, and a planted chain is its line's."""

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.ir.flows import Cost, Costs, Flow, read, together, written
from tileprobe.tools import load_tool
from tileprobe.tools.line_limits import Lines

COSTS = Costs(
    {"fma f32": Cost(4.0, 0.5, "floating point"), "load": Cost(5.0, 1.0, "loads"), "store": Cost(0.0, 1.0, "stores")},
    issue_ns=0.25, window=200.0, said="by hand",
)  # fmt: skip


def frame(*added):
    lines = Lines(COSTS)
    for one in added:
        lines.add("dir/k.py", *one)
    return {row["line"]: row for row in lines.frame().iter_rows(named=True)}


def test_a_stage_that_waits_is_of_the_lines_of_its_chain():
    flow = Flow(
        {"fma f32": 30.0, "load": 8.0}, {"fma f32": 3.0, "load": 1.0}, 2.0, 1.0,
        {4: ({"load": 8.0}, {"load": 1.0}), 5: ({"fma f32": 30.0}, {"fma f32": 3.0})},
    )  # fmt: skip
    rows = frame((10.0, flow, "latency", 34.0))
    assert list(rows) == ["k.py:5", "k.py:4"]
    loop, load = rows.values()
    assert loop["part_ns"] == pytest.approx(340 * 12 / 17) and load["part_ns"] == pytest.approx(340 * 5 / 17)
    assert (loop["share"], load["share"]) == (pytest.approx(12 / 17), pytest.approx(5 / 17))
    assert (loop["chain_ns"], load["chain_ns"]) == (120.0, 50.0) and loop["limit"] == "latency"
    assert (loop["operations"], loop["issue_ns"]) == (300.0, 75.0)
    assert (loop["unit"], loop["unit_ns"], load["unit"]) == ("floating point", 150.0, "loads")


def test_one_that_is_held_up_by_issue_or_a_unit_is_of_the_lines_that_do_most_of_it():
    flow = Flow(
        {"fma f32": 30.0, "load": 10.0, "store": 20.0}, {}, 2.0, 1.0,
        {4: ({"load": 10.0}, {}), 5: ({"fma f32": 10.0, "store": 20.0}, {}), 6: ({"fma f32": 20.0}, {})},
    )  # fmt: skip
    issue = frame((1.0, flow, "issue", 60.0))
    assert [issue[f"k.py:{n}"]["part_ns"] for n in (4, 5, 6)] == [10.0, 30.0, 20.0]
    unit = frame((1.0, flow, "floating point", 60.0))
    assert [unit[f"k.py:{n}"]["part_ns"] for n in (4, 5, 6)] == [0.0, 20.0, 40.0]
    both = frame((1.0, flow, "issue", 60.0), (2.0, flow, "floating point", 60.0))
    assert [both[f"k.py:{n}"]["part_ns"] for n in (4, 5, 6)] == [10.0, 70.0, 100.0]
    assert both["k.py:4"]["limit"] == "issue" and both["k.py:6"]["limit"] == "floating point"


def test_flows_keep_their_lines_in_a_trace():
    one = Flow({"load": 2.0}, {"load": 1.0}, 2.0, 3.0, {4: ({"load": 2.0}, {"load": 1.0})})
    other = Flow({"load": 2.0}, {"load": 1.0}, 2.0, 1.0, {7: ({"load": 2.0}, {"load": 1.0})})
    assert read(written([one, other])) == (one, other)  # alike, and of other lines
    (both,) = together([one, one])
    assert both.times == 6.0 and both.lines == one.lines
    (old,) = read('[{"work":{"load":1.0},"chain":{},"strands":1.0,"times":1.0}]')  # of a trace without
    assert old.lines == {}
    assert read('[{"work":{},"chain":{},"strands":1,"times":1,"lines":{"x":[{},{}]}}]') == ()


@triton.jit
def planted(x, y, out, N: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    b = tl.load(y + i)
    for _ in tl.static_range(N):
        a = a * 0.5 + 1.0
    b = tl.sqrt(b)
    tl.store(out + i, a + b)


def test_a_planted_chain_is_its_line_s():
    x, y, out = (tileprobe.array(np.ones(8, np.float32)) for _ in range(3))
    with tileprobe.use("cpu"), tileprobe.profile(tools=["parallelism"], min_cost=0) as session:
        planted[(1,)](x, y, out, N=60, BLOCK=8)
    source = planted.raw_src
    a, b, loop, rooted, stored = (
        planted.starting_line_number + next(n for n, text in enumerate(source) if words in text)
        for words in ("a = tl.load", "b = tl.load", "a * 0.5", "sqrt", "tl.store")
    )
    (flow,) = (flow for region in session.trace.regions for flow in read(region.flows))
    assert flow.lines[loop][1] == {"fma f32": 60.0} and set(flow.lines) == {a, b, loop, rooted, stored}
    for n, whole in enumerate((flow.work, flow.chain)):
        summed = {}
        for parts in flow.lines.values():
            for name, count in parts[n].items():
                summed[name] = summed.get(name, 0.0) + count
        assert summed == pytest.approx(dict(whole))
    assert not flow.lines[b][1] and not flow.lines[rooted][1]  # beside it
    tables = load_tool("parallelism").read(session.trace).tables
    stages, lines = (next(t.frame for t in tables if word in t.title) for word in ("of stages", "by line"))
    top = lines.row(0, named=True)
    assert top["number"] == loop and top["limit"] == "latency" and top["share"] > 0.8
    assert lines["part_ns"].sum() == pytest.approx(float(stages["limit_ns"].sum()))
    assert lines["share"].sum() == pytest.approx(1.0)
