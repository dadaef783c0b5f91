"""Traces built by hand: defaults, filters, merging, the file and its errors."""

import json
import os
from dataclasses import replace

import polars as pl
import pytest
from made import attention
from made_streams import warp_specialised

from tileprobe.errors import TileProbeError
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit


def small(target="cpu", name="add", hz=2e9):
    """Two programs of a kernel with one loop of two iterations; a tick is half a nanosecond."""
    return Trace.build(
        {
            "program": [0, 0, 0, 0, 1, 1, 1, 1],
            "unit": [0, 0, 0, 0, 1, 1, 1, 1],
            "region": [0, 1, 2, 2, 0, 1, 2, 2],
            "iteration": [-1, -1, 0, 1, -1, -1, 0, 1],
            "start": [1000, 1010, 1020, 1120, 1000, 1020, 1040, 1240],
            "stop": [1300, 1290, 1110, 1280, 1600, 1590, 1220, 1580],
        },
        kernels=[
            Kernel(0, name, target, Clock(hz), file="k.py", first_line=1, source="def add():\n  pass\n")
        ],
        launches=[Launch(0, 0, (2,), 0.0, 300.0, losses=Losses(kept=16))],
        regions=[
            Region(0, name, "kernel", None, 0, "dir/k.py", 1, 9, 0),
            Region(1, "loop @ 3", "loop", 0, 0, "dir/k.py", 3, 6, 1),
            Region(2, "load @ 4", "load", 1, 0, "dir/k.py", 4, 4, 2),
        ],
        units=[Unit(0, "core 0"), Unit(1, "core 1")],
    )


def test_defaults_and_raw_times():
    trace = small()
    frame = trace.intervals
    assert frame["kind"].unique().to_list() == ["region"]
    assert frame["outer"].unique().to_list() == [0]
    assert frame["value"].null_count() == 8
    assert frame["start_ns"].to_list() == [(t - 1000) / 2 for t in frame["start"].to_list()]
    assert trace.regions[1].source == "k.py:3-6"


def test_missing_column_is_named():
    with pytest.raises(TileProbeError, match="'stop'"):
        Trace.build({"region": [0], "start": [0]}, kernels=[], launches=[], regions=[])


def test_round_trip(tmp_path):
    trace = small()
    trace.meta["command"] = "python k.py"
    trace.save(tmp_path / "t.parquet")
    again = Trace.load(tmp_path / "t.parquet")
    assert again.intervals.equals(trace.intervals)
    assert (again.kernels, again.launches, again.regions, again.units) == (
        trace.kernels,
        trace.launches,
        trace.regions,
        trace.units,
    )
    assert again.meta == trace.meta
    assert os.listdir(tmp_path) == ["t.parquet"]
    assert oct(os.stat(tmp_path / "t.parquet").st_mode)[-3:] != "600"


def test_open_is_lazy_and_can_overwrite_its_own_file(tmp_path):
    path = tmp_path / "t.parquet"
    small().save(path)
    trace = Trace.open(path)
    assert isinstance(trace.frame, pl.LazyFrame)
    assert len(trace) == 8
    trace.filter(programs=[1]).save(path)
    assert len(Trace.load(path)) == 4


def test_filter():
    trace = small()
    assert len(trace.filter(region="load*")) == 4
    assert len(trace.filter(kind="loop")) == 2
    assert len(trace.filter(kernel="nothing*")) == 0
    assert trace.filter(kernel="nothing*").launches == []
    assert len(trace.filter(where=pl.col("iteration") == 1, programs=[0])) == 1


def test_names_in_frames():
    frame = small().to_polars()
    assert frame["name"].to_list()[:3] == ["add", "loop @ 3", "load @ 4"]
    assert frame["unit_name"].to_list()[-1] == "core 1"
    assert frame["duration_ns"].to_list()[0] == 150.0


