"""Prefetching of what the next dot will need, spread over the blocks of the running one.

Measured on a whole f32 matmul on Zen 3 (benchmarks/dot.py): prefetching from the packing loops gained 0 to
3 %, a line or two in each register block 6 to 12 %. One step of K ahead did as well as two or better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tileprobe.targets.cpu.codegen import dot_emit as e

LINE_BYTES = 64
# A dot with so little work that a block would need more lines than this is bound by memory anyway.
_LINES_A_BLOCK = 8


@dataclass(frozen=True, eq=False)
class Ahead:
    """A tile in memory that will be packed soon: `rows` rows of `row_bytes`, `stride_bytes` (i64) apart.

    The address may be anything, even beyond the end of a tensor: a prefetch never faults.
    """

    pointer: e.Value
    stride_bytes: e.Value
    rows: int
    row_bytes: int

    @property
    def lines(self) -> int:
        return self.rows * -(-self.row_bytes // LINE_BYTES)


@dataclass(frozen=True)
class Spread:
    """The tiles to ask for inside one function of a dot, whose blocks are counted by `first` upwards."""

    tiles: tuple[Ahead, ...]
    blocks: int
    first: e.Value

    def emit(self, builder: ir.IRBuilder, block: e.Value) -> None:
        """Ask for the share of the block with the number `block`."""
        for tile in self.tiles:
            self._emit_share(builder, tile, builder.add(self.first, block))

    def _emit_share(self, builder: ir.IRBuilder, tile: Ahead, block: e.Value) -> None:
        share = min(-(-tile.lines // self.blocks), _LINES_A_BLOCK)
        lines_a_row = ir.Constant(e.I64, tile.lines // tile.rows)
        for line in range(share):
            index = builder.mul(block, ir.Constant(e.I64, share))
            index = builder.add(index, ir.Constant(e.I64, line))
            row, inside = builder.udiv(index, lines_a_row), builder.urem(index, lines_a_row)
            distance = builder.add(
                builder.mul(row, tile.stride_bytes), builder.mul(inside, ir.Constant(e.I64, LINE_BYTES))
            )
            emit_prefetch(builder, builder.gep(tile.pointer, [distance], source_etype=ir.IntType(8)))


def emit_prefetch(builder: ir.IRBuilder, pointer: e.Value, *, locality: int = 2) -> None:
    """Ask for the cache line at `pointer`; locality 3 is the first-level cache, 2 the second.

    Any address will do: a prefetch never faults.
    """
    i32 = ir.IntType(32)
    function = e.intrinsic(builder, "llvm.prefetch.p0", ir.VoidType(), [e.POINTER, i32, i32, i32])
    read, data = ir.Constant(i32, 0), ir.Constant(i32, 1)
    builder.call(function, [pointer, read, ir.Constant(i32, locality), data])


def shape_of(tiles: Sequence[Ahead]) -> str:
    """What of the tiles is compiled into a function, for its name."""
    return "".join(f".{tile.rows}r{tile.row_bytes}" for tile in tiles)
