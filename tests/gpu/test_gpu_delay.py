"""Delays on GPUs: executed on a simulated A100, where what they add is known; compiled for others."""

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.session.delaying import PLAN
from tileprobe.session.relaunching import relaunching
from tileprobe.targets.catalog import find
from tileprobe.targets.edited import edited
from tileprobe.targets.simgpu.machine import machine

STEPS = 20


@triton.jit
def summed(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(n):
        total += tl.load(x + i + step * BLOCK)
    tl.store(out + i, total)


def delayed(region, ticks):
    passes = PLAN.pipeline("ttgir", level="probe")
    return f'{passes},delay{{region="{region}" ticks={ticks} structure=ttgir}},delay-to-ttgir'


@pytest.mark.parametrize(("region", "times"), [("load", STEPS), ("loop", 1), ("store", 1)])
@pytest.mark.parametrize("warps", [1, 4])
def test_a_delay_adds_what_it_says_for_each_execution(region, times, warps):
    cycles, results = {}, {}

    def question(one):
        target = find("sim:a100")[0]
        for ticks in (0, 500, 1000, 1500):
            one.restore()
            with target.running_on(None, 1.0):
                ns = target.measured(lambda ticks=ticks: one.run(edit=delayed(region, ticks), level="ttgir"))
            cycles[ticks] = ns * machine("a100").clock_mhz / 1e3
            results[ticks] = next(tensor.values for tensor in one.tensors() if tensor.name == "out")

    x, out = tileprobe.array(np.ones(8192, np.float32)), tileprobe.array(np.zeros(256, np.float32))
    with tileprobe.use("sim:a100", timed=True, check=False), relaunching(question):
        summed[(2,)](x, out, STEPS, BLOCK=128, num_warps=warps, num_stages=1)
    for ticks in (500, 1000, 1500):
        late = (
            60  # cycles of one reading of the clock, with the branch behind it, which a delay of 0 has, too
        )
        assert (cycles[ticks] - cycles[0]) / times == pytest.approx(ticks, abs=late)
        np.testing.assert_array_equal(results[ticks], STEPS)
    assert (cycles[1500] - cycles[500]) / times == pytest.approx(1000, abs=60)  # a slope of 1: all is exposed


def compiled(target, edit):
    signature = {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    with edited(edit, "ttgir"):
        return triton.compile(ASTSource(summed, signature, {(3,): 256}), target=target).asm


@pytest.mark.parametrize(
    ("target", "code", "clock"),
    [(GPUTarget("cuda", 90, 32), "ptx", "%clock64"), (GPUTarget("hip", "gfx942", 64), "amdgcn", "s_memtime")],
)
def test_code_of_other_machines_has_the_delay_and_nothing_else_without(target, code, clock):
    plain, none = compiled(target, "")[code], compiled(target, delayed("no such region", 9))[code]
    one = compiled(target, delayed("store", 777))[code]
    assert clock not in plain and none.count(clock) == 0
    assert one.count(clock) >= 2 and ("777" in one or "0x309" in one or "776" in one)


def test_a_clock_that_turns_over_is_refused():
    with pytest.raises(TileProbeError, match="gfx11 has 20 bits"):
        compiled(GPUTarget("hip", "gfx1100", 32), delayed("store", 777))
