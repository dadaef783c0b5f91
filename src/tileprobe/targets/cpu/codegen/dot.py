"""Tile products: C[m, n] (+)= A[m, k] @ B[k, n] on operands in scratch.

`plan` chooses the blocking and says how to lay the operands out; `emit` calls a micro-kernel, one internal
function of the module for each distinct plan, which can prefetch the tiles of the next product meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from llvmlite import ir

from tileprobe.targets.cpu.codegen import dot_emit as e
from tileprobe.targets.cpu.codegen import dot_inner, dot_outer
from tileprobe.targets.cpu.codegen.dot_ahead import Ahead, Spread, emit_prefetch, shape_of
from tileprobe.targets.cpu.codegen.dot_layout import Panel
from tileprobe.targets.cpu.codegen.dot_plan import DotPlan, plan

__all__ = ["Ahead", "DotPlan", "Panel", "emit", "emit_prefetch", "plan"]


def emit(
    builder: ir.IRBuilder,
    plan: DotPlan,
    a_ptr: e.Value,
    b_ptr: e.Value,
    c_ptr: e.Value,
    *,
    init: Literal["accumulate", "zero"] = "accumulate",
    ahead: Sequence[Ahead] = (),
) -> None:
    """Call the micro-kernel of `plan`: C += A @ B, or C = A @ B with init="zero".

    The three pointers must not overlap. Element alignment is enough; 64-byte alignment is faster.
    `ahead` names the sources of the tiles that will be packed next; they are prefetched on the way.
    """
    tiles = list(ahead)
    function = _function(builder.module, plan, init == "zero", tiles)
    builder.call(function, [a_ptr, b_ptr, c_ptr, *_fields(tiles)])


def _function(module: ir.Module, plan: DotPlan, fresh: bool, tiles: list[Ahead]) -> ir.Function:
    name = plan.name + (".zero" if fresh else ".add") + shape_of(tiles)
    known = module.globals.get(name)
    if known is not None:
        return known
    depths = [min(plan.kc, plan.k - start) for start in range(0, plan.k, plan.kc)]
    if len(depths) == 1:
        return _chunk_function(module, plan, name, depths[0], fresh, tiles, 1)
    return _chunked_function(module, plan, name, depths, fresh, tiles)


def _chunk_function(
    module: ir.Module, plan: DotPlan, name: str, depth: int, fresh: bool, tiles: list[Ahead], chunks: int
) -> ir.Function:
    """The product over one block of K; with several of them it is told the number of its first block."""
    numbered = [e.I64] if chunks > 1 else []
    function, builder = _open(module, name, tiles, numbered)
    a, b, c = function.args[:3]
    first = function.args[-1] if chunks > 1 else ir.Constant(e.I64, 0)
    kernel = dot_outer if plan.kind == "outer" else dot_inner
    spread = Spread(_inside(function, tiles), plan.blocks * chunks, first)
    kernel.emit_chunk(builder, plan, a, b, c, depth, fresh, spread)
    builder.ret_void()
    return function


def _chunked_function(
    module: ir.Module, plan: DotPlan, name: str, depths: list[int], fresh: bool, tiles: list[Ahead]
) -> ir.Function:
    """Blocks of K one after another, so that what a block touches stays in the caches."""
    function, builder = _open(module, name, tiles, [])
    a, b, c, *rest = function.args
    a_step = plan.m * plan.kc * plan.compute_bytes
    across = plan.nr if plan.kind == "outer" else plan.n
    b_step = plan.kc * across * plan.compute_bytes

    def chunk(depth: int, first: bool) -> ir.Function:
        inner = f"{name}.k{depth}" + (".first" if first else "")
        return _chunk_function(module, plan, inner, depth, first, tiles, len(depths))

    done = 0
    if fresh:
        builder.call(chunk(depths[0], True), [a, b, c, *rest, ir.Constant(e.I64, 0)])
        done = 1
    full = sum(depth == plan.kc for depth in depths[done:])
    a_next, b_next = e.at(builder, a, done * a_step), e.at(builder, b, done * b_step)
    number = ir.Constant(e.I64, done * plan.blocks)
    if full:
        middle = chunk(plan.kc, False)
        steps = {a_next: a_step, b_next: b_step, number: plan.blocks}
        with e.repeat(builder, full, steps) as (a_now, b_now, number_now):
            builder.call(middle, [a_now, b_now, c, *rest, number_now])
    if depths[-1] != plan.kc:
        last = len(depths) - 1
        a_last, b_last = e.at(builder, a, last * a_step), e.at(builder, b, last * b_step)
        number = ir.Constant(e.I64, last * plan.blocks)
        builder.call(chunk(depths[-1], False), [a_last, b_last, c, *rest, number])
    builder.ret_void()
    return function


def _open(
    module: ir.Module, name: str, tiles: list[Ahead], more: Sequence[ir.Type]
) -> tuple[ir.Function, ir.IRBuilder]:
    params = [e.POINTER] * 3 + [field for _ in tiles for field in (e.POINTER, e.I64)] + list(more)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), params), name)
    function.linkage = "internal"
    # Inlined into a big kernel it would compete for registers and be compiled once a call.
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    for argument in function.args[:3]:
        argument.add_attribute("noalias")
    return function, ir.IRBuilder(function.append_basic_block("entry"))


def _fields(tiles: Sequence[Ahead]) -> list[e.Value]:
    return [field for tile in tiles for field in (tile.pointer, tile.stride_bytes)]


def _inside(function: ir.Function, tiles: list[Ahead]) -> tuple[Ahead, ...]:
    """The tiles as the function sees them: their addresses are its arguments."""
    fields = function.args[3:]
    return tuple(
        Ahead(fields[2 * i], fields[2 * i + 1], tile.rows, tile.row_bytes) for i, tile in enumerate(tiles)
    )
