"""Tiles copied from memory into scratch with their axes exchanged, through squares kept in registers.

In: a source whose rows are contiguous, with a run-time stride. Out: IR that fills scratch whose contiguous
axis is the other one, such as the panels of a dot. Elements can be converted on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from tileprobe.targets.cpu.codegen import dot_emit as e
from tileprobe.targets.cpu.codegen.dot_layout import Panel

Convert = Callable[[ir.IRBuilder, e.Value], e.Value]

_BYTES = {"half": 2, "float": 4, "double": 8}
# x86 shuffles two vectors cheaply within lanes of this size; NEON's registers are one such lane.
_LANE_BYTES = 16


@dataclass(frozen=True)
class _Job:
    """What stays the same over all squares of a tile; distances are in bytes."""

    elem: ir.Type
    elem_bytes: int
    out_bytes: int
    src_stride: e.Value
    dst_stride: int
    convert: Convert | None


def emit_tile(
    builder: ir.IRBuilder,
    src_ptr: e.Value,
    src_stride: e.Value,
    dst_ptr: e.Value,
    dst_stride: int,
    rows: int,
    cols: int,
    elem_type: ir.Type,
    *,
    vector_bytes: int,
    convert: Convert | None = None,
    out_type: ir.Type | None = None,
) -> None:
    """dst[c * dst_stride + r] = convert(src[r * src_stride + c]) for all r < rows, c < cols.

    Strides are in elements, the source's an i64 value. `convert` gets vectors of `elem_type` (a scalar where
    a single element is left over) and returns as many of `out_type`. The two tiles must not overlap.
    """
    elem_bytes = _size(elem_type)
    out_bytes = _size(out_type) if out_type is not None else elem_bytes
    stride = builder.mul(src_stride, ir.Constant(e.I64, elem_bytes))
    job = _Job(elem_type, elem_bytes, out_bytes, stride, dst_stride * out_bytes, convert)
    _emit_area(builder, job, src_ptr, dst_ptr, rows, cols, max(1, vector_bytes // out_bytes))


def emit_pack(
    builder: ir.IRBuilder,
    src_ptr: e.Value,
    src_stride: e.Value,
    dst_ptr: e.Value,
    layout: Panel,
    elem_type: ir.Type,
    *,
    vector_bytes: int,
    convert: Convert | None = None,
    out_type: ir.Type | None = None,
) -> None:
    """Fill a matrix of `layout` from a source contiguous along the axis the layout does not cut.

    Source row x holds the elements whose index along `layout.axis` is x, `src_stride` elements from the next.
    """
    elem_bytes = _size(elem_type)
    out_bytes = _size(out_type) if out_type is not None else elem_bytes
    full, rest = divmod(layout.shape[layout.axis], layout.width)
    panel = layout.other * layout.width * out_bytes
    step = builder.mul(src_stride, ir.Constant(e.I64, layout.width * elem_bytes))

    def fill(source: e.Value, target: e.Value, rows: int) -> None:
        emit_tile(
            builder, source, src_stride, target, layout.width, rows, layout.other, elem_type,
            vector_bytes=vector_bytes, convert=convert, out_type=out_type,
        )  # fmt: skip

    if full:
        with e.repeat(builder, full, {ir.Constant(e.I64, 0): 1, dst_ptr: panel}) as (index, target):
            fill(_byte(builder, src_ptr, builder.mul(index, step)), target, layout.width)
    if rest:
        source = _byte(builder, src_ptr, builder.mul(ir.Constant(e.I64, full), step))
        fill(source, e.at(builder, dst_ptr, full * panel), rest)


def _emit_area(
    builder: ir.IRBuilder, job: _Job, src: e.Value, dst: e.Value, rows: int, cols: int, side: int
) -> None:
    """Squares of `side`, then what is left on the right and below in squares of half the side."""
    while side > min(rows, cols):
        side //= 2
    down, across = rows // side, cols // side
    _emit_squares(builder, job, src, dst, down, across, side)
    right, below = cols % side, rows % side
    if right:
        source = e.at(builder, src, across * side * job.elem_bytes)
        target = e.at(builder, dst, across * side * job.dst_stride)
        _emit_area(builder, job, source, target, down * side, right, side // 2)
    if below:
        source = _byte(builder, src, builder.mul(job.src_stride, ir.Constant(e.I64, down * side)))
        _emit_area(
            builder, job, source, e.at(builder, dst, down * side * job.out_bytes), below, cols, side // 2
        )


def _emit_squares(
    builder: ir.IRBuilder, job: _Job, src: e.Value, dst: e.Value, down: int, across: int, side: int
) -> None:
    band = builder.mul(job.src_stride, ir.Constant(e.I64, side))
    zero = ir.Constant(e.I64, 0)
    with e.repeat(builder, down, {zero: 1, dst: side * job.out_bytes}) as (index, target):
        top = _byte(builder, src, builder.mul(index, band))
        lines = [
            _byte(builder, top, builder.mul(job.src_stride, ir.Constant(e.I64, row))) for row in range(side)
        ]
        steps = {zero: side * job.elem_bytes, target: side * job.dst_stride}
        with e.repeat(builder, across, steps) as (start, place):
            _emit_square(builder, job, [_byte(builder, line, start) for line in lines], place, side)


def _emit_square(builder: ir.IRBuilder, job: _Job, lines: list[e.Value], dst: e.Value, side: int) -> None:
    typ = e.vector(job.elem, side)
    vectors = [builder.load(line, typ=typ, align=job.elem_bytes) for line in lines]
    if job.convert is not None:
        vectors = [job.convert(builder, vector) for vector in vectors]
    for column, vector in enumerate(turn(builder, vectors, job.out_bytes)):
        builder.store(vector, e.at(builder, dst, column * job.dst_stride), align=job.out_bytes)


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


def _byte(builder: ir.IRBuilder, pointer: e.Value, distance: e.Value) -> e.Value:
    return builder.gep(pointer, [distance], source_etype=ir.IntType(8))


def _size(typ: ir.Type) -> int:
    if isinstance(typ, ir.IntType):
        return typ.width // 8
    return _BYTES[str(typ)]
