"""Handlers that compute the addresses of all lanes at once, into a scratch place.

Behind the 32 addresses of 64 bits stand the lowest and the highest of the lanes that execute, all their bits together
(for alignment), and whether they stand side by side.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.lanes import I32, I64, POINTER, Lanes, handler, vector

LOWEST, HIGHEST, TOGETHER, SIDE_BY_SIDE = 256, 264, 272, 280  # behind the 32 addresses
# Fields of a micro-op that touches memory: A a register, B a uniform register, I0 an offset; I1 says how:
PAIR_A, PAIR_B, SCALE_BIT = 1, 2, 4  # A, B have 64 bits; from this bit on: A is shifted left by so much
# I2: how many bytes (8 bits), signed (bit 8)
BYTES, SIGNED = 0xFF, 0x100


def _reduce(k: Lanes, name: str, value: Any) -> Any:
    full = f"llvm.vector.reduce.{name}.v{at.LANES}i64"
    function = k.b.module.globals.get(full)
    if function is None:
        function = ir.Function(k.b.module, ir.FunctionType(I64, [value.type]), full)
    return k.b.call(function, [value])


def _store(k: Lanes, address: Any, value: Any) -> None:
    k.b.store(value, k.b.inttoptr(address, POINTER), align=8)


def _addresses(k: Lanes, shared: bool, fields: tuple[int, int, int, int]) -> None:
    b, out = k.b, k.scratch
    register, uniform, displacement, manner = fields
    how = k.field(manner)
    offset = k.splat(b.sext(k.field(displacement), I64))
    scale = k.splat(b.zext(b.lshr(how, I32(SCALE_BIT)), I64))
    first = b.zext(k.row(register), vector(I64))
    second = b.zext(k.row(uniform), vector(I64))
    if not shared:
        for number, value in ((register, first), (uniform, second)):
            bit = PAIR_A if number == register else PAIR_B
            mask = b.neg(b.zext(b.icmp_signed("!=", b.and_(how, I32(bit)), I32(0)), I64))
            high = b.shl(b.zext(k.row(number, 1), vector(I64)), k.splat(32, I64))
            value = b.or_(value, b.and_(high, k.splat(mask)))
            first, second = (value, second) if number == register else (first, value)
    address = b.add(b.add(b.shl(first, scale), second), offset)
    if shared:
        address = b.and_(address, k.splat(0xFFFFFFFF, I64))
    b.store(address, b.inttoptr(out, POINTER), align=8)
    chosen = k.chosen()
    _store(
        k,
        b.add(out, I64(LOWEST)),
        _reduce(k, "umin", b.select(chosen, address, k.splat(-1, I64))),
    )
    bare = b.select(chosen, address, k.splat(0, I64))
    _store(k, b.add(out, I64(HIGHEST)), _reduce(k, "umax", bare))
    _store(k, b.add(out, I64(TOGETHER)), _reduce(k, "or", bare))
    size = b.zext(b.and_(k.field(at.I2), I32(BYTES)), I64)
    steps = ir.Constant(vector(I64), [I64(n) for n in range(at.LANES)])
    line = b.add(k.splat(b.extract_element(address, I32(0))), b.mul(steps, k.splat(size)))
    same = k.bits_of(b.icmp_unsigned("==", line, address))
    whole = b.and_(b.icmp_signed("==", same, I32(-1)), b.icmp_signed("==", k.mask, I32(-1)))
    _store(k, b.add(out, I64(SIDE_BY_SIDE)), b.zext(whole, I64))


FIRST = at.A, at.B, at.I0, at.I1
SECOND = at.C, at.E, at.SPARE, at.UNIT  # of an instruction with two addresses
handler("addresses", partial(_addresses, shared=False, fields=FIRST))
handler("addresses_shared", partial(_addresses, shared=True, fields=FIRST))
handler("addresses_second", partial(_addresses, shared=False, fields=SECOND))
