"""The micro-kernel with vectors along n: blocks of mr rows by a panel of B, kept in registers over K.

In: a plan and pointers to one block of K in scratch. Out: IR that adds that block's products to C.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llvmlite import ir

from tileprobe.targets.cpu.codegen import dot_emit as e
from tileprobe.targets.cpu.codegen.dot_ahead import Spread
from tileprobe.targets.cpu.codegen.dot_plan import DotPlan

# Steps of K in one round of the innermost loop; where an instruction takes several products, groups of steps.
UNROLL = 8
# vpdpbusd takes bytes without a sign on one side. A's are made so by turning their first bit, which adds 128 to each;
# the sums then have 128 times each column of B too much.
_TURNED = 0x80


@dataclass(frozen=True)
class _Block:
    """One register block: its rows, the vectors of one of its rows, and the steps of K."""

    plan: DotPlan
    rows: int
    cuts: list[tuple[int, int]]
    depth: int
    fresh: bool

    @property
    def a_row(self) -> int:
        return self.plan.a_layout.width * self.plan.compute_bytes

    @property
    def b_row(self) -> int:
        return self.plan.b_layout.width * self.plan.compute_bytes

    @property
    def c_row(self) -> int:
        return self.plan.n * self.plan.acc_bytes

    @property
    def kinds(self) -> list[ir.Type]:
        return [e.vector(self.plan.sum_type, lanes) for _, lanes in self.cuts]


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
    """C (+)= A @ B over `depth` steps of K; `fresh` overwrites C.

    A panel of B is outermost: it stays in the first-level cache while the rows of A pass by.
    """
    if plan.compute == "i8":
        a = _emit_unsigned(builder, plan, a)
    full, rest = divmod(plan.n, plan.nr)
    panel_bytes = plan.k * plan.nr * plan.compute_bytes
    width = plan.nr * plan.acc_bytes
    block = _Block(plan, plan.mr, e.pieces(plan.nr, plan.lanes), depth, fresh)
    number = ir.Constant(e.I64, 0)
    steps = {b: panel_bytes, c: width, number: plan.m // plan.mr}
    with e.repeat(builder, full, steps) as (b_panel, c_panel, first):
        _emit_panel(builder, block, a, b_panel, c_panel, spread, first)
    if rest:
        block = replace(block, cuts=e.pieces(rest, plan.lanes))
        b_rest, c_rest = e.at(builder, b, full * panel_bytes), e.at(builder, c, full * width)
        _emit_panel(builder, block, a, b_rest, c_rest, replace(spread, tiles=()), number)


def _emit_panel(
    builder: ir.IRBuilder, block: _Block, a: e.Value, b: e.Value, c: e.Value, spread: Spread, first: e.Value
) -> None:
    """All rows of A by one panel of B; `first` is the number of the panel's first block."""
    full, rest = divmod(block.plan.m, block.rows)
    excess = _emit_excess(builder, block, b) if block.plan.compute == "i8" else []
    a_step, c_step = block.rows * block.a_row, block.rows * block.c_row
    with e.repeat(builder, full, {a: a_step, c: c_step, first: 1}) as (a_rows, c_rows, number):
        spread.emit(builder, number)
        _emit_block(builder, block, a_rows, b, c_rows, excess)
    if rest:
        a_rest, c_rest = e.at(builder, a, full * a_step), e.at(builder, c, full * c_step)
        _emit_block(builder, replace(block, rows=rest), a_rest, b, c_rest, excess)


