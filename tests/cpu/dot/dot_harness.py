"""Compile a dot or a transpose on its own and run it on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from tileprobe.targets.cpu.codegen import dot

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

NUMPY = {
    "f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bf16": np.uint16, "i8": np.int8,
}  # fmt: skip
# What scratch holds where nothing was written: no number, or one that spoils a sum.
POISON = {np.uint16: 0x7FC0, np.int8: 77, np.int32: 77777, np.int64: 77777}


def build(emit: Callable[[ir.IRBuilder, list[ir.Value]], None], params: list[ir.Type]) -> ir.Module:
    """A module with one exported function `run` whose body is what `emit` appends."""
    module = ir.Module("test")
    module.triple = llvm.get_process_triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), params), "run")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    emit(builder, list(function.args))
    builder.ret_void()
    return module


class Compiled:
    """A module in memory and its `run` as a ctypes function of addresses and integers."""

    def __init__(self, module: ir.Module, count: int, cpu: str | None = None, features: str | None = None):
        target = llvm.Target.from_default_triple()
        host = llvm.get_host_cpu_features().flatten()
        self.machine = target.create_target_machine(
            cpu=llvm.get_host_cpu_name() if cpu is None else cpu,
            features=host if features is None else features,
            opt=2,
            jit=True,
        )
        parsed = llvm.parse_assembly(str(module))
        parsed.verify()
        self._engine = llvm.create_mcjit_compiler(parsed, self.machine)
        self._engine.finalize_object()
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * count)
        self.run = prototype(self._engine.get_function_address("run"))


def assembly(module: ir.Module, triple: str, cpu: str, features: str = "") -> str:
    """Assembly for another machine; needs the target to be part of this LLVM."""
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu=cpu, features=features, opt=2)
    text = str(module).replace(module.triple, triple)
    return machine.emit_assembly(llvm.parse_assembly(text))


def dot_module(plan: dot.DotPlan, init: str = "accumulate") -> ir.Module:
    def body(builder: ir.IRBuilder, args: list[ir.Value]) -> None:
        dot.emit(builder, plan, *args, init=init)

    return build(body, [ir.PointerType()] * 3)


def pack(layout: dot.Panel, matrix: np.ndarray, dtype: type) -> np.ndarray:
    """The matrix in its scratch layout; what the layout leaves unused is poison."""
    out = aligned(layout.elems, dtype)
    out[:] = POISON.get(dtype, np.nan)
    rows, cols = np.indices(matrix.shape)
    along, across = (rows, cols) if layout.axis == 0 else (cols, rows)
    place = (along // layout.width * layout.other + across) * layout.width + along % layout.width
    out[place] = matrix
    return out


def aligned(count: int, dtype: type) -> np.ndarray:
    raw = np.zeros(count * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count * np.dtype(dtype).itemsize].view(dtype)


def run_dot(plan: dot.DotPlan, a: np.ndarray, b: np.ndarray, c: np.ndarray, init: str) -> np.ndarray:
    """C after the dot, with guards around it checked."""
    compute, acc = NUMPY[plan.compute], NUMPY[plan.acc]
    packed_a, packed_b = pack(plan.a_layout, a, compute), pack(plan.b_layout, b, compute)
    guard = 64
    memory = aligned(c.size + 2 * guard, acc)
    memory[:] = 99
    memory[guard : guard + c.size] = c.ravel()
    address = memory.ctypes.data + guard * memory.itemsize
    code = Compiled(dot_module(plan, init), 3)
    code.run(packed_a.ctypes.data, packed_b.ctypes.data, address)
    assert (memory[:guard] == 99).all()
    assert (memory[guard + c.size :] == 99).all()
    return memory[guard : guard + c.size].reshape(c.shape).copy()
