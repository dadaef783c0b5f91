"""Handlers of half precision and bfloat16: two numbers a register. Conversions between these, fp8 and f32.

Arithmetic is done in doubles, where sums and products of halves are exact or far more precise than the result, and
rounded once: to a float by way of round-to-odd, so that the last rounding sees all that was lost.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.lanes import F16, F32, F64, I16, I32, I64, Lanes, handler, vector
from tileprobe.targets.simgpu.engine.lanes_float import compared, extreme
from tileprobe.targets.simgpu.engine.lanes_integer import combined

A, B, C = at.A, at.B, at.C
FORMATS = ("f16", "bf16")


def from_half(k: Lanes, bits: Any, form: str) -> Any:
    """The low 16 bits of each lane as floats."""
    b = k.b
    if form == "bf16":
        return b.bitcast(b.shl(bits, k.splat(16, I32)), vector(F32))
    return b.fpext(b.bitcast(b.trunc(bits, vector(I16)), vector(F16)), vector(F32))


def to_half(k: Lanes, value: Any, form: str) -> Any:
    """Floats as 16 bits, rounded to the nearest; NaN is 0x7fff."""
    b = k.b
    if form == "f16":
        bits = b.zext(b.bitcast(b.fptrunc(value, vector(F16)), vector(I16)), vector(I32))
    else:
        raw = b.bitcast(value, vector(I32))
        odd = b.and_(b.lshr(raw, k.splat(16, I32)), k.splat(1, I32))
        bits = b.lshr(b.add(b.add(raw, k.splat(0x7FFF, I32)), odd), k.splat(16, I32))
    return b.select(b.fcmp_unordered("uno", value, value), k.splat(0x7FFF, I32), bits)


def to_half_down(k: Lanes, value: Any, form: str) -> Any:
    """Rounded towards zero."""
    b = k.b
    raw = b.bitcast(value, vector(I32))
    if form == "bf16":
        bits = b.lshr(raw, k.splat(16, I32))
        return b.select(b.fcmp_unordered("uno", value, value), k.splat(0x7FFF, I32), bits)
    near = to_half(k, value, form)
    over = b.fcmp_ordered(">", _absolute(k, from_half(k, near, form)), _absolute(k, value))
    return b.select(over, b.sub(near, k.splat(1, I32)), near)


def _absolute(k: Lanes, value: Any) -> Any:
    bits = k.b.and_(k.b.bitcast(value, vector(I32)), k.splat(0x7FFFFFFF, I32))
    return k.b.bitcast(bits, vector(F32))


def to_odd(k: Lanes, value: Any) -> Any:
    """Doubles as floats: what is not exact gets a last bit of one. Rounding such a float again is right."""
    b = k.b
    near = b.fptrunc(value, vector(F32))
    back = b.fpext(near, vector(F64))
    bits = b.bitcast(near, vector(I32))
    low, high = (b.and_(b.bitcast(v, vector(I64)), k.splat((1 << 63) - 1, I64)) for v in (back, value))
    even = b.icmp_unsigned("==", b.and_(bits, k.splat(1, I32)), k.splat(0, I32))
    step = b.select(b.icmp_unsigned("<", low, high), k.splat(1, I32), k.splat(-1, I32))
    inexact = b.and_(even, b.fcmp_ordered("!=", back, value))
    return b.bitcast(b.select(inexact, b.add(bits, step), bits), vector(F32))


def _raw_halves(k: Lanes, source: int) -> list[Any]:
    """A source as two numbers of 16 bits: both halves, one of them twice, or each in the other's place."""
    b, n, row = k.b, source - at.A, k.row(source)
    low_shift = k.splat(b.shl(k.modifier(at.HALVES + 2 * n + 1), I32(4)))
    high_shift = k.splat(b.sub(I32(16), b.shl(k.modifier(at.HALVES + 2 * n), I32(4))))
    return [b.and_(b.lshr(row, shift), k.splat(0xFFFF, I32)) for shift in (low_shift, high_shift)]


def halves(k: Lanes, source: int, form: str) -> tuple[Any, Any]:
    """A source as two floats, with absolute value and signs."""
    b, n = k.b, source - at.A
    keep = k.splat(b.xor(b.shl(k.modifier(at.ABSOLUTE + n), I32(31)), I32(-1)))
    found = []
    for part, half in enumerate(_raw_halves(k, source)):
        negated = b.xor(k.modifier(at.NEGATE + n), k.modifier(at.NEGATE_HALVES + 2 * n + part))
        bits = b.bitcast(from_half(k, half, form), vector(I32))
        found.append(b.bitcast(b.xor(b.and_(bits, keep), k.splat(b.shl(negated, I32(31)))), vector(F32)))
    return found[0], found[1]


def _pair(k: Lanes, low: Any, high: Any) -> Any:
    return k.b.or_(low, k.b.shl(high, k.splat(16, I32)))


