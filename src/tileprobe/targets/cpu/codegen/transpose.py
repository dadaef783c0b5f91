"""Squares of vectors with their axes exchanged in registers.

In: as many vectors as each has elements. Out: IR for the columns of that square, in shuffles that are single
instructions where the machine has them. A nest uses it for an operand that lies the other way in memory.
"""

from __future__ import annotations

from llvmlite import ir

from tileprobe.targets.cpu.codegen import dot_emit as e

# x86 shuffles two vectors cheaply within lanes of this size; NEON's registers are one such lane.
_LANE_BYTES = 16


def turn(builder: ir.IRBuilder, vectors: list[e.Value], elem_bytes: int) -> list[e.Value]:
    """Transpose a square of as many vectors as each has elements (a power of two)."""
    side = len(vectors)
    lane = min(side, _LANE_BYTES // elem_bytes)
    groups = [vectors[start : start + lane] for start in range(0, side, lane)]
    groups = [_turn_lanes(builder, group, lane) for group in groups]
    # Vector j of a group holds column j of every lane, for the rows of that group: gather lanes by column.
    columns: list[e.Value] = [None] * side
    for j in range(lane):
        for p, vector in enumerate(_turn_blocks(builder, [group[j] for group in groups], lane)):
            columns[p * lane + j] = vector
    return columns


def _turn_lanes(builder: ir.IRBuilder, rows: list[e.Value], lane: int) -> list[e.Value]:
    """Transpose the lane x lane squares side by side in `rows`, each within its lane.

    Interleaving the first half of the rows with the second, log2(lane) times, is a transpose; the two
    interleavings of a pair are single instructions on SSE, AVX and NEON.
    """
    half = lane // 2
    for _ in range(lane.bit_length() - 1):
        mixed = []
        for first, second in zip(rows[:half], rows[half:]):
            mixed.append(_interleave(builder, first, second, lane, 0))
            mixed.append(_interleave(builder, first, second, lane, half))
        rows = mixed
    return rows


def _interleave(builder: ir.IRBuilder, first: e.Value, second: e.Value, lane: int, start: int) -> e.Value:
    side = e.lanes_of(first.type)
    picks = [
        base + start + offset + source
        for base in range(0, side, lane)
        for offset in range(lane // 2)
        for source in (0, side)
    ]
    return _shuffle(builder, first, second, picks)


def _turn_blocks(builder: ir.IRBuilder, vectors: list[e.Value], lane: int) -> list[e.Value]:
    """Transpose a square of whole lanes: exchange the halves of pairs, then quarters, ..."""
    count = len(vectors)
    if count == 1:
        return vectors
    side = count * lane
    vectors = list(vectors)
    half = count // 2
    while half:
        for i in range(count):
            if i & half:
                continue
            first, second = vectors[i], vectors[i + half]
            low = [j if not (j // lane) & half else side + j - half * lane for j in range(side)]
            high = [j + half * lane if not (j // lane) & half else side + j for j in range(side)]
            vectors[i] = _shuffle(builder, first, second, low)
            vectors[i + half] = _shuffle(builder, first, second, high)
        half //= 2
    return vectors


def _shuffle(builder: ir.IRBuilder, first: e.Value, second: e.Value, picks: list[int]) -> e.Value:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(picks)), picks)
    return builder.shuffle_vector(first, second, mask)
