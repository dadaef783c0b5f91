"""What kernels say about themselves comes back from a GPU: marks, values, scopes, Proton's scopes; executed by the
simulated one."""

import numpy as np
import pytest
from kernels_said import (
    blocked,
    gluon_copied_until,
    gluon_hand_off,
    gluon_hand_offs,
    gluon_scan,
    proton_scoped,
    talking,
)

import tileprobe
from tileprobe.session.session import Session
from tileprobe.trace import Trace


def session(machine, launch, **options):
    with tileprobe.use(machine), Session(min_cost=0.0, programs="all", alternate=False, **options) as session:
        for _ in range(4):
            launch()
    assert not session.problems
    return session.trace


def rows_of(trace, name, kind):
    region = [r.id for r in trace.regions if r.kind == kind and name in (None, r.name)]
    assert region, [(r.name, r.kind) for r in trace.regions]
    launch = next(one.id for one in trace.launches if one.probed)
    rows = trace.intervals
    return rows.filter((rows["launch"] == launch) & rows["region"].is_in(region)).sort("start")


@pytest.fixture(scope="module", params=["sim:a100", "sim:h100"])
def talked(request):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 160), (160, 32)))
    with tileprobe.use(request.param):
        held = [tileprobe.array(x) for x in (a, b, np.zeros((64, 32), np.float16))]
    trace = session(request.param, lambda: talking[(1,)](*held, 160, BM=64, BN=32, BK=32, num_stages=3))
    assert np.array_equal(held[2].numpy(), a.astype(np.float32) @ b.astype(np.float32))
    return trace


def test_marks_are_instants(talked):
    begun = rows_of(talked, "begun", "mark")
    assert len(begun) == 1
    assert begun["start"][0] == begun["stop"][0]
    assert begun["start"][0] <= rows_of(talked, "step", "value")["start"].min()


def test_values_come_back_in_order(talked):
    assert rows_of(talked, "step", "value")["value"].to_list() == [0.0, 32.0, 64.0, 96.0, 128.0]
    assert rows_of(talked, "half", "value")["value"].to_list() == [80.0]


def test_functions_that_are_called_speak_as_well(talked):
    assert rows_of(talked, "twice", "value")["value"].to_list() == [0.0, 64.0, 128.0, 192.0, 256.0]


def test_the_loop_is_pipelined_as_it_is_without(talked):
    """Triton pipelines no loop with a print in it: what is said takes another way."""
    (kernel,) = talked.kernels
    plain = kernel.ir["ttgir"].count("ttg.async_copy_global_to_local")
    assert plain > 2
    assert kernel.ir["probed"].count("ttg.async_copy_global_to_local") == plain
    assert "inline_asm" not in kernel.ir["ttgir"]


def test_scopes_are_regions(talked):
    """From the first stage in its lines to the last: here the store."""
    scope = rows_of(talked, "ending", "scope")
    assert len(scope) == 1
    assert rows_of(talked, "step", "value")["start"].max() <= scope["start"][0] < scope["stop"][0]


@pytest.mark.parametrize("machine", ["sim:a100"])
def test_protons_scopes_are_regions(machine):
    with tileprobe.use(machine):
        x, out = tileprobe.array(np.arange(256, dtype=np.float32)), tileprobe.array(np.zeros(256, np.float32))
    trace = session(machine, lambda: proton_scoped[(2,)](x, out, BLOCK=128))
    assert np.array_equal(out.numpy(), 2 * np.arange(256))
    fetch, put = rows_of(trace, "fetch", "scope"), rows_of(trace, "put", "scope")
    assert len(fetch) == len(put) == 2
    assert (fetch["stop"].to_numpy() <= put["start"].to_numpy()).all()


@pytest.mark.parametrize("records", [{}, {"buffer": "shared", "strategy": "flush", "shared_words": 48}])
@pytest.mark.parametrize("machine", ["sim:a100", "sim:h100"])
def test_gluon_kernels(machine, records):
    x = np.arange(6 * 128, dtype=np.float32)
    with tileprobe.use(machine):
        held, out = tileprobe.array(x), tileprobe.array(np.zeros(128, np.float32))
    trace = session(
        machine,
        lambda: gluon_scan[(1,)](held, out, 6, N=128, LAYOUT=blocked(4), num_warps=4),
        records=records,
    )
    assert np.array_equal(out.numpy(), x.reshape(6, 128).sum(0))
    assert rows_of(trace, "step", "value")["value"].to_list() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    turns = rows_of(trace, "turn", "scope")
    assert turns["iteration"].to_list() == list(range(6))


