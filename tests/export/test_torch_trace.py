"""Our timeline in a trace of torch.profiler."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from made import attention
from made_streams import warp_specialised

import tileprobe
from tileprobe.cli import main
from tileprobe.ir.layout import Layout
from tileprobe.ir.machine import SIMULATED

BASE = 1_790_000_000_000_000_000


def torch_file(tmp_path, events, name="torch.json"):
    data = {"schemaVersion": 1, "baseTimeNanoseconds": BASE, "traceEvents": events}
    path = tmp_path / name
    (gzip.open if name.endswith(".gz") else open)(path, "wt").write(json.dumps(data))
    return path


def both(trace, torch, tmp_path):
    trace.save(tmp_path / "t.parquet")
    out = tmp_path / "both.json"
    arguments = [
        "export",
        str(tmp_path / "t.parquet"),
        "--to",
        "chrome",
        "--into",
        str(torch),
        "--out",
        str(out),
    ]
    assert main(arguments) == 0
    return json.loads(out.read_text())["traceEvents"]


@pytest.mark.parametrize("name", ["torch.json", "torch.json.gz"])
def test_slices_lie_within_their_launch_at_its_time_of_day(tmp_path, name):
    trace = attention(launches=3)
    late = 5_000_000  # torch's trace began 5 ms before
    trace.meta["origin_unix_ns"] = BASE + late
    host = [replace(n, start_ns=n.start_ns, duration_ns=n.duration_ns + 700) for n in trace.launches]
    trace.launches = host
    trace.kernels = [replace(trace.kernels[0], layout=Layout(16).to_json())]  # not simulated
    old = {"ph": "X", "name": "aten::add", "pid": 17, "tid": 17, "ts": 1.0, "dur": 2.0}
    events = both(trace, torch_file(tmp_path, [old], name), tmp_path)
    assert events[0] == old
    launches = {e["args"]["launch"]: e for e in events if e.get("cat") == "launch" and e["ph"] == "X"}
    assert launches[0]["ts"] == pytest.approx(late / 1e3)
    slices = [e for e in events if e["ph"] == "X" and e["name"] == "dot @ 35"]
    assert len(slices) == 3 * 8 * 6
    for event in slices:
        around = launches[event["args"]["launch"]]
        assert around["ts"] <= event["ts"]
        assert event["ts"] + event["dur"] <= around["ts"] + around["dur"] + 0.001
    assert not {e["pid"] for e in slices} & {17, launches[0]["pid"]}


@pytest.mark.parametrize("recorded", [False, True])
def test_a_simulated_launch_has_a_process_of_its_own_and_a_flow(tmp_path, recorded):
    trace = warp_specialised(launches=2)
    if recorded:  # by probes, on a simulated GPU
        clock = replace(trace.kernels[0].clock, name=SIMULATED)
        trace.kernels = [replace(trace.kernels[0], layout=Layout(16).to_json(), clock=clock)]
    trace.meta["origin_unix_ns"] = BASE
    trace.launches = [replace(n, start_ns=1e6 * n.id) for n in trace.launches]
    events = both(trace, torch_file(tmp_path, []), tmp_path)
    flows = [e for e in events if e.get("name") == "simulated"]
    assert [(e["ph"], e["ts"]) for e in flows] == [("s", 0.0), ("f", 0.0), ("s", 1000.0), ("f", 1000.0)]
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    assert "simulated time" in names[flows[1]["pid"]]
    second = [e for e in events if e["ph"] == "X" and e["cat"] == "kernel" and e["args"]["launch"] == 1]
    first = min(e["ts"] for e in second)
    assert first == pytest.approx(1000.0)


def test_what_is_wrong_is_said(tmp_path, capsys):
    trace = attention()
    trace.save(tmp_path / "t.parquet")
    torch = torch_file(tmp_path, [])
    command = ["export", str(tmp_path / "t.parquet"), "--out", str(tmp_path / "x"), "--into"]
    assert main([*command, str(torch), "--to", "chrome"]) == 2
    assert "record it again" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "no.json"), "--to", "chrome"]) == 2
    assert "cannot read" in capsys.readouterr().err
    assert main([*command, str(torch), "--to", "csv"]) == 2


def test_a_real_run_under_both_profilers(tmp_path):
    torch = pytest.importorskip("torch")
    from examples.kernels import softmax
    from torch.profiler import ProfilerActivity, profile, record_function

    x, out = (tileprobe.array(np.ones((64, 256), np.float32)) for _ in range(2))
    softmax.softmax(x, out)
    with tileprobe.profile() as session, profile(activities=[ProfilerActivity.CPU]) as seen:
        for _ in range(4):
            with record_function("step"):
                torch.ones(8).add(1)
                softmax.softmax(x, out)
    seen.export_chrome_trace(str(tmp_path / "torch.json"))
    events = both(session.trace, tmp_path / "torch.json", tmp_path)
    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and e["name"] == "step")
    launches = [e for e in events if e.get("cat") == "launch" and e["ph"] == "X"]
    assert len(steps) == len(launches) == 4
    for (begin, end), launch in zip(steps, sorted(launches, key=lambda e: e["ts"])):
        assert begin <= launch["ts"]
        assert launch["ts"] + launch["dur"] <= end
