"""Half precision to and from f32: one instruction where the machine has it, bit operations where not."""

from __future__ import annotations

import math

from tileprobe.targets.cpu.host import host

from .values import FLOAT, HALF, I16, I32, Val

_half_in_hardware: bool | None = None  # set by tests; else the host decides


def has_half() -> bool:
    """Whether the machine converts halves itself; else LLVM would call a routine that may not be there."""
    if _half_in_hardware is not None:
        return _half_in_hardware
    machine = host()
    return (
        machine.has("f16c") if machine.arch in ("x86_64", "AMD64") else machine.arch in ("aarch64", "arm64")
    )


def half_to_float(x: Val) -> Val:
    if has_half():
        return x.cast("fpext", FLOAT)
    bits = x.as_int().cast("zext", I32)
    magnitude = bits & 0x7FFF
    normal = ((magnitude << 13) + (112 << 23)).as_float()
    tiny = magnitude.cast("sitofp", FLOAT) * 2.0**-24
    special = ((magnitude << 13) | 0x7F800000).as_float()
    y = (magnitude < 0x400).pick(tiny, (magnitude >= 0x7C00).pick(special, normal))
    return (y.as_int() | ((bits & 0x8000) << 16)).as_float()


def float_to_half(x: Val, rounding: str) -> Val:
    if rounding == "rtne" and has_half():
        return x.cast("fptrunc", HALF)
    bits = x.as_int()
    a = x.abs()
    magnitude = a.as_int()
    if rounding == "rtne":
        big = (magnitude + (magnitude.lshr(13) & 1) + 0xFFF - (112 << 23)).lshr(13)
        small = (a + 0.5).as_int() - 0x3F000000  # 0.5 has 2^-24 as its last bit
        big = (a >= 65520.0).pick(big.const(0x7C00), big)
    else:
        big = (magnitude - (112 << 23)).lshr(13)
        small = ((a < 1.0).pick(a, 0.0) * 2.0**24).cast("fptosi", I32)
        big = (a >= 65536.0).pick(a.eq(math.inf).pick(big.const(0x7C00), 0x7BFF), big)
    y = (a < 2.0**-14).pick(small, big)
    y = x.isnan().pick((magnitude.lshr(13) & 0x3FF) | 0x7E00, y)
    return (y | (bits.lshr(16) & 0x8000)).cast("trunc", I16).as_float()
