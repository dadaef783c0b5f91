"""When units of a simulated GPU are busy: by what was issued, what was moved, and nothing else."""

import numpy as np
import polars as pl
import pytest
from benchmarks import _gpu_kernels as kernels

import tileprobe
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.launched import observing
from tileprobe.targets.simgpu.timing.busy import merged
from tileprobe.tools.kernels import kernel_totals

PARTS = tl.PARTS


TILE = {"BM": 128, "BN": 64, "BK": 32}


def matrices(m, n, depth):
    return [tileprobe.array(np.ones(shape, np.float16)) for shape in ((m, depth), (depth, n), (m, n))]


def product(
    machine="sim:a100", size=(256, 128, 128), tools="units", kernel=kernels.matmul, tile=TILE, use=None, given=None,
    **options,
):  # fmt: skip
    (m, n, depth), told = size, []
    a, b, c = given or matrices(*size)
    with tileprobe.use(machine, timed=True, cold=True, check=False, **(use or {})), observing(told.append):
        with tileprobe.profile(tools=tools, **options) as session:
            kernel[(m // tile["BM"], n // tile["BN"])](a, b, c, m, n, depth, **tile)
        kernel[(m // tile["BM"], n // tile["BN"])](a, b, c, m, n, depth, **tile)
    return session.trace, told


def units(trace):
    """Of the part that says what units did: kernel, and by kind of unit its units."""
    (kernel,) = (kernel for kernel in trace.kernels if kernel.name.endswith(": units"))
    found = {}
    launches = [launch.id for launch in trace.kernel_launches(kernel.id)]
    seen = trace.counters.filter(pl.col("launch").is_in(launches))["unit"].unique().to_list()
    for unit in trace.units:
        if unit.id in seen:
            found.setdefault(unit.kind, []).append(unit.id)
    return launches, found


def busy_cycles(trace, kind, mhz):
    launches, found = units(trace)
    mine = trace.counters.filter(
        pl.col("unit").is_in(found[kind]) & (pl.col("name") == "busy_ns") & pl.col("launch").is_in(launches)
    )
    return mine["value"].sum() * mhz / 1e3


@pytest.mark.parametrize("machine", ["sim:a100", "sim:h100"])
def test_arithmetic_units_are_busy_for_what_was_issued(machine):
    trace, (looked_at, alone) = product(machine)
    assert looked_at.took.cycles == alone.took.cycles  # looking changes nothing
    rows, issued = looked_at.took.rows[:-1], looked_at.took.statistics[:, 0]
    mhz = looked_at.machine.clock_mhz
    for kind, number in {"tensor core": tl.TENSOR, "FMA": tl.FMA, "ALU": tl.ALU}.items():
        mine = rows[:, tl.UNIT] == number
        expected = (issued[mine] * rows[mine, tl.INTERVAL]).sum() / PARTS
        assert expected > 0
        assert busy_cycles(trace, kind, mhz) == pytest.approx(expected)
    assert busy_cycles(trace, "issue", mhz) == pytest.approx(looked_at.instructions)


def test_channels_are_busy_for_what_came_from_dram():
    trace, (looked_at, _) = product()
    timing, sectors = looked_at.machine.timing, looked_at.took.counters["dram_bytes_read"] / 32
    clock = looked_at.machine.clock_mhz
    each = round(32 / (timing.dram_bytes_second / clock / 1e6 / timing.dram_channels) * PARTS) / PARTS
    assert busy_cycles(trace, "DRAM channel", clock) == pytest.approx(sectors * each)


def test_shared_memory_is_busy_for_its_passes():
    """Loads of matrices and copies: as many passes as there are lines of 128 bytes; others one to sixteen."""
    trace, (looked_at, _) = product()
    rows, took = looked_at.took.rows[:-1], looked_at.took
    kinds, issued = rows[:, tl.KIND], took.statistics[:, 0]
    loads = int((issued * rows[:, tl.COUNT])[kinds == tl.MATRIX_SHARED].sum())
    copies = 4 * int(issued[kinds == tl.COPY].sum())  # 16 bytes a lane
    others = int(issued[(rows[:, tl.UNIT] == tl.MEMORY) & ~np.isin(kinds, (tl.MATRIX_SHARED, tl.COPY))].sum())
    whole = busy_cycles(trace, "shared memory and L1", looked_at.machine.clock_mhz)
    assert loads and copies and loads + copies + others <= whole <= loads + copies + 16 * others


def test_a_unit_does_one_thing_at_a_time():
    trace, _ = product()
    launches, found = units(trace)
    rows = trace.intervals.filter(pl.col("launch").is_in(launches)).sort("unit", "start")
    same = rows["unit"][1:].to_numpy() == rows["unit"][:-1].to_numpy()
    gaps = rows["start"][1:].to_numpy().astype(np.int64) - rows["stop"][:-1].to_numpy().astype(np.int64)
    assert (gaps[same] >= 0).all()
    assert {"tensor core", "address unit", "from L2", "DRAM channel", "issue"} <= set(found)
    names = {unit.id: unit.name for unit in trace.units}
    assert {names[n] for n in found["tensor core"]} >= {"SM 0.0 tensor core", "SM 1.3 tensor core"}


def test_the_engine_for_bulk_copies_is_a_unit():
    tile = {"BM": 128, "BN": 128, "BK": 64, "SPECIALIZE": False}
    trace, (looked_at, _) = product("sim:h100", (128, 128, 256), kernel=kernels.tensor_matmul, tile=tile)
    took = busy_cycles(trace, "TMA", looked_at.machine.clock_mhz) / looked_at.machine.timing.tma_gap
    assert took == pytest.approx(
        2 * 4 + 2
    )  # two tiles in each of four steps; the result in two of 64 columns


def test_what_does_not_fit_is_left_out_and_said():
    whole, _ = product()
    some, _ = product(intervals=400)
    assert units(some)[1]["tensor core"] == units(whole)[1]["tensor core"][:4]  # of one multiprocessor
    assert any("intervals of units are those of 1 of" in note for note in some.meta["notes"])
    assert not whole.meta.get("notes")


def test_any_number_of_threads_sees_the_same():
    size = (128 * 32, 64, 64)
    given, found = matrices(*size), []
    for threads in (1, 2):
        rows = product(size=size, given=given, use={"threads": threads})[0].intervals
        first = rows["start"].min()
        rows = rows.select("unit", "region", pl.col("start") - first, pl.col("stop") - first)
        found.append(rows.sort(rows.columns))
    assert found[0].equals(found[1])


def test_units_are_noted_where_somebody_asks():
    trace, (looked_at, _) = product(tools="regions")
    assert looked_at.took.busy is None and len(trace.kernels) == 1


def test_what_touches_and_belongs_together_is_one():
    notes = np.array(
        [(0, 16, 0, 5), (16, 32, 0, 5), (32, 48, 0, 6), (64, 80, 0, 6), (0, 40, 1, 6), (20, 30, 1, 6)],
        [("begin", np.int64), ("end", np.int64), ("unit", np.int32), ("what", np.int32)],
    )
    assert merged(notes).tolist() == [(0, 32, 0, 5), (32, 48, 0, 6), (64, 80, 0, 6), (0, 40, 1, 6)]


def test_slices_of_l2_serve_what_passes_l1():
    trace, (looked_at, _) = product()
    took = looked_at.took
    _, found = units(trace)
    sectors = took.counters["l2_sectors_hit"] + took.counters["l2_sectors_missed"]
    assert sectors > 0
    read = [r.id for r in trace.regions if r.name == "L2 slice: read"]
    written = [r.id for r in trace.regions if r.name == "L2 slice: written"]
    mine = trace.intervals.filter(pl.col("unit").is_in(found["L2 slice"]))
    assert set(mine["region"].unique().to_list()) == {*read, *written}
    mean = busy_cycles(trace, "L2 slice", looked_at.machine.clock_mhz) / sectors
    assert 0.25 <= mean <= 4  # cycles a sector, stores among them


def test_launches_in_which_other_units_work_are_of_one_part():
    """The second finds in L2 what the first has read: no channel of DRAM reads for it."""
    given, (m, n, depth) = matrices(256, 128, 128), (256, 128, 128)
    with tileprobe.use("sim:a100", timed=True, check=False), tileprobe.profile(tools="units") as session:
        for _ in range(2):
            kernels.matmul[(2, 2)](*given, m, n, depth, **TILE)
    trace = session.trace
    launches, found = units(trace)
    assert len(launches) == 2
    (read,) = [region.id for region in trace.regions if region.name == "DRAM channel: read"]
    mine = trace.intervals.filter(pl.col("region") == read)
    assert mine["launch"].unique().to_list() == launches[:1]
    assert set(mine["unit"].to_list()) <= set(found["DRAM channel"])
    product_lines = {region.name for region in trace.regions if region.name.startswith("tensor core: line")}
    names = {region.id: region.name for region in trace.regions}
    tensor = trace.intervals.filter(pl.col("unit").is_in(found["tensor core"]))
    assert {names[one] for one in tensor["region"].to_list()} == product_lines  # of both launches
    totals = kernel_totals(trace)
    assert totals["share"].to_list() == [1.0, 1.0]  # the time of the launches is one, told twice
    assert totals["total_ns"].n_unique() == 1
