"""The tool `units` on a trace built by hand and on one of a run: busy shares, overlap, the limit."""

import polars as pl
import pytest

import tileprobe
from tileprobe.ir.machine import limiting
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.limits import KINDS, bottleneck, busy_kinds
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.simulate import simulate
from tileprobe.tools import load_tool
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit


def _traced(model, machine, options, intervals):
    with tileprobe.profile(tools=("regions", "units"), intervals=intervals) as session:
        result = simulate(model, machine, options)
    return result, session.trace


def test_by_hand():
    # a channel busy 0..4 and 6..8, two dies busy 2..10 and 0..5; nobody works between 10 and 20
    rows = [(0, 0, 4), (0, 6, 8), (1, 2, 10), (2, 0, 5), (0, 20, 30), (1, 20, 30), (2, 20, 30)]
    trace = Trace.build(
        {
            "unit": [r[0] for r in rows],
            "program": [r[0] for r in rows],
            "region": [0 if r[0] == 0 else 1 for r in rows],
            "start": [r[1] for r in rows],
            "stop": [r[2] for r in rows],
        },
        kernels=[Kernel(0, "k", "cambricon:s", Clock(1e9))],
        launches=[Launch(0)],
        regions=[Region(0, "slices"), Region(1, "read-compute")],
        units=[Unit(0, "channel 0", "channel"), Unit(1, "die 0", "die"), Unit(2, "die 1", "die")],
        meta={"notes": ["a note"]},
    )
    result = load_tool("units").read(trace)
    busy = {row["kind"]: row for row in result.tables[0].frame.to_dicts()}
    assert busy["channel"]["busy"] == pytest.approx(16 / 20)
    assert busy["die"]["busy"] == pytest.approx((18 + 15) / 2 / 20)
    assert (busy["die"]["busiest"], busy["die"]["idlest"]) == pytest.approx((0.9, 0.75))
    both = result.tables[2].frame.row(0, named=True)
    assert both["share"] == pytest.approx(
        16 / 20
    )  # dies cover 0..10 and 20..30, so all that the channel does
    assert "limit it: die (82 % busy) and channel (80 % busy), alike" in result.findings[0].text
    assert result.findings[0].data["kinds"] == ["die", "channel"]
    assert [row["at_once"] for row in busy.values()] == [1.0, 1.0]
    assert result.findings[-1].text == "a note"


def test_the_trace_of_a_run_says_what_the_result_says():
    model, machine = load_model("opt-6.7b"), load_machine("cambricon:s")
    with tileprobe.profile(tools=("regions", "units"), intervals=2_000_000) as session:
        result = simulate(model, machine, Options(context=100))
    trace = session.trace
    found = load_tool("units").read(trace)
    busy = {row["kind"]: row["busy"] for row in found.tables[0].frame.to_dicts()}
    assert busy["channel"] == pytest.approx(result.units["channels"].busy, rel=0.01)
    assert busy["core"] == pytest.approx(result.units["cores"].busy, rel=0.01)
    work = found.tables[1].frame
    stream = work.filter((pl.col("kind") == "channel") & (pl.col("name") == "slices"))["share"][0]
    parts = result.units["channels"].parts
    assert parts["stream"] + parts["spare"] < stream < parts["stream"] + parts["spare"] + parts["command"]
    assert any("GB over the channels" in finding.text for finding in found.findings)


@pytest.mark.parametrize(
    ("busy", "kinds"),
    [
        ({"core": 0.95, "channel": 0.88, "dram": 0.02}, ["core", "channel"]),
        ({"channel": 0.76, "core": 0.9}, ["core"]),
        ({"core": 0.44, "dram": 0.52}, ["dram"]),
        ({"core": 0.0, "channel": 0.3}, ["channel"]),
        ({}, []),
    ],
)
def test_the_rule(busy, kinds):
    assert limiting(busy) == kinds


RUNS = [
    Options(context=1000),
    Options(context=4000),
    Options(context=500, mode="flash-only"),
    Options(prefill=True),
]


@pytest.mark.parametrize("device", ["cambricon:s", "cambricon:m", "cambricon:l"])
@pytest.mark.parametrize("name", ["opt-6.7b", "llama2-7b"])
def test_the_tool_and_the_bottleneck_say_the_same(name, device):
    model, machine = load_model(name), load_machine(device)
    for options in RUNS:
        result, trace = _traced(model, machine, options, 20_000)
        found = load_tool("units").read(trace).findings
        limit = next(f for f in found if "kinds" in f.data)
        what, _ = bottleneck(result, machine)
        named = [kind for kind, (_, words, _) in KINDS.items() if f"{words}, busy" in what]
        assert sorted(limit.data["kinds"]) == sorted(named)
        for kind in named:
            assert f"{KINDS[kind][1]}, busy {busy_kinds(result)[kind]:.0%}" in what
            assert f"{kind} ({100 * busy_kinds(result)[kind]:.0f} % busy)" in limit.text
        assert any(what in f.text for f in found)


def test_without_the_simulators_word_the_trace_names_the_same_kind():
    model, machine = load_model("opt-6.7b"), load_machine("cambricon:s")
    result, trace = _traced(model, machine, Options(context=100), 2_000_000)
    said = load_tool("units").read(trace).findings[0].data["kinds"]
    trace.counter_frame = trace.counters.clear()
    assert load_tool("units").read(trace).findings[0].data["kinds"] == said == limiting(busy_kinds(result))


def test_without_slice_control_pages_are_what_is_waited_for():
    machine, model = load_machine("cambricon:s"), load_model("opt-6.7b")
    what, helps = bottleneck(simulate(model, machine, Options(slicing=False)), machine)
    assert "a page holds its channel whole" in what and "slice control" in helps
    assert "slice control" not in "".join(bottleneck(simulate(model, machine, Options()), machine))


@pytest.mark.parametrize(
    ("kinds", "held", "gains", "right"),
    [
        (["core"], "", (0.01, 0.4, 0.4), True),
        (["channel"], "", (0.01, 0.4, 0.4), False),
        (["core"], "", (0.01, 0.05, 0.4), False),  # brings too little
        (["channel", "core"], "", (0.01, 0.04, 0.5), True),
        (["channel", "core"], "", (0.2, 0.04, 0.5), False),  # one alone helps
        (["core"], "held", (0.2, 0.2, 0.5, 0.36), True),
        (["core"], "held", (0.2, 0.4, 0.5, 0.36), False),
        (["core"], "", (0.01, 0.4, 0.5, 0.36), False),  # slices help, and nobody said so
        ([], "", (0.01, 0.4, 0.5), False),
        (["dram"], "", (0.01, 0.4, 0.5), False),
    ],
)
def test_what_tools_name_is_held_against_what_doing_it_brings(kinds, held, gains, right):
    from benchmarks.cambricon_tools import BOTH, CHANNEL, CORES, SLICES, wrong

    found = dict(zip((CHANNEL, CORES, BOTH, SLICES), gains))
    assert (wrong({"kinds": kinds, "held": held, "gains": found}) == "") is right
