"""Conversions of libdevice that round in a direction, from doubles and to doubles."""

from fractions import Fraction

import numpy as np
import pytest
import triton
import triton.language as tl
from exact_floats import F32, F64, write
from simgpu_harness import MACHINES, array
from triton.language.extra.cuda import libdevice

import tileprobe

WAYS = ("rz", "rm", "rp")


@triton.jit
def narrowed(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, libdevice.double2float_rz(v))
    tl.store(out + BLOCK + i, libdevice.double2float_rd(v))
    tl.store(out + 2 * BLOCK + i, libdevice.double2float_ru(v))


@triton.jit
def widened(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, libdevice.ll2double_rz(v))
    tl.store(out + BLOCK + i, libdevice.ll2double_rd(v))
    tl.store(out + 2 * BLOCK + i, libdevice.ll2double_ru(v))


@pytest.mark.parametrize("machine", MACHINES)
def test_doubles_to_floats(machine):
    random = np.random.default_rng(5)
    x = random.standard_normal(64) * 10.0 ** random.integers(-36, 41, 64)  # Triton's flush what is smaller
    out = np.zeros((3, 64), np.float32)
    with tileprobe.use(machine):
        narrowed[(1,)](array(x), array(out), 64)
    known = [[write(Fraction(v), int(v < 0), F32, way) for v in x.tolist()] for way in WAYS]
    np.testing.assert_array_equal(out.view(np.uint32), np.array(known, np.uint32))


@pytest.mark.parametrize("machine", MACHINES)
def test_integers_to_doubles(machine):
    x = np.random.default_rng(6).integers(-(2**63), 2**63 - 1, 64, dtype=np.int64)
    x[:4] = 2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1
    out = np.zeros((3, 64), np.float64)
    with tileprobe.use(machine):
        widened[(1,)](array(x), array(out), 64)
    known = [[write(Fraction(v), 0, F64, way) for v in x.tolist()] for way in WAYS]
    np.testing.assert_array_equal(out.view(np.uint64), np.array(known, np.uint64))
