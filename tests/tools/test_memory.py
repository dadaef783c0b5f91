"""What loads and stores do to memory: planted patterns on the CPU and on a simulated GPU, and traces built by hand."""

import contextlib

import benchmarks._memory_kernels as kernels
import numpy as np
import polars as pl
import pytest
from benchmarks._memory_kernels import BY_COLUMN, BY_ROW
from triton.experimental.gluon import language as gl

import tileprobe
from tileprobe.ir.accesses import AFFINE, COUNTED, MOST, SAMPLED, Access, accesses, counters
from tileprobe.targets.cpu.access_forms import Form
from tileprobe.targets.cpu.accesses import _Seen, lines_of, programs_of
from tileprobe.tools import load_tool
from tileprobe.tools.memory import Memory
from tileprobe.tools.words import size
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace

PLAIN = {"sim:a100": {"threads": 1, "check": False}, "cpu": {}}


def aligned(count, kind=np.float32, offset=0):
    """An array that begins so many bytes behind the beginning of a line."""
    size = np.dtype(kind).itemsize
    held = np.zeros(count * size + 128, np.uint8)
    first = -held.ctypes.data % 64 + offset
    return tileprobe.array(held[first : first + count * size].view(kind))


@contextlib.contextmanager
def looked(target="cpu", **more):
    with tileprobe.use(target, **PLAIN[target]), tileprobe.profile(tools=["memory"], **more) as session:
        yield session


def rows(session, what="load"):
    (result,) = session.results()
    (table,) = result.tables
    return [row for row in table.frame.to_dicts() if row["what"].startswith(what)], result.findings


def causes(findings):
    return {(f.data["cause"], f.data["line"]): f.data["size"] for f in findings}


@pytest.mark.parametrize(("kind", "times"), [(np.float32, 16), (np.float64, 8)])
def test_a_strided_load_moves_a_line_for_each_element(kind, times):
    x, out = aligned(4 * 256 * 17, kind), aligned(1024, kind)
    with looked() as session:
        kernels.strided[(4,)](x, out, STRIDE=17, BLOCK=256)
    (load,), findings = rows(session)
    size = np.dtype(kind).itemsize
    assert (load["how"], load["pattern"], load["stride"]) == (AFFINE, "stride 17", 17 * size)
    assert (load["asked"], load["moved"], load["times"]) == (1024 * size, 1024 * 64, times)
    assert (load["width"], load["reuse"], load["masked"], load["beside"]) == (size, 1.0, 0.0, 0.0)
    assert load["footprint"] == load["iteration"] == 256 * 64
    assert causes(findings) == {("stride", kernels.strided.fn.__code__.co_firstlineno + 3): times}
    (store,), _ = rows(session, "store")
    assert (store["times"], store["alignment"], store["pattern"]) == (1.0, 64, "side by side")
    assert store["width"] > size  # a vector


