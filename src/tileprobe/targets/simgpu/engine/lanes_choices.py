"""Handlers of integers that choose: the smaller or larger of two or three, of 32 bits or of two halves of 16; and of
sums and products of parts of a register."""

from __future__ import annotations

from functools import partial
from typing import Any

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.lanes import I32, Lanes, handler, named

A, B, C = at.A, at.B, at.C


def _chosen(k: Lanes, first: Any, others: list[Any], signed: bool, relu: bool = False) -> Any:
    """The smallest where the predicate holds, else the largest; `relu`: at least 0."""
    b, smaller, value = k.b, k.vector_of(k.predicate(0)), first
    for other in others:
        less = (b.icmp_signed if signed else b.icmp_unsigned)("<", value, other)
        value = b.select(smaller, b.select(less, value, other), b.select(less, other, value))
    if relu:
        zero = k.splat(0, I32)
        value = b.select(b.icmp_signed("<", value, zero), zero, value)
    return value


def _extreme(k: Lanes, signed: bool, sources: tuple[int, ...], relu: bool = False) -> None:
    first, *others = (k.integer(source) for source in sources)
    k.out(_chosen(k, first, others, signed, relu))


def _extreme_of_sum(k: Lanes, signed: bool, relu: bool = False) -> None:
    """A + B against C."""
    k.out(_chosen(k, k.b.add(k.integer(A), k.integer(B)), [k.integer(C)], signed, relu))


def _extreme_of_sums(k: Lanes, signed: bool) -> None:
    """The same for two halves a register; sums have 16 bits."""
    sums = []
    for x, y in zip(_parts(k, A, 16, False), _parts(k, B, 16, False)):
        sums.append(_part(k, k.b.add(x, y), 0, 16, signed))
    results = (_chosen(k, first, [other], signed) for first, other in zip(sums, _parts(k, C, 16, signed)))
    k.out(_pair(k, *results))


def _parts(k: Lanes, source: int, bits: int, signed: bool) -> list[Any]:
    """Parts of so many bits, the lowest first, each as a number of 32."""
    return [_part(k, k.row(source), place, bits, signed) for place in range(0, 32, bits)]


def _part(k: Lanes, value: Any, place: int, bits: int, signed: bool) -> Any:
    shift = k.b.ashr if signed else k.b.lshr
    return shift(k.b.shl(value, k.splat(32 - bits - place, I32)), k.splat(32 - bits, I32))


def _pair(k: Lanes, low: Any, high: Any) -> Any:
    return k.b.or_(k.b.and_(low, k.splat(0xFFFF, I32)), k.b.shl(high, k.splat(16, I32)))


def _extreme_pairs(k: Lanes, signed: bool, sources: tuple[int, ...]) -> None:
    """The same for two halves a register."""
    parts = zip(*(_parts(k, source, 16, signed) for source in sources))
    low, high = (_chosen(k, first, others, signed) for first, *others in parts)
    k.out(_pair(k, low, high))


for _signed in (False, True):
    _kind = "s" if _signed else "u"
    handler(f"iaddmnmx_{_kind}", partial(_extreme_of_sum, signed=_signed))
    handler(f"iaddmnmx_{_kind}16x2", partial(_extreme_of_sums, signed=_signed))
    for _name, _sources in (("imnmx", (A, B)), ("imnmx3", (A, B, C))):
        handler(f"{_name}_{_kind}", partial(_extreme, signed=_signed, sources=_sources))
        handler(f"{_name}_{_kind}16x2", partial(_extreme_pairs, signed=_signed, sources=_sources))
handler("iaddmnmx_relu", partial(_extreme_of_sum, signed=True, relu=True))
handler("imnmx_relu", partial(_extreme, signed=True, sources=(A, B), relu=True))
handler("imnmx3_relu", partial(_extreme, signed=True, sources=(A, B, C), relu=True))


@named("iadd_16x2")
def iadd_16x2(k: Lanes) -> None:
    """Two sums of 16 bits, with no carry between them."""
    low, high = (k.b.add(x, y) for x, y in zip(_parts(k, A, 16, False), _parts(k, B, 16, False)))
    k.out(_pair(k, low, high))


def _dot_of_bytes(k: Lanes, first: bool, second: bool) -> None:
    """C and the four products of bytes; whether those of A and of B have signs."""
    total = k.integer(C)
    for x, y in zip(_parts(k, A, 8, first), _parts(k, B, 8, second)):
        total = k.b.add(total, k.b.mul(x, y))
    k.out(total)


for _first in (False, True):
    for _second in (False, True):
        handler(f"idp4a_{'us'[_first]}{'us'[_second]}", partial(_dot_of_bytes, first=_first, second=_second))