@pytest.mark.parametrize("records", [{}, {"buffer": "shared"}])
def test_partitions_of_a_gluon_kernel_are_streams(records):
    x = np.arange(128, dtype=np.float32)
    with tileprobe.use("sim:h100"):
        held, out = tileprobe.array(x), tileprobe.array(np.zeros(128, np.float32))
    trace = session(
        "sim:h100",
        lambda: gluon_hand_off[(1,)](held, out, N=128, LAYOUT=blocked(4), ONE_WARP=blocked(1), num_warps=4),
        records=records,
    )
    assert np.array_equal(out.numpy(), x)
    launch = next(one.id for one in trace.launches if one.probed)
    rows = trace.intervals.filter(trace.intervals["launch"] == launch)
    assert len(set(rows["stream"].to_list())) == 2
    handed = rows.filter(rows["region"].is_in([r.id for r in trace.regions if r.kind == "async"]))
    ends = {str(row["kind"]): row for row in handed.iter_rows(named=True)}
    assert set(ends) == {"async", "wait"}  # who arrived, who waited
    assert ends["async"]["stream"] != ends["wait"]["stream"]
    assert ends["async"]["start"] <= ends["wait"]["stop"]


@pytest.mark.parametrize(
    ("granularity", "iterations", "kept"),
    [("program", "all", range(5)), ("warp", "all", range(5)), ("program", "every:2", range(0, 5, 2))],
)
def test_partitions_that_are_started_in_a_loop(granularity, iterations, kept, tmp_path):
    """Each start is an iteration of the loop around it; who arrived and who waited agree on it."""
    x = np.arange(5 * 3 * 128, dtype=np.float32)
    with tileprobe.use("sim:h100"):
        held, out = tileprobe.array(x), tileprobe.array(np.zeros_like(x))
    trace = session(
        "sim:h100",
        lambda: gluon_hand_offs[(2,)](
            held, out, 5, 3, N=128, LAYOUT=blocked(4), ONE_WARP=blocked(1), num_warps=4
        ),
        records={"granularity": granularity},
        iterations=iterations,
    )
    assert np.array_equal(out.numpy(), x)
    trace.save(tmp_path / "t.parquet")
    trace = Trace.open(tmp_path / "t.parquet")
    rows = rows_of(trace, None, "load")
    turns = range(3) if iterations == "all" else (0, 2)
    wanted = [(tile, row) for tile in kept for row in turns]
    streams = rows.partition_by(["program", "stream"])
    assert len(streams) == 2
    for one in streams:
        assert list(zip(one["outer"].to_list(), one["iteration"].to_list())) == wanted
        assert (one["start"].to_numpy()[1:] >= one["stop"].to_numpy()[:-1]).all()
    handed = rows_of(trace, None, "async")
    for kind, instances in (("async", 1), ("wait", 4 if granularity == "warp" else 1)):
        found = handed.filter(handed["kind"] == kind).select("program", "outer", "iteration").rows()
        assert set(found) == {(program, *place) for program in (0, 1) for place in wanted}
        assert len(found) % (2 * len(wanted)) == 0
        assert len(found) >= 2 * len(wanted) * instances


@pytest.mark.parametrize("strategy", ["exact", "circular"])
def test_a_copy_before_a_while_loop_is_joined_with_no_wait_inside(strategy):
    """It has a place and they have tags, which is said; copies of the loop's own are joined."""
    x = np.arange(5 * 128, dtype=np.float32).reshape(5, 128)
    with tileprobe.use("sim:a100"):
        held = [tileprobe.array(each) for each in (x, np.zeros(128, np.float32))]
    trace = session(
        "sim:a100",
        lambda: gluon_copied_until[(1,)](*held, 5, LAYOUT=blocked(4), num_warps=4),
        records={"strategy": strategy},
    )
    assert np.array_equal(held[1].numpy(), x.sum(0))
    (copy,) = [region.name for region in trace.regions if region.kind == "async"]
    assert sorted(rows_of(trace, copy, "async")["kind"]) == ["async"] * 4 + ["wait"] * 5
    assert any(f'"{copy}": what is issued or awaited in a `while`' in note for note in trace.meta["notes"])
