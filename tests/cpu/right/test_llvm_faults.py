"""Masked accesses as they are emitted, under masks that a scalar condition chooses, where LLVM makes mistakes.

docs/upstream.md lists them. The masks are made so that LLVM knows all but the condition.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from llvmlite import ir

from tileprobe.targets.cpu.codegen import memory
from tileprobe.targets.cpu.codegen.types import I32, I64
from tileprobe.targets.cpu.loader import compile_ir
from tileprobe.targets.linker import load_object

TYPES = {
    "f32": np.float32,
    "i32": np.int32,
    "f64": np.float64,
    "i64": np.int64,
    "i16": np.int16,
    "i8": np.int8,
}
MASKS = {
    "one": lambda lanes, at: [lane == at for lane in range(lanes)],
    "first": lambda lanes, at: [lane < at for lane in range(lanes)],
    "last": lambda lanes, at: [lane >= at for lane in range(lanes)],
}


def compiled(name: str, lanes: int, constant: list[bool], joined: str, store: bool):
    """A function of (in, out, condition) that loads, or stores, under `condition joined constant`."""
    module = ir.Module("masked")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64, I64, I32]), "f")
    b = ir.IRBuilder(function.append_basic_block())
    source, target, flag = function.args
    bits = ir.VectorType(ir.IntType(1), lanes)
    condition = b.icmp_signed("!=", flag, ir.Constant(I32, 0))
    spread = b.insert_element(ir.Constant(bits, ir.Undefined), condition, ir.Constant(I32, 0))
    spread = b.shuffle_vector(spread, spread, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))
    mask = getattr(b, joined)(spread, ir.Constant(bits, [int(on) for on in constant]))
    if store:
        value = memory.load_vector(b, source, name, lanes, None, None)
        memory.store_vector(b, value, target, name, mask)
    else:
        memory.store_vector(b, memory.load_vector(b, source, name, lanes, mask, None), target, name, None)
    b.ret_void()
    library = load_object(compile_ir(str(module)), ["f"])
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(library.address("f"))
    return call, library


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("joined", ["and_", "or_"])
@pytest.mark.parametrize("kind", list(MASKS))
@pytest.mark.parametrize(
    ("name", "lanes"),
    [("f32", 16), ("i32", 16), ("f64", 8), ("f32", 32), ("i64", 16), ("i16", 32), ("i8", 32)],
)
def test_masks(name, lanes, kind, joined, store):
    for at in {0, 1, 3, lanes // 2 - 1, lanes // 2, lanes - 2}:
        constant = MASKS[kind](lanes, at)
        call, library = compiled(name, lanes, constant, joined, store)
        for flag in (0, 1):
            source = np.arange(1, lanes + 1).astype(TYPES[name])
            target = np.full(lanes, 77, TYPES[name])
            call(source.ctypes.data, target.ctypes.data, flag)
            on = np.array(constant) & bool(flag) if joined == "and_" else np.array(constant) | bool(flag)
            np.testing.assert_array_equal(target, np.where(on, source, 77 if store else 0), f"{at}, {flag}")
        library.unload()
