"""The tools on a trace with several programs at once on a unit and several streams in a program."""

from dataclasses import replace

import pytest
from made import attention
from made_streams import ITERATIONS, STEP, warp_specialised

from tileprobe.tools import load_tool
from tileprobe.tools.compare import compare
from tileprobe.tools.iterations import Iterations
from tileprobe.tools.overhead import overhead
from tileprobe.tools.programs import program_times
from tileprobe.tools.regions import region_tree
from tileprobe.tools.source import line_times
from tileprobe.tools.streams import Partition, partitions
from tileprobe.trace import Trace

PROGRAM = STEP - 50  # ns that each of its streams lasts


def rows(frame):
    return list(frame.iter_rows(named=True))


def named(trace, *streams):
    trace.kernels = [replace(trace.kernels[0], streams=streams)]
    return partitions(trace, trace.kernels[0])


def test_streams_that_run_the_same_code_are_one_partition():
    trace = warp_specialised()
    assert partitions(trace, trace.kernels[0]) == [Partition("producer", (0,)), Partition("consumer", (1, 2))]
    assert named(trace, "warp 0", "warp 1") == [Partition("", (0, 1))]
    assert named(
        trace, "default", "partition 1", "partition 2 / warp group 0", "partition 2 / warp group 1"
    ) == [
        Partition("default", (0,)),
        Partition("partition 1", (1,)),
        Partition("partition 2", (2, 3)),
    ]
    assert partitions(attention(), attention().kernels[0]) == [Partition("", (0,))]


def test_the_tree_says_which_partition():
    trace = warp_specialised()
    found = rows(region_tree(trace, trace.kernels[0]))
    assert [(row["depth"], row["name"]) for row in found] == [
        (0, "producer"),
        (1, "ws"),
        (0, "consumer x 2"),
        (1, "ws"),
        (2, "loop @ 8"),
        (3, "copy @ 7"),
        (3, "dot @ 9"),
    ]
    assert [found[n]["total_ns"] for n in (0, 2)] == pytest.approx([8 * PROGRAM, 16 * PROGRAM])
    assert [found[n]["share"] for n in (0, 2)] == pytest.approx([1 / 3, 2 / 3])
    assert found[1]["self_ns"] == pytest.approx(
        8 * PROGRAM
    )  # the loop of the consumers is not in the producer
    assert found[4]["self_ns"] == pytest.approx(16 * (320 - 80 * ITERATIONS))
    assert found[6]["count"] == 16 * ITERATIONS
    text = load_tool("regions").read(trace).findings[0].text
    assert f"{100 * 16 * 60 * ITERATIONS / (24 * PROGRAM):.0f} % of the time is in dot @ 9" in text


def test_warps_of_one_partition_are_put_together():
    trace = warp_specialised()
    named(trace, "warp 0", "warp 1", "warp 2")
    found = rows(region_tree(trace, trace.kernels[0]))
    assert [(row["depth"], row["name"]) for row in found] == [
        (0, "ws"),
        (1, "loop @ 8"),
        (2, "copy @ 7"),
        (2, "dot @ 9"),
    ]
    assert found[0]["count"] == 24


def test_lines_and_overhead_are_shares_of_all_streams():
    trace = warp_specialised()
    kernel = replace(trace.kernels[0], source="\n" * 20, calibration={"cost_ticks": 1.5})
    trace.kernels = [replace(kernel, source="\n".join(f"line {n}" for n in range(1, 21)))]
    lines = {row["line"]: row for row in rows(line_times(trace, trace.kernels[0]))}
    assert lines[9]["ns"] == pytest.approx(16 * ITERATIONS * 60)
    assert lines[9]["share"] == pytest.approx(16 * ITERATIONS * 60 / (24 * PROGRAM))
    cost = overhead(trace, trace.kernels[0])
    kept = trace.losses.kept
    assert cost.estimated_percent == pytest.approx(100 * kept * 1.0 / (24 * PROGRAM))


def test_iterations_of_partitions_stay_apart():
    trace = warp_specialised()
    trace.regions = [replace(r, kind="iteration") if r.name == "dot @ 9" else r for r in trace.regions]
    table = Iterations().read(trace).tables[0].frame
    assert table["name"].to_list() == ["consumer: loop @ 8"]
    assert table["iterations"].to_list() == [ITERATIONS]


def test_programs_at_once_on_a_unit():
    trace = warp_specialised()
    runs = program_times(trace, trace.kernels[0])
    assert runs.height == 8  # not one for each stream
    assert runs.sort("program")["lane"].to_list() == [0, 0, 1, 1, 0, 0, 1, 1]
    table = rows(load_tool("programs").read(trace).tables[0].frame)
    assert [row["work_ns"] for row in table] == pytest.approx([4 * PROGRAM] * 2)
    assert [row["busy_ns"] for row in table] == pytest.approx([2 * (PROGRAM + 30)] * 2)
    assert [row["at_once"] for row in table] == [2, 2]


def test_units_count_programs_at_once_once_as_busy_and_each_as_work():
    busy, work = (table.frame for table in load_tool("units").read(warp_specialised()).tables)
    assert rows(busy)[0]["busy"] == pytest.approx(1.0)
    assert rows(busy)[0]["at_once"] == pytest.approx(4 * PROGRAM / (2 * (PROGRAM + 30)))
    shares = {row["name"]: row["share"] for row in rows(work)}
    assert shares["dot @ 9"] == pytest.approx(8 * ITERATIONS * 60 / (2 * (PROGRAM + 30)))


def test_compare_takes_each_stream_for_itself():
    result = compare(warp_specialised(launches=4), warp_specialised(launches=4))
    table = {row["name"]: row for row in rows(result.tables[0].frame)}
    assert table["producer: ws"]["a_ns"] == table["consumer: ws"]["a_ns"] == pytest.approx(PROGRAM)
    assert table["dot @ 9"]["a_ns"] == pytest.approx(60 * ITERATIONS)
    assert [row["depth"] for row in rows(result.tables[0].frame)][:2] == [0, 0]


def test_all_tools_read_a_file_as_they_read_memory(tmp_path):
    trace = warp_specialised(launches=3)
    trace.save(tmp_path / "t.parquet")
    for tool in ("regions", "source", "iterations", "programs", "units"):
        eager, lazy = (load_tool(tool).read(t).to_json() for t in (trace, Trace.open(tmp_path / "t.parquet")))
        assert eager == lazy
