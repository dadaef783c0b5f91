"""Tile products against NumPy, over shapes, element types and vector widths."""

from __future__ import annotations

import dot_harness as harness
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.errors import TileProbeError
from tileprobe.targets.cpu.codegen import dot

TYPES = [("f32", "f32", "f32"), ("f64", "f64", "f64"), ("i8", "i8", "i32"), ("i32", "i32", "i32")]
SHAPES = [
    (1, 1, 1), (1, 128, 64), (4, 128, 64), (16, 128, 33), (128, 1, 64), (128, 1, 1), (64, 4, 32), (3, 2, 9),
    (16, 16, 16), (64, 64, 32), (128, 128, 32), (5, 19, 11), (8, 8, 600), (7, 3, 5000), (2, 40, 513),
]  # fmt: skip


def check(plan: dot.DotPlan, init: str, seed: int = 0) -> None:
    random = np.random.default_rng(seed)
    integer = plan.acc.startswith("i")
    acc = harness.NUMPY[plan.acc]

    def draw(*shape: int) -> np.ndarray:
        if integer:
            return random.integers(-128, 128, shape)
        return random.standard_normal(shape).astype(acc)

    a, b, c = draw(plan.m, plan.k), draw(plan.k, plan.n), draw(plan.m, plan.n).astype(acc)
    found = harness.run_dot(plan, a, b, c, init)
    wide = np.int64 if integer else np.float64
    start = c.astype(wide) if init == "accumulate" else 0
    wanted = start + a.astype(wide) @ b.astype(wide)
    if integer:
        assert (found == wanted).all()
        return
    # Any order of summation stays within k roundings of the sum of magnitudes.
    room = np.abs(start) + np.abs(a.astype(wide)) @ np.abs(b.astype(wide))
    assert (np.abs(found - wanted) <= (plan.k + 1) * np.finfo(acc).eps * room).all()


@pytest.mark.parametrize("vector_bytes", [16, 32])
@pytest.mark.parametrize("types", TYPES, ids=lambda t: t[0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_numpy(shape: tuple[int, int, int], types: tuple[str, str, str], vector_bytes: int) -> None:
    plan = dot.plan(*shape, *types, vector_bytes, 16)
    check(plan, "accumulate")
    check(plan, "zero")


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 70), st.integers(1, 300), st.sampled_from(TYPES),
    st.sampled_from([(16, 16), (16, 32), (32, 16), (64, 32)]), st.sampled_from(["accumulate", "zero"]),
)  # fmt: skip
def test_any_shape(
    m: int, n: int, k: int, types: tuple[str, str, str], machine: tuple[int, int], init: str
) -> None:
    check(dot.plan(m, n, k, *types, *machine), init, seed=m * n * k)


def test_unsigned_bytes_stay_exact() -> None:
    plan = dot.plan(4, 16, 4096, "u8", "u8", "i32", 32, 16)
    a, b = np.full((4, 4096), 255), np.full((4096, 16), 255)
    found = harness.run_dot(plan, a, b, np.zeros((4, 16), np.int32), "zero")
    assert (found == 4096 * 255 * 255).all()


def test_infinities_and_nan_pass_through() -> None:
    plan = dot.plan(4, 16, 8, "f32", "f32", "f32", 32, 16)
    a, b = np.ones((4, 8), np.float32), np.ones((8, 16), np.float32)
    a[0, 3], b[2, 5] = np.inf, np.nan
    found = harness.run_dot(plan, a, b, np.zeros((4, 16), np.float32), "accumulate")
    assert np.isnan(found[:, 5]).all()
    assert np.isposinf(np.delete(found[0], 5)).all()


def test_one_function_for_one_plan() -> None:
    plan = dot.plan(16, 16, 16, "f16", "f16", "f32", 32, 16)

    def body(builder, args):
        dot.emit(builder, plan, *args)
        dot.emit(builder, plan, *args)

    module = harness.build(body, [harness.ir.PointerType()] * 3)
    assert str(module).count("define internal") == 1


@pytest.mark.parametrize(
    "shape", [(64, 64, 32), (64, 64, 600), (9, 37, 513), (64, 2, 64), (1, 16, 8)], ids=str
)
def test_prefetching_changes_nothing(shape: tuple[int, int, int]) -> None:
    plan = dot.plan(*shape, "f32", "f32", "f32", 32, 16)

    def body(builder, args):
        a, b, c, stride = args
        ahead = [dot.Ahead(a, stride, plan.m, plan.k * 4), dot.Ahead(b, stride, plan.k, plan.n * 4)]
        dot.emit(builder, plan, a, b, c, ahead=ahead)

    ir = harness.ir
    module = harness.build(body, [ir.PointerType()] * 3 + [ir.IntType(64)])
    assert 'call void @"llvm.prefetch.p0"' in str(module)
    random = np.random.default_rng(0)
    a, b = random.standard_normal((plan.m, plan.k)), random.standard_normal((plan.k, plan.n))
    packed_a = harness.pack(plan.a_layout, a, np.float32)
    packed_b = harness.pack(plan.b_layout, b, np.float32)
    c = harness.aligned(plan.c_elems, np.float32)
    code = harness.Compiled(module, 4)
    # A stride far beyond any mapping: what is asked for does not have to exist.
    code.run(packed_a.ctypes.data, packed_b.ctypes.data, c.ctypes.data, 1 << 40)
    plain = harness.run_dot(plan, a, b, np.zeros(shape[:2], np.float32), "accumulate")
    assert (c.reshape(plain.shape) == plain).all()


@pytest.mark.parametrize("dtype", ["f16", "bf16", "fp8e5", "f8E4M3FN", "tf32", "f32", "float8_e5m2"])
def test_narrow_floats_are_computed_in_f32(dtype: str) -> None:
    plan = dot.plan(16, 16, 16, dtype, dtype, "f16", 32, 16)
    assert (plan.compute, plan.acc) == ("f32", "f32")


def test_mixed_kinds_are_refused() -> None:
    with pytest.raises(TileProbeError, match="cannot mix"):
        dot.plan(16, 16, 16, "i8", "f32", "f32", 32, 16)
