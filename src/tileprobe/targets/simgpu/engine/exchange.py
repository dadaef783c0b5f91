"""Lanes that look at each other: shuffles, votes, reductions, election, one lane's value for the whole warp."""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine.fields import (
    ALL,
    field,
    first,
    predicate,
    put_predicate,
    row,
    splat,
    splat_where,
)
from tileprobe.targets.simgpu.engine.numbers import NUMBERS, family

_SHFL, _VOTE, _VOTEU, _R2UR, _REDUX, _ELECT, _MATCH = (
    NUMBERS[n] for n in ("SHFL", "VOTE", "VOTEU", "R2UR", "REDUX", "ELECT", "MATCH")
)
UP, DOWN, BFLY, IDX = range(4)  # I0 of a shuffle
ANY, EVERY, SAME = range(3)  # I0 of a vote
AND, OR, XOR, SUM, MIN, MAX = range(6)  # I0 of a reduction; I1: signed


@part
def _shuffle(uop, warp, cta, constants, mask):
    """As the PTX ISA has it: C holds the last lane in its low bits and the segments' mask above."""
    mode, out = field(uop, at.I0), raw.i64(cta + at.CTA_SCRATCH)
    value, by, limits = (
        row(uop, at.A, warp, constants), row(uop, at.B, warp, constants), row(uop, at.C, warp, constants),
    )  # fmt: skip
    inside = 0
    for lane in range(32):
        amount, limit = raw.u32(by + 4 * lane) & 31, raw.u32(limits + 4 * lane)
        segment, clamp = (limit >> 8) & 31, limit & 31
        highest = (lane & segment) | (clamp & ~segment & 31)
        if mode == UP:
            other = lane - amount
            good = other >= highest
        elif mode == DOWN:
            other = lane + amount
            good = other <= highest
        elif mode == BFLY:
            other = lane ^ amount
            good = other <= highest
        else:
            other = (lane & segment) | (amount & ~segment & 31)
            good = other <= highest
        if good:
            inside |= 1 << lane
        else:
            other = lane
        raw.put32(out + 4 * lane, raw.u32(value + 4 * other))
    target = row(uop, at.D, warp, constants)
    for lane in range(32):
        if (mask >> lane) & 1:
            raw.put32(target + 4 * lane, raw.u32(out + 4 * lane))
    put_predicate(uop, 0, warp, mask, inside)


@part
def _vote(op, uop, warp, constants, mask):
    """The predicate of the lanes that execute: as bits, and whether it holds for any, for all, the same for all."""
    bits = predicate(uop, 0, warp) & mask
    how = field(uop, at.I0)
    answer = bits != 0
    if how == EVERY:
        answer = bits == mask
    elif how == SAME:
        answer = bits == mask or bits == 0
    where = ALL if op == _VOTEU else mask
    splat_where(row(uop, at.D, warp, constants), bits, where)
    put_predicate(uop, 0, warp, where, ALL if answer else 0)


@part
def _signed(value):
    return value - (1 << 32) if value >> 31 else value


@part
def _reduce(uop, warp, constants, mask):
    how, signed = field(uop, at.I0), field(uop, at.I1)
    values = row(uop, at.A, warp, constants)
    result = raw.u32(values + 4 * first(mask))
    for lane in range(first(mask) + 1, 32):
        if not (mask >> lane) & 1:
            continue
        value = raw.u32(values + 4 * lane)
        if how == AND:
            result &= value
        elif how == OR:
            result |= value
        elif how == XOR:
            result ^= value
        elif how == SUM:
            result = (result + value) & ALL
        else:
            x, y = (_signed(result), _signed(value)) if signed else (result, value)
            if (y < x) == (how == MIN) and x != y:
                result = value
    splat(row(uop, at.D, warp, constants), result)


@part
def _match(uop, warp, constants, mask):
    """I0: 0 the lanes with the same value, 1 all lanes if they all have it, and whether they do; I1: words a value."""
    values, target = row(uop, at.A, warp, constants), row(uop, at.D, warp, constants)
    words, same = field(uop, at.I1), 0
    for lane in range(32):
        if not (mask >> lane) & 1:
            continue
        found = 0
        for other in range(32):
            if (mask >> other) & 1:
                equal = True
                for n in range(words):
                    place = values + n * at.ROW
                    equal = equal and raw.u32(place + 4 * lane) == raw.u32(place + 4 * other)
                if equal:
                    found |= 1 << other
        if lane == first(mask):
            same = found
        if field(uop, at.I0) == 0:
            raw.put32(target + 4 * lane, found)
    if field(uop, at.I0):
        splat_where(target, mask if same == mask else 0, mask)
        put_predicate(uop, 0, warp, mask, ALL if same == mask else 0)


@family("SHFL", "VOTE", "VOTEU", "R2UR", "REDUX", "ELECT", "MATCH")
def exchange(op, uop, warp, cta, constants, mask, pc):
    if mask == 0:
        return at.OK
    if op == _SHFL:
        _shuffle(uop, warp, cta, constants, mask)
    elif op in (_VOTE, _VOTEU):
        _vote(op, uop, warp, constants, mask)
    elif op == _R2UR:  # one lane speaks for the warp
        value = raw.u32(row(uop, at.A, warp, constants) + 4 * first(mask))
        splat(row(uop, at.D, warp, constants), value)
    elif op == _REDUX:
        _reduce(uop, warp, constants, mask)
    elif op == _MATCH:
        _match(uop, warp, constants, mask)
    else:
        put_predicate(uop, 0, warp, mask, 1 << first(mask))
    return at.OK
