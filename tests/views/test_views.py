"""The views: what a person and a program see of a trace."""

import io
import json

import pytest
from made import attention
from made_streams import warp_specialised

from tileprobe.cli import main
from tileprobe.tools import load_tool
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace
from tileprobe.views import text
from tileprobe.views.chrome import chrome_events
from tileprobe.views.json_report import trace_to_json
from tileprobe.views.screen import Screen
from tileprobe.views.terminal import make_console, print_report, tree_names


def report(trace, width, tools=("regions", "source")):
    out = io.StringIO()
    print_report(trace, [load_tool(name).read(trace) for name in tools], make_console(out, width))
    return out.getvalue()


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0"),
        (0.5, "0.50 ns"),
        (999.4, "999 ns"),
        (999.7, "1.00 µs"),
        (12345, "12.3 µs"),
        (2.5e9, "2.50 s"),
        (None, ""),
    ],
)
def test_durations(ns, shown):
    assert text.duration(ns) == shown


def test_bars_and_trees():
    assert text.bar(0.5, 4) == "██"
    assert text.bar(0.001, 4) == "▏"
    assert text.bar(0, 4) == ""
    assert text.bar(2.0, 4) == "████"
    assert text.bar(0.5, 4, plain=True) == "##"
    assert text.grid((4, 2, 1)) == "4 x 2"
    for plain, shown in ((False, ["a", "├╴b", "│ └╴c", "└╴d"]), (True, ["a", "|-b", "| `-c", "`-d"])):
        screen = Screen(io.StringIO(), plain=plain)
        assert [cell.plain for cell in tree_names(["a", "b", "c", "d"], [0, 1, 2, 1], screen)] == shown


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_report_fits_its_width(width):
    trace = attention(unprobed=3)
    shown = report(trace, width, ("regions", "source", "iterations", "programs"))
    assert max(len(line) for line in shown.splitlines()) <= width
    assert "└╴div + store @ 44-45" in shown
    assert "\x1b" not in shown  # no colour in a pipe


def test_report_says_what_matters():
    shown = report(attention(unprobed=3), 120)
    assert "attention  on cpu  attention.py:20" in shown
    assert "8 launches, 5 of them recorded · grid 8" in shown
    assert "\nprobes cost 1.5 % (1.5 to 1.5, measured), 12.0 ns a record" in shown
    line = next(line for line in shown.splitlines() if "s = tl.dot(q, k)" in line)
    assert line.split()[:4] == ["2.30", "ms", "36", "%"]  # of the eight launches that ran
    assert "~  288 µs" in shown
    assert "36 % of the time is in dot @ 35" in shown


def test_report_of_nothing():
    assert "the trace holds no kernel" in report(
        Trace.build({"region": [], "start": [], "stop": []}, kernels=[], launches=[], regions=[]), 80
    )
    shown = report(attention(launches=0), 80)
    assert "attention  on cpu" in shown
    assert "nothing was recorded" in shown


def test_a_terminal_without_unicode_gets_a_report(tmp_path):
    with open(tmp_path / "out.txt", "w", encoding="ascii") as file:
        trace = attention(launches=1)
        print_report(trace, [load_tool("regions").read(trace)], make_console(file, 80))
    assert "dot @ 35" in (tmp_path / "out.txt").read_text()


def test_losses_are_shown():
    trace = attention(launches=1)
    trace.launches[0] = Launch(0, 0, (8,), losses=Losses(10, 20, 30))
    shown = report(trace, 120)
    assert "20 left out by sampling, 30 lost for lack of room" in shown


@pytest.mark.parametrize("width", [80, 120])
def test_streams_and_clocks_are_told(width):
    trace = warp_specialised()
    shown = report(trace, width, ("regions", "source", "iterations", "programs", "units"))
    assert "3 streams a program: producer, consumer / warp 0, consumer / warp 1" in shown
    assert "2 clock domains: times of different ones compare to ±42.0 ns" in shown
    assert "consumer x 2" in shown
    assert "all programs and their streams" in shown
    assert max(len(line) for line in shown.splitlines()) <= width
    plain = report(attention(), width)
    assert "streams" not in plain
    assert "clock domains" not in plain


def test_long_sources_are_shortened():
    kernel = Kernel(0, "k", "cpu", Clock(1e9), "k.py", 1, "\n".join(f"x{n} = 1" for n in range(100)))
    trace = Trace.build(
        {"region": [0, 1], "start": [0, 0], "stop": [10, 5]},
        kernels=[kernel],
        launches=[Launch(0)],
        regions=[Region(0, "k", "kernel"), Region(1, "add", "add", 0, 0, "k.py", 50, 50, 1)],
    )
    shown = report(trace, 80)
    assert "x49 = 1" in shown
    assert "x70 = 1" not in shown
    assert shown.count("...") == 2


