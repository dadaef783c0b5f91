"""Operations and bytes by hand: what the IR of a stage counts, what a trace makes of it, how near a roof it is."""

import dataclasses
import os

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.ir.accesses import AFFINE, Access, counters
from tileprobe.ir.amounts import Amount, Roofs
from tileprobe.targets.simgpu.machine import machine
from tileprobe.targets.simgpu.timing.flops import flops_of, issued_flops
from tileprobe.tools.plan import Plan
from tileprobe.tools.roofline import ALL, BEYOND, UNMASKED, Point, RooflineTool, roofline
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace

ROOFS = {"unit": "core", "flops_per_s": [["fma", 100e9]], "bytes_per_s": [["memory", 20e9], ["cache", 200e9]]}


@triton.jit
def stages(x, out, n, BLOCK: tl.constexpr, TIMES: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(n):
        total += tl.exp(tl.load(x + at)) * 2.0
    if n > 5:
        total = tl.sqrt(total)
    for _ in tl.static_range(TIMES):
        total = total / 3.0
    tl.store(out + at, total)


@triton.jit
def product(a, b, c, N: tl.constexpr):
    rows, cols = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    both = tl.dot(tl.load(a + rows * N + cols), tl.load(b + rows * N + cols))
    tl.store(c + rows * N + cols, both)


EVERYTHING = Plan(loops=True, iterations=True, kinds=("all",))


def counted(launch, plan=EVERYTHING):
    with tileprobe.use("cpu"), tileprobe.profile(plan=plan, programs="all") as session:
        launch()
    return {region.name.split(" @")[0]: (region.flops, region.bytes) for region in session.trace.regions}


def test_a_product_counts_two_for_each_pair_and_loads_count_bytes():
    a, b, c = (tileprobe.array(np.ones((32, 32), np.float16)) for _ in range(3))
    found = counted(lambda: product[(1,)](a, b, c, N=32))
    assert found["dot"] == (2 * 32**3, 0)
    moved = [amount for name, amount in found.items() if "load" in name]
    assert sum(size for _, size in moved) == 2 * 2 * 32 * 32
    assert found["cast + store"] == (0, 2 * 32 * 32)


def test_elementwise_operations_count_by_element():
    """As they run: the load is the same in every iteration and stands before the loop."""
    x, out = tileprobe.array(np.ones(64, np.float32)), tileprobe.array(np.ones(64, np.float32))
    found = counted(lambda: stages[(1,)](x, out, 3, BLOCK=64, TIMES=2))
    assert found["load + exp"] == (64, 4 * 64)
    assert found["mul + add"] == (2 * 64, 0)
    assert found["sqrt"] == (64, 0)
    assert found["div + store"] == (2 * 64, 4 * 64)
    assert found["stages"] == found["loop"] == (0, 0)


def test_what_nobody_knows_the_number_of_is_not_counted():
    """In the kernel as a whole a loop runs as often as an argument says, and a condition may hold."""
    x, out = tileprobe.array(np.ones(64, np.float32)), tileprobe.array(np.ones(64, np.float32))
    assert counted(lambda: stages[(1,)](x, out, 3, BLOCK=64, TIMES=2), Plan()) == {"stages": (None, None)}
    a, b, c = (tileprobe.array(np.ones((32, 32), np.float16)) for _ in range(3))
    whole = counted(lambda: product[(1,)](a, b, c, N=32), Plan())
    assert whole == {"product": (2 * 32**3, 3 * 2 * 32 * 32)}


def test_amounts_add_up():
    assert Amount(2, 3) + Amount(5, 7) * 2 == Amount(12, 17)
    assert not Amount()
    assert Amount(bytes=1)


def made(regions, meta=None, counters=None, duration=None):
    """The kernel takes 1,000 ns, its dot 400 and its load 500, in one program of one launch."""
    rows = [(0, 0, 1000), (1, 100, 500), (2, 500, 1000)]
    return Trace.build(
        {
            "launch": [0] * 3,
            "region": [row[0] for row in rows],
            "start": [row[1] for row in rows],
            "stop": [row[2] for row in rows],
        },
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, duration_ns=duration)],
        regions=regions,
        meta=meta or {},
        **({"counters": counters} if counters else {}),
    )


def regions(own=0):
    return [
        Region(0, "k", "kernel", flops=own, bytes=own),
        Region(1, "dot", "dot", 0, depth=1, flops=20_000, bytes=0),
        Region(2, "load", "load", 0, depth=1, flops=0, bytes=5_000),
    ]


