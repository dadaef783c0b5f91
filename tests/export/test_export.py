"""Each export, read back with the library of those it is for, says what the trace says."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from made import attention
from made_streams import warp_specialised

from tileprobe.cli import main
from tileprobe.tools.regions import region_tree, whole_ns
from tileprobe.tools.signatures import labels
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace
from tileprobe.views.load import available, load_view

# Of speedscope 1.25.0 (npm, MIT licence): the schema of its files, as it is.
SCHEMA = Path(__file__).with_name("speedscope.schema.json")
TRACES = {"attention": attention, "streams": warp_specialised}


@pytest.fixture(params=sorted(TRACES))
def trace(request):
    return TRACES[request.param]()


def written(trace, name, tmp_path):
    view = load_view(name)
    path = tmp_path / f"out{view.suffix}"
    view.write(trace, path)
    return path


def slices(trace, kinds=("region", "wait")):
    """Name, start and stop of every slice, in whole nanoseconds."""
    frame = trace.to_polars().filter(pl.col("kind").is_in(kinds))
    times = frame.select("name", pl.col("start_ns").round(0), pl.col("stop_ns").round(0))
    return Counter(times.iter_rows())


def replayed(events):
    """Slices of one track from what opens and closes, which must nest: (what, start, stop)."""
    stack, found = [], []
    for what, at in events:
        if what is None:
            opened, start = stack.pop()
            found.append((opened, start, at))
        else:
            stack.append((what, at))
    assert not stack
    return found


# -- Perfetto -------------------------------------------------------------------------------------------


def perfetto(path):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

    found = proto.Trace()
    found.ParseFromString(path.read_bytes())
    return found.packet


def test_perfetto_has_the_slices_on_tracks_that_nest(trace, tmp_path):
    packets = perfetto(written(trace, "perfetto", tmp_path))
    names = {n.iid: n.name for p in packets for n in p.interned_data.event_names}
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in packets if p.HasField("track_descriptor")}
    events = {}
    for packet in packets:
        event = packet.track_event
        if packet.HasField("track_event") and event.type in (event.TYPE_SLICE_BEGIN, event.TYPE_SLICE_END):
            opens = event.type == event.TYPE_SLICE_BEGIN
            events.setdefault(event.track_uuid, []).append(
                (names[event.name_iid] if opens else None, packet.timestamp)
            )
    found = Counter()
    for uuid, mine in events.items():
        assert [at for _, at in mine] == sorted(at for _, at in mine)
        found.update((name.removeprefix("wait: "), a, b) for name, a, b in replayed(mine))
        assert tracks[uuid].parent_uuid in tracks
    assert found == slices(trace, ("region", "wait", "async"))
    tops = [t.name for t in tracks.values() if not t.parent_uuid]
    assert tops == [f"{kernel.name} on {kernel.target}" for kernel in trace.kernels]


def test_perfetto_has_the_arguments_of_a_slice(tmp_path):
    trace = attention(launches=1, programs=2)
    packets = perfetto(written(trace, "perfetto", tmp_path))
    keys = {n.iid: n.name for p in packets for n in p.interned_data.debug_annotation_names}
    texts = {n.iid: n.str.decode() for p in packets for n in p.interned_data.debug_annotation_string_values}
    names = {n.iid: n.name for p in packets for n in p.interned_data.event_names}
    found = []
    for packet in packets:
        event = packet.track_event
        if event.type == event.TYPE_SLICE_BEGIN and names.get(event.name_iid) == "dot @ 35":
            args = {
                keys[a.name_iid]: texts[a.string_value_iid] if a.string_value_iid else a.int_value
                for a in event.debug_annotations
            }
            found.append((args["program"], args["iteration"], args["source"]))
    assert sorted(found) == [(p, i, "attention.py:35") for p in range(2) for i in range(6)]


def test_perfetto_has_edges_as_flows_and_counters(tmp_path):
    trace = warp_specialised()
    packets = perfetto(written(trace, "perfetto", tmp_path))
    ends = {}
    for packet in packets:
        for flow in packet.track_event.flow_ids:
            ends.setdefault(flow, []).append(packet.timestamp)
    want = [(round(a), round(b)) for a, b in trace.edges.select("from_ns", "to_ns").iter_rows()]
    assert sorted(map(tuple, ends.values())) == sorted(want)
    named = {
        p.track_descriptor.uuid: p.track_descriptor.name for p in packets if p.HasField("track_descriptor")
    }
    values = [
        (named[p.track_event.track_uuid], p.track_event.double_counter_value)
        for p in packets
        if p.track_event.type == p.track_event.TYPE_COUNTER
    ]
    assert ("bank conflicts", 16.0) in values
    assert ("stall cycles", 900.5) in values


# -- Hatchet and proton-viewer --------------------------------------------------------------------------


def test_hatchet_has_our_tree_with_own_times_that_sum_up_to_totals(trace, tmp_path):
    import hatchet

    with open(written(trace, "hatchet", tmp_path)) as file:
        frame = hatchet.GraphFrame.from_literal(json.load(file))
    frame.update_inclusive_columns()
    found = {
        tuple(node.frame["name"] for node in index.path()): row for index, row in frame.dataframe.iterrows()
    }
    rows, above, paths = region_tree(trace, trace.kernels[0]), [], set()
    for row in rows.iter_rows(named=True):
        above[row["depth"] :] = [labels(trace.kernels)[0] if row["kind"] == "kernel" else row["name"]]
        path = ("ROOT", *above)
        paths.add(path)
        if row["region"] is not None:
            assert found[path]["time (ns)"] == pytest.approx(row["self_ns"])
            assert found[path]["time (ns) (inc)"] == pytest.approx(row["total_ns"])
    assert set(found) == {*paths, ("ROOT",)} and len(paths) == rows.height > 3


def test_proton_viewer_reads_it(tmp_path):
    from triton.profiler import viewer

    trace = attention()
    path = written(trace, "hatchet", tmp_path)
    frame, derived = viewer.parse(["time/ms", "count"], str(path))
    assert derived == ["time/ms (inc)", "count (inc)"]
    shown = frame.dataframe[frame.dataframe["name"] == "attention"]
    assert shown["time/ms (inc)"].item() == pytest.approx(
        whole_ns(region_tree(trace, trace.kernels[0])) / 1e6
    )


# -- speedscope -----------------------------------------------------------------------------------------


def test_speedscope_is_valid_and_has_the_slices(trace, tmp_path):
    import jsonschema

    data = json.loads(written(trace, "speedscope", tmp_path).read_text())
    jsonschema.validate(data, json.loads(SCHEMA.read_text()))
    found = Counter()
    for profile in data["profiles"]:
        events = profile["events"]
        times = [event["at"] for event in events]
        assert times == sorted(times)
        assert profile["startValue"] <= times[0]
        assert times[-1] <= profile["endValue"]
        closed = replayed((event["frame"] if event["type"] == "O" else None, event["at"]) for event in events)
        found.update((data["shared"]["frames"][n]["name"], a, b) for n, a, b in closed)
    assert found == slices(trace)


# -- flame graphs, tables -------------------------------------------------------------------------------


def test_collapsed_stacks_have_the_own_times(trace, tmp_path):
    lines = written(trace, "collapsed", tmp_path).read_text().splitlines()
    stacks = [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in lines]
    rows = region_tree(trace, trace.kernels[0]).filter(pl.col("self_ns") >= 0.5)
    assert [(stack[-1], len(stack) - 1, ns) for stack, ns in stacks] == [
        (row["name"], row["depth"], round(row["self_ns"])) for row in rows.iter_rows(named=True)
    ]
    assert sum(ns for _, ns in stacks) == pytest.approx(
        whole_ns(region_tree(trace, trace.kernels[0])), rel=1e-3
    )


def test_names_cannot_break_collapsed_stacks(tmp_path):
    trace = attention(launches=1, name="a;b 7\nc")
    lines = written(trace, "collapsed", tmp_path).read_text().splitlines()
    assert all(re.fullmatch(r"a,b 7\?c(;[^;]+)* \d+", line) for line in lines)


def test_pandas_reads_the_csv(trace, tmp_path):
    import pandas

    found = pandas.read_csv(written(trace, "csv", tmp_path))
    assert len(found) == len(trace)
    want = trace.to_pandas()
    assert list(found["region"]) == list(want["name"])
    assert found["duration_ns"].to_numpy() == pytest.approx(want["duration_ns"].to_numpy())
    assert set(found["kernel"]) == {kernel.name for kernel in trace.kernels}


def test_chrome_events_have_the_slices(trace, tmp_path):
    events = json.loads(written(trace, "chrome", tmp_path).read_text())["traceEvents"]
    found = Counter(
        (e["name"], round(1e3 * e["ts"]), round(1e3 * (e["ts"] + e["dur"]))) for e in events if e["ph"] == "X"
    )
    assert found == slices(trace)


# -- all of them ----------------------------------------------------------------------------------------

HOSTILE = 'x"\\</script>;\n\x00\udcff,=1'


@pytest.mark.parametrize("name", sorted(available()))
def test_every_view_takes_empty_and_hostile_traces(name, tmp_path):
    for trace in (
        attention(launches=0),
        Trace.build({"region": [], "start": [], "stop": []}, kernels=[], launches=[], regions=[]),
        Trace.build(
            {"region": [0, 0], "start": [0, 5], "stop": [0, 5]},
            kernels=[Kernel(0, HOSTILE, "cpu", Clock(1e9), HOSTILE, 1, HOSTILE)],
            launches=[Launch(0)],
            regions=[Region(0, HOSTILE, "kernel", file=HOSTILE, first_line=1)],
        ),
    ):
        assert written(trace, name, tmp_path).stat().st_size >= 0


def test_the_command_writes_beside_the_trace_or_to_standard_output(tmp_path, capfd):
    file = tmp_path / "t.parquet"
    attention().save(file)
    assert main(["export", str(file), "--to", "speedscope"]) == 0
    assert json.loads((tmp_path / "t.speedscope.json").read_text())["profiles"]
    capfd.readouterr()
    assert main(["export", str(file), "--to", "collapsed", "--out", "-", "--launch", "1"]) == 0
    assert "attention;loop @ 31;iteration;dot @ 35 288000\n" in capfd.readouterr().out
    assert main(["export", str(file), "--to", "nonsense"]) == 2
    assert "speedscope" in capfd.readouterr().err


def test_a_view_of_the_users_own(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    name, suffix = 'mine', '.txt'\n"
        "    def write(self, trace, path):\n        open(path, 'w').write(f'{len(trace)} intervals')\n"
        "class Not:\n    name = 'x'\n"
    )
    attention().save(tmp_path / "t.parquet")
    out = tmp_path / "out.txt"
    assert main(["report", str(tmp_path / "t.parquet"), "--view", f"{tmp_path}/mine.py:Mine={out}"]) == 0
    assert out.read_text() == "1600 intervals"
    assert main(["export", str(tmp_path / "t.parquet"), "--to", f"{tmp_path}/mine.py:Not"]) == 2
    assert "it needs a name, a suffix and write(trace, path)" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "export"])
def test_a_view_of_the_users_own_that_raises_is_named_with_its_line(command, tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    name, suffix = 'mine', '.txt'\n"
        "    def write(self, trace, path):\n        return {}['lost']\n"
        "class Unmade(Mine):\n    def __init__(self):\n        raise ValueError('no luck')\n"
    )
    attention().save(tmp_path / "t.parquet")

    def said(name):
        view = f"{tmp_path}/mine.py:{name}"
        words = ["--view", f"{view}={tmp_path}/out"] if command == "report" else ["--to", view]
        assert main([command, str(tmp_path / "t.parquet"), *words]) == 2
        return capsys.readouterr().err

    assert f"the view 'mine' failed: KeyError: 'lost' ({tmp_path}/mine.py, line 4)" in said("Mine")
    assert f"cannot be made without arguments: ValueError: no luck ({tmp_path}/mine.py, line 7)" in said(
        "Unmade"
    )


@pytest.mark.parametrize("name", sorted(available()))
def test_no_source_leaves_none(name, tmp_path):
    attention().save(tmp_path / "t.parquet")
    out = tmp_path / "out"
    assert main(["export", str(tmp_path / "t.parquet"), "--to", name, "--no-source", "--out", str(out)]) == 0
    content = out.read_bytes()
    assert b"tl.load" not in content
    assert b"examples/attention" not in content
    assert b"dot @ 35" in content


def test_run_writes_the_page_and_views(tmp_path):
    """In a process of its own, as users do."""
    (tmp_path / "script.py").write_text(
        "import numpy as np, tileprobe\n"
        "from examples.kernels import vector_add\n"
        "x, y, z = (tileprobe.array(np.ones(4096, np.float32)) for _ in range(3))\n"
        "vector_add.add(x, y, z)\n"
    )
    root = Path(__file__).parents[2]
    paths = [str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]
    page, flame = tmp_path / "page.html", tmp_path / "flame.txt"
    command = [
        sys.executable,
        "-m",
        "tileprobe",
        "run",
        "--quiet",
        "--html",
        page,
        "--view",
        f"collapsed={flame}",
    ]
    command += ["--no-source", tmp_path / "script.py"]
    run = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert flame.read_text().startswith("add_kernel;")
    assert "tl.load" not in page.read_text()
    assert "add_kernel" in page.read_text()
