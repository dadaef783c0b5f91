"""Machines as data: variants list their differences, and run as what they are."""

import tomllib

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe import sim
from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.targets import catalog
from tileprobe.targets.simgpu import machine as machines


@triton.jit
def copy(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


@triton.jit
def busy(out, n):
    y = tl.arange(0, 32).to(tl.float32)
    for _ in range(n):
        y = y * 1.5 + 0.25
    tl.store(out + tl.arange(0, 32), y)


@pytest.mark.parametrize(
    ("variant", "parent", "multiprocessors"), [("a100-80gb", "a100", 108), ("h100-pcie", "h100", 114)]
)
def test_a_variant_is_its_parent_but_for_what_it_lists(variant, parent, multiprocessors):
    listed = tomllib.loads((machines._FOLDER / f"{variant}.toml").read_text())
    assert listed.pop("inherits") == parent
    found, before = machines.machine(variant), machines.machine(parent)
    assert found.multiprocessors == multiprocessors
    for name, value in vars(before).items():
        if name != "timing":
            assert getattr(found, name) == listed.get(name, value)
    for name, value in vars(before.timing).items():
        assert getattr(found.timing, name) == listed["timing"].get(name, value)
    assert found.timing.clock_mhz_sustained <= found.clock_mhz


def test_every_machine_can_be_named(capsys):
    assert machines.names() == ("a100", "a100-80gb", "h100", "h100-pcie")
    main(["doctor", "--json"])
    assert "sim:a100, sim:a100-80gb, sim:h100, sim:h100-pcie" in capsys.readouterr().out


def test_faster_memory_takes_less_time():
    x, out = (np.zeros(1 << 19, np.float32) for _ in range(2))
    slow, fast = (sim.run(copy, (512,), x, out, on=on, BLOCK=1024) for on in ("sim:a100", "sim:a100-80gb"))
    assert fast.instructions == slow.instructions and fast.dram_bytes == slow.dram_bytes
    took = [
        run.cycles - machines.machine(on).timing.launch_cycles
        for run, on in ((fast, "a100-80gb"), (slow, "a100"))
    ]
    assert 1502 / 1880 - 0.02 < took[0] / took[1] < 0.95


def test_fewer_multiprocessors_take_a_second_wave():
    """Programs of 32 warps, two of which a multiprocessor holds: as many as the larger chip has room for at once."""
    out = np.zeros(32, np.float32)
    full, more = (
        sim.run(busy, (264,), out, 200, on=f"sim:{on}", num_warps=32).cycles
        - machines.machine(on).timing.launch_cycles
        for on in ("h100", "h100-pcie")
    )
    assert more > 1.3 * full


def test_at_the_sustained_clock_memory_is_as_fast_as_before():
    """A kernel that computes takes as many cycles of a slower clock, one that moves memory fewer."""
    x, out = (np.zeros(1 << 19, np.float32) for _ in range(2))
    found = {}
    for clock in ("nominal", "sustained"):
        with sim.measure("sim:a100", clock=clock) as launches:
            copy[(512,)](tileprobe.array(x), tileprobe.array(out), BLOCK=1024)
            busy[(108,)](tileprobe.array(out), 200)
        found[clock] = launches
    (memory, work), (memory_slow, work_slow) = found["nominal"], found["sustained"]
    assert (work.clock_mhz, work_slow.clock_mhz) == (1410, 1228)
    assert work.cycles == work_slow.cycles
    assert 1228 / 1410 < (memory_slow.cycles - 3000) / (memory.cycles - 3000) < 0.97
    roofs = {}
    for clock in found:
        with tileprobe.use("sim:a100", timed=True, clock=clock):
            roofs[clock] = catalog.find("sim:a100")[0].roofs("a100")
    assert dict(roofs["sustained"].flops_per_s)["f32"] == pytest.approx(
        dict(roofs["nominal"].flops_per_s)["f32"] * 1228 / 1410
    )
    assert dict(roofs["sustained"].bytes_per_s)["DRAM"] == dict(roofs["nominal"].bytes_per_s)["DRAM"]


def test_a_clock_that_is_none(capsys):
    with pytest.raises(TileProbeError, match="nominal or sustained, not 'fast'"):
        tileprobe.use("sim:a100", timed=True, clock="fast")
    assert main(["run", "--target", "sim:a100", "--clock", "sustained", __file__]) == 2
    assert "--timed --clock" in capsys.readouterr().err