@pytest.mark.parametrize(("singles", "limit"), [(49e9, "f32 multiply-add"), (40e9, BEYOND)])
def test_what_passes_multiply_adds_of_singles_says_why(singles, limit):
    """50 GFLOP/s: a roof that is 2 % too low is a roof, one of 40 is not what computed."""
    roofs = ROOFS | {"flops_per_s": [["f32 multiply-add", singles]]}
    trace = made(regions(), {"roofs": {"cpu": roofs}})
    found = roofline(trace, trace.kernels[0])
    assert found is not None and found.roofs is not None
    assert found.points[2].nearest(found.roofs) == (limit, pytest.approx(50e9 / singles))


def test_rates_are_of_own_time_and_the_kernel_is_the_sum():
    trace = made(regions(), {"roofs": {"cpu": ROOFS}})
    found = roofline(trace, trace.kernels[0])
    assert found is not None
    whole, load, dot = found.points
    assert (whole.region, whole.flops, whole.bytes, whole.seconds) == (None, 20_000, 5_000, 1e-6)
    assert (whole.intensity, whole.rate, whole.moved) == (4.0, pytest.approx(20e9), pytest.approx(5e9))
    assert (dot.name, dot.intensity, dot.rate) == ("dot", None, pytest.approx(50e9))
    assert (load.name, load.rate, load.moved) == ("load", 0.0, pytest.approx(10e9))
    assert (load.seconds, dot.seconds) == (500 / 1e9, 400 / 1e9)
    assert found.unit == "core"
    assert found.roofs is not None
    assert dot.nearest(found.roofs) == ("fma", pytest.approx(0.5))
    assert load.nearest(found.roofs) == ("memory", pytest.approx(0.5))
    assert whole.nearest(found.roofs) == ("memory", pytest.approx(0.25))  # 20 % of what computes
    (said,) = RooflineTool().read(trace).findings
    assert "20 GFLOP/s and 5 GB/s a core (4 FLOP for each byte); 25 % of what its memory can" in said.text
    near = made(regions(), {"roofs": {"cpu": ROOFS | {"bytes_per_s": [["memory", 6e9]]}}})
    assert "; 83 % of what its memory can" in RooflineTool().read(near).findings[0].text


def test_what_took_no_time_of_its_own_is_no_point():
    """The loop is all of the kernel: nothing is left for what the kernel itself computes."""
    around = [
        Region(0, "k", "kernel", flops=7, bytes=7),
        Region(1, "loop", "loop", 0, depth=1, flops=20, bytes=0),
    ]
    trace = Trace.build(
        {"launch": [0, 0], "region": [0, 1], "start": [0, 0], "stop": [1000, 1000]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0)],
        regions=around,
    )
    found = roofline(trace, trace.kernels[0])
    assert found is not None
    assert [(point.name, point.flops) for point in found.points] == [("k", 27), ("loop", 20)]
    assert found.points[0].region is None


def test_where_a_part_is_not_known_there_is_no_whole():
    trace = made(regions(own=None), {"roofs": {"cpu": ROOFS}})
    found = roofline(trace, trace.kernels[0])
    assert found is not None
    assert [point.region for point in found.points] == [2, 1]
    nothing = made([Region(n, "r", "dot") for n in range(3)])
    assert roofline(nothing, nothing.kernels[0]) is None
    (said,) = RooflineTool().read(nothing).findings
    assert said.level == "warning" and "not in this trace" in said.text


@pytest.mark.parametrize(
    "roofs",
    [
        None, 3, [], {"cpu": None}, {"cpu": {"flops_per_s": "x", "bytes_per_s": [["memory", 1.0]]}},
        {"cpu": {"flops_per_s": [["fma", -1.0]], "bytes_per_s": [["memory", 1.0]]}}, {"gpu": ROOFS},
        {"cpu": {"flops_per_s": [["fma", 0.0]], "bytes_per_s": [["memory", 1.0]]}},
    ],
)  # fmt: skip
def test_roofs_of_a_file_that_are_none_are_left_out(roofs):
    trace = made(regions(), {"roofs": roofs})
    found = roofline(trace, trace.kernels[0])
    assert found is not None
    assert found.roofs is None
    assert "% of what" not in RooflineTool().read(trace).findings[0].text


def test_a_machine_that_counts_operations_is_believed():
    names = ["flops", "dram_bytes_read", "dram_bytes_written", "flops", "issued"]
    counters = {
        "launch": [0] * 5, "unit": [0] * 5, "file": [""] * 5, "line": [0, 0, 0, 7, 0], "name": names,
        "value": [6_000.0, 1_000.0, 500.0, 9e9, 1.0],
    }  # fmt: skip
    trace = made(regions(), counters=counters, duration=2_000.0)
    found = roofline(trace, trace.kernels[0])
    assert found is not None
    assert found.points == (Point(None, "k", 6_000.0, 1_500.0, 2e-6),)
    assert found.unit == "chip"


