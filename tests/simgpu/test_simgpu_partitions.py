"""Partitions of warps that wait for each other: a deadlock names the line of each, those of the first one, too."""

import numpy as np
import pytest
from planting import line_of
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

import tileprobe
from tileprobe.targets.simgpu.errors import KernelFault

LANES = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))


@gluon.jit
def producer(tile, empty, full, out, WRONG: gl.constexpr):
    if WRONG:
        mbarrier.wait(empty, 0)  # before it has produced anything
    tile.store(gl.full([128], 3.0, gl.float32, LANES))
    mbarrier.arrive(full, count=1)
    if not WRONG:
        mbarrier.wait(empty, 0)


@gluon.jit
def consumer(tile, empty, full, out, WRONG: gl.constexpr):
    mbarrier.wait(full, 0)  # for what is to be consumed
    value = tile.load(LANES)
    mbarrier.arrive(empty, count=1)
    gl.store(out + gl.arange(0, 128, layout=LANES), value)


@gluon.jit
def two_sides(out, WRONG: gl.constexpr):
    tile = gl.allocate_shared_memory(gl.float32, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(empty, count=1)
    mbarrier.init(full, count=1)
    sides: gl.constexpr = 4
    gl.warp_specialize(
        [(producer, (tile, empty, full, out, WRONG)), (consumer, (tile, empty, full, out, WRONG))],
        [sides],
        [48],
    )


def test_both_sides_are_named_with_their_lines():
    out = tileprobe.array(np.zeros(128, np.float32))
    with tileprobe.use("sim:h100"):
        two_sides[(2,)](out, False)
        np.testing.assert_array_equal(out.numpy(), np.full(128, 3, np.float32))
        with pytest.raises(KernelFault, match="deadlock") as said:
            two_sides[(1,)](out, True)
    places = {0: "before it has produced anything", 4: "for what is to be consumed"}
    for first, text in places.items():
        for warp in range(first, first + 4):
            row = next(row for row in str(said.value).splitlines() if row.startswith(f"  warp {warp} "))
            assert f"partitions.py:{line_of(__file__, text)} " in row
