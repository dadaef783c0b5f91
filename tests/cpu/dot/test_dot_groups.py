"""Products that one instruction adds up in pairs (bf16) or in fours (bytes): values, and which plans have them."""

from __future__ import annotations

import re

import dot_harness as harness
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.targets.cpu.codegen import dot
from tileprobe.targets.cpu.schedule.products import grouped_products

BOTH = frozenset({"bf16", "i8"})
ACC = {"bf16": "f32", "i8": "i32"}
SHAPES = [(1, 16, 4), (3, 16, 8), (16, 32, 64), (7, 20, 36), (64, 64, 32), (9, 36, 600), (2, 128, 1028)]
INSTRUCTIONS = {"bf16": "vdpbf16ps", "i8": "vpdpbusd"}


def planned(kind: str, shape: tuple[int, int, int], vector_bytes: int = 64) -> dot.DotPlan:
    return dot.plan(*shape, kind, kind, ACC[kind], vector_bytes, 32 if vector_bytes == 64 else 16, BOTH)


def bfloat(values: np.ndarray) -> np.ndarray:
    """The upper halves of floats, which are bf16 where the lower ones are zero."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def check(kind: str, shape: tuple[int, int, int], vector_bytes: int, init: str, seed: int) -> None:
    if kind not in grouped_products():
        pytest.skip(f"this core has no {INSTRUCTIONS[kind]}")
    plan = planned(kind, shape, vector_bytes)
    assert plan.compute == kind
    m, n, k = shape
    random = np.random.default_rng(seed)
    if kind == "i8":
        a, b = random.integers(-128, 128, (m, k)), random.integers(-128, 128, (k, n))
        a[0], b[:, 0] = -128, -128  # the largest sum there is
        c = random.integers(-1000, 1000, (m, n)).astype(np.int32)
        found = harness.run_dot(plan, a, b, c, init)
        assert (found == a @ b + (c if init == "accumulate" else 0)).all()
        return
    a, b = (random.integers(-255, 256, size) / 64 for size in ((m, k), (k, n)))  # bf16 exactly
    c = random.standard_normal((m, n)).astype(np.float32)
    found = harness.run_dot(plan, bfloat(a), bfloat(b), c, init)
    start = c.astype(float) if init == "accumulate" else 0.0
    room = np.abs(start) + np.abs(a) @ np.abs(b)
    assert (np.abs(found - (start + a @ b)) <= (k + 1) * np.finfo(np.float32).eps * room).all()


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("kind", sorted(BOTH))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_numpy(shape: tuple[int, int, int], kind: str, vector_bytes: int) -> None:
    check(kind, shape, vector_bytes, "accumulate", seed=1)
    check(kind, shape, vector_bytes, "zero", seed=2)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 40), st.integers(4, 20), st.integers(1, 90), st.sampled_from(sorted(BOTH)),
    st.sampled_from([16, 32, 64]), st.sampled_from(["accumulate", "zero"]),
)  # fmt: skip
def test_any_shape(m: int, n: int, k: int, kind: str, vector_bytes: int, init: str) -> None:
    check(kind, (m, 4 * n, 4 * k), vector_bytes, init, seed=m * n * k)


def test_infinities_and_nan_pass_through() -> None:
    if "bf16" not in grouped_products():
        pytest.skip("this core has no vdpbf16ps")
    a, b = np.ones((4, 8)), np.ones((8, 16))
    a[0, 3], b[2, 5] = np.inf, np.nan
    plan = planned("bf16", (4, 16, 8))
    found = harness.run_dot(plan, bfloat(a), bfloat(b), np.zeros((4, 16), np.float32), "accumulate")
    assert np.isnan(found[:, 5]).all()
    assert np.isposinf(np.delete(found[0], 5)).all()
    assert (np.delete(found[1:], 5, axis=1) == 8).all()


@pytest.mark.parametrize(
    ("a", "b", "acc", "compute"),
    [
        ("bf16", "bf16", "f32", "bf16"),
        ("bf16", "bf16", "f16", "bf16"),  # sums are singles; who asked rounds them
        ("fp8e5", "bf16", "f32", "bf16"),
        ("f8E4M3FN", "f8E5M2", "f32", "bf16"),
        ("bf16", "f16", "f32", "f32"),
        ("bf16", "bf16", "f64", "f64"),
        ("i8", "i8", "i32", "i8"),
        ("int8", "int8", "int32", "i8"),
        ("u8", "u8", "i32", "f32"),
        ("i8", "i8", "i64", "f32"),
        ("i16", "i8", "i32", "i32"),
    ],
)
def test_types(a: str, b: str, acc: str, compute: str) -> None:
    assert dot.plan(16, 32, 64, a, b, acc, 64, 32, BOTH).compute == compute


def test_only_where_the_machine_has_them_and_the_shape_allows_it() -> None:
    assert dot.plan(16, 32, 64, "bf16", "bf16", "f32", 64, 32).compute == "f32"
    assert dot.plan(16, 32, 64, "bf16", "bf16", "f32", 64, 32, frozenset({"i8"})).compute == "f32"
    assert dot.plan(16, 32, 63, "bf16", "bf16", "f32", 64, 32, BOTH).compute == "f32"
    assert dot.plan(16, 32, 62, "i8", "i8", "i32", 64, 32, BOTH).compute == "f32"
    assert dot.plan(16, 30, 64, "i8", "i8", "i32", 64, 32, BOTH).compute == "f32"
    assert dot.plan(16, 1, 64, "bf16", "bf16", "f32", 64, 32, BOTH).compute == "f32"


@pytest.mark.parametrize("kind", sorted(BOTH))
def test_instructions_and_no_spills(kind: str) -> None:
    """For a core that this one need not be. B's columns are brought together once for all rows of a block."""
    plan = planned(kind, (128, 128, 64))

    def body(builder, args):
        dot.emit(builder, plan, *args)

    module = harness.build(body, [harness.ir.PointerType()] * 3)
    text = harness.assembly(module, "x86_64-unknown-linux-gnu", "sapphirerapids")
    # 8 groups of K in a round, two vectors a row; for bytes two sums of columns, once a panel
    excess = 2 if kind == "i8" else 0
    assert len(re.findall(rf"\b{INSTRUCTIONS[kind]}\s.*%zmm", text)) == 8 * 2 * plan.mr + excess
    assert "vfmadd" not in text
    assert re.findall(r"vmov\w+\s.*\(%rsp\)", text) == []
