"""Why warps of a simulated GPU went on: edges of a timed launch without probes, against its own counters."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.targets.simgpu.engine import timed_layout as tl_
from tileprobe.targets.simgpu.launched import observing
from tileprobe.tools import load_tool
from tileprobe.tools.path import path_of


@triton.jit
def product(a, b, c, k, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros([B, B], tl.float32)
    for step in range(0, k, B):
        left = tl.load(a + i[:, None] * k + step + i[None, :])
        right = tl.load(b + (step + i[:, None]) * B + i[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + i[:, None] * B + i[None, :], total)


@triton.jit
def chase(x, out, n):
    at = 0
    for _ in range(n):
        at = tl.load(x + at)
    tl.store(out, at)


def profiled(launch, machine):
    told = []
    with (
        tileprobe.use(machine, timed=True, check=False),
        observing(told.append),
        tileprobe.profile() as session,
    ):
        launch()
    return session.trace, told[0].took


def run_product(machine, k=256):
    a, b = (tileprobe.array(np.ones((32, k), np.float16).reshape(shape)) for shape in ((32, k), (k, 32)))
    c = tileprobe.array(np.zeros((32, 32), np.float32))
    found = profiled(lambda: product[(2,)](a, b, c, k, B=32, num_stages=3), machine)
    np.testing.assert_array_equal(c.numpy(), k)
    return found


def test_edges_lead_from_what_was_issued_to_what_waited_for_it():
    trace, took = run_product("sim:a100")
    edges = trace.edges
    assert edges.height and (edges["from_ns"] < edges["to_ns"]).all()
    assert (edges["from_program"] == edges["to_program"]).all()
    own = edges["from_stream"] == edges["to_stream"]
    assert (
        own.filter(edges["kind"] == "issue-wait").all()
        and not own.filter(edges["kind"] == "arrive-wait").any()
    )
    lines = trace.intervals.filter(
        ~pl.col("region").is_in([r.id for r in trace.regions if r.kind in ("kernel", "loop", "iteration")])
    )
    spans = lines.select("program", "stream", "start_ns", "stop_ns")
    for end in ("from", "to"):  # an instruction that issues lies in an interval of its line
        ends = edges.select(
            pl.col(f"{end}_program").alias("program"),
            pl.col(f"{end}_stream").alias("stream"),
            pl.col(f"{end}_ns").alias("at"),
        )
        inside = (
            ends.unique()
            .join(spans, on=["program", "stream"])
            .filter((pl.col("start_ns") <= pl.col("at")) & (pl.col("at") <= pl.col("stop_ns")))
        )
        assert inside.select("program", "stream", "at").unique().height == ends.unique().height
    names = {r.id: r.name.partition(" @")[0] for r in trace.regions}
    copies = edges.filter(pl.col("from_region").replace_strict(names, return_dtype=pl.String) == "copy")
    waited = copies.filter((pl.col("to_ns") - pl.col("from_ns")) > 100)
    assert waited.height  # groups of asynchronous copies are awaited
    assert took.log is not None


def test_what_was_waited_adds_up_to_the_counters():
    for machine in ("sim:a100", "sim:h100"):
        _, took = run_product(machine)
        events = np.concatenate(list(took.log.events.values()))
        reasons = took.reasons()
        for number, name in enumerate(tl_.REASONS):
            if name in ("long_scoreboard", "short_scoreboard", "barrier", "gmma"):
                assert events["waited"][events["why"] & 15 == number].sum() == reasons[name], name


def test_a_chain_of_loads_is_the_path():
    x, out = tileprobe.array(np.zeros(64, np.int32)), tileprobe.array(np.zeros(1, np.int32))
    trace, took = profiled(lambda: chase[(1,)](x, out, 40, num_warps=1), "sim:a100")
    path = path_of(trace, trace.kernels[0])
    assert path is not None
    rows = path.rows.reverse()
    inside = float(rows["stop_ns"].max() - rows["start_ns"].min())
    assert float((rows["stop_ns"] - rows["start_ns"]).sum()) == inside
    result = load_tool("critical-path").read(trace)
    top = result.findings[0].data
    assert top["region"].startswith("global memory @") and top["ns"] > 0.9 * inside
    held = next(t.frame for t in result.tables if "waits for" in t.title)
    assert held["count"][0] in (39, 40) and took.cycles > 40 * 33


def test_a_barrier_that_is_released_late_is_named_and_what_it_costs_is_predicted():
    from examples import late_arrive

    took, tables = {}, {}
    for early in (False, True):
        trace, _ = profiled(lambda early=early: late_arrive.launch(early), "sim:h100")
        result = load_tool("critical-path").read(trace)
        took[early] = trace.launches[0].duration_ns
        tables[early] = {t.title.partition(": ")[2]: t.frame for t in result.tables}
    source = Path(late_arrive.__file__).read_text().splitlines()
    words = ("wait(full", "buffer.load", "if not EARLY", "wait(empty")
    waits, first, late, producer = (next(n for n, x in enumerate(source, 1) if word in x) for word in words)
    held = {
        (row["name"], row["whom"]): row for row in tables[False]["what it waits for"].iter_rows(named=True)
    }
    arrive = held[f"wait @ {producer}", f"wait @ {late + 1}"]
    assert arrive["count"] == late_arrive.STEPS - 1 and arrive["share"] > 0.3
    rows = tables[False]["lines on it"].iter_rows(named=True)
    lines = {int(row["line"].rpartition(":")[2]): row["ns"] for row in rows if "-" not in row["line"]}
    between = sum(ns for line, ns in lines.items() if first <= line < late) * (1 - 1 / late_arrive.STEPS)
    assert waits < first and took[False] - took[True] == pytest.approx(between, rel=0.05)
