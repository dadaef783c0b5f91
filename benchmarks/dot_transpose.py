"""Speed of packing a transposed operand: squares in registers against gathers and against single loads.

The source is a row-major [n, k] tile inside a wider matrix, the target the panels of B in a dot. Prints a
table in elements a nanosecond; `--json FILE` also writes the numbers.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from tileprobe.files import write_json
from tileprobe.targets.cpu.codegen import dot_emit as e
from tileprobe.targets.cpu.codegen import transpose
from tileprobe.targets.cpu.codegen.dot import Panel
from tileprobe.targets.cpu.host import host

F32 = ir.FloatType()
REPEATS = 200
Emit = Callable[[ir.IRBuilder, e.Value, int, e.Value, Panel, int], None]


def squares(
    builder: ir.IRBuilder, src: e.Value, stride: int, dst: e.Value, layout: Panel, lanes: int
) -> None:
    typ = ir.VectorType(F32, lanes)

    def square(start: e.Value) -> list[e.Value]:
        return transpose.turn(
            builder, [e.load(builder, start, typ, n * stride * 4, 4) for n in range(lanes)], 4
        )

    _walk(builder, src, stride, dst, layout, lanes, square, columns=lanes)


def gathers(
    builder: ir.IRBuilder, src: e.Value, stride: int, dst: e.Value, layout: Panel, lanes: int
) -> None:
    pointers = ir.VectorType(e.POINTER, lanes)
    typ, bits = ir.VectorType(F32, lanes), ir.VectorType(ir.IntType(1), lanes)
    name = f"llvm.masked.gather.v{lanes}f32.v{lanes}p0"
    gather = e.intrinsic(builder, name, typ, [pointers, bits, typ])
    offsets = ir.Constant(ir.VectorType(e.I64, lanes), [lane * stride for lane in range(lanes)])
    ones = ir.Constant(bits, [1] * lanes)

    def column(start: e.Value) -> list[e.Value]:
        places = builder.gep(start, [offsets], source_etype=F32)
        places.type = pointers  # llvmlite does not see that a vector of offsets makes a vector of pointers
        return [builder.call(gather, [places, ones, ir.Constant(typ, None)])]

    _walk(builder, src, stride, dst, layout, lanes, column)


def singles(
    builder: ir.IRBuilder, src: e.Value, stride: int, dst: e.Value, layout: Panel, lanes: int
) -> None:
    def column(start: e.Value) -> list[e.Value]:
        value: e.Value = ir.Constant(ir.VectorType(F32, lanes), ir.Undefined)
        for lane in range(lanes):
            single = e.load(builder, start, F32, lane * stride * 4, 4)
            value = builder.insert_element(value, single, ir.Constant(ir.IntType(32), lane))
        return [value]

    _walk(builder, src, stride, dst, layout, lanes, column)


def _walk(
    builder: ir.IRBuilder,
    src: e.Value,
    stride: int,
    dst: e.Value,
    layout: Panel,
    lanes: int,
    read: Callable[[e.Value], list[e.Value]],
    columns: int = 1,
) -> None:
    """Store vectors of `lanes` consecutive n, read from as many rows of the source, so many columns at a time."""
    row_bytes = layout.width * 4
    panels = e.repeat(builder, layout.panels, {src: row_bytes * stride, dst: layout.other * row_bytes})
    with panels as (rows, place):
        steps = e.repeat(builder, layout.other // columns, {rows: columns * 4, place: columns * row_bytes})
        with steps as (start, row):
            for part in range(0, layout.width, lanes):
                for number, value in enumerate(read(e.at(builder, start, part * stride * 4))):
                    builder.store(value, e.at(builder, row, number * row_bytes + part * 4), align=4)


WAYS: dict[str, Emit] = {"squares": squares, "gathers": gathers, "single loads": singles}


def compile_way(emit: Emit, stride: int, layout: Panel, lanes: int) -> tuple[Any, Callable[[int, int], None]]:
    module = ir.Module("transpose")
    module.triple = host().triple
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [e.POINTER] * 2), "run")
    for argument in function.args:
        argument.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    src, dst = function.args
    with e.repeat(builder, REPEATS, {src: 0}) as (source,):
        emit(builder, source, stride, dst, layout, lanes)
    builder.ret_void()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), host().target_machine())
    engine.finalize_object()
    return engine, ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(engine.get_function_address("run"))


def measure(n: int, k: int, stride: int, rounds: int) -> list[dict[str, Any]]:
    lanes = host().vector_bytes // 4
    layout = Panel((k, n), 1, 2 * lanes)
    source = np.random.default_rng(0).standard_normal((n, stride)).astype(np.float32)
    wanted = np.concatenate([source[p : p + 2 * lanes, :k].T for p in range(0, n, 2 * lanes)])
    calls, seconds = {}, {name: [] for name in WAYS}
    for name, emit in WAYS.items():
        engine, run = compile_way(emit, stride, layout, lanes)
        found = np.zeros(layout.elems, np.float32)
        run(source.ctypes.data, found.ctypes.data)
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
        calls[name] = (engine, run, found)
    for _ in range(rounds):
        for name, (_, run, found) in calls.items():
            start = time.perf_counter()
            run(source.ctypes.data, found.ctypes.data)
            seconds[name].append(time.perf_counter() - start)
    work = REPEATS * n * k / 1e9
    return [
        {"n": n, "k": k, "stride": stride, "way": name, "elements_per_ns": work / statistics.median(times)}
        for name, times in seconds.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    args = parser.parse_args()
    rows = []
    for shape in [(64, 64, 64), (128, 64, 64), (128, 32, 1024), (64, 32, 1100)]:
        rows += measure(*shape, args.rounds)
    print(f"{'f32 tile [n, k] in rows of':28} {'way':14} elements/ns")
    for row in rows:
        name = f"{row['n']} x {row['k']} of {row['stride']}"
        print(f"{name:28} {row['way']:14} {row['elements_per_ns']:.2f}")
    if args.json:
        write_json(args.json, rows)


if __name__ == "__main__":
    main()
