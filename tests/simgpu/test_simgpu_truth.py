"""What a kernel does on a simulated GPU without any probe: loops, iterations and lines, to the cycle."""

import numpy as np
import polars as pl
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.language import scope
from tileprobe.targets.simgpu.launched import observing
from tileprobe.targets.simgpu.timing import log as logs


@triton.jit
def rows(x, out, n, m, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for row in range(n):
        total = tl.zeros([BLOCK], tl.float32)
        for step in range(m):
            total += tl.load(x + (row * m + step) * BLOCK + i)
        tl.store(out + row * BLOCK + i, total)


@triton.jit
def chain(out, n):
    i = tl.arange(0, 32)
    y = i.to(tl.float32)
    for _ in range(n):
        for _ in tl.static_range(64):
            y = y * 1.5 + 0.25
    tl.store(out + i, y)


def profiled(launch, machine="sim:a100", **options):
    told = []
    with tileprobe.use(machine, timed=True, check=False), observing(told.append):
        with tileprobe.profile(**options) as session:
            launch()
        launch()  # the same, and nobody looks
    return session.trace, told


def run_rows(n=3, m=20, grid=2, **options):
    x, out = (tileprobe.array(np.ones(k * 128, np.float32)) for k in (n * m, n))
    found = profiled(lambda: rows[(grid,)](x, out, n, m, BLOCK=128, num_warps=2), **options)
    np.testing.assert_array_equal(out.numpy(), m)
    return found


def of_kind(trace, kind, name=""):
    ids = [r.id for r in trace.regions if r.kind == kind and name in r.name]
    return trace.intervals.filter(pl.col("region").is_in(ids))


def test_looking_changes_nothing():
    _, (looked_at, alone) = run_rows(n=2, m=20)
    assert looked_at.took.instructions == alone.took.instructions
    assert looked_at.took.log is not None and alone.took.log is None
    assert sum(map(len, looked_at.took.log.events.values())) == looked_at.took.instructions


def test_loops_and_iterations_are_all_there():
    trace, _ = run_rows(n=3, m=20, grid=2)
    warps = 2 * 2
    loops = sorted((r for r in trace.regions if r.kind == "loop"), key=lambda r: r.depth)
    outer, inner = loops[0], loops[-1]
    assert inner.parent is not None and outer.depth < inner.depth
    counts = {r.id: trace.intervals.filter(pl.col("region") == r.id).height for r in trace.regions}
    assert counts[outer.id] == warps
    assert trace.stream_names(0) == ("warp 0", "warp 1")
    each = next(r.id for r in trace.regions if r.parent == outer.id)
    assert counts[each] == 3 * warps
    numbers = trace.intervals.filter(
        (pl.col("region") == each) & (pl.col("program") == 0) & (pl.col("stream") == 1)
    )
    assert numbers.sort("start")["iteration"].to_list() == [0, 1, 2]


def test_the_lines_of_a_warp_are_all_of_its_time():
    trace, (looked_at, _) = run_rows()
    whole = of_kind(trace, "kernel")
    inside = trace.intervals.join(
        pl.DataFrame(
            {"region": [r.id for r in trace.regions if r.kind not in ("kernel", "loop", "iteration")]},
            schema={"region": pl.UInt32},
        ),
        on="region",
    )
    keys = ["program", "stream"]
    sums = inside.group_by(keys).agg((pl.col("stop") - pl.col("start")).sum().alias("inside"))
    joined = whole.join(sums, on=keys).with_columns((pl.col("stop") - pl.col("start")).alias("all"))
    assert joined.height == 4
    assert joined["inside"].to_list() == joined["all"].to_list()
    assert whole["stop"].max() - whole["start"].min() <= looked_at.took.cycles


def test_time_is_where_the_work_is():
    out = tileprobe.array(np.zeros(32, np.float32))
    trace, _ = profiled(lambda: chain[(1,)](out, 50, num_warps=1))
    spent = {r.id: r for r in trace.regions}
    lines = [r.id for r in trace.regions if r.kind not in ("kernel", "loop", "iteration")]
    found = trace.intervals.filter(pl.col("region").is_in(lines)).group_by("region")
    longest = found.agg((pl.col("stop") - pl.col("start")).sum().alias("all")).sort("all").row(-1, named=True)
    line = chain.fn.__code__.co_firstlineno + 6  # `y = y * 1.5 + 0.25`
    assert spent[longest["region"]].first_line == line
    assert longest["all"] == pytest.approx(50 * 64 * 4, rel=0.1)  # dependent, four cycles each


def test_counters_are_by_line_and_reason():
    trace, (looked_at, _) = run_rows()
    counted = trace.counters
    issued = counted.filter(pl.col("name") == "issued")["value"].sum()
    assert issued == looked_at.took.instructions
    waited = counted.filter(pl.col("name") == "stall long_scoreboard").sort("value").row(-1, named=True)
    assert waited["line"] == rows.fn.__code__.co_firstlineno + 6  # the sum waits for the load
    read = counted.filter(pl.col("name") == "dram_bytes_read")["value"].item()
    assert read == looked_at.took.counters["dram_bytes_read"] > 0


def test_what_does_not_fit_is_left_out_by_multiprocessors_and_said(monkeypatch):
    monkeypatch.setattr(logs, "_ROOM", 64)  # emptied often
    whole, _ = run_rows(grid=8)
    part, _ = run_rows(grid=8, intervals=len(whole) // 3)
    assert set(part.intervals["unit"].unique()) < set(whole.intervals["unit"].unique())
    assert part.intervals["weight"].unique().to_list() == [
        pytest.approx(8 / part.intervals["unit"].n_unique())
    ]
    assert part.losses.sampled_out > 0 and whole.losses.sampled_out == 0
    assert any("multiprocessors were kept" in note for note in part.meta["notes"])
    kept = whole.intervals.filter(pl.col("unit").is_in(part.intervals["unit"].unique()))
    assert kept.height == part.intervals.height


def test_it_is_the_default_and_reports_say_that_it_is_exact(tmp_path, capsys):
    from tileprobe.cli import main

    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nimport tileprobe\nfrom examples.kernels import softmax\n"
        "x, out = (tileprobe.array(np.zeros((4, 64), np.float32)) for _ in range(2))\nsoftmax.softmax(x, out)\n"
    )
    assert main(["run", "--target", "sim:h100", "--timed", str(script)]) == 0
    said = capsys.readouterr().out
    assert "intervals, exact" in said and "the times are a model's" in said


@triton.jit
def scoped(out):
    i = tl.arange(0, 32)
    with scope("inside"):
        y = i * 2.0 + 1.0
    tl.store(out + i, y)


def test_scopes_that_need_probes_are_not_passed_over_in_silence():
    out = tileprobe.array(np.zeros(32, np.float32))
    trace, _ = profiled(lambda: scoped[(1,)](out, num_warps=1))
    (note,) = [note for note in trace.meta["notes"] if "scopes need probes" in note]
    assert "inside" in note and "--probes free" in note
    plain, _ = run_rows()  # has none, in the same file
    assert not plain.meta.get("notes")