def _arithmetic(k: Lanes, op: str, form: str, saturate: bool, relu: bool) -> None:
    b = k.b
    sources = [halves(k, source, form) for source in ((A, B, C) if op == "hfma2" else (A, B))]
    results = []
    for part in (0, 1):
        x, y, *z = (b.fpext(source[part], vector(F64)) for source in sources)
        value = b.fadd(x, y) if op == "hadd2" else b.fmul(x, y)
        value = b.fadd(value, z[0]) if z else value
        narrow = to_odd(k, value)
        if saturate:
            narrow = k.saturated(narrow)
        if relu:
            zero = k.splat(0.0, F32)
            narrow = b.select(b.fcmp_ordered("<", narrow, zero), zero, narrow)
        results.append(to_half(k, narrow, form))
    k.out(_pair(k, *results))


for _op in ("hadd2", "hmul2", "hfma2"):
    for _form in FORMATS:
        for _kind in ("", "sat", "relu"):
            handler(
                f"{_op}_{_form}{'_' * bool(_kind)}{_kind}",
                partial(_arithmetic, op=_op, form=_form, saturate=_kind == "sat", relu=_kind == "relu"),
            )


def _hadd2_f32(k: Lanes, form: str) -> None:
    """The sum of the low halves as a float: how a half becomes one."""
    (x, _), (y, _) = halves(k, A, form), halves(k, B, form)
    k.out_float(k.b.fadd(x, y))


def _hmnmx(k: Lanes, form: str, nan: bool, sources: tuple[int, ...]) -> None:
    """The smallest or largest of two or three, in each half."""
    smaller, results = k.vector_of(k.predicate(0)), []
    for value, *others in zip(*(halves(k, source, form) for source in sources)):
        for other in others:
            value = k.b.bitcast(extreme(k, value, other, smaller, nan), vector(F32))
        results.append(to_half(k, value, form))
    k.out(_pair(k, *results))


def _hmnmx_xorsign(k: Lanes, form: str, nan: bool) -> None:
    """Of the magnitudes; the sign is that of the product, whatever the sources' modifiers (as FMNMX.XORSIGN)."""
    b, smaller, results = k.b, k.vector_of(k.predicate(0)), []
    signs = [b.xor(x, y) for x, y in zip(_raw_halves(k, A), _raw_halves(k, B))]
    for sign, x, y in zip(signs, halves(k, A, form), halves(k, B, form)):
        value = b.bitcast(extreme(k, _absolute(k, x), _absolute(k, y), smaller, nan), vector(F32))
        bits = b.and_(to_half(k, value, form), k.splat(0x7FFF, I32))
        results.append(b.or_(bits, b.and_(sign, k.splat(0x8000, I32))))
    k.out(_pair(k, *results))


def _compared(k: Lanes, form: str) -> list[Any]:
    first, second = halves(k, A, form), halves(k, B, form)
    return [compared(k, x, y) for x, y in zip(first, second)]


def _hsetp2(k: Lanes, form: str, both: bool) -> None:
    """Two results: of the low and of the high halves. `both`: whether both hold, and the opposite of that."""
    low, high = _compared(k, form)
    if both:
        all_of = k.b.and_(low, high)
        low, high = all_of, k.b.xor(all_of, I32(-1))
    results = [combined(k, low), combined(k, high)]
    for n, bits in enumerate(results):
        k.out_predicate(n, bits)


def _hset2(k: Lanes, form: str) -> None:
    """I2 where it holds (one of the format, or all bits), else zero."""
    results = [
        k.b.and_(k.b.sext(k.vector_of(combined(k, bits)), vector(I32)), k.splat(k.field(at.I2)))
        for bits in _compared(k, form)
    ]
    k.out(_pair(k, *results))


for _form in FORMATS:
    handler(f"hadd2_f32_{_form}", partial(_hadd2_f32, form=_form))
    handler(f"hset2_{_form}", partial(_hset2, form=_form))
    for _flag in (False, True):
        for _name, _sources in (("hmnmx2", (A, B)), ("vhmnmx", (A, B, C))):
            handler(
                f"{_name}_{_form}{'_nan' * _flag}", partial(_hmnmx, form=_form, nan=_flag, sources=_sources)
            )
        handler(f"hmnmx2_{_form}{'_nan' * _flag}_xorsign", partial(_hmnmx_xorsign, form=_form, nan=_flag))
        handler(f"hsetp2_{_form}{'_both' * _flag}", partial(_hsetp2, form=_form, both=_flag))


# -- conversions ---------------------------------------------------------------------------------------------------


def _pack(k: Lanes, form: str, down: bool, relu: bool) -> None:
    """Two floats: B into the low half, A into the high one."""
    b, results = k.b, []
    for source in (B, A):
        value = k.float(source)
        if relu:
            zero = k.splat(0.0, F32)
            value = b.select(b.fcmp_ordered("<", value, zero), zero, value)
        results.append((to_half_down if down else to_half)(k, value, form))
    k.out(_pair(k, *results))


def _to_half(k: Lanes, form: str) -> None:
    """One float into the low half; the high half is zero."""
    k.out(to_half(k, k.float(A), form))


def _from_half(k: Lanes, form: str) -> None:
    k.out_float(halves(k, A, form)[0])


for _form in FORMATS:
    handler(f"{_form}_from_f32", partial(_to_half, form=_form))
    handler(f"f32_from_{_form}", partial(_from_half, form=_form))
    for _down in (False, True):
        for _relu in (False, True):
            handler(
                f"pack_{_form}{'_rz' * _down}{'_relu' * _relu}",
                partial(_pack, form=_form, down=_down, relu=_relu),
            )
