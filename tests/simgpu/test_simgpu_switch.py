"""Jumps by a table (BRX): LLVM makes one of four and more cases, and so do four and more partitions of warps."""

import numpy as np
import pytest
import triton
import triton.language as tl
from simgpu_harness import MACHINES
from test_simgpu_foreign import assembled, load  # noqa: F401  fixtures
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

import tileprobe


@triton.jit
def chosen(x, out, which, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if which == 0:
        r = v
    elif which == 1:
        r = tl.maximum(v, 0.0)
    elif which == 2:
        r = v * v
    elif which == 3:
        r = tl.cumsum(v, 0)
    elif which == 4:
        r = v + tl.sum(v, 0)
    else:
        r = -v
    tl.store(out + i, r)


CASES = [
    lambda v: v, lambda v: np.maximum(v, 0), lambda v: v * v, np.cumsum, lambda v: v + v.sum(), lambda v: -v,
]  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("timed", [False, True])
def test_cases_of_a_number(machine, timed):
    values = np.random.default_rng(0).integers(-9, 9, 128).astype(np.float32)
    with tileprobe.use(machine, timed=timed):
        for which, case in enumerate(CASES):
            out = tileprobe.array(np.zeros(128, np.float32))
            code = chosen[(1,)](tileprobe.array(values), out, np.int32(which).item(), 128)
            np.testing.assert_array_equal(out.numpy(), case(values))
    assert "brx.idx" in code.asm["ptx"]


@triton.jit
def interpreted(code, numbers, out, n):
    """A machine of seven instructions: a table within a loop."""
    total, pc = 0, 0
    while pc < n:
        op = tl.load(code + pc)
        if op == 0:
            total += 1
        elif op == 1:
            total *= 3
        elif op == 2:
            total -= 7
        elif op == 3:
            total = total ^ 0x55
        elif op == 4:
            total += tl.load(numbers + (total & 15))
        elif op == 5:
            tl.store(out + 1 + (total & 7), total)
        elif op == 6:
            pc += 1
        pc += 1
    tl.store(out, total)


@pytest.mark.parametrize("machine", MACHINES)
def test_cases_in_a_loop(machine):
    random = np.random.default_rng(2)
    code, numbers = (random.integers(0, 8, 200).astype(np.int32), random.integers(0, 9, 16).astype(np.int32))
    wanted, total, pc = np.zeros(9, np.int32), np.int32(0), 0
    with np.errstate(over="ignore"):
        while pc < 200:
            op = code[pc]
            if op == 5:
                wanted[1 + (total & 7)] = total
            steps = {
                0: total + 1,
                1: total * 3,
                2: total - 7,
                3: total ^ 0x55,
                4: total + numbers[total & 15],
            }
            total = np.int32(steps.get(op, total))
            pc += 1 + (op == 6)
    wanted[0] = total
    with tileprobe.use(machine):
        out = tileprobe.array(np.zeros(9, np.int32))
        interpreted[(1,)](tileprobe.array(code), tileprobe.array(numbers), out, 200)
    np.testing.assert_array_equal(out.numpy(), wanted)


def test_each_lane_to_a_place_of_its_own(load):  # noqa: F811
    out = np.full(64, -1, np.int32)
    load("switched")[1, 32](out)
    lanes = np.arange(32)
    up = -(-lanes // 3) * 3
    np.testing.assert_array_equal(out[:32], np.choose(lanes & 3, [7 + 0 * lanes, lanes**2, lanes + 100, up]))
    np.testing.assert_array_equal(out[32:], np.where(lanes & 3 == 1, lanes**2, -1))


@gluon.jit
def one_part(out, n: gl.constexpr):
    gl.store(out + n, n + 100)


@gluon.jit
def many_parts(out):
    gl.warp_specialize(
        [(one_part, (out, 0)), (one_part, (out, 1)), (one_part, (out, 2)), (one_part, (out, 3)),
         (one_part, (out, 4)), (one_part, (out, 5)), (one_part, (out, 6))],
        [1, 1, 2, 1, 1, 1], [24, 24, 24, 24, 24, 24],
    )  # fmt: skip


def test_many_partitions_of_warps():
    with tileprobe.use("sim:h100", check="all"):
        out = tileprobe.array(np.zeros(7, np.int32))
        code = many_parts[(1,)](out)
    assert "brx.idx" in code.asm["ptx"]
    np.testing.assert_array_equal(out.numpy(), np.arange(7) + 100)
