"""Transposing copies against NumPy, over shapes, element types and vector widths."""

from __future__ import annotations

import dot_harness as harness
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from tileprobe.targets.cpu.codegen import transpose
from tileprobe.targets.cpu.codegen.dot import Panel

ELEMENTS = {
    "f32": (ir.FloatType(), np.float32),
    "f64": (ir.DoubleType(), np.float64),
    "f16": (ir.HalfType(), np.float16),
    "i16": (ir.IntType(16), np.int16),
    "i8": (ir.IntType(8), np.int8),
}
PARAMS = [ir.PointerType(), ir.IntType(64), ir.PointerType()]


def widen(builder: ir.IRBuilder, value):
    """i8 or i16 to f32, whatever the number of lanes."""
    lanes = value.type.count if isinstance(value.type, ir.VectorType) else 1
    return builder.sitofp(value, ir.VectorType(ir.FloatType(), lanes) if lanes > 1 else ir.FloatType())


def run_tile(
    dtype: str, rows: int, cols: int, vector_bytes: int, slack: int = 0, convert: bool = False
) -> None:
    elem, numpy_type = ELEMENTS[dtype]
    out_type = np.float32 if convert else numpy_type

    def body(builder, args):
        transpose.emit_tile(
            builder, *args, rows + slack, rows, cols, elem, vector_bytes=vector_bytes,
            convert=widen if convert else None, out_type=ir.FloatType() if convert else None,
        )  # fmt: skip

    source = (np.arange(rows * (cols + 3)) * 7 % 127).reshape(rows, cols + 3).astype(numpy_type)
    found = np.full((cols, rows + slack), 99, out_type)
    code = harness.Compiled(harness.build(body, PARAMS), 3)
    code.run(source.ctypes.data, cols + 3, found.ctypes.data)
    wanted = np.full_like(found, 99)
    wanted[:, :rows] = source[:, :cols].T
    assert (found == wanted).all()


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("shape", [(16, 32), (64, 64), (1, 8), (8, 1), (13, 21), (4, 128)], ids=str)
def test_tile(shape: tuple[int, int], dtype: str, vector_bytes: int) -> None:
    run_tile(dtype, *shape, vector_bytes)


@pytest.mark.parametrize("dtype", ["i8", "i16"])
def test_conversion_on_the_way(dtype: str) -> None:
    run_tile(dtype, 16, 64, 32, convert=True)
    run_tile(dtype, 7, 9, 32, convert=True)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(ELEMENTS)), st.integers(1, 40), st.integers(1, 40),
    st.sampled_from([16, 32, 64]), st.integers(0, 5),
)  # fmt: skip
def test_any_tile(dtype: str, rows: int, cols: int, vector_bytes: int, slack: int) -> None:
    run_tile(dtype, rows, cols, vector_bytes, slack)


@pytest.mark.parametrize(
    "layout",
    [Panel((32, 64), 1, 16), Panel((32, 40), 1, 16), Panel((64, 32), 0, 16), Panel((128, 64), 1, 64)],
    ids=str,
)
def test_pack_fills_a_layout(layout: Panel) -> None:
    matrix = np.arange(np.prod(layout.shape), dtype=np.float32).reshape(layout.shape)
    source = np.ascontiguousarray(matrix.T if layout.axis == 1 else matrix)

    def body(builder, args):
        transpose.emit_pack(builder, *args, layout, ir.FloatType(), vector_bytes=32)

    found = np.full(layout.elems, np.nan, np.float32)
    code = harness.Compiled(harness.build(body, PARAMS), 3)
    code.run(source.ctypes.data, source.shape[1], found.ctypes.data)
    np.testing.assert_array_equal(found, harness.pack(layout, matrix, np.float32))
