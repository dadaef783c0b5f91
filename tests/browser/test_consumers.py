"""Timelines read back by those they are for: Perfetto's trace processor (both formats) and the importer of
chrome://tracing say of slices, nesting, tracks, arguments, flows and counters what the trace says."""

from collections import Counter

import numpy as np
import polars as pl
import pytest
from made import attention
from made_streams import warp_specialised

import tileprobe
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace
from tileprobe.views.load import load_view
from tileprobe.views.torch_trace import write_merged

TRACES = {"attention": lambda: attention(launches=2, programs=4), "streams": warp_specialised}
SLICES = (
    "select s.ts, s.ts + s.dur as stop, s.depth, s.name, around.name as around,"
    " coalesce(thread.name, track.name) as track, extract_arg(s.arg_set_id, '{0}.program') as program,"
    " extract_arg(s.arg_set_id, '{0}.iteration') as iteration, extract_arg(s.arg_set_id, '{0}.source') as source"
    " from slice s left join slice around on s.parent_id = around.id join track on s.track_id = track.id"
    " left join thread_track on thread_track.id = s.track_id left join thread using (utid)"
)
FLOWS = "select a.ts as start, b.ts as stop from flow join slice a on slice_out = a.id join slice b on slice_in = b.id"


@pytest.fixture(params=sorted(TRACES))
def trace(request):
    return TRACES[request.param]()


def written(trace, name, tmp_path):
    view = load_view(name)
    path = tmp_path / f"out{view.suffix}"
    view.write(trace, path)
    return path


def expected(trace):
    """Name, times, depth, the name around it, program, iteration and source of each slice, by the trace alone: what is
    around it is the shortest of its own stream that encloses it."""
    frame = trace.to_polars().filter(pl.col("kind").is_in(["region", "wait"]))
    depths = {region.id: region.depth for region in trace.regions}
    remarks = {region.id: region.remark for region in trace.regions}
    rows = list(frame.iter_rows(named=True))
    own = {}
    for row in rows:
        own.setdefault((row["launch"], row["program"], row["stream"]), []).append(row)
    found = Counter()
    for row in rows:
        start, stop = round(row["start_ns"]), round(row["stop_ns"])
        around = [
            other
            for other in own[row["launch"], row["program"], row["stream"]]
            if round(other["start_ns"]) <= start
            and stop <= round(other["stop_ns"])
            and depths[other["region"]] < depths[row["region"]]
        ]
        nearest = max(around, key=lambda other: depths[other["region"]], default={"name": None})
        iteration = None if row["iteration"] < 0 else row["iteration"]
        said = (row["program"], iteration, remarks[row["region"]])
        found[row["name"], start, stop, len(around), nearest["name"], *said] += 1
    return found


def edges(trace):
    return Counter((round(a), round(b)) for a, b in trace.edges.select("from_ns", "to_ns").iter_rows())


def spans(trace):
    frame = trace.to_polars().filter(pl.col("kind") == "async")
    return Counter(
        (n, round(a), round(b)) for n, a, b in frame.select("name", "start_ns", "stop_ns").iter_rows()
    )


def iteration(row):
    """Chrome's format has -1 for none."""
    return None if row["iteration"] in (None, -1) else row["iteration"]


@pytest.mark.parametrize("name", ["perfetto", "chrome"])
def test_the_trace_processor_reads_the_same_slices(trace, name, consumers, tmp_path):
    processor = consumers.trace_processor(written(trace, name, tmp_path))
    assert processor.complaints() == []
    arguments = "debug" if name == "perfetto" else "args"
    rows = processor.query(SLICES.format(arguments))
    slices, others = Counter(), Counter()
    for row in rows:
        title = row["name"].removeprefix("wait: ")
        said = (row["program"], iteration(row), row["source"])
        if row["program"] is None:
            continue  # an instant at the end of an edge
        if row["track"] == "asynchronous" or (name == "chrome" and title == "copy @ 7" and not row["around"]):
            others[title, row["ts"], row["stop"]] += 1
        else:
            slices[title, row["ts"], row["stop"], row["depth"], row["around"], *said] += 1
    assert slices == expected(trace)
    assert others == spans(trace)
    units = {unit.name for unit in trace.units}
    tracks = {row["track"] for row in rows} - {"asynchronous", "copy @ 7"}
    assert {track.split(" / ")[0] for track in tracks} == units


def test_the_trace_processor_joins_the_ends_of_flows(consumers, tmp_path):
    trace = warp_specialised()
    processor = consumers.trace_processor(written(trace, "perfetto", tmp_path))
    assert Counter((row["start"], row["stop"]) for row in processor.query(FLOWS)) == edges(trace)
    processor = consumers.trace_processor(written(trace, "chrome", tmp_path))
    assert len(processor.query(FLOWS)) == trace.edges.height


