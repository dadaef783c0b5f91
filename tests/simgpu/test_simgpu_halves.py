"""Functions of halves as they are, which take inline assembly, and signs that differ within a register."""

import numpy as np
import pytest
import triton
import triton.language as tl
from simgpu_harness import MACHINES, array

import tileprobe


@triton.jit
def one_by_one(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    f = tl.inline_asm_elementwise("cvt.rmi.f16.f16 $0, $1;", "=h,h", [v], tl.float16, True, 1)
    c = tl.inline_asm_elementwise("cvt.rpi.f16.f16 $0, $1;", "=h,h", [v], tl.float16, True, 1)
    t = tl.inline_asm_elementwise("tanh.approx.f16 $0, $1;", "=h,h", [v], tl.float16, True, 1)
    e = tl.inline_asm_elementwise("ex2.approx.f16 $0, $1;", "=h,h", [v], tl.float16, True, 1)
    tl.store(out + i, f)
    tl.store(out + BLOCK + i, c)
    tl.store(out + 2 * BLOCK + i, t)
    tl.store(out + 3 * BLOCK + i, e)


@pytest.mark.parametrize("machine", MACHINES)
def test_functions_of_halves(machine):
    random = np.random.default_rng(3)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8]
    x = np.concatenate([random.standard_normal(250) * 5, special]).astype(np.float16)
    out = np.zeros((4, 256), np.float16)
    with tileprobe.use(machine):
        one_by_one[(1,)](array(x), array(out), 256)
    np.testing.assert_array_equal(out[:2], [np.floor(x), np.ceil(x)])
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        known = np.stack([np.tanh(wide), np.exp2(wide)]).astype(np.float16)
    np.testing.assert_allclose(out[2:], known, rtol=1e-3, atol=1e-7)


@triton.jit
def held(x, y, out, BLOCK: tl.constexpr):
    """Bounds below and above zero, which ptxas computes in one instruction on sm_90."""
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i), tl.load(y + i)
    nan: tl.constexpr = tl.PropagateNan.ALL
    tl.store(out + i, tl.clamp(a, -b * 0 - 1, b * 0 + 1, propagate_nan=nan))


@pytest.mark.parametrize("machine", MACHINES)
def test_signs_that_differ_within_a_register(machine):
    random = np.random.default_rng(4)
    x, y = (random.standard_normal(64).astype(np.float16) for _ in range(2))
    out = np.zeros(64, np.float16)
    with tileprobe.use(machine):
        made = held[(1,)](array(x), array(y), array(out), 64)
    if machine == "sim:h100":
        assert "_NH" in made.asm["sass"]
    np.testing.assert_array_equal(out, np.clip(x, -1, 1))
