"""Barriers in shared memory that asynchronous copies arrive at (Gluon's `async_copy.mbarrier_arrive`), on both
machines: sm_80's code makes such barriers and looks at them with ordinary stores and loads."""

import numpy as np
import pytest
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mbarrier

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.targets.simgpu.errors import KernelFault
from tileprobe.targets.simgpu.race_report import RaceFault

MACHINES = ("sim:a100", "sim:h100")
N = 512


@gluon.jit
def handed_on(x, out, steps, STEP: gl.constexpr, INCREMENT: gl.constexpr, WAIT: gl.constexpr):
    """Tiles come in by copies that arrive at a barrier by themselves; each warp reads what others have copied."""
    own: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    others: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    tile = gl.allocate_shared_memory(gl.float32, [STEP], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1 if INCREMENT else 128)
    for n in range(steps):
        async_copy.async_load(tile, x + n * STEP + gl.arange(0, STEP, own))
        async_copy.mbarrier_arrive(bar, increment_count=INCREMENT)
        if INCREMENT:
            mbarrier.arrive(bar)
        if WAIT:
            mbarrier.wait(bar, n & 1)
        value = tile.load(others)
        gl.store(out + n * STEP + gl.arange(0, STEP, others), value * 2)
        gl.barrier()
    mbarrier.invalidate(bar)


def launched(machine, increment, wait=True, **options):
    x = np.random.default_rng(0).standard_normal(5 * N).astype(np.float32)
    with tileprobe.use(machine, **options):
        out = tileprobe.array(np.zeros_like(x))
        made = handed_on[(1,)](tileprobe.array(x), out, 5, N, increment, wait)
    return x, out.numpy(), made.asm["sass"]


@pytest.mark.parametrize("increment", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
def test_copies_arrive_and_nothing_is_blamed(machine, increment):
    x, out, sass = launched(machine, increment, check="all")
    np.testing.assert_array_equal(out, 2 * x)
    assert "ARRIVES.LDGSTSBAR" in sass


@pytest.mark.parametrize("machine", MACHINES)
def test_a_wait_that_is_missing(machine):
    with pytest.raises(
        (RaceFault, KernelFault), match=r"test_simgpu_arrivals\.py:34(.|\n)*test_simgpu_arrivals\.py:28"
    ):
        launched(machine, False, wait=False, check="all")


def test_copies_that_arrive_are_not_timed():
    with pytest.raises(TileProbeError, match=r"handed_on.*not timed yet; run it without timing"):
        launched("sim:h100", False, timed=True)
