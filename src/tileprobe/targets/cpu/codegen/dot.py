"""Tile products: C[m, n] (+)= A[m, k] @ B[k, n] on operands in scratch.

`plan` chooses the blocking and says how to lay the operands out; `emit` calls a micro-kernel, one internal
function of the module for each distinct plan; `emit_prefetch` asks for a cache line ahead of its use.
"""

from __future__ import annotations

from typing import Literal

from llvmlite import ir

from tileprobe.targets.cpu.codegen import dot_emit as e
from tileprobe.targets.cpu.codegen import dot_inner, dot_outer
from tileprobe.targets.cpu.codegen.dot_layout import Panel
from tileprobe.targets.cpu.codegen.dot_plan import DotPlan, plan

__all__ = ["DotPlan", "Panel", "emit", "emit_prefetch", "plan"]


def emit(
    builder: ir.IRBuilder,
    plan: DotPlan,
    a_ptr: ir.Value,
    b_ptr: ir.Value,
    c_ptr: ir.Value,
    *,
    init: Literal["accumulate", "zero"] = "accumulate",
) -> None:
    """Call the micro-kernel of `plan`: C += A @ B, or C = A @ B with init="zero".

    The three pointers must not overlap. Element alignment is enough; 64-byte alignment is faster.
    """
    builder.call(_function(builder.module, plan, fresh=init == "zero"), [a_ptr, b_ptr, c_ptr])


def emit_prefetch(builder: ir.IRBuilder, pointer: ir.Value, *, locality: int = 2) -> None:
    """Ask for the cache line at `pointer`; locality 3 is the first-level cache, 2 the second.

    Any address will do: a prefetch never faults.
    """
    i32 = ir.IntType(32)
    function = e.intrinsic(builder, "llvm.prefetch.p0", ir.VoidType(), [e.POINTER, i32, i32, i32])
    read, data = ir.Constant(i32, 0), ir.Constant(i32, 1)
    builder.call(function, [pointer, read, ir.Constant(i32, locality), data])


def _function(module: ir.Module, plan: DotPlan, fresh: bool) -> ir.Function:
    name = plan.name + (".zero" if fresh else ".add")
    known = module.globals.get(name)
    if known is not None:
        return known
    function, builder = _open(module, name)
    a, b, c = function.args
    depths = [min(plan.kc, plan.k - start) for start in range(0, plan.k, plan.kc)]
    if len(depths) == 1:
        _chunk(builder, plan, a, b, c, depths[0], fresh)
    else:
        _emit_chunks(builder, plan, name, depths, fresh)
    builder.ret_void()
    return function


def _emit_chunks(builder: ir.IRBuilder, plan: DotPlan, name: str, depths: list[int], fresh: bool) -> None:
    """Blocks of K one after another, so that what a block touches stays in the caches."""
    a, b, c = builder.function.args
    a_step = plan.m * plan.kc * plan.compute_bytes
    across = plan.nr if plan.kind == "outer" else plan.n
    b_step = plan.kc * across * plan.compute_bytes
    helpers: dict[tuple[int, bool], ir.Function] = {}
    for index, depth in enumerate(depths):
        key = (depth, fresh and index == 0)
        if key not in helpers:
            helpers[key] = _chunk_function(builder.module, plan, f"{name}.k{depth}.{int(key[1])}", *key)
    done = 1 if fresh else 0
    if fresh:
        builder.call(helpers[depths[0], True], [a, b, c])
    full = sum(depth == plan.kc for depth in depths[done:])
    a_next, b_next = e.at(builder, a, done * a_step), e.at(builder, b, done * b_step)
    if full:
        with e.repeat(builder, full, {a_next: a_step, b_next: b_step}) as (a_now, b_now):
            builder.call(helpers[plan.kc, False], [a_now, b_now, c])
    if depths[-1] != plan.kc:
        last = len(depths) - 1
        a_last, b_last = e.at(builder, a, last * a_step), e.at(builder, b, last * b_step)
        builder.call(helpers[depths[-1], False], [a_last, b_last, c])


def _chunk_function(module: ir.Module, plan: DotPlan, name: str, depth: int, fresh: bool) -> ir.Function:
    function, builder = _open(module, name)
    a, b, c = function.args
    _chunk(builder, plan, a, b, c, depth, fresh)
    builder.ret_void()
    return function


def _chunk(
    builder: ir.IRBuilder, plan: DotPlan, a: ir.Value, b: ir.Value, c: ir.Value, depth: int, fresh: bool
) -> None:
    kernel = dot_outer if plan.kind == "outer" else dot_inner
    kernel.emit_chunk(builder, plan, a, b, c, depth, fresh)


def _open(module: ir.Module, name: str) -> tuple[ir.Function, ir.IRBuilder]:
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [e.POINTER] * 3), name)
    function.linkage = "internal"
    # Inlined into a big kernel it would compete for registers and be compiled once a call.
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    for argument in function.args:
        argument.add_attribute("noalias")
    return function, ir.IRBuilder(function.append_basic_block("entry"))
