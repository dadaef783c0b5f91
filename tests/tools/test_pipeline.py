"""Pipelined loops against the models: machines that keep to them, and a simulated GPU that does by and large."""

import numpy as np
import pytest
from pipelines import rows_of, trace_of

import tileprobe
from tileprobe.tools import load_tool
from tileprobe.tools.pipeline import AT_MOST, COMPUTE, EVEN, FIRST, LOADS, MEASURED, Model, Pipeline


def told(trace):
    result = Pipeline().read(trace)
    return [row for table in result.tables for row in table.frame.to_dicts()], result.findings


@pytest.mark.parametrize(
    ("depth", "load", "compute"), [(1, 700, 300), (2, 900, 200), (3, 1000, 100), (4, 999, 37)]
)
def test_a_loop_that_waits_for_its_loads(depth, load, compute):
    (row,), (finding,) = told(trace_of(rows_of(400, depth, load, compute)))
    assert (row["bound"], row["known"], row["depth"], row["rounds"]) == (LOADS, MEASURED, depth, 400)
    assert row["load_ns"] == pytest.approx(load, rel=0.01)
    assert row["compute_ns"] == pytest.approx(compute)
    assert row["predicted_ns"] == pytest.approx((load + compute) / depth, rel=0.01)
    assert row["measured_ns"] == pytest.approx(row["predicted_ns"], rel=0.02)
    assert row["margin"] == pytest.approx((load + compute) / depth / compute, rel=0.01)
    assert row["gain"] == pytest.approx(1 - compute / row["predicted_ns"], rel=0.01)
    assert row["waits"] == pytest.approx(1 - compute / row["measured_ns"], abs=0.01)
    assert "load-bound" in finding.text and finding.data["bound"] == LOADS


@pytest.mark.parametrize(("depth", "load", "compute"), [(2, 300, 400), (3, 500, 400), (4, 1000, 400)])
def test_a_loop_whose_loads_are_there_says_how_much_sooner(depth, load, compute):
    """The first load is waited for in front of the loop: it says how long they take."""
    (row,), (finding,) = told(trace_of(rows_of(100, depth, load, compute)))
    assert (row["bound"], row["known"], row["waits"]) == (COMPUTE, FIRST, 0.0)
    assert row["measured_ns"] == row["predicted_ns"] == compute
    assert row["margin"] == pytest.approx((load + compute) / depth / compute)
    assert row["delta_ns"] == pytest.approx(depth * compute - load - compute)
    assert f"{1 / row['margin']:.2f} times as quick as it needs" in finding.text


def test_what_a_wait_costs_that_finds_all_there_is_computing():
    (row,), _ = told(trace_of(rows_of(100, 3, 400, 300, wake=20)))
    assert (row["bound"], row["waits"]) == (COMPUTE, 0.0)
    assert row["measured_ns"] == pytest.approx(320, rel=0.01)


def test_loads_that_nobody_ever_waited_for_took_no_longer_than_until_their_wait():
    rows = [row for row in rows_of(50, 2, 300, 400) if not (row[3] in ("async", "wait") and row[4] == 0)]
    (row,), (finding,) = told(trace_of(rows))
    assert (row["bound"], row["known"]) == (COMPUTE, AT_MOST)
    assert "there before it waits for them" in finding.text


def test_alike_is_neither():
    model = Model(100.0, 100.0, 2.0)
    assert (model.bound, model.predicted_ns) == (EVEN, 100.0)
    assert Model(100.0, 120.0, 2.0).bound == LOADS
    assert Model(100.0, 80.0, 2.0).bound == COMPUTE
    assert Model(100.0, 100.0, 2.0, back_ns=100.0).predicted_ns == 150.0


def test_programs_and_launches_count_by_their_rounds():
    rows = rows_of(300, 2, 900, 200) + rows_of(100, 2, 500, 200, program=1)
    (row,), _ = told(trace_of(rows))
    assert row["rounds"] == 400
    assert row["load_ns"] == pytest.approx((300 * 900 + 100 * 500) / 400, rel=0.02)


def specialised(rounds, depth, load, compute, back):
    """A producer (stream 0) that loads when it has a buffer back, and a consumer (stream 1)."""
    rows, now, free = [], 0, [0] * depth
    begin = 0
    for j in range(rounds):
        issue = free[j]
        there = max(now, issue + load)
        rows.append((0, 0, 3, "async", j, issue, there))
        rows.append((0, 1, 3, "wait", j, now, there))
        start, now = now, there + compute
        rows.append((0, 1, 4, "region", j, there, now))
        rows.append((0, 1, 2, "region", j, start, now))
        rows.append((0, 1, 5, "async", j, now, now + back))
        rows.append((0, 0, 5, "wait", j, now + back - 5, now + back))
        free.append(now + back)
    rows.append((0, 1, 1, "region", -1, begin, now))
    rows.append((0, 1, 0, "region", -1, begin, now))
    rows.append((0, 0, 0, "region", -1, begin, now))
    return rows


@pytest.mark.parametrize(("depth", "load", "compute", "back"), [(2, 800, 200, 100), (3, 1000, 150, 200)])
def test_between_specialised_warps_a_buffer_has_to_come_back(depth, load, compute, back):
    (row,), (finding,) = told(trace_of(specialised(300, depth, load, compute, back)))
    assert (row["bound"], row["depth"], row["back_ns"]) == (LOADS, depth, back)
    assert row["predicted_ns"] == pytest.approx((load + compute + back) / depth, rel=0.01)
    assert row["measured_ns"] == pytest.approx(row["predicted_ns"], rel=0.02)
    assert f"its buffer {back} ns back" in finding.text


