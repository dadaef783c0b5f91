"""Squares turned in registers against NumPy, over element types and vector widths."""

from __future__ import annotations

import dot_harness as harness
import numpy as np
import pytest
from llvmlite import ir

from tileprobe.targets.cpu.codegen import dot_emit as e
from tileprobe.targets.cpu.codegen.transpose import turn

ELEMENTS = {
    "f32": (ir.FloatType(), np.float32),
    "f64": (ir.DoubleType(), np.float64),
    "f16": (ir.HalfType(), np.float16),
    "i16": (ir.IntType(16), np.int16),
    "i8": (ir.IntType(8), np.int8),
}


@pytest.mark.parametrize("vector_bytes", [8, 16, 32, 64])
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_a_square_is_turned(dtype: str, vector_bytes: int) -> None:
    elem, numpy_type = ELEMENTS[dtype]
    size = np.dtype(numpy_type).itemsize
    side = vector_bytes // size

    def body(builder, args):
        rows = [e.load(builder, args[0], e.vector(elem, side), n * vector_bytes, size) for n in range(side)]
        for n, column in enumerate(turn(builder, rows, size)):
            builder.store(column, e.at(builder, args[1], n * vector_bytes), align=size)

    source = (np.arange(side * side) * 7 % 127).reshape(side, side).astype(numpy_type)
    found = np.full_like(source, 99)
    code = harness.Compiled(harness.build(body, [ir.PointerType(), ir.PointerType()]), 2)
    code.run(source.ctypes.data, found.ctypes.data)
    np.testing.assert_array_equal(found, source.T)
