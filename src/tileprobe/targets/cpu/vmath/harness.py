"""Runs emitters over NumPy arrays: what the tests and the benchmark of this package stand on.

`compile_map` builds a loop that loads vectors of the inputs, hands them to an emitter and stores its result,
and returns a function from arrays to an array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np

from .values import I64, like

Emit = Callable[[ir.IRBuilder, list[Any]], Any]
_TYPES = {
    "float16": ir.HalfType(),
    "float32": ir.FloatType(),
    "float64": ir.DoubleType(),
    **{f"{s}int{n}": ir.IntType(n) for s in ("", "u") for n in (8, 16, 32, 64)},
}
_keep: list[object] = []  # engines own the code that the returned functions run


def _machine(without: tuple[str, ...]) -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    found = llvm.get_host_cpu_features()
    found.update((name, False) for name in without)
    features = found.flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True)


def build(emit: Emit, inputs: list[np.dtype], output: np.dtype, lanes: int) -> ir.Module:
    """A module whose function `map(count, out, in...)` applies the emitter to count elements.

    `lanes` 0 works on scalars; count must be a multiple of the lanes.
    """
    module = ir.Module()
    pointer = ir.IntType(8).as_pointer()
    f = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] + [pointer] * (len(inputs) + 1)), "map")
    for argument in f.args[1:]:
        argument.add_attribute("noalias")
    entry, loop, done = (f.append_basic_block(n) for n in ("entry", "loop", "done"))
    b = ir.IRBuilder(entry)
    b.cbranch(b.icmp_signed(">", f.args[0], I64(0)), loop, done)
    b.position_at_end(loop)
    i = b.phi(I64)
    i.add_incoming(I64(0), entry)

    def at(argument: Any, dtype: np.dtype) -> Any:
        e = _TYPES[dtype.name]
        t = ir.VectorType(e, lanes) if lanes else e
        address = b.gep(argument, [b.mul(i, I64(dtype.itemsize))])
        return b.bitcast(address, t.as_pointer())

    values = []
    for argument, dtype in zip(f.args[2:], inputs):
        values.append(b.load(at(argument, dtype), align=dtype.itemsize))
    result = emit(b, values)
    wanted = _TYPES[output.name]
    if result.type != like(result.type, wanted):
        result = b.zext(result, like(result.type, wanted))  # i1 as a byte
    b.store(result, at(f.args[1], output), align=output.itemsize)
    following = b.add(i, I64(lanes or 1))
    i.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, f.args[0]), loop, done)
    b.position_at_end(done)
    b.ret_void()
    return module


def compile_map(
    emit: Emit, inputs: list, output, lanes: int = 8, without: tuple[str, ...] = ()
) -> Callable[..., np.ndarray]:
    """A function from arrays of the input dtypes to an array of the output dtype.

    `without` names features of the processor not to use.
    """
    ins, out = [np.dtype(d) for d in inputs], np.dtype(output)
    machine = _machine(without)
    parsed = llvm.parse_assembly(str(build(emit, ins, out, lanes)))
    parsed.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(parsed, passes)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    _keep.append(engine)
    code = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (len(ins) + 1))(
        engine.get_function_address("map")
    )

    def run(*arrays: np.ndarray) -> np.ndarray:
        count, step = arrays[0].size, lanes or 1
        padded = -(-count // step) * step
        given = [np.resize(np.ascontiguousarray(a, d), padded) for a, d in zip(arrays, ins)]
        result = np.empty(padded, out)
        code(padded, result.ctypes.data, *(a.ctypes.data for a in given))
        return result[:count]

    run.code = code  # type: ignore[attr-defined]
    return run