def test_a_short_loop_of_specialised_warps_is_measured_from_its_first_load_on():
    """Its warps begin with nothing under way: the wait for that is no part of a round."""
    (row,), _ = told(trace_of(specialised(8, 4, 3000, 400, 100)))
    # Loads arrive at 3000; their buffers are back from 3500 on, every 400: the last of eight rounds ends at 8100.
    assert row["measured_ns"] == pytest.approx((8100 - 3000) / 8)
    assert row["compute_ns"] == pytest.approx(400)


def test_a_buffer_that_its_own_stream_gives_back_is_on_no_way():
    rows = rows_of(50, 2, 900, 200)
    backs = [(0, 0, 5, "async", j, stop, stop + 70) for _, _, region, _, j, _, stop in rows if region == 4]
    (row,), _ = told(trace_of(rows + backs))
    assert row["back_ns"] == 0


def test_a_load_for_two_consumers_is_one_load():
    rows = specialised(200, 3, 1000, 150, 200)
    other = [(p, 2, *rest) if s == 1 else (p, s, *rest) for p, s, *rest in rows]
    both = rows + [row for row in other if row[1] == 2 or row[2] == 3]
    found, _ = told(trace_of(both))
    assert {row["depth"] for row in found} == {3}


def taking_turns(rounds, depth, load, compute, consumers):
    """A producer with `depth` buffers; its consumers take its loads by turns, each issued when its buffer is free."""
    rows, now, free = [], [0] * consumers, [37 * n for n in range(depth)]
    for j in range(rounds):
        mine = j % consumers
        issue, stream = free[j], 1 + mine
        there = max(now[mine], issue + load)
        rows += [(0, 0, 3, "async", j, issue, there), (0, stream, 3, "wait", j, now[mine], there)]
        rows += [(0, stream, 4, "region", j, there, there + compute)]
        rows += [(0, stream, 2, "region", j, now[mine], there + compute)]
        now[mine] = there + compute
        free.append(now[mine])
    for n in range(consumers):
        rows += [(0, 1 + n, 1, "region", -1, 0, now[n]), (0, 1 + n, 0, "region", -1, 0, now[n])]
    return [*rows, (0, 0, 0, "region", -1, 0, max(now))]


@pytest.mark.parametrize(("depth", "consumers"), [(2, 2), (4, 2), (6, 3)])
def test_consumers_that_take_turns_share_the_loads_under_way(depth, consumers):
    """Of four buffers two consumers have two each: a round of one is half of what a load and its computing take."""
    rows, findings = told(trace_of(taking_turns(600, depth, 1000, 100, consumers)))
    (row,) = rows  # they have no names of their own here
    assert (row["bound"], row["groups"], row["rounds"]) == (LOADS, consumers, 600)
    assert row["depth"] == pytest.approx(depth / consumers)
    assert row["predicted_ns"] == pytest.approx((1000 + 100) * consumers / depth, rel=0.01)
    assert row["measured_ns"] == pytest.approx(row["predicted_ns"], rel=0.02)
    assert f"for each of {consumers} consumers" in findings[0].text


def issued_early(rounds, depth, load, compute, early):
    """The next load is issued so much of the computing into a round, when its buffer is free."""
    rows, now, issued = [], 0, [0] * depth
    for j in range(rounds):
        there = max(now, issued[j] + load)
        rows += [(0, 0, 3, "async", j, issued[j], there), (0, 0, 3, "wait", j, now, there)]
        rows += [(0, 0, 4, "region", j, there, there + compute), (0, 0, 2, "region", j, now, there + compute)]
        issued.append(there + early)
        now = there + compute
    return [*rows, (0, 0, 1, "region", -1, 0, now), (0, 0, 0, "region", -1, 0, now)]


@pytest.mark.parametrize("early", [20, 60, 200])
def test_a_load_that_is_issued_before_all_is_computed_is_there_so_much_sooner(early):
    (row,), _ = told(trace_of(issued_early(300, 2, 900, 200, early)))
    assert row["until_ns"] == pytest.approx(early, abs=1)
    assert row["predicted_ns"] == pytest.approx((900 + early) / 2, rel=0.01)
    assert row["measured_ns"] == pytest.approx(row["predicted_ns"], rel=0.02)


def test_nothing_to_say_of_loops_without_loads():
    rows = [row for row in rows_of(10, 2, 300, 400) if row[2] != 3]
    _, (finding,) = told(trace_of(rows))
    assert finding.level == "warning" and "no loop of this trace" in finding.text


def test_a_simulated_gpu_keeps_to_the_model_by_and_large():
    from benchmarks._gpu_kernels import matmul

    def run(stages):
        size = (64, 64, 512)
        a, b, c = (tileprobe.array(np.ones(s, np.float16)) for s in ((64, 512), (512, 64), (64, 64)))
        options = {"BM": 64, "BN": 64, "BK": 32, "num_stages": stages, "num_warps": 4}
        profiled = tileprobe.profile(tools=["pipeline"], programs="all", min_cost=0)
        with (
            tileprobe.use("sim:a100", timed=True, probes="free", check=False, threads=1),
            profiled as session,
        ):
            matmul[(1, 1)](a, b, c, *size, **options)
        (row,), _ = told(session.trace)
        return row

    two, four = run(3), run(4)
    assert (two["bound"], two["depth"]) == (LOADS, 2)
    assert abs(two["error"]) < 0.05
    assert (four["bound"], four["depth"]) == (COMPUTE, 3)
    assert four["measured_ns"] < two["measured_ns"]
    assert load_tool("pipeline").name == "pipeline"
