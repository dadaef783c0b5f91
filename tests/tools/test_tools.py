"""The tools on a trace whose numbers are known by construction."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made import FIRST, STAGES, attention

from tileprobe.errors import TileProbeError
from tileprobe.passes import pipeline
from tileprobe.tools import Plan, available, load_tool
from tileprobe.tools.compare import compare
from tileprobe.tools.iterations import Iterations
from tileprobe.tools.overhead import overhead
from tileprobe.tools.programs import Programs, balance, program_times
from tileprobe.tools.regions import Regions
from tileprobe.tools.source import line_times
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace

EXAMPLE = Path(__file__).parents[2] / "examples" / "tool_slowest.py"


def rows(table):
    return {row["name"]: row for row in table.frame.iter_rows(named=True)}


def test_regions_that_the_compiler_moved_have_a_column_behind_their_share():
    trace = attention(launches=2, programs=4, iterations=3)
    plain = [column.title for column in Regions().read(trace).tables[0].columns]
    trace.regions = [
        replace(region, moved=0.25) if region.kind == "dot" else region for region in trace.regions
    ]
    with_moved = [column.title for column in Regions().read(trace).tables[0].columns]
    assert len(with_moved) == len(plain) + 1
    assert with_moved[:2] + with_moved[3:] == plain


def test_a_loop_of_one_iteration_has_one():
    (summary, *_) = Iterations().read(attention(launches=2, programs=4, iterations=1)).tables
    assert summary.frame["iterations"].to_list() == [1]


def test_regions_add_up():
    table = Regions().read(attention(launches=2, programs=4, iterations=3)).tables[0]
    found = rows(table)
    dot = found["dot @ 35"]
    assert (dot["count"], dot["total_ns"], dot["mean_ns"]) == (24, 24 * 6000, 6000)
    kernel = found["attention"]
    assert kernel["count"] == 8
    per_program = 1500 + 1200 + 3 * sum(stage[4] for stage in STAGES) + 900
    assert kernel["mean_ns"] == per_program
    assert kernel["self_ns"] == pytest.approx(0, abs=1e-6)
    assert kernel["share"] == 1.0
    assert dot["share"] == pytest.approx(3 * 6000 / per_program)
    assert found["load @ 33"]["p95_ns"] > found["load @ 33"]["p50_ns"]
    assert [row["depth"] for row in table.frame.iter_rows(named=True)][:4] == [0, 1, 1, 2]


def test_waits_count_and_asynchronous_time_does_not():
    trace = Trace.build(
        {
            "region": [0, 1, 1],
            "kind": ["region", "async", "wait"],
            "start": [0, 0, 80],
            "stop": [100, 100, 100],
        },
        kernels=[Kernel(0, "k", "sim:a100", Clock(1e9))],
        launches=[Launch(0)],
        regions=[Region(0, "k", "kernel"), Region(1, "copy", "async", 0, depth=1)],
    )
    found = rows(Regions().read(trace).tables[0])
    assert found["copy"]["total_ns"] == 20
    assert found["k"]["self_ns"] == 80


def test_short_regions_are_warned_about():
    trace = attention(launches=1)
    trace.kernels[0].calibration["cost_ticks"] = 500.0  # 250 ns a record
    warning = next(f for f in Regions().read(trace).findings if f.level == "warning")
    assert "load @ 40" in warning.text


def test_lines_of_the_source():
    trace = attention(launches=1, programs=2, iterations=4)
    frame = line_times(trace, trace.kernels[0])
    by_line = {row["line"]: row for row in frame.iter_rows(named=True)}
    assert by_line[FIRST + 15]["ns"] == 2 * 4 * 6000
    assert not by_line[FIRST + 15]["estimate"]
    fused = [by_line[FIRST + n] for n in (16, 17, 18, 19)]
    assert [row["ns"] for row in fused] == [2 * 4 * 3000 / 4] * 4
    assert all(row["estimate"] for row in fused)
    assert by_line[FIRST + 14]["ns"] is None  # a comment
    assert by_line[FIRST + 11]["ns"] is None  # the loop itself


def test_lines_outside_of_the_kernel_are_not_swallowed():
    trace = attention(launches=1, programs=1, iterations=1)
    trace.regions[5] = replace(
        trace.regions[5], lines=(3, FIRST + 15)
    )  # half of the dot in a helper on line 3
    frame = line_times(trace, trace.kernels[0])
    assert frame.row(-1, named=True)["line"] == 3
    assert frame.row(-1, named=True)["ns"] == 3000
    assert "calls" in frame["text"][-1]


def test_iterations_see_the_warm_up():
    trace = attention(iterations=30)
    result = Iterations().read(trace)
    loops, steps = result.tables
    assert rows(loops)["loop @ 31"]["worst"] == 0
    assert steps.frame.height <= 12
    assert steps.frame["count"].sum() == 5 * 8 * 30
    assert result.findings == []  # 6 % longer is no finding
    without = attention(iterations=0)
    assert "no iterations" in Iterations().read(without).findings[0].text


def test_programs_see_imbalance_and_tail():
    odd = attention(launches=1, programs=3)
    runs = program_times(odd, odd.kernels[0])
    assert balance(runs)["imbalance"] == pytest.approx(4 / 3)
    assert balance(runs)["tail"] == pytest.approx(0.25)
    result = Programs().read(odd)
    assert result.tables[0].frame["programs"].to_list() == [2, 1]
    assert any("33 % more" in f.text for f in result.findings)
    even = Programs().read(attention(launches=2, programs=8))
    assert even.findings == []


def test_overhead_is_measured_or_null():
    trace = attention(unprobed=4)
    found = overhead(trace, trace.kernels[0])
    assert found.measured_percent == pytest.approx(1.5)
    assert found.record_cost_ns == 12.0
    whole = 5 * 8 * (1500 + 1200 + 6 * 16000 + 900)
    assert found.estimated_percent == pytest.approx(100 * 5 * 8 * 40 * 12 / whole)
    assert overhead(attention(unprobed=2), trace.kernels[0]).measured_percent is None


def test_compare_tells_change_from_noise():
    before, after = attention(noise=0.02, launches=20), attention(noise=0.02, launches=20, slow=1.3, seed=9)
    found = rows(compare(before, after).tables[0])
    assert found["dot @ 35"]["verdict"] == "slower"
    assert found["dot @ 35"]["change"] == pytest.approx(0.3, abs=0.02)
    assert found["div + store @ 44-45"]["verdict"] == "within noise"
    assert found["mul + dot @ 41"]["verdict"] == "within noise"
    same = compare(before, attention(noise=0.02, launches=20, seed=5))
    assert {row["verdict"] for row in rows(same.tables[0]).values()} == {"within noise"}
    assert "no change beyond the noise" in same.findings[0].text


def test_compare_with_too_few_launches_says_so():
    result = compare(attention(launches=2), attention(launches=2, slow=2))
    assert result.findings[0].level == "warning"
    assert rows(result.tables[0])["dot @ 35"]["verdict"] == "too few launches"


def test_compare_names_what_has_no_partner():
    other = attention(name="other")
    other.kernels = [replace(other.kernels[0], source="def other(): pass")]
    result = compare(attention(), other)
    assert [f.text for f in result.findings] == ["only in A: attention", "only in B: other"]


def test_plans_add_up_and_become_passes():
    plan = Plan(kinds=("dot",), lines=("3-4",)) | Plan(
        loops=True, kinds=("load",), lines=("9",), scopes=("s@1-2",)
    )
    assert plan == Plan(loops=True, kinds=("dot", "load"), lines=("3-4", "9"), scopes=("s@1-2",))
    assert (Plan(lines=("3-4",)) | Plan()).lines == ()
    steps = pipeline(plan.pipeline("scf", capacity=8, copies=2)).passes
    assert [step.name for step in steps][-1] == "probe-to-record"
    assert steps[0].kinds == ("dot", "load")
    assert steps[0].lines == ("3-4", "9")
    assert steps[-1].copies == 2


def test_tools_by_name_and_from_a_file():
    assert {"regions", "iterations", "programs", "source"} <= set(available())
    tool = load_tool(f"{EXAMPLE}:Slowest")
    result = tool.read(attention())
    worst = result.tables[0].frame.row(0, named=True)
    assert (worst["name"], worst["iteration"], worst["times"]) == ("load @ 33", 0, 2.0)
    assert len(EXAMPLE.read_text().splitlines()) < 70


def test_bad_tools_are_explained(tmp_path):
    with pytest.raises(TileProbeError, match=r"no tool 'regons'.*regions"):
        load_tool("regons")
    with pytest.raises(TileProbeError, match="no file"):
        load_tool(f"{tmp_path}/x.py:A")
    path = tmp_path / "t.py"
    path.write_text("class A:\n    pass\nclass B:\n    def __init__(self, x): pass\n")
    with pytest.raises(TileProbeError, match="no class C"):
        load_tool(f"{path}:C")
    with pytest.raises(TileProbeError, match="is no tool"):
        load_tool(f"{path}:A")
    with pytest.raises(TileProbeError, match="without arguments"):
        load_tool(f"{path}:B")
    path.write_text("import nothing_like_this\n")
    with pytest.raises(TileProbeError, match="ModuleNotFoundError"):
        load_tool(f"{path}:A")


def test_lazy_and_eager_traces_read_the_same(tmp_path):
    trace = attention(noise=0.1)
    trace.save(tmp_path / "t.parquet")
    for tool in ("regions", "source", "iterations", "programs"):
        eager, lazy = (load_tool(tool).read(t) for t in (trace, Trace.open(tmp_path / "t.parquet")))
        for a, b in zip(eager.tables, lazy.tables):
            for name in a.frame.columns:
                if a.frame[name].dtype.is_float():
                    assert np.allclose(a.frame[name].fill_null(0), b.frame[name].fill_null(0))
                else:
                    assert a.frame[name].to_list() == b.frame[name].to_list()


def test_lines_of_a_region_without_a_file_are_the_kernels():
    trace = attention(launches=1, programs=1, iterations=1)
    trace.regions = [replace(region, file="") for region in trace.regions]
    frame = line_times(trace, trace.kernels[0])
    assert frame.filter(line=FIRST + 15)["ns"].to_list() == [6000.0]
    assert frame["line"][0] == FIRST


def test_short_means_shorter_than_four_records():
    trace = attention(launches=1)
    shortest = 800.0  # ns, of `load @ 40`
    for cost, warned in ((shortest / 4 * 0.99, False), (shortest / 4 * 1.01, True)):
        trace.kernels[0].calibration["cost_ticks"] = cost * 2  # of half a nanosecond
        found = [f.text for f in Regions().read(trace).findings if f.level == "warning"]
        assert [("load @ 40" in text) for text in found] == [True] * warned


def test_a_region_that_took_no_time_was_recorded_as_a_whole():
    trace = Trace.build(
        {"region": [0, 1], "start": [0, 40], "stop": [100, 40]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0)],
        regions=[Region(0, "k", "kernel"), Region(1, "copy @ 3", "copy", 0, depth=1)],
    )
    found = rows(Regions().read(trace).tables[0])["copy @ 3"]
    assert (found["total_ns"], found["recorded"]) == (0.0, 1.0)
