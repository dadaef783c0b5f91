"""Planted bugs in shared memory are found, with their lines; the same kernel without the bug runs."""

import numpy as np
import pytest
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

import tileprobe
from tileprobe.targets.simgpu.errors import KernelFault


@gluon.jit
def unwritten(out, N: gl.constexpr):
    lanes: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    tile = gl.allocate_shared_memory(gl.float32, [N], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    gl.store(out + gl.arange(0, N, layout=lanes), tile.load(lanes))  # nobody wrote it


@gluon.jit
def copied(x, out, N: gl.constexpr, WAIT: gl.constexpr):
    lanes: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, N, layout=lanes)
    tile = gl.allocate_shared_memory(gl.float32, [N], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    async_copy.async_load(tile, x + i)  # the copy
    async_copy.commit_group()
    if WAIT:
        async_copy.wait_group(0)
    gl.store(out + i, tile.load(lanes))  # the use


def arrays():
    return tileprobe.array(np.arange(128, dtype=np.float32)), tileprobe.array(np.zeros(128, np.float32))


def line_of(text):
    with open(__file__) as file:
        return next(n for n, line in enumerate(file, 1) if line.rstrip().endswith(f"# {text}"))


def test_shared_memory_that_nobody_wrote():
    with tileprobe.use("sim:a100"):
        _, out = arrays()
        with pytest.raises(
            KernelFault, match=rf"planted\.py:{line_of('nobody wrote it')} .*nobody has written"
        ):
            unwritten[(1,)](out, 128)


def test_a_copy_that_is_used_before_it_arrived():
    where = rf"planted\.py:{line_of('the use')} .*before the asynchronous copy.*planted\.py:{line_of('the copy')} "
    with tileprobe.use("sim:a100"):
        x, out = arrays()
        with pytest.raises(KernelFault, match=where):
            copied[(1,)](x, out, 128, False)
        copied[(1,)](x, out, 128, True)
        np.testing.assert_array_equal(out.numpy(), x.numpy())
