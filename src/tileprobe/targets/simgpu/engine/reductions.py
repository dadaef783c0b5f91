"""Bulk reductions (TMA): the elements of a tile in shared memory are added to, or otherwise combined with, those of a
tensor in global memory, one after another. Elements outside of the tensor are left out."""

from __future__ import annotations

import numpy as np

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import clocks, raw, shadow
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.addresses import fault, inside
from tileprobe.targets.simgpu.engine.atomics import ADD, F32_WHOLE, MAX, MIN, after, half, to_half
from tileprobe.targets.simgpu.engine.bulk import (
    descriptor_of,
    element_bytes,
    stride,
    swizzled,
    tile_bytes,
)
from tileprobe.targets.simgpu.engine.fields import field, row
from tileprobe.targets.simgpu.engine.numbers import family

# Element types of a descriptor, and what they are called among the atomics
_U32, _S32, _U64, _S64, _F16, _F32, _F32_FLUSHED, _F64, _BF16 = 2, 3, 4, 5, 6, 7, 8, 9, 10
_AS_U32, _AS_S32, _AS_U64, _AS_S64, _AS_F32, _AS_F64, _AS_F16, _AS_BF16 = range(8)


@part
def _halves(old, value, operation, kind):
    """Two numbers of 16 bits; of min and max the one that is a number, if only one is."""
    form = _AS_BF16 if kind == _BF16 else _AS_F16
    x, y = half(old, form), half(value, form)
    if operation == ADD:
        return to_half(x + y, form)
    if x != x:
        return value
    if y != y:
        return old
    if operation == MIN:
        return value if y < x else old
    return value if y > x else old


@part
def _combine(place, here, kind, operation):
    """Whether the kind of element can be combined in this way."""
    if kind in (_F16, _BF16):
        if operation not in (ADD, MIN, MAX):
            return False
        raw.put16(place, _halves(raw.u16(place), raw.u16(here), operation, kind))
        return True
    if kind in (_U64, _S64, _F64):
        form = _AS_U64 if kind == _U64 else _AS_S64 if kind == _S64 else _AS_F64
        if kind == _F64 and operation != ADD:
            return False
        raw.put64(place, after(raw.i64(place), raw.i64(here), np.int64(0), operation, form))
        return True
    if kind in (_U32, _S32, _F32, _F32_FLUSHED):
        if kind >= _F32 and operation != ADD:
            return False
        form = _AS_U32 if kind == _U32 else _AS_S32 if kind == _S32 else F32_WHOLE
        if kind == _F32_FLUSHED:
            form = _AS_F32
        raw.put32(place, after(raw.u32(place), raw.u32(here), np.int64(0), operation, form))
        return True
    return False


@part
def _line(place, n, coordinates, rank):
    """The address of coordinate 0 of a tile's line, or 0 where the line is outside of the tensor."""
    base = raw.i64(place)
    for d in range(1, rank):
        width = raw.u8(place + 55 + d) + 1
        where = raw.i32(coordinates + at.ROW * d) + n % width
        n //= width
        if where < 0 or where > raw.u32(place + 32 + 4 * d):
            return 0
        base += where * stride(place, d - 1)
    return base


@part
def _reach(place, rank, element):
    """Bytes from the first to behind the last element of a tensor, and lines of a tile."""
    lines, reach = 1, raw.u32(place + 32) * element + element
    for n in range(1, rank):
        lines *= raw.u8(place + 55 + n) + 1
        reach += stride(place, n - 1) * raw.u32(place + 32 + 4 * n)
    return reach, lines


@family("UTMAREDG")
def reduction(op, uop, warp, cta, constants, mask, pc):
    """A: shared address, coordinates in uniform registers; B: the descriptor; I0: the rank, I1: what is done."""
    if mask == 0:
        return at.OK
    what, rank = row(uop, at.A, warp, constants), field(uop, at.I0)
    place = descriptor_of(uop, warp, cta, constants)
    if place == 0:
        return at.BAD_DESCRIPTOR
    head = raw.u32(place + 8)
    kind, swizzle = (head >> 7) & 15, (head >> 13) & 3
    element = element_bytes(kind)
    if ((head >> 4) & 7) + 1 != rank or element == 0:
        return fault(cta, at.BAD_DESCRIPTOR, 0, place, rank)
    reach, lines = _reach(place, rank, element)
    if not inside(cta, raw.i64(place), raw.i64(place) + reach):
        return fault(cta, at.OUT_OF_BOUNDS, 0, raw.i64(place), reach)
    shared, start = raw.u32(what) & 0xFFFFFF, raw.i64(cta + at.CTA_SHARED_BASE)
    room = raw.i64(cta + at.CTA_SHARED_BYTES)
    if shared < start or shared + tile_bytes(place) > start + room:
        return fault(cta, at.SHARED_BOUNDS, 0, shared - start, room)
    wrong = shadow.engine_reads(cta, warp, clocks.STORES, shared - start, tile_bytes(place))
    if wrong:
        return wrong
    memory, tile = raw.i64(cta + at.CTA_SHARED) - start, raw.u8(place + 55) + 1
    for n in range(lines):
        base = _line(place, n, what + at.ROW, rank)
        for k in range(tile if base else 0):
            where = raw.i32(what + at.ROW) + k
            if where < 0 or where > raw.u32(place + 32):
                continue
            here = memory + swizzled(shared + (n * tile + k) * element, swizzle)
            if not _combine(base + where * element, here, kind, field(uop, at.I1)):
                return fault(cta, at.BAD_DESCRIPTOR, 0, place, kind)
    return at.OK
