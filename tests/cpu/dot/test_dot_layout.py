"""The operands' layout: compile-time offsets, run-time addresses and NumPy's picture of it agree."""

from __future__ import annotations

import ctypes

import dot_harness as harness
import numpy as np
import pytest
from llvmlite import ir

from tileprobe.targets.cpu.codegen import dot
from tileprobe.targets.cpu.codegen.dot import Panel

LAYOUTS = [
    Panel((32, 64), 1, 16), Panel((5, 19), 1, 16), Panel((64, 32), 0, 16), Panel((7, 9), 1, 9),
    Panel((7, 9), 0, 7), Panel((7, 9), 0, 3), Panel((4, 1), 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_addresses(layout: Panel) -> None:
    def body(builder, args):
        out, i, j = args
        builder.store(layout.address(builder, [i, j]), out)

    i64 = ir.IntType(64)
    code = harness.Compiled(harness.build(body, [ir.PointerType(), i64, i64]), 3)
    numbers = np.arange(np.prod(layout.shape), dtype=np.float64).reshape(layout.shape)
    memory = harness.pack(layout, numbers, np.float64)
    found = ctypes.c_int64()
    for i, j in np.ndindex(*layout.shape):
        code.run(ctypes.addressof(found), i, j)
        assert found.value == layout.offset([i, j])
        assert memory[found.value] == numbers[i, j]


def test_a_run_is_contiguous() -> None:
    layout = dot.plan(128, 128, 32, "f32", "f32", "f32", 32, 16).b_layout
    assert (layout.axis, layout.run) == (1, 16)
    assert [layout.offset([3, 32 + lane]) for lane in range(16)] == [
        layout.offset([3, 32]) + lane for lane in range(16)
    ]


@pytest.mark.parametrize(
    ("machine", "dtype", "block"),
    [((32, 16), "f32", (4, 16)), ((32, 16), "f64", (4, 8)), ((16, 16), "f32", (4, 8)),
     ((16, 32), "f32", (8, 8)), ((64, 32), "f32", (8, 32)), ((64, 32), "f64", (8, 16))],
)  # fmt: skip
def test_blocks_suit_the_machine(machine: tuple[int, int], dtype: str, block: tuple[int, int]) -> None:
    plan = dot.plan(128, 128, 32, dtype, dtype, dtype, *machine)
    assert (plan.mr, plan.nr) == block


def test_depth_is_blocked_for_the_caches() -> None:
    deep = dot.plan(128, 128, 4096, "f32", "f32", "f32", 32, 16)
    assert deep.kc == 256
    assert dot.plan(512, 128, 4096, "f32", "f32", "f32", 32, 16).kc == 64