def _emit_unsigned(builder: ir.IRBuilder, plan: DotPlan, a: e.Value) -> e.Value:
    """A block of A's bytes on the stack, 128 added to each.

    Once for all panels of B; turned in the loop over K, LLVM takes the bit through a general register (a third slower),
    or does not come to an end at all.
    """
    size, lanes = plan.m * plan.a_layout.width, plan.group * plan.lanes
    byte = ir.IntType(8)
    room = builder.alloca(ir.VectorType(byte, lanes), -(-size // lanes))
    copy = builder.inttoptr(
        builder.ptrtoint(room, e.I64), e.POINTER
    )  # llvmlite's own pointer knows one type alone

    def turn(source: e.Value, target: e.Value, count: int) -> None:
        kind = e.vector(byte, count)
        turned = e.splat(builder, ir.Constant(byte, _TURNED), count)
        builder.store(builder.xor(builder.load(source, typ=kind, align=1), turned), target, align=1)

    full, rest = divmod(size, lanes)
    if full:
        with e.repeat(builder, full, {a: lanes, copy: lanes}) as (source, target):
            turn(source, target, lanes)
    for start, count in e.pieces(rest, lanes):
        place = full * lanes + start
        turn(e.at(builder, a, place), e.at(builder, copy, place), count)
    return copy


def _emit_excess(builder: ir.IRBuilder, block: _Block, b: e.Value) -> list[e.Value]:
    """128 times the sum of each column of a panel of B, once for all rows of A."""
    plan = block.plan
    sums: list[e.Value] = [e.zero(kind) for kind in block.kinds]
    entry, groups = builder.block, block.depth // plan.group
    with e.repeat(builder, groups, {b: plan.group * block.b_row}) as (b_now,):
        carried = [builder.phi(total.type) for total in sums] if groups > 1 else []
        inside = [
            e.add_products(
                builder, e.splat(builder, ir.Constant(ir.IntType(8), _TURNED), 4 * lanes), column, total
            )
            for (_, lanes), column, total in zip(
                block.cuts, _columns(builder, block, b_now, 0), carried or sums
            )
        ]
        for phi, start, last in zip(carried, sums, inside):
            phi.add_incoming(start, entry)
            phi.add_incoming(last, builder.block)
    return inside


def _emit_block(
    builder: ir.IRBuilder, block: _Block, a: e.Value, b: e.Value, c: e.Value, excess: list[e.Value]
) -> None:
    plan = block.plan
    sums = [[e.zero(kind) for kind in block.kinds] for _ in range(block.rows)]
    rounds, rest = divmod(block.depth // plan.group, UNROLL)
    if rounds:
        sums, a, b = _emit_rounds(builder, block, a, b, sums, rounds)
    for step in range(rest):
        sums = _emit_step(builder, block, a, b, sums, step)
    if excess:
        sums = [[builder.sub(total, much) for total, much in zip(row, excess)] for row in sums]
    for row, totals in enumerate(sums):
        for (start, lanes), total in zip(block.cuts, totals):
            place = e.at(builder, c, row * block.c_row + start * plan.acc_bytes)
            value = e.settle(builder, total, plan.acc_type)
            if not block.fresh:
                old = builder.load(place, typ=e.vector(plan.acc_type, lanes), align=plan.acc_bytes)
                value = e.plus(builder, old, value)
            builder.store(value, place, align=plan.acc_bytes)


def _emit_rounds(
    builder: ir.IRBuilder,
    block: _Block,
    a: e.Value,
    b: e.Value,
    sums: list[list[e.Value]],
    rounds: int,
) -> tuple[list[list[e.Value]], e.Value, e.Value]:
    """The loop over K, with the sums carried from round to round; returns them and the moved pointers."""
    entry = builder.block
    group = UNROLL * block.plan.group
    steps = {a: group * block.plan.compute_bytes, b: group * block.b_row}
    carried = []
    with e.repeat(builder, rounds, steps) as (a_now, b_now):
        inside = sums
        if rounds > 1:
            carried = [[builder.phi(value.type) for value in row] for row in sums]
            inside = carried
        for step in range(UNROLL):
            inside = _emit_step(builder, block, a_now, b_now, inside, step)
        for phis, before, after in zip(carried, sums, inside):
            for phi, start, last in zip(phis, before, after):
                phi.add_incoming(start, entry)
                phi.add_incoming(last, builder.block)
    return inside, e.at(builder, a, rounds * steps[a]), e.at(builder, b, rounds * steps[b])


def _emit_step(
    builder: ir.IRBuilder, block: _Block, a: e.Value, b: e.Value, sums: list[list[e.Value]], step: int
) -> list[list[e.Value]]:
    """One step of K: a row of B times the broadcast elements of A."""
    plan = block.plan
    if plan.group > 1:
        return _emit_group(builder, block, a, b, sums, step)
    size = plan.compute_bytes
    row_of_b = [
        e.load(builder, b, e.vector(plan.compute_type, lanes), step * block.b_row + start * size, size)
        for start, lanes in block.cuts
    ]
    after = []
    for row, totals in enumerate(sums):
        scalar = e.load(builder, a, plan.compute_type, row * block.a_row + step * size, size)
        wide: dict[int, e.Value] = {}
        moved = []
        for (_, lanes), right, total in zip(block.cuts, row_of_b, totals):
            if lanes not in wide:
                wide[lanes] = e.splat(builder, scalar, lanes)
            moved.append(e.multiply_add(builder, wide[lanes], right, total))
        after.append(moved)
    return after


def _emit_group(
    builder: ir.IRBuilder, block: _Block, a: e.Value, b: e.Value, sums: list[list[e.Value]], step: int
) -> list[list[e.Value]]:
    """As many steps of K as one instruction takes.

    B lies in rows as ever: its elements of one column are brought together here, once for all rows of A, which have
    theirs side by side.
    """
    plan, size = block.plan, block.plan.compute_bytes
    first = step * plan.group
    columns = _columns(builder, block, b, first)
    after = []
    for row, totals in enumerate(sums):
        held = e.load(builder, a, ir.IntType(32), row * block.a_row + first * size, size)
        wide = {lanes: e.splat(builder, held, lanes) for _, lanes in block.cuts}
        after.append(
            [
                e.add_products(builder, wide[lanes], column, total)
                for (_, lanes), column, total in zip(block.cuts, columns, totals)
            ]
        )
    return after


def _columns(builder: ir.IRBuilder, block: _Block, b: e.Value, first: int) -> list[e.Value]:
    """A group of B's rows from `first` on, with the elements of each column side by side."""
    plan, size = block.plan, block.plan.compute_bytes
    found = []
    for start, lanes in block.cuts:
        kind = e.vector(plan.compute_type, lanes)
        places = [(first + k) * block.b_row + start * size for k in range(plan.group)]
        found.append(e.interleave(builder, [e.load(builder, b, kind, place, size) for place in places]))
    return found
