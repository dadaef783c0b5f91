"""The micro-kernel with vectors along k, for a C that is narrower than a vector (matrix times vector).

In: a plan and pointers to one block of K in scratch. Out: IR that adds that block's products to C.
"""

from __future__ import annotations

from llvmlite import ir

from tileprobe.targets.cpu.codegen import dot_emit as e
from tileprobe.targets.cpu.codegen.dot_ahead import Spread
from tileprobe.targets.cpu.codegen.dot_plan import DotPlan

# Vectors of K in one round of the innermost loop.
UNROLL = 4


def emit_chunk(
    builder: ir.IRBuilder,
    plan: DotPlan,
    a: e.Value,
    b: e.Value,
    c: e.Value,
    depth: int,
    fresh: bool,
    spread: Spread,
) -> None:
    """C (+)= A @ B over `depth` steps of K; `fresh` overwrites C."""
    full, rest = divmod(plan.m, plan.mr)
    a_step = plan.mr * plan.a_layout.width * plan.compute_bytes
    c_step = plan.mr * plan.n * plan.acc_bytes
    steps = {a: a_step, c: c_step, ir.Constant(e.I64, 0): 1}
    with e.repeat(builder, full, steps) as (a_rows, c_rows, number):
        spread.emit(builder, number)
        _emit_rows(builder, plan, a_rows, b, c_rows, plan.mr, depth, fresh)
    if rest:
        a_rest, c_rest = e.at(builder, a, full * a_step), e.at(builder, c, full * c_step)
        _emit_rows(builder, plan, a_rest, b, c_rest, rest, depth, fresh)


def _emit_rows(
    builder: ir.IRBuilder,
    plan: DotPlan,
    a: e.Value,
    b: e.Value,
    c: e.Value,
    rows: int,
    depth: int,
    fresh: bool,
) -> None:
    cells = [(row, column) for row in range(rows) for column in range(plan.n)]
    wide = e.vector(plan.compute_type, plan.lanes)
    sums: list[e.Value] = [e.zero(wide) for _ in cells]
    round_elems = UNROLL * plan.lanes
    rounds, rest = divmod(depth, round_elems)
    if rounds:
        sums = _emit_rounds(builder, plan, a, b, cells, sums, rounds)
    done = rounds * round_elems
    vectors, rest = divmod(rest, plan.lanes)
    for vector in range(vectors):
        sums = _emit_step(builder, plan, a, b, cells, sums, done + vector * plan.lanes, plan.lanes)
    totals = [_across(builder, total) for total in sums]
    for start, lanes in e.pieces(rest, plan.lanes):
        at = done + vectors * plan.lanes + start
        zeros: list[e.Value] = [e.zero(e.vector(plan.compute_type, lanes)) for _ in cells]
        parts = _emit_step(builder, plan, a, b, cells, zeros, at, lanes)
        totals = [e.plus(builder, total, _across(builder, part)) for total, part in zip(totals, parts)]
    for (row, column), total in zip(cells, totals):
        place = e.at(builder, c, (row * plan.n + column) * plan.acc_bytes)
        value = e.settle(builder, total, plan.acc_type)
        if not fresh:
            value = e.plus(builder, builder.load(place, typ=plan.acc_type, align=plan.acc_bytes), value)
        builder.store(value, place, align=plan.acc_bytes)


def _emit_rounds(
    builder: ir.IRBuilder,
    plan: DotPlan,
    a: e.Value,
    b: e.Value,
    cells: list[tuple[int, int]],
    sums: list[e.Value],
    rounds: int,
) -> list[e.Value]:
    entry = builder.block
    step_bytes = UNROLL * plan.lanes * plan.compute_bytes
    with e.repeat(builder, rounds, {a: step_bytes, b: step_bytes}) as (a_now, b_now):
        carried = [builder.phi(total.type) for total in sums] if rounds > 1 else []
        inside: list[e.Value] = list(carried) or sums
        for vector in range(UNROLL):
            inside = _emit_step(builder, plan, a_now, b_now, cells, inside, vector * plan.lanes, plan.lanes)
        for phi, start, last in zip(carried, sums, inside):
            phi.add_incoming(start, entry)
            phi.add_incoming(last, builder.block)
    return inside


def _emit_step(
    builder: ir.IRBuilder,
    plan: DotPlan,
    a: e.Value,
    b: e.Value,
    cells: list[tuple[int, int]],
    sums: list[e.Value],
    start: int,
    lanes: int,
) -> list[e.Value]:
    """One vector of K: a row of A times a column of B for every cell of the block."""
    size = plan.compute_bytes
    typ = e.vector(plan.compute_type, lanes)

    def line(pointer: e.Value, index: int, width: int) -> e.Value:
        return e.load(builder, pointer, typ, (index * width + start) * size, size)

    left = {row: line(a, row, plan.a_layout.width) for row in sorted({row for row, _ in cells})}
    right = {column: line(b, column, plan.b_layout.width) for column in range(plan.n)}
    return [
        e.multiply_add(builder, left[row], right[column], total) for (row, column), total in zip(cells, sums)
    ]


def _across(builder: ir.IRBuilder, total: e.Value) -> e.Value:
    """The sum of a vector's lanes, by halves: short chains, and the same result on every machine."""
    lanes = e.lanes_of(total.type)
    while lanes > 1:
        lanes //= 2
        low, high = (_part(builder, total, start, lanes) for start in (0, lanes))
        total = e.plus(builder, low, high)
    return total


def _part(builder: ir.IRBuilder, value: e.Value, start: int, lanes: int) -> e.Value:
    if lanes == 1:
        return builder.extract_element(value, ir.Constant(ir.IntType(32), start))
    index = ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(start, start + lanes)))
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), index)
