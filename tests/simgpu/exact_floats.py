"""Floating-point numbers as fractions: exact sums and products, rounded once, in any format and direction."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Format:
    """`precision` counts the leading one; `lowest` is the exponent of the smallest normal number."""

    bits: int
    precision: int
    lowest: int
    nan: int

    @property
    def exponents(self) -> int:
        return self.bits - self.precision

    @property
    def highest(self) -> int:
        return -self.lowest + 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponents) - 1) << self.precision - 1


F16 = Format(16, 11, -14, 0x7FFF)
BF16 = Format(16, 8, -126, 0x7FFF)
F32 = Format(32, 24, -126, 0x7FFFFFFF)
F64 = Format(64, 53, -1022, 0xFFF8000000000000)
NAN, INF = "nan", "inf"


def read(word: int, form: Format):
    """(sign, value): a fraction, or one of the two that are none."""
    sign = word >> form.bits - 1
    field = word >> form.precision - 1 & (1 << form.exponents) - 1
    fraction = word & (1 << form.precision - 1) - 1
    if field == (1 << form.exponents) - 1:
        return sign, NAN if fraction else INF
    exponent = max(field, 1) - 1 + form.lowest - (form.precision - 1)
    whole = fraction | (bool(field) << form.precision - 1)
    return sign, Fraction(whole) * Fraction(2) ** exponent * (-1 if sign else 1)


def write(value: Fraction, sign: int, form: Format, rounding: str = "rn", flush: bool = False) -> int:
    """The bits of a fraction; `sign` is that of a zero."""
    top = 1 << form.bits - 1
    if value == 0:
        return top * sign
    sign = int(value < 0)
    size = abs(value)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length(), form.lowest)
    while Fraction(2) ** exponent > size and exponent > form.lowest:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    unit = Fraction(2) ** (exponent - (form.precision - 1))
    whole = size / unit
    down = whole.numerator // whole.denominator
    rest = whole - down
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down & 1),
        "rz": False,
        "rp": rest > 0 and not sign,
        "rm": rest > 0 and sign,
    }[rounding]
    down += bool(up)
    if down >> form.precision:
        down, exponent = down >> 1, exponent + 1
    if exponent > form.highest:
        overflows = rounding == "rn" or (rounding == "rp" and not sign) or (rounding == "rm" and sign)
        return top * sign | (form.infinity if overflows else form.infinity - 1)
    if down < 1 << form.precision - 1:  # subnormal
        return top * sign | (0 if flush else down)
    return (
        top * sign | (exponent - form.lowest + 1) << form.precision - 1 | down & (1 << form.precision - 1) - 1
    )


def flushed(word: int, form: Format = F32) -> int:
    field = word >> form.precision - 1 & (1 << form.exponents) - 1
    return word if field else word & 1 << form.bits - 1


def added(x, y):
    """Sum of two (sign, value)."""
    (sx, vx), (sy, vy) = x, y
    if NAN in (vx, vy) or (vx == INF and vy == INF and sx != sy):
        return 0, NAN
    if vx == INF or vy == INF:
        return (sx if vx == INF else sy), INF
    total = vx + vy
    return (sx & sy if total == 0 else int(total < 0)), total


def multiplied(x, y):
    (sx, vx), (sy, vy) = x, y
    sign = sx ^ sy
    if NAN in (vx, vy) or (INF in (vx, vy) and 0 in (vx, vy)):
        return 0, NAN
    if INF in (vx, vy):
        return sign, INF
    return sign, vx * vy


def encoded(x, form: Format, rounding: str = "rn", flush: bool = False) -> int:
    sign, value = x
    if value == NAN:
        return form.nan
    if value == INF:
        return sign << form.bits - 1 | form.infinity
    return write(value, sign, form, rounding, flush)