def test_json_has_the_agreed_shape():
    data = json.loads(json.dumps(trace_to_json(attention(unprobed=4))))
    assert (data["schema"], data["target"]) == (2, "cpu")
    assert (data["budget"], data["problems"]) == ({"spent": False, "not_recorded": []}, [])
    (kernel,) = data["kernels"]
    assert set(kernel) == {
        *(
            "name",
            "signature",
            "launches",
            "total_ns",
            "share",
            "each_ns",
            "label",
            "file",
            "line",
            "probed",
            "grid",
            "duration_ns",
            "works",
            "overhead",
            "record_cost_ns",
            "simulated",
        ),
        *("session_us_per_launch", "budget", "trusted", "preempted_percent", "doubtful_percent"),
        *("interrupted_programs", "launches_left_out", "accounted", "residual_percent", "records", "regions"),
    }
    assert (kernel["launches"], kernel["probed"], kernel["grid"]) == (9, 5, [8])
    assert kernel["overhead"]["percent"] == pytest.approx(1.5)
    assert kernel["overhead"]["low"] <= kernel["overhead"]["percent"] <= kernel["overhead"]["high"]
    assert (kernel["overhead"]["measurable"], kernel["overhead"]["why"]) == (True, "")
    assert kernel["records"] == {"kept": 1600, "sampled_out": 0, "lost": 0}
    assert kernel["works"][0]["ran"] == 9
    dot = next(r for r in kernel["regions"] if r["name"] == "dot @ 35")
    assert set(dot) == {
        *("name", "kind", "source", "depth", "count", "recorded_count", "total_ns", "recorded_ns", "self_ns"),
        *(
            "mean_ns",
            "p50_ns",
            "p95_ns",
            "share",
            "share_error",
            "estimate",
            "interrupted",
            "moved",
            "interval",
        ),
        "interval_from",
    }
    assert (dot["kind"], dot["source"], dot["depth"]) == ("dot", "attention.py:35", 3)
    assert (dot["count"], dot["recorded_count"]) == (9 * 8 * 6, 5 * 8 * 6)
    assert dot["interval"][0] <= dot["total_ns"] <= dot["interval"][1]
    assert (dot["p50_ns"], dot["p95_ns"]) == (6000, 6000)
    (alone,) = trace_to_json(attention())["kernels"]
    assert alone["overhead"]["percent"] is None
    assert not alone["overhead"]["measurable"]
    assert "launches" in alone["overhead"]["why"]


def test_json_of_partitions():
    (kernel,) = json.loads(json.dumps(trace_to_json(warp_specialised())))["kernels"]
    parts = [r for r in kernel["regions"] if r["kind"] == "partition"]
    assert [(r["name"], r["depth"], r["count"]) for r in parts] == [
        ("producer", 0, None),
        ("consumer x 2", 0, None),
    ]


def chrome(trace):
    return json.loads("".join(chrome_events(trace)))["traceEvents"]


def test_chrome_slices_nest():
    """On each thread a slice lies within the one it starts in: what viewers need to draw a stack."""
    events = chrome(attention(noise=0.1, launches=2))
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {(0, 0): "core 0", (0, 1): "core 1"}
    stacks = {}
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == 2 * 8 * (4 + 6 * 6)
    last = 0.0
    for event in slices:
        start, stop = round(1e3 * event["ts"]), round(1e3 * (event["ts"] + event["dur"]))
        assert event["ts"] >= last
        last = event["ts"]
        stack = stacks.setdefault(event["tid"], [])
        while stack and stack[-1] <= start:
            stack.pop()
        assert not stack or stop <= stack[-1]
        stack.append(stop)
    assert slices[0]["name"] == "attention"
    assert slices[0]["args"]["source"] == "attention.py:20-45"
    assert slices[0]["args"]["iteration"] == -1


def test_chrome_of_every_kind_and_awkward_names():
    trace = Trace.build(
        {
            "region": [0, 0, 0, 0],
            "kind": ["async", "wait", "mark", "value"],
            "iteration": [3, 3, 3, 3],
            "start": [0, 50, 60, 70],
            "stop": [100, 100, 60, 70],
            "value": [None, None, None, 2.5],
        },
        kernels=[Kernel(0, 'k "x"\\', "cpu", Clock(1e9))],
        launches=[Launch(0)],
        regions=[Region(0, 'copy "µ"\n', "async")],
    )
    events = chrome(trace)
    found = {e["ph"]: e for e in events}
    assert found["b"]["id"] == found["e"]["id"]
    assert (found["b"]["ts"], found["e"]["ts"]) == (0, 0.1)
    assert found["X"]["dur"] == 0.05
    assert found["i"]["s"] == "t"
    assert found["C"]["args"] == {"value": 2.5}
    assert found["X"]["name"] == 'copy "µ"\n'


def test_chrome_of_an_empty_trace():
    empty = Trace.build({"region": [], "start": [], "stop": []}, kernels=[], launches=[], regions=[])
    assert chrome(empty) == []


def test_commands(tmp_path, capsys):
    a, b = tmp_path / "a.parquet", tmp_path / "b.parquet"
    attention().save(a)
    attention(slow=1.5).save(b)
    out, timeline = tmp_path / "r.json", tmp_path / "t.json"
    assert main(["report", str(a), "--json", str(out), "--chrome", str(timeline), "--tool", "programs"]) == 0
    assert json.loads(out.read_text())["schema"] == 2
    assert json.loads(timeline.read_text())["traceEvents"]
    assert "core 1" in capsys.readouterr().out
    assert main(["report", str(a), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"][0]["name"] == "attention"
    assert main(["report", str(a), str(b)]) == 0
    assert "10 launches" in capsys.readouterr().out
    assert main(["compare", str(a), str(b)]) == 0
    assert "slower than A" in capsys.readouterr().out
    assert main(["compare", str(a), str(b), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["tool"] == "compare"


def test_commands_explain_mistakes(tmp_path, capsys):
    a = tmp_path / "a.parquet"
    attention().save(a)
    for arguments, words in [
        (["report", str(tmp_path / "none")], "there is no trace"),
        (["report", str(a), "--kernel", "matmul*"], "the trace has attention"),
        (["report", str(a), "--tool", "nothing"], "there is no tool"),
        (["report", str(a), "--json", str(tmp_path / "no" / "r.json")], "cannot write"),
        (["compare", str(a), str(tmp_path / "none")], "there is no trace"),
    ]:
        assert main(arguments) == 2
        assert words in capsys.readouterr().err
