"""Launching a kernel in the interpreter: arguments of every kind, what it prints, how it stops."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl
from cpu_harness import INTERPRETED, Buffer, launch

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.targets.cpu.interpret import (
    ORDERS,
    OutOfBoundsError,
    UnwrittenError,
    interpret,
    interpret_kernel,
    prepare,
)

pytestmark = pytest.mark.skipif(INTERPRETED, reason="compiles kernels")


@triton.jit
def scale_kernel(X, OUT, factor, n, shift: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(OUT + i, tl.load(X + i, mask=i < n) * factor + shift, mask=i < n)


@pytest.mark.parametrize("order", ORDERS)
def test_the_tensors_hold_the_result(order):
    x, out = (tileprobe.array(np.arange(20, dtype=np.float32)) for _ in range(2))
    outcome = interpret_kernel(scale_kernel, (3,), x, out, 2.5, 20, order=order, shift=1, B=8)
    assert outcome.programs == 3
    assert (out.numpy() == np.arange(20) * 2.5 + 1).all()


def test_a_grid_that_is_computed_and_tensors_of_torch():
    torch = pytest.importorskip("torch")
    x = torch.arange(20, dtype=torch.bfloat16)
    out = torch.zeros_like(x)
    interpret_kernel(scale_kernel, lambda meta: (triton.cdiv(20, meta["B"]),), x, out, 2.0, 20, shift=1, B=4)
    assert (out == x * 2 + 1).all()


@triton.jit
def through_table_kernel(TABLE, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for k in range(2):
        total += tl.load(tl.load(TABLE + k).to(tl.pointer_type(tl.float32)) + i)
    tl.store(OUT + i, total)


def test_tensors_behind_addresses_have_to_be_named():
    parts = [tileprobe.array(np.arange(8, dtype=np.float32) * k) for k in (1, 10)]
    table = tileprobe.array(np.array([p.data_ptr() for p in parts], np.int64))
    out = tileprobe.array(np.zeros(8, np.float32))
    with pytest.raises(OutOfBoundsError, match="outside every tensor"):
        interpret_kernel(through_table_kernel, (1,), table, out, N=8)
    interpret_kernel(through_table_kernel, (1,), table, out, N=8, also=parts)
    assert (out.numpy() == np.arange(8) * 11).all()


@triton.jit
def talking_kernel(X, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.device_print("tile", x)
    tl.device_print("scalar", tl.program_id(0))
    tl.device_print("both", x * 0.5, i)
    tl.device_print("code", i, hex=True)


def test_prints_are_those_of_the_machine_code(capfd):
    x = Buffer(np.arange(12), "float32")
    launch(talking_kernel, 1, x, N=4)
    printed = capfd.readouterr().out.splitlines()
    outcome = interpret_kernel(talking_kernel, (1,), x, N=4)
    assert len(printed) == 17
    assert sorted(outcome.prints) == sorted(printed)


@triton.jit
def checking_kernel(X, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.device_assert(tl.load(X + i) < 3, "too large")


def test_assertions():
    interpret_kernel(checking_kernel, (1,), Buffer([0, 1, 2, 2], "int32"), N=4, debug=True)
    with pytest.raises(AssertionError, match="too large"):
        interpret_kernel(checking_kernel, (1,), Buffer([0, 1, 2, 3], "int32"), N=4, debug=True)


def test_a_launch_can_be_run_again():
    x, out = (tileprobe.array(np.arange(20, dtype=np.float32)) for _ in range(2))
    ready = prepare(scale_kernel, (3,), (x, out, 2.5, 20), {"shift": 1, "B": 8})
    before = ready.snapshot()
    first = [ready.interpret(), ready.snapshot()][1]
    ready.restore(before)
    assert (out.numpy() == np.arange(20)).all()
    assert ready.check_orders().ok
    assert all(np.array_equal(a, b) for a, b in zip(first, ready.snapshot()))


def test_scratch_is_poisoned_where_a_schedule_forgets_to_write():
    x, out = (tileprobe.array(np.arange(16, dtype=np.int32)) for _ in range(2))
    ready = prepare(running_kernel, (1,), (x, out), {"N": 16})
    lines = ready.tile_ir.splitlines()
    written = next(n for n, line in enumerate(lines) if "tile.write" in line)
    text = "\n".join(lines[:written] + lines[written + 1 :])
    with pytest.raises(UnwrittenError, match=r"tile\.scan"):
        interpret(text, ready.grid, ready.args, ready.extents)


@triton.jit
def running_kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(OUT + i, tl.cumsum(tl.load(X + i) * 3, axis=0))


def test_what_it_cannot_take():
    x = tileprobe.array(np.zeros(4, np.float32))
    with pytest.raises(TileProbeError, match="expected a @triton"):
        interpret_kernel(print, (1,), x)
    with pytest.raises(TileProbeError, match="no order 'sideways'"):
        interpret_kernel(scale_kernel, (1,), x, x, 1.0, 4, shift=0, B=4, order="sideways")
    ready = prepare(scale_kernel, (1,), (x, x, 1.0, 4), {"shift": 0, "B": 4})
    with pytest.raises(TileProbeError, match="got 1 arguments"):
        interpret(ready.tile_ir, (1,), ready.args[:1], ready.extents)
