"""Conversions from and to fp8e4b15, the one float type that Triton leaves to its backends.

One sign, four exponent bits with bias 15, three of mantissa; no NaN, no infinity. A shift makes it a half.
The other way values are clamped to 1.75 and rounded half up in magnitude, as Triton does it on GPUs.
"""

from __future__ import annotations

from typing import Any

from triton.language import core


def convert_custom_types(
    arg: Any, dst_ty: Any, fp_downcast_rounding: Any = None, _semantic: Any = None
) -> Any:
    """Called by Triton's front end for any cast from or to fp8e4b15."""
    if arg.type.scalar.is_fp8e4b15():
        half = _to_half(arg, _semantic)
        return half if dst_ty.scalar.is_fp16() else _semantic.cast(half, dst_ty.scalar)
    half = arg if arg.type.scalar.is_fp16() else _semantic.cast(arg, core.float16)
    return _from_half(half, _semantic)


def _to_half(arg: Any, sem: Any) -> Any:
    bits = sem.cast(sem.bitcast(arg, _like(arg, core.uint8)), core.uint16)
    magnitude = sem.and_(bits, sem.to_tensor(0x7F))
    sign = sem.shl(sem.and_(bits, sem.to_tensor(0x80)), sem.to_tensor(8))
    out = sem.or_(sem.shl(magnitude, sem.to_tensor(7)), sign)
    out = sem.cast(out, core.uint16)
    return sem.bitcast(out, _like(out, core.float16))


def _from_half(half: Any, sem: Any) -> Any:
    bits = sem.bitcast(half, _like(half, core.uint16))
    magnitude = sem.and_(bits, sem.to_tensor(0x7FFF))
    magnitude = sem.minimum(magnitude, sem.to_tensor(0x3F00), core.PropagateNan.NONE)
    rounded = sem.lshr(sem.add(magnitude, sem.to_tensor(0x40), False), sem.to_tensor(7))
    sign = sem.lshr(sem.and_(bits, sem.to_tensor(0x8000)), sem.to_tensor(8))
    out = sem.cast(sem.or_(rounded, sign), core.uint8)
    return sem.bitcast(out, _like(out, core.float8e4b15))


def _like(value: Any, scalar: Any) -> Any:
    return value.type.with_element_ty(scalar) if value.type.is_block() else scalar
