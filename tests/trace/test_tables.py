"""Streams, clock domains, edges and counters of a trace: built, saved, opened, filtered, merged."""

import json
import os

import numpy as np
import polars as pl
import pytest
from made_streams import DOMAINS, ITERATIONS, STEP, STREAMS, warp_specialised

from tileprobe.errors import TileProbeError
from tileprobe.trace import COLUMNS, COUNTERS, EDGES, Clock, Domain, Kernel, Launch, Region, Trace, Unit, Work
from tileprobe.trace.model import to_json


def one(start, stop, *, hz=1e9, **more):
    return Trace.build(
        {"region": [0] * len(start), "start": start, "stop": stop, **more.pop("columns", {})},
        kernels=[Kernel(0, "k", "cpu", Clock(hz))],
        launches=[Launch(0)],
        regions=[Region(0, "k", "kernel")],
        **more,
    )


def test_tables_are_empty_by_default():
    trace = one([0], [1])
    assert (trace.edges.height, trace.counters.height, trace.domains) == (0, 0, [])
    assert dict(trace.edges.schema) == EDGES
    assert dict(trace.counters.schema) == COUNTERS
    assert trace.intervals["stream"].to_list() == [0]
    assert list(trace.intervals.columns) == list(COLUMNS)


def test_units_are_timed_by_the_clock_of_their_domain():
    trace = warp_specialised()
    frame = trace.intervals.filter(pl.col("region") == 0, pl.col("stream") == 0).sort("program")
    expected = [(p // 4) * STEP + (p // 2 % 2) * 30 for p in range(8)]
    assert frame["start_ns"].to_list() == pytest.approx(expected)
    assert frame["stop_ns"].to_list() == pytest.approx([t + STEP - 50 for t in expected])
    assert trace.edges.filter(kind="issue-wait")["from_ns"].min() == pytest.approx(20)
    done = trace.edges.filter(kind="issue-wait").sort("from_ns", "to_unit")["to_ns"][0]
    assert done == pytest.approx(120)


def test_the_kernels_own_clock_beside_a_domain():
    """Equal times by two clocks of different rate and zero, and ticks that no float holds."""
    first = 2**62 + 1
    trace = one(
        [first, first + 3, 500],
        [first + 4, first + 5, 600],
        hz=2e9,
        columns={"unit": [0, 0, 1]},
        units=[Unit(0, "a"), Unit(1, "b", domain="slow")],
        domains=[Domain("slow", 1e8, offset_ns=first / 2 - 5000 + 7)],
    )
    start, stop = trace.intervals["start_ns"].to_list(), trace.intervals["stop_ns"].to_list()
    assert [start[1] - start[0], stop[0] - start[0], stop[1] - start[0]] == [1.5, 2.0, 2.5]
    # 500 ticks of 10 ns are what the offset lacks; an offset that large is itself known to 256 ns only
    assert start[2] - start[0] == pytest.approx(7, abs=512)
    assert stop[2] - start[2] == pytest.approx(1000)


def test_corrected_ticks_of_edges_and_intervals():
    trace = one(
        [100, 200],
        [150, 260],
        columns={"start_corrected": [100, 190], "stop_corrected": [145, 240]},
        edges={
            "kind": ["arrive-wait"],
            "from_tick": [150],
            "to_tick": [260],
            "from_tick_corrected": [145],
            "to_tick_corrected": [240],
        },
    )
    assert trace.intervals["start_ns"].to_list() == [0, 90]
    assert trace.edges.select("from_ns", "to_ns").row(0) == (45, 140)
    assert trace.edges["from_region"].to_list() == [None]


def test_mistakes_are_named():
    with pytest.raises(TileProbeError, match=r"b has the clock domain 'x'; there are none"):
        one([0], [1], units=[Unit(0, "b", domain="x")])
    with pytest.raises(TileProbeError, match=r"edges needs the column 'to_tick'"):
        one([0], [1], edges={"kind": ["issue-wait"], "from_tick": [0]})
    with pytest.raises(TileProbeError, match=r"counters needs the column 'value'"):
        one([0], [1], counters={"name": ["n"]})
    with pytest.raises(TileProbeError, match="cannot hold"):
        one([0], [1], edges={"kind": ["guess"], "from_tick": [0], "to_tick": [1]})


def same(a, b):
    assert a.intervals.equals(b.intervals)
    assert a.edges.equals(b.edges)
    assert a.counters.equals(b.counters)
    assert (a.kernels, a.launches, a.regions, a.units) == (b.kernels, b.launches, b.regions, b.units)
    assert (a.domains, a.meta) == (b.domains, b.meta)


def test_one_file_holds_all_tables(tmp_path):
    trace, path = warp_specialised(launches=2), tmp_path / "t.parquet"
    trace.save(path)
    assert os.listdir(tmp_path) == ["t.parquet"]
    opened = Trace.open(path)
    assert all(isinstance(f, pl.LazyFrame) for f in (opened.frame, opened.edge_frame, opened.counter_frame))
    assert len(opened) == len(trace)
    same(opened, trace)
    same(Trace.load(path), trace)
    tables = pl.read_parquet(path)["table"]
    assert tables.dtype == pl.Enum(["interval", "edge", "counter"])
    assert tables.rle().struct.field("value").to_list() == [
        "interval",
        "edge",
        "counter",
    ]  # one after the other
    Trace.open(path).filter(launches=[1]).save(path)  # over the file it is read from
    same(Trace.load(path), trace.filter(launches=[1]))


def test_a_file_of_intervals_alone_is_as_before(tmp_path):
    trace, path = one([0, 5], [1, 9]), tmp_path / "t.parquet"
    trace.save(path)
    assert pl.read_parquet(path).columns == list(COLUMNS)
    assert json.loads(pl.read_parquet_metadata(path)["tileprobe"])["version"] == 1
    warp_specialised().save(path)
    assert json.loads(pl.read_parquet_metadata(path)["tileprobe"])["version"] == 2


def test_files_from_before_streams_are_read(tmp_path):
    trace, path = one([0, 5], [1, 9]), tmp_path / "old.parquet"
    head = {"format": "tileprobe-trace", "version": 1, "writer": "0.3", "meta": {"a": 1}}
    head |= {
        name: [to_json(row) for row in getattr(trace, name)]
        for name in ("kernels", "launches", "regions", "units")
    }
    old = trace.intervals.drop("stream")
    old.write_parquet(path, metadata={"tileprobe": json.dumps(head)})
    again = Trace.load(path)
    assert again.intervals.equals(trace.intervals)
    assert (again.edges.height, again.counters.height, again.domains, again.meta) == (0, 0, [], {"a": 1})


@pytest.mark.parametrize("column", ["edge.kind", "counter.value", "outer"])
def test_a_file_without_a_column_is_refused(tmp_path, column):
    path = tmp_path / "t.parquet"
    warp_specialised().save(path)
    head = pl.read_parquet_metadata(path)["tileprobe"]
    pl.read_parquet(path).drop(column).write_parquet(path, metadata={"tileprobe": head})
    with pytest.raises(TileProbeError, match=f"without the column '{column}'"):
        Trace.open(path)


def test_damage_in_any_table_is_found(tmp_path):
    path = tmp_path / "t.parquet"
    warp_specialised(programs=400).save(path)
    whole = path.read_bytes()
    for at in range(40, len(whole) // 2, 97):
        data = bytearray(whole)
        data[at : at + 40] = bytes(40)
        path.write_bytes(bytes(data))
        try:
            Trace.load(path)  # zeros may fall on zeros; what must not happen is another sort of error
        except TileProbeError as error:
            assert "damaged" in str(error)  # noqa: PT017
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TileProbeError, match="truncated"):
        Trace.load(path)


@pytest.mark.parametrize("lazy", [False, True])
def test_filter_takes_edges_and_counters_along(tmp_path, lazy):
    trace = warp_specialised(launches=2)
    if lazy:
        trace.save(tmp_path / "t.parquet")
        trace = Trace.open(tmp_path / "t.parquet")
    second = trace.filter(launches=[1])
    assert isinstance(second.edge_frame, pl.LazyFrame) == lazy
    assert second.edges["launch"].unique().to_list() == [1]
    assert second.counters.height == 0  # all counters are of launch 0
    assert second.domains == DOMAINS
    assert trace.filter(launches=[0]).counters.height == 3
    few = trace.filter(programs=[0, 1])
    assert set(few.edges["from_program"]) | set(few.edges["to_program"]) == {0, 1}
    assert few.edges.height == 2 * 2 * 2 * ITERATIONS
    copies = trace.filter(region="copy*")
    assert set(copies.edges["kind"]) == {"issue-wait"}
    assert copies.edges.height == 2 * 8 * 2 * ITERATIONS
    first = trace.filter(where=(pl.col("stream") != 2) & (pl.col("program") < 3))
    assert set(first.edges["to_stream"]) == {1}
    assert first.edges["to_program"].max() == 2
    assert first.counters.height == 3


def test_merge_keeps_all_tables_and_renumbers_them():
    a = warp_specialised()
    other = one([0], [50], units=[Unit(0, "core 0")])
    both = Trace.merge(other, a, a)
    assert (len(both.kernels), len(both.units), both.domains) == (2, 3, DOMAINS)
    assert both.units[1].domain == "gpc 0"
    assert both.edges["launch"].unique().sort().to_list() == [1, 2]
    assert both.edges.height == 2 * a.edges.height
    assert both.counters["unit"].to_list() == [1, 2, 1] * 2
    assert set(both.edges["from_region"].drop_nulls()) == {1, 2}  # behind the other kernel's region 0
    assert both.edges["from_ns"][0] == a.edges["from_ns"][0] + 50
    for n, launch in ((1, 1), (2, 2)):
        starts = both.intervals.filter(pl.col("launch") == launch)["start_ns"].min()
        edges = both.edges.filter(pl.col("launch") == launch)["from_ns"].min()
        assert edges - starts == pytest.approx(20), n


def test_merge_of_one_domain_aligned_twice_keeps_the_larger_error():
    a, b = warp_specialised(), warp_specialised()
    b.domains = [Domain("gpc 0", 1e9, 77.0, 99.0), DOMAINS[1]]
    merged = Trace.merge(a, b).domains
    assert [domain.error_ns for domain in merged] == [99.0, 30.0]


def test_merge_puts_together_what_traces_say_of_their_kernels():
    a, b = one([0], [1]), one([0], [1])
    a.meta = {"command": "a", "notes": ["x"], "busy": {"k": {"core": 0.5}, "l": {"core": 0.1}}}
    b.meta = {"command": "b", "notes": ["y", "x"], "busy": {"k": {"core": 0.6}, "m": {"core": 0.2}}}
    assert Trace.merge(a, b).meta == {
        "command": "a",
        "notes": ["x", "y"],
        "busy": {"l": {"core": 0.1}, "m": {"core": 0.2}},
    }
    assert a.meta["notes"] == ["x"]


def test_names_of_streams():
    trace = warp_specialised()
    assert [trace.stream_name(0, n) for n in range(4)] == [
        "producer",
        "consumer / warp 0",
        "consumer / warp 1",
        "stream 3",
    ]
    assert trace.stream_names(0) == STREAMS
    assert one([0], [1]).stream_name(0, 0) == ""
    streams = [{"id": 0, "name": "default"}, {"id": 1, "name": "partition 1", "instances": 2}]
    layout = {"block_words": 64, "streams": streams, "granularity": "warp"}
    trace.kernels = [Kernel(0, "k", "cuda:90", Clock(1e9), layout=layout)]
    assert trace.stream_names(0) == ("default", "partition 1 / warp 0", "partition 1 / warp 1")


def test_tables_of_a_long_trace_are_found_behind_each_other(tmp_path):
    """More rows than a row group holds, so that intervals, and the edges behind them, cross its border."""
    n = 300_000
    start = np.arange(n) * 10
    edges = {"kind": ["issue-wait"] * 5, "from_tick": range(5), "to_tick": range(5)}
    trace, path = one(start, start + 5, edges=edges), tmp_path / "t.parquet"
    trace.save(path)
    opened = Trace.open(path)
    assert opened.edges.height == 5
    assert len(opened) == n
    assert opened.scan().select(pl.col("stop_ns").max()).collect().item() == (n - 1) * 10 + 5


def test_what_a_trace_is_not_told_is_what_simulated_machines_mean():
    """Every interval stands for itself, and neither the system nor probes took anything of it."""
    trace = Trace.build(
        {"region": [0], "start": [0], "stop": [10]},
        kernels=[Kernel(0, "k", "t", Clock(1e9))],
        launches=[Launch(0)],
        regions=[Region(0, "k")],
    )
    (row,) = trace.intervals.select("weight", "fit", "taken_ns", "probes_ns", "iteration", "kind").rows()
    assert row == (1.0, 1.0, 0.0, 0.0, -1, "region")
    work = Work(0)
    assert (work.ran, work.probed, work.plain, work.dosed, work.unrecorded) == (0, 0, 0, 0, 0)


def test_counters_of_no_unit_are_merged_where_the_first_core_did_nothing():
    """A launch ran on the second core alone, and what its loads did to memory is of no core."""

    def one():
        return Trace.build(
            {"program": [0], "unit": [1], "region": [0], "start": [0], "stop": [100]},
            kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
            launches=[Launch(0, 0, (1,), 0.0, 100.0)],
            regions=[Region(0, "k", "kernel")],
            units=[Unit(1, "core 1")],
            counters={"launch": [0], "file": ["k.py"], "line": [3], "name": ["access lanes"], "value": [7.0]},
        )

    both = Trace.merge(one(), one())
    assert both.counters["value"].to_list() == [7.0, 7.0] and both.counters["launch"].to_list() == [0, 1]
    assert both.intervals["unit"].unique().to_list() == [both.units[0].id]