@pytest.mark.parametrize(
    ("tensor", "roof", "reached"),
    [
        (None, "f16 tensor cores", 0.2), (0.0, "f32", 0.8), (60e3, "f16 tensor cores", 0.2),
        (30e3, "f32", 0.4), (59e3, "f16 tensor cores", 59 / 300),
    ],
)  # fmt: skip
def test_what_tensor_cores_do_not_do_is_held_against_another_roof(tensor, roof, reached):
    roofs = Roofs("chip", (("f16 tensor cores", 300e9), ("f32", 75e9)), (("DRAM", 1e12),), "")
    point = Point(None, "k", 60e3, 0.0, 1e-6, tensor)
    assert point.nearest(roofs) == (roof, pytest.approx(reached))


def test_a_simulated_gpu_tells_what_its_tensor_cores_did():
    a, b = (tileprobe.array(np.ones((32, 32), np.float16)) for _ in range(2))
    c = tileprobe.array(np.ones((32, 32), np.float32))
    with tileprobe.use("sim:a100", timed=True), tileprobe.profile(tools=["roofline"]) as session:
        product[(1,)](a, b, c, N=32)
        stages[(1,)](c, c, 4, BLOCK=256, TIMES=1)
    points = [roofline(session.trace, kernel).points[0] for kernel in session.trace.kernels]
    first, second = points
    assert first.tensor == first.flops == 2 * 32**3
    assert second.tensor == 0 < second.flops


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        ("HMMA.16816.F32 R4, R8, R12, R4", 2 * 16 * 8 * 16),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", 2 * 16 * 8 * 8),
        ("@P0 IMMA.16832.S8.S8 R4, R8, R12, R4", 2 * 16 * 8 * 32),
        ("DMMA.884 R4, R8, R12, R4", 2 * 8 * 8 * 4),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", 2 * 64 * 128 * 16 / 4),
        ("FFMA R1, R2, R3, R4", 64), ("@!P1 FADD R1, R2, R3", 32), ("HFMA2 R1, R2, R3, R4", 128),
        ("MUFU.EX2 R1, R2", 32), ("IADD3 R1, R2, R3, R4", 0), ("LDG.E R1, [R2]", 0), ("", 0),
    ],
)  # fmt: skip
def test_operations_of_an_instruction(text, flops):
    assert flops_of(text) == flops
    assert issued_flops([text, "NOP"], np.array([3 * 32, 5 * 32])) == 3 * flops
    assert issued_flops([text], np.array([8])) == flops / 4  # a quarter of its lanes


def test_roofs_of_machine_files_are_those_of_the_data_sheets():
    """An A100: 312 TFLOP/s of f16, 19.5 of f32. An H100 SXM: 989 dense at 1,830 MHz, less at a lower clock."""
    a100 = dict(machine("a100").roofs().flops_per_s)
    assert a100["f16 tensor cores"] == pytest.approx(312e12, rel=0.001)
    assert a100["f32"] == pytest.approx(19.5e12, rel=0.001)
    h100 = machine("h100")
    tensor = h100.roofs().flops_per_s[0][1] * 1830 / h100.clock_mhz
    assert tensor == pytest.approx(989.4e12, rel=0.01)


def test_roofs_of_this_cpu_are_measured_once_and_kept(monkeypatch, tmp_path):
    from tileprobe.targets.cpu import roofs

    monkeypatch.setenv("TILEPROBE_CACHE_DIR", str(tmp_path))
    measured = {"flops": 10.0, "memory": 2.0, "cache": 5.0}
    monkeypatch.setattr(roofs, "_MEASURES", {name: lambda n=name: measured[n] for name in measured})
    roofs.roofs.cache_clear()
    found = roofs.roofs()
    expected = Roofs(
        "core", (("f32 multiply-add", 10.0),), (("memory", 2.0), ("first cache", 5.0)), found.said
    )
    assert found == expected
    measured["flops"] = 99.0
    roofs.roofs.cache_clear()
    assert roofs.roofs() == expected  # of today
    (file,) = tmp_path.glob("roofs-*.json")
    os.utime(file, (0, 0))
    measured["memory"] = 1.0
    roofs.roofs.cache_clear()
    again = roofs.roofs()
    assert (again.flops_per_s[0][1], again.bytes_per_s[0][1]) == (99.0, 2.0)  # the larger of both
    file.write_text("[1]")
    roofs.roofs.cache_clear()
    assert roofs.roofs().bytes_per_s[0][1] == 1.0
    roofs.roofs.cache_clear()


