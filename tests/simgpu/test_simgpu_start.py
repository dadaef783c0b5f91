"""A program begins with clean warps, whatever the one before it on its thread left there."""

from dataclasses import replace

import numpy as np
import pytest
import triton
import triton.language as tl
from simgpu_harness import MACHINES, array

import tileprobe
from tileprobe.targets.simgpu import execute
from tileprobe.targets.simgpu.engine import layout as at


@triton.jit
def half(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + i, mask=i < n, other=0.0))
    tl.store(x + i, total / 2, mask=i < n)


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_left_over_is_gone(machine, monkeypatch):
    made = []

    class Kept(execute.Worker):
        left = 0

        def __init__(self, image, *args):
            kernel = image.program  # with a register of each kind that it never writes
            image.program = replace(kernel, registers=kernel.registers + 1, uniforms=kernel.uniforms + 1)
            super().__init__(image, *args)
            made.append(self)
            uniform = at.W_UNIFORM + at.ROW * self.image.program.uniforms
            for block in self.blocks:
                warps = block.warps.reshape(-1, block.warp_bytes)
                for first, end in (
                    (0, at.W_SPECIAL),
                    (at.W_UNIFORM, uniform),
                    (at.W_REGISTERS, block.warp_bytes),
                ):
                    if self.left:
                        warps[:, first:end] = self.left

    monkeypatch.setattr(execute, "Worker", Kept)
    ends, values = [], np.ones(100, np.float32)
    x = array(values)  # at the same address both times
    for Kept.left in (0, 0xAA):
        values[:] = 1
        with tileprobe.use(machine, threads=1, check=False):
            half[(1,)](x, 100, BLOCK=128)
        np.testing.assert_array_equal(x.numpy(), np.full(100, 50, np.float32))
        block = made[-1].blocks[0]
        warps = block.warps.reshape(-1, block.warp_bytes)[:, at.W_UNIFORM :]
        ends.append(warps.copy())
    assert made[-1].image.program.uniforms > 0
    np.testing.assert_array_equal(*ends)
