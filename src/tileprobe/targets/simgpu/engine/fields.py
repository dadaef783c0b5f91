"""Micro-ops, warps and operands, for the handlers that Numba compiles: what the names in `layout` are read with."""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw

_NEGATED, _SECOND, _ROW = at.NEGATED, at.SECOND, at.ROW
_PRED, _PD, _PS = at.W_PRED, at.PD, at.PS
ALL = 0xFFFFFFFF


@part
def field(uop, number):
    return raw.i32(uop + 4 * number)


@part
def row(uop, number, warp, constants):
    """The address of the first row of an operand."""
    offset = raw.i32(uop + 4 * number)
    if offset < 0:
        return constants - offset
    return warp + offset


@part
def decoded(warp, code):
    """The bits of a predicate operand."""
    bits = raw.u32(warp + _PRED + 4 * (code & 31))
    if code & _NEGATED:
        return bits ^ ALL
    return bits


@part
def predicate(uop, number, warp):
    return decoded(warp, (raw.i32(uop + 4 * _PS) >> (_SECOND * number)) & 0xFF)


@part
def put_predicate(uop, number, warp, mask, bits):
    slot = (raw.i32(uop + 4 * _PD) >> (_SECOND * number)) & 0xFF
    place = warp + _PRED + 4 * slot
    raw.put32(place, (raw.u32(place) & ~mask) | (bits & mask))


@part
def first(mask):
    """The number of the lowest lane."""
    for lane in range(32):
        if (mask >> lane) & 1:
            return lane
    return 0


@part
def splat(place, value):
    """A value into all lanes of a row."""
    for lane in range(32):
        raw.put32(place + 4 * lane, value)


@part
def splat_where(place, value, mask):
    for lane in range(32):
        if (mask >> lane) & 1:
            raw.put32(place + 4 * lane, value)