def test_a_core_does_more_from_its_cache_than_from_memory():
    from tileprobe.targets.cpu import roofs

    assert roofs._flops() > 1e8
    assert roofs._copied(roofs.CACHE_BYTES) > 1e7


def test_what_masks_keep_out_is_not_asked_for():
    """Of lines of which somebody looked at the addresses; all of the others."""
    from tileprobe.ir.accesses import SAMPLED, Access, counters

    figures = {"size": 4, "lanes": 100, "active": 25, "times": 1, "programs": 1, "grid": 1, "moved": 400}
    seen = counters([Access("k.py", 3, "load f32", "memory", 0, SAMPLED, figures)])
    regions = [
        Region(0, "k", "kernel", flops=0, bytes=0),
        Region(1, "load @ 3", "load", 0, first_line=3, last_line=3, flops=100, bytes=400),
        Region(2, "load @ 5", "load", 0, first_line=5, last_line=5, flops=100, bytes=400),
    ]
    trace = Trace.build(
        {"region": [0, 1, 2], "start": [0, 0, 100], "stop": [200, 100, 200]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (1,), 0.0, 200.0)],
        regions=regions,
        counters=seen,
    )
    found = roofline(trace, trace.kernels[0])
    assert {point.name: point.bytes for point in found.points} == {
        "k": 500.0,
        "load @ 3": 100.0,
        "load @ 5": 400.0,
    }


def test_a_whole_that_is_not_known_is_said():
    regions = [Region(0, "k", "kernel"), Region(1, "load @ 3", "load", 0, flops=100, bytes=400)]
    trace = Trace.build(
        {"region": [0, 1], "start": [0, 0], "stop": [200, 100]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (1,), 0.0, 200.0)],
        regions=regions,
    )
    assert "--dense" in RooflineTool().read(trace).findings[-1].text


def test_what_is_quicker_than_the_memory_is_held_against_its_cache():
    trace = made(regions(), {"roofs": {"cpu": ROOFS | {"bytes_per_s": [["memory", 4e9], ["cache", 20e9]]}}})
    found = roofline(trace, trace.kernels[0])
    assert found is not None and found.roofs is not None
    whole, load, _ = found.points  # 5 and 10 GB/s
    assert load.nearest(found.roofs) == ("cache", pytest.approx(0.5))
    assert whole.nearest(found.roofs) == ("cache", pytest.approx(0.25))
    slow = Roofs("core", (("fma", 100e9),), (("memory", 4e9),), "")
    assert load.nearest(slow) == ("memory", pytest.approx(2.5))  # there is no other


def test_a_kernel_that_moves_nothing_is_known_as_a_whole():
    """All masked off: nothing is asked for, and nothing is unknown."""
    idle = [
        Region(0, "k", "kernel", flops=0, bytes=0),
        *(Region(n, "x", "load", 0, depth=1, flops=0, bytes=8) for n in (1, 2)),
    ]
    off = {"programs": 1, "grid": 1, "size": 4, "times": 1, "lanes": 64, "active": 0, "moved": 0}
    found = counters([Access("k.py", 3, "load f32", "memory", 0, AFFINE, off)])
    lines = [dataclasses.replace(region, first_line=3) for region in idle]
    trace = made(lines, counters={**found, "launch": [0] * len(found["name"])})
    read = RooflineTool().read(trace)
    assert read.tables[0].frame["name"].to_list() == ["k", "x", "x"]
    assert read.tables[0].frame["bytes"].to_list() == [0.0] * 3
    assert read.tables[0].title.endswith(UNMASKED)
    assert not any("not known" in said.text for said in read.findings)


def test_what_no_other_region_does_is_called_the_rest():
    trace = made(regions(own=100))
    assert [row["name"] for row in RooflineTool().read(trace).tables[0].frame.to_dicts()] == [
        "k", "load", "dot", "rest of k",
    ]  # fmt: skip
    assert RooflineTool().read(trace).tables[0].title == f"k: rates of a core, {ALL}"


def test_what_a_machine_counts_adds_up():
    counters = {
        "launch": [0] * 4, "name": ["flops", "flops", "dram_bytes_read", "dram_bytes_written"],
        "value": [3e6, 1e6, 5e5, 3e5],
    }  # fmt: skip
    trace = made(regions(), counters=counters, duration=1000.0)
    found = roofline(trace, trace.kernels[0])
    assert found is not None
    (whole,) = found.points
    assert (whole.flops, whole.bytes, whole.seconds, found.unit) == (4e6, 8e5, 1e-6, "chip")