@pytest.mark.parametrize("name", ["perfetto", "chrome"])
def test_the_trace_processor_reads_counters(name, consumers, tmp_path):
    trace = warp_specialised()
    processor = consumers.trace_processor(written(trace, name, tmp_path))
    rows = processor.query(
        "select track.name, value from counter join track on track_id = track.id order by ts"
    )
    first = {row["name"].removesuffix(" value"): row["value"] for row in rows[:2]}
    assert first == {"bank conflicts": 16.0, "stall cycles": 900.5}
    assert [row["value"] for row in rows[2:]] == [0.0, 0.0]


def test_chromes_own_importer_reads_the_same(trace, consumers, tmp_path):
    found = consumers.catapult(written(trace, "chrome", tmp_path))
    assert found["warnings"] == []
    slices = Counter()
    for row in found["slices"]:
        said = row["args"]
        place = (row["name"], row["start"], row["stop"], row["depth"], row["around"])
        slices[*place, said["program"], iteration(said), said["source"]] += 1
    assert slices == expected(trace)
    assert Counter((row["name"], row["start"], row["stop"]) for row in found["spans"]) == spans(trace)
    # Arrows leave and arrive up to a nanosecond early, where a slice ends.
    flows = sorted((row["start"], row["stop"]) for row in found["flows"])
    assert np.array(flows) == pytest.approx(np.array(sorted(edges(trace).elements())), abs=1)
    counted = {row["name"]: row["samples"][0][1] for row in found["counters"]}
    sums = trace.counters.group_by("name").agg(pl.col("value").sum()).iter_rows()
    assert counted == dict(sums)
    assert {row["process"] for row in found["slices"]} == {f"{k.name} on {k.target}" for k in trace.kernels}


HOSTILE = 'x"\\</script>;\n\x00\udcff,=1'


@pytest.mark.parametrize("name", ["perfetto", "chrome"])
def test_empty_and_hostile_traces_are_read(name, consumers, tmp_path):
    hostile = Trace.build(
        {"region": [0, 0], "start": [0, 5], "stop": [4, 9]},
        kernels=[Kernel(0, HOSTILE, "cpu", Clock(1e9), HOSTILE, 1, HOSTILE)],
        launches=[Launch(0)],
        regions=[Region(0, HOSTILE, "kernel", file=HOSTILE, first_line=1)],
    )
    for trace, slices in ((attention(launches=0), 0), (hostile, 2)):
        file = written(trace, name, tmp_path)
        processor = consumers.trace_processor(file)
        assert processor.complaints() == []
        rows = processor.query("select name from slice")
        assert len(rows) == slices
        assert all("</script>;" in row["name"] for row in rows)
        if name == "chrome":
            assert len(consumers.catapult(file)["slices"]) == slices


def test_the_merge_with_torch_profiler_is_read(consumers, tmp_path):
    """Every slice of torch is still there, and ours lie within the launches of the steps."""
    torch = pytest.importorskip("torch")
    from examples.kernels import softmax
    from torch.profiler import ProfilerActivity, profile, record_function

    x, out = (tileprobe.array(np.ones((64, 256), np.float32)) for _ in range(2))
    softmax.softmax(x, out)
    with tileprobe.profile() as session, profile(activities=[ProfilerActivity.CPU]) as seen:
        for _ in range(3):
            with record_function("step"):
                torch.ones(8).add(1)
                softmax.softmax(x, out)
    seen.export_chrome_trace(str(tmp_path / "torch.json"))
    write_merged(session.trace, str(tmp_path / "torch.json"), tmp_path / "both.json")
    names = {}
    for file in ("torch.json", "both.json"):
        processor = consumers.trace_processor(tmp_path / file)
        assert processor.complaints() == []
        names[file] = Counter(row["name"] for row in processor.query("select name from slice"))
    ours = names["both.json"] - names["torch.json"]
    assert names["torch.json"] <= names["both.json"]
    kernel = session.trace.kernels[0].name
    frame = session.trace.to_polars().filter(pl.col("kind").is_in(["region", "wait"]))
    assert ours == Counter(frame["name"].to_list()) + Counter({kernel: len(session.trace.launches)})
    inside = processor.query(
        "select count(*) as n from slice launch join slice program on program.category = 'kernel'"
        " and extract_arg(program.arg_set_id, 'args.launch') = extract_arg(launch.arg_set_id, 'args.launch')"
        " and program.ts >= launch.ts and program.ts + program.dur <= launch.ts + launch.dur"
        " where launch.category = 'launch'"
    )
    programs = frame.join(
        pl.DataFrame({"region": [r.id for r in session.trace.regions if r.kind == "kernel"]}),
        on="region",
        how="semi",
    )
    assert inside[0]["n"] == programs.height > 0