@pytest.mark.parametrize("stride", [2, 3, 8, 16, 31])
def test_lines_are_those_of_numpy(stride):
    x, out = aligned(512 * stride, offset=12), aligned(512)
    with looked() as session:
        kernels.strided[(2,)](x, out, STRIDE=stride, BLOCK=256)
    (load,), _ = rows(session)
    first = x.data_ptr() + 4 * stride * np.arange(512).reshape(2, 256)
    lines = [len(set((p // 64).tolist()) | set(((p + 3) // 64).tolist())) for p in first]
    assert load["moved"] == 64 * sum(lines)
    assert load["footprint"] == 64 * sum(lines) / 2


def test_what_is_masked_off_is_said():
    x, out = aligned(512), aligned(512)
    with looked() as session:
        kernels.half[(4,)](x, out, 256, BLOCK=128)
    (load,), findings = rows(session)
    assert load["masked"] == 0.5
    assert load["asked"] == load["moved"] == 256 * 4  # nothing moves for what is off
    assert [size for (cause, _), size in causes(findings).items() if cause == "masked off"] == [0.5]


def test_atomic_operations_on_one_element_are_looked_at():
    x, out, count = aligned(512), aligned(16), aligned(16, np.int32)
    with looked() as session:
        kernels.summed[(4,)](x, out, count, BLOCK=128)
    (total, number), _ = rows(session, "atomic")
    assert (total["asked"], total["moved"], total["masked"]) == (3 * 4, 3 * 64, 0.0)
    assert (number["asked"], number["moved"], number["masked"]) == (4, 64, pytest.approx(2 / 3))
    assert (out.numpy()[0], count.numpy()[0]) == (0, 1)


@pytest.mark.parametrize("axes", [(4, 4), (2, 16), (16, 2), (8, 8), (32, 32)])
def test_programs_that_are_looked_at_are_of_all_columns(axes):
    """The last row and the last column of tiles are as many among them as in the grid, to one in eight."""
    across, down = axes
    chosen = programs_of(across * down, True)
    for places, count in (([n % across for n in chosen], across), ([n // across for n in chosen], down)):
        assert abs(places.count(count - 1) - 8 / count) <= 1
        assert abs(sum(place < count / 2 for place in places) - 4) <= 1


@pytest.mark.parametrize("grid", [2, 9, 12, 15, 1000])
def test_no_program_of_several_axes_is_looked_at_twice(grid):
    chosen = programs_of(grid, True)
    assert len(chosen) == len(set(chosen)) == min(grid, 8)
    assert max(chosen) < grid


def test_masked_tails_of_both_axes_are_as_many_as_there_are():
    x, out = aligned(100 * 200), aligned(100 * 200)
    with looked() as session:
        kernels.transposed[(4, 4)](x, out, 100, 200, BM=32, BN=64)
    (load,), _ = rows(session)
    assert load["asked"] == pytest.approx(100 * 200 * 4, rel=0.1)
    assert load["masked"] == pytest.approx(1 - 100 * 200 / (128 * 256), abs=0.06)


@pytest.mark.parametrize("target", ["cpu", "sim:a100"])
def test_lines_of_which_half_is_masked_off_move_whole(target):
    x, out = aligned(512), aligned(512)
    with looked(target) as session:
        kernels.every_other[(4,)](x, out, BLOCK=128)
    (load,), findings = rows(session)
    assert (load["masked"], load["asked"], load["moved"], load["times"]) == (0.5, 1024, 2048, 2.0)
    if target == "cpu":
        assert ("scattered", load["line"]) in causes(findings)  # neighbours lie side by side: no stride
    assert [size for (cause, _), size in causes(findings).items() if cause == "masked off"] == [0.5]


def test_addresses_that_do_not_follow_from_the_ir_are_looked_at():
    where = np.random.default_rng(1).permutation(4096).astype(np.int32)[:512]
    x, out, there = aligned(4096), aligned(512), tileprobe.array(where)
    with looked() as session:
        kernels.gathered[(2,)](x, there, out, BLOCK=256)
    (index, load), findings = rows(session)
    assert (index["how"], load["how"]) == (AFFINE, SAMPLED)
    lines = [len(np.unique(part // 16)) for part in where.reshape(2, 256)]
    assert load["moved"] == 64 * sum(lines)
    assert ("scattered", load["line"]) in causes(findings)
    assert any("0 % of its neighbours lie side by side" in f.text for f in findings)


@pytest.mark.parametrize("target", ["cpu", "sim:a100"])
def test_what_is_touched_again_is_reused(target):
    x, out = aligned(128), aligned(256)
    with looked(target) as session:
        kernels.again[(2,)](x, out, 6, 0, BLOCK=128)
    (load,), _ = rows(session)
    assert load["reuse"] == 6
    assert (load["footprint"], load["seen"]) == (512, 512)  # both programs read the same
    assert load["times"] == (
        1.0 if target != "cpu" else pytest.approx(1 / 6)
    )  # of a CPU each line moves once


@pytest.mark.parametrize("target", ["cpu", "sim:a100"])
def test_looking_leaves_memory_as_it_is(target):
    x = aligned(512)
    with looked(target):
        kernels.counting[(2,)](x, BLOCK=256)
    np.testing.assert_array_equal(x.numpy(), 1.0)


def test_of_many_programs_a_few_are_looked_at():
    x, out = aligned(100 * 64), aligned(100 * 64)
    with looked() as session:
        for _ in range(3):
            kernels.half[(100,)](x, out, 6400, BLOCK=64)
    (load,), _ = rows(session)
    assert (load["programs"], load["grid"]) == (8, 100)
    assert load["asked"] == 6400 * 4
    assert session.trace.counters["launch"].n_unique() == 1  # asked once


def test_a_kernel_that_cannot_be_looked_into_has_what_the_ir_says(monkeypatch):
    monkeypatch.setattr("tileprobe.targets.cpu.accesses.COPIED", 1000)
    x, out = aligned(1024 * 17), aligned(1024)
    with looked() as session:
        kernels.strided[(4,)](x, out, STRIDE=17, BLOCK=256)
    (load,), _ = rows(session)
    assert (load["stride"], load["times"], load["programs"]) == (68, 16, 0)
    assert load["masked"] == 0.0
    assert any("from the IR alone" in note for note in session.trace.meta["notes"])


def test_addresses_have_an_end(monkeypatch):
    monkeypatch.setattr("tileprobe.targets.cpu.accesses.ELEMENTS", 1000)
    x, out = aligned(128), aligned(256)
    with looked() as session:
        kernels.again[(2,)](x, out, 60, 0, BLOCK=128)
    assert any("the first 1,024 were looked at" in note for note in session.trace.meta["notes"])
    (load,), _ = rows(session)
    assert load["reuse"] == 8


def test_off_means_off():
    x = aligned(512)
    with tileprobe.use("cpu"), tileprobe.profile(tools=["regions"]) as session:
        kernels.counting[(2,)](x, BLOCK=256)
    assert not session.trace.counters.height
    (result,) = [load_tool("memory").read(session.trace)]
    assert "not in this trace" in result.findings[0].text


def test_lanes_far_apart_take_a_sector_each():
    x, out = aligned(256 * 17), aligned(256)
    with looked("sim:a100") as session:
        kernels.strided[(2,)](x, out, STRIDE=17, BLOCK=128)
    (load,), findings = rows(session)
    assert (load["how"], load["stride"], load["width"]) == (COUNTED, 68, 4)
    assert (load["asked"], load["moved"], load["times"]) == (1024, 256 * 32, 8)
    assert load["footprint"] == 128 * 32
    assert ("stride", load["line"]) in causes(findings)


@pytest.mark.parametrize(("phases", "ways", "passes"), [(1, 8, 256), (4, 8, 256), (32, 1, 32)])
def test_bank_conflicts_are_as_planted(phases, ways, passes):
    """Stored row by row, loaded column by column. A plain tile is loaded in vectors of 16 bytes: eight lanes at a time,
    all in the same four banks."""
    shared = gl.SwizzledSharedLayout(1, 1, phases, [1, 0])
    x, out = aligned(1024), aligned(1024)
    with looked("sim:a100") as session:
        kernels.turned[(1,)](x, out, SHARED=shared, IN=BY_ROW, OUT=BY_COLUMN, num_warps=1)
    found, findings = rows(session, "load LDS")
    assert sum(row["moved"] for row in found) == 128 * passes
    assert {row["conflicts"] for row in found} == {ways}
    stored, _ = rows(session, "store STS")
    assert {row["conflicts"] for row in stored} == {1.0}
    said = [size for (cause, _), size in causes(findings).items() if cause == "bank conflicts"]
    assert said == ([] if ways == 1 else [ways])


# -- data and traces ----------------------------------------------------------------------------------------------


def access(number=0, how=SAMPLED, **figures):
    usual = {
        "programs": 2,
        "grid": 10,
        "size": 4,
        "times": 2,
        "lanes": 64,
        "active": 64,
        "moved": 256,
        "unit": 64,
    }
    return Access("k.py", 3 + number, "load f32", "memory", number, how, usual | figures)


def trace_with(found, launch=0, counted=None):
    return Trace.build(
        {"region": [0], "start": [0], "stop": [10]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(n, 0, (10,), 0.0, 10.0) for n in range(2)],
        regions=[Region(0, "k", "kernel")],
        counters=counted or {**counters(found), "launch": [launch] * len(counters(found)["name"])},
    )


def test_counters_come_back_as_they_were():
    found = [access(0, AFFINE, stride=-8.0), access(1), access(2, COUNTED)]
    assert accesses(trace_with(found).counters.iter_rows(named=True)) == found


def test_a_kernel_with_very_many_accesses_keeps_the_first():
    found = [access(n) for n in range(MOST + 10)]
    assert len(accesses(trace_with(found).counters.iter_rows(named=True))) == MOST


def test_other_counters_and_damaged_ones_are_passed_over():
    rows = [
        {"file": "", "line": 0, "instruction": None, "name": "flops", "value": 1.0, "quality": "exact"},
        {"file": "", "line": 0, "instruction": "x", "name": "access size", "value": 1.0, "quality": "exact"},
        {"file": "", "line": 0, "instruction": "a in b #1", "name": "access what", "value": 1.0, "quality": "exact"},
    ]  # fmt: skip
    assert accesses(rows) == []


def test_a_file_tells_the_same(tmp_path):
    trace = trace_with([access(stride=68.0, regular=1.0, beside=0.0, moved=2048.0)])
    trace.save(tmp_path / "t.parquet")
    read = Memory().read(Trace.load(tmp_path / "t.parquet"))
    assert read.to_json() == Memory().read(trace).to_json()
    (finding,) = read.findings
    assert (
        finding.text
        == "k: line 3 (load f32) moves 8 times the bytes it asks for: stride 17, neighbours are 68 bytes apart"
    )
    assert finding.data["moved"] == 2048 * 5


def test_totals_are_of_the_launch():
    (table,) = Memory().read(trace_with([access()])).tables
    row = table.frame.to_dicts()[0]
    assert (row["asked"], row["moved"], row["asked_text"]) == (64 * 4 * 5, 256 * 5, "1.25 KB")
    assert "conflicts" not in [column.name for column in table.columns]  # nobody has any


def test_little_is_not_worth_a_sentence():
    much, little = access(0, moved=1e6, active=250_000), access(1, moved=1000.0, active=16)
    assert Memory().read(trace_with([much, little])).findings == []


def test_a_stride_is_one_of_nearly_all_neighbours():
    found = [access(0, stride=68.0, regular=0.9), access(1, stride=68.0, regular=0.8, beside=0.2)]
    (table,) = Memory().read(trace_with(found)).tables
    assert table.frame["pattern"].to_list() == ["stride 17", "20 % side by side"]


@pytest.mark.parametrize("first", [0, 1])
def test_the_launch_that_moves_most_is_shown(first):
    trace = trace_with([access(moved=512.0)], first), trace_with([access(moved=1024.0)], 1 - first)
    both = pl.concat([one.counters for one in trace])
    (table,) = Memory().read(trace_with([access()], counted=both.to_dict(as_series=False))).tables
    assert table.frame["moved"].to_list() == [1024 * 5]


def test_elements_that_lie_across_two_lines_touch_both():
    assert lines_of(np.array([60, 130]), 8).tolist() == [0, 1, 2]


@pytest.mark.parametrize("grid", [1, 8, 9, 100])
def test_programs_that_are_looked_at_are_spread_evenly(grid):
    chosen = programs_of(grid)
    assert len(chosen) == len(set(chosen)) == min(grid, 8)
    assert abs(np.mean(chosen) - (grid - 1) / 2) <= 1 and max(chosen) < grid


def test_neighbours_are_two_that_are_not_masked_off():
    seen = _Seen(Form(0, "k.py", 1, "load f32", 4, (4,), (0,), (None,)))
    seen.touch(np.array([0, 4, 8, 400]), np.array([True, False, True, True]))
    assert (seen.pairs, dict(seen.strides), seen.lanes, seen.active) == (1, {392: 1}, 4, 3)


def test_whole_passes_through_banks_are_no_waste():
    """Shared memory moves 128 bytes a pass, however few are asked for: that is no conflict, and no line."""
    few = {"size": 4, "active": 4, "lanes": 4, "moved": 512.0, "passes": 4.0, "least": 4.0, "unit": 128}
    shared = Access(
        "k.py", 3, "load LDS", "shared", 0, COUNTED, {"programs": 2, "grid": 10, "times": 4} | few
    )
    assert Memory().read(trace_with([shared])).findings == []


def test_what_never_ran_says_so():
    idle = Access("k.py", 3, "load f32", "memory", 0, AFFINE, {"programs": 2, "grid": 10, "size": 4})
    (table,) = Memory().read(trace_with([idle, access(1)])).tables
    assert table.frame["asked_text"].to_list() == ["never run", "1.25 KB"]


def test_bytes_are_written_out():
    assert [size(n) for n in (1000, 1023.4, 1024)] == ["1000 B", "1023 B", "1 KB"]


def test_figures_that_are_not_known_leave_room():
    bare = Access("k.py", 1, "load f32", "memory", 0, AFFINE, {"size": 4})
    (table,) = Memory().read(trace_with([bare])).tables
    assert table.frame["times"].to_list() == [None]
    assert table.frame["pattern"].to_list() == ["one element"]


def test_sums_of_strides_are_no_track():
    from tileprobe.views.tracks import ADDS_UP

    trace = trace_with([access(stride=68.0)])
    assert trace.counters.filter(ADDS_UP).height == 0
    assert trace.counters.filter(pl.lit(True)).height > 0