def test_merge_joins_equal_kernels_and_keeps_launches_apart():
    both = Trace.merge(small(), small())
    assert len(both.kernels) == 1
    assert len(both.regions) == 3
    assert len(both.units) == 2
    assert [launch.id for launch in both.launches] == [0, 1]
    assert both.losses == Losses(kept=32)
    assert both.intervals["launch"].to_list() == [0] * 8 + [1] * 8
    assert both.intervals["start_ns"][8] == both.intervals["stop_ns"][:8].max()


def test_merge_of_targets():
    both = Trace.merge(small(), small("sim:a100", hz=1e9))
    assert [kernel.target for kernel in both.kernels] == ["cpu", "sim:a100"]
    assert both.regions[4].parent == 3
    assert both.regions[4].kernel == 1
    assert set(both.intervals["region"].to_list()) == set(range(6))


def test_units_of_two_machines_stay_apart_when_merged():
    both = Trace.merge(small(), small("sim:a100", hz=1e9), small())
    assert [unit.name for unit in both.units] == ["core 0", "core 1"] * 2
    used = both.intervals.group_by("launch", maintain_order=True).agg("unit")["unit"].to_list()
    assert [set(units) for units in used] == [{0, 1}, {2, 3}, {0, 1}]
    again = Trace.merge(both, both)
    assert len(again.units) == 4
    assert again.intervals["unit"].to_list() == both.intervals["unit"].to_list() * 2


def test_units_of_one_name_stay_apart_when_merged():
    """Three units called alike, each with the intervals of its own."""
    trace = small()
    trace.units = [*trace.units, *(replace(trace.units[0], id=n) for n in (2, 3))]
    both = Trace.merge(trace, trace)
    assert [unit.name for unit in both.units] == ["core 0", "core 1", "core 0", "core 0"]


def test_regions_come_parents_first():
    trace = small()
    trace.regions.reverse()
    assert [region.name for region in trace.kernel_regions(0)] == ["add", "loop @ 3", "load @ 4"]


def test_empty_trace(tmp_path):
    trace = Trace.build({"region": [], "start": [], "stop": []}, kernels=[], launches=[], regions=[])
    trace.save(tmp_path / "t.parquet")
    assert len(Trace.load(tmp_path / "t.parquet")) == 0


def test_bad_files(tmp_path):
    path = tmp_path / "t.parquet"
    with pytest.raises(TileProbeError, match="no trace at"):
        Trace.load(path)
    with pytest.raises(TileProbeError, match="folder"):
        Trace.load(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(TileProbeError, match="empty"):
        Trace.load(path)
    path.write_text("print('hello')")
    with pytest.raises(TileProbeError, match="not a TileProbe trace"):
        Trace.load(path)
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(TileProbeError, match="not one that TileProbe wrote"):
        Trace.load(path)
    small().save(path)
    whole = path.read_bytes()
    for size in (5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(TileProbeError, match="truncated"):
            Trace.load(path)
    head = {"format": "tileprobe-trace", "version": 99, "writer": "9.9"}
    pl.DataFrame({"a": [1]}).write_parquet(path, metadata={"tileprobe": json.dumps(head)})
    with pytest.raises(TileProbeError, match=r"version 99.*upgrade"):
        Trace.load(path)


def test_damaged_in_the_middle(tmp_path):
    path = tmp_path / "t.parquet"
    small().save(path)
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(56)
    path.write_bytes(bytes(data))
    with pytest.raises(TileProbeError, match="damaged"):
        Trace.load(path)


def test_read_only_folder_and_failed_write_leave_nothing(tmp_path):
    with pytest.raises(TileProbeError, match="cannot write"):
        small().save(tmp_path / "no" / "such" / "t.parquet")
    target = tmp_path / "folder.parquet"
    target.mkdir()
    with pytest.raises(TileProbeError, match="cannot write"):
        small().save(target)
    assert os.listdir(tmp_path) == ["folder.parquet"]


def test_what_a_trace_says_about_itself():
    """Two events on two clocks may be as far apart as both clocks are off."""
    assert warp_specialised().clock_error_ns == 12.0 + 30.0
    assert attention().clock_error_ns is None
    assert attention(launches=3).losses == Losses(3 * 8 * 40, 0, 0)
