"""What each handler of single, double and half precision should do, in fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

from exact_floats import BF16, F16, F32, F64, NAN, added, encoded, flushed, multiplied, read
from lane_integers import combine, compared, outcome
from lane_known import M32, each, known, signed, two_rows, whole, wide

# -- floats --------------------------------------------------------------------------------------------------------


def number(g, k, n, form=F32, flush=False):
    """A float source, with its modifiers: (sign, value)."""
    word = wide(g.source(k), n) if form is F64 else int(g.source(k)[0, n])
    top = 1 << form.bits - 1
    if g.absolute(k):
        word &= top - 1
    if g.negated(k):
        word ^= top
    return read(flushed(word, form) if flush else word, form)


def plain(g, k, n, flush=False):
    return read(flushed(int(g.source(k)[0, n])) if flush else int(g.source(k)[0, n]), F32)


def clamp(word):
    sign, value = read(word, F32)
    if value == NAN or (sign and value != NAN):
        return 0
    if value == "inf" or value > 1:
        return 0x3F800000
    return word


def arithmetic(g, n, op, modified, flush, saturate=False, rounding="rn", form=F32):
    source = number if modified else plain
    x, y = (source(g, k, n, flush=flush) if form is F32 else number(g, k, n, form) for k in (0, 1))
    value = added(x, y) if op.endswith("add") else multiplied(x, y)
    if op.endswith("fma"):
        z = source(g, 2, n, flush=flush) if form is F32 else number(g, 2, n, form)
        value = added(value, z)
    word = encoded(value, form, rounding)
    word = flushed(word, form) if flush else word
    return clamp(word) if saturate else word


def scaled(g, n, flush):
    """A product times a power of two, rounded once."""
    x, y = (number(g, k, n, flush=flush) for k in (0, 1))
    word = encoded(multiplied(multiplied(x, y), (0, Fraction(2) ** g.i0)), F32)
    return flushed(word) if flush else word


for _op in ("fadd", "fmul", "ffma"):
    for _flush in (False, True):
        for _modified in (False, True):
            for _saturate in (False, True):
                known(_op + "_mod" * _modified + "_ftz" * _flush + "_sat" * _saturate, "floats")(
                    each(partial(arithmetic, op=_op, modified=_modified, flush=_flush, saturate=_saturate))
                )
        for _rounding in ("rz", "rm", "rp"):
            known(f"{_op}_{_rounding}{'_ftz' * _flush}", "finite")(
                each(partial(arithmetic, op=_op, modified=True, flush=_flush, rounding=_rounding))
            )
for _flush in (False, True):
    known("fmul_scaled" + "_ftz" * _flush, "scaled")(each(partial(scaled, flush=_flush)))
for _op in ("dadd", "dmul", "dfma"):
    known(_op, "doubles")(each(lambda g, n, op=_op: two_rows(arithmetic(g, n, op, True, False, form=F64))))


def extreme(x, y, take_smaller, nan):
    """(sign, value) of the smaller or larger; -0 is below 0."""
    if NAN in (x[1], y[1]):
        return (0, NAN) if nan or x[1] == y[1] == NAN else y if x[1] == NAN else x

    def key(v):
        size = math.inf if v[1] == "inf" else abs(v[1])
        return (-size if v[0] else size, -v[0])

    return (min if take_smaller else max)(x, y, key=key)


def fmnmx(g, n, flush, nan, xorsign):
    x, y = number(g, 0, n, flush=flush), number(g, 1, n, flush=flush)
    if not xorsign:
        return encoded(extreme(x, y, g.p0[n], nan), F32)
    x, y = ((0, v if isinstance(v, str) else abs(v)) for _, v in (x, y))
    sign = (int(g.a[0, n]) ^ int(g.b[0, n])) & 1 << 31
    return encoded(extreme(x, y, g.p0[n], nan), F32) & M32 >> 1 | sign


for _flush in (False, True):
    for _nan in (False, True):
        for _xorsign in (False, True):
            known("fmnmx" + "_ftz" * _flush + "_nan" * _nan + "_xorsign" * _xorsign, "floats")(
                each(partial(fmnmx, flush=_flush, nan=_nan, xorsign=_xorsign))
            )


def order(v):
    return NAN if v[1] == NAN else (-math.inf if v[0] else math.inf) if v[1] == "inf" else v[1]


for _flush in (False, True):
    known("fsetp" + "_ftz" * _flush, "float_comparisons")(
        each(lambda g, n, f=_flush: compared(g, n, *(order(number(g, k, n, flush=f)) for k in (0, 1))))
    )
    known("fset" + "_ftz" * _flush, "float_comparisons")(
        each(
            lambda g, n, f=_flush: (
                g.i2
                * combine(
                    g.i0, outcome(g.i1, *(order(number(g, k, n, flush=f)) for k in (0, 1))), bool(g.p0[n])
                )
            )
        )
    )
known("dsetp", "double_comparisons")(
    each(lambda g, n: compared(g, n, *(order(number(g, k, n, F64)) for k in (0, 1))))
)


def dsetp_extreme(g, n, larger):
    """PTX ISA, `max.f64`: the other one where one is NaN, NaN where both are; +0.0 > -0.0."""
    given = [number(g, k, n, F64) for k in (0, 1)]
    none = [v == NAN for _, v in given]
    x, y = ((order(v), -v[0]) for v in given)
    takes = none[1] or (not none[0] and (x > y if larger else x < y))
    if not any(none) and x == y:
        takes = given[0][0] == (not larger)  # either would do
    return {"P0": bool(takes and g.p0[n]), "P1": bool(all(none) and g.p0[n])}


known("dsetp_max", "double_extremes")(each(partial(dsetp_extreme, larger=True)))
known("dsetp_min", "double_extremes")(each(partial(dsetp_extreme, larger=False)))


@known("fchk", "floats")
@each
def fchk(g, n):
    x, y = (int(s[0, n]) >> 23 & 255 for s in (g.a, g.b))
    return {"P0": x < 25 or x == 255 or y in (0, 253, 254, 255) or abs(x - y) > 125}


known("fsel", "floats")(each(lambda g, n: raw_float(g, 0 if g.p0[n] else 1, n)))


def raw_float(g, k, n):
    word = int(g.source(k)[0, n])
    word = word & M32 >> 1 if g.absolute(k) else word
    return word ^ (1 << 31 if g.negated(k) else 0)


def from_integer(g, n, is_signed, rounding):
    value = signed(whole(g, 0, n)) if is_signed else whole(g, 0, n)
    return encoded((0, value * (read(0x3F800000, F32)[1])), F32, rounding)


for _signed in (False, True):
    for _rounding in ("", "rz", "rm", "rp"):
        known(f"i2f_{'s' if _signed else 'u'}32{'_' * bool(_rounding)}{_rounding}", "negated")(
            each(partial(from_integer, is_signed=_signed, rounding=_rounding or "rn"))
        )
known("f32_from_f64", "doubles")(each(lambda g, n: encoded(number(g, 0, n, F64), F32)))
known("f64_from_f32", "ordinary")(each(lambda g, n: two_rows(encoded(number(g, 0, n), F64))))

# -- halves --------------------------------------------------------------------------------------------------------

FORMS = {"f16": F16, "bf16": BF16}


def half(g, k, n, part, form):
    """One half of a source, with its modifiers."""
    word = int(g.source(k)[0, n]) >> 16 * place(g, k, part) & 0xFFFF
    word = word & 0x7FFF if g.absolute(k) else word
    return read(word ^ (0x8000 if g.negated(k) != g.half_negated(k, part) else 0), form)


def place(g, k, part):
    """Which half the lower (0) or upper (1) number is read from."""
    how = g.halves(k)
    return 1 - (how & 1) if part else how >> 1


def both(function):
    """A reference of the low and the high half."""
    return each(lambda g, n: function(g, n, 0) | function(g, n, 1) << 16)


def half_arithmetic(g, n, part, op, form, kind):
    x, y = (half(g, k, n, part, form) for k in (0, 1))
    value = added(x, y) if op == "hadd2" else multiplied(x, y)
    if op == "hfma2":
        value = added(value, half(g, 2, n, part, form))
    negative = value[1] != NAN and bool(value[0])
    if kind == "relu" and negative and value[1] != 0:
        value = 0, multiplied(value, (0, 0 * F32.bits))[1] * 0 if value[1] != "inf" else read(0, F32)[1]
    if kind == "sat":
        none = value[1] == NAN or negative
        above = not none and (value[1] == "inf" or value[1] > 1)
        value = read(0, F32) if none else read(0x3F800000, F32) if above else value
    return encoded(value, form)


for _form in FORMS:
    for _op in ("hadd2", "hmul2", "hfma2"):
        for _kind in ("", "sat", "relu"):
            known(f"{_op}_{_form}{'_' * bool(_kind)}{_kind}", "halves")(
                both(partial(half_arithmetic, op=_op, form=FORMS[_form], kind=_kind))
            )
    known(f"hadd2_f32_{_form}", "halves")(
        each(lambda g, n, f=FORMS[_form]: encoded(added(half(g, 0, n, 0, f), half(g, 1, n, 0, f)), F32))
    )
    for _nan in (False, True):
        known(f"hmnmx2_{_form}{'_nan' * _nan}", "halves")(
            both(lambda g, n, part, f=FORMS[_form], nan=_nan: encoded(
                extreme(half(g, 0, n, part, f), half(g, 1, n, part, f), g.p0[n], nan), f)
            )
        )  # fmt: skip
        known(f"vhmnmx_{_form}{'_nan' * _nan}", "halves")(
            both(lambda g, n, part, f=FORMS[_form], nan=_nan: encoded(
                extreme(extreme(half(g, 0, n, part, f), half(g, 1, n, part, f), g.p0[n], nan),
                        half(g, 2, n, part, f), g.p0[n], nan), f)
            )
        )  # fmt: skip


def hmnmx2_xorsign(g, n, part, form, nan):
    raw = [int(g.source(k)[0, n]) >> 16 * place(g, k, part) for k in (0, 1)]
    x, y = ((0, v if isinstance(v, str) else abs(v)) for _, v in (half(g, k, n, part, form) for k in (0, 1)))
    return encoded(extreme(x, y, g.p0[n], nan), form) & 0x7FFF | (raw[0] ^ raw[1]) & 0x8000


for _form in FORMS:
    for _nan in (False, True):
        known(f"hmnmx2_{_form}{'_nan' * _nan}_xorsign", "halves")(
            both(partial(hmnmx2_xorsign, form=FORMS[_form], nan=_nan))
        )


def half_outcomes(g, n, form):
    return [outcome(g.i1, *(order(half(g, k, n, part, form)) for k in (0, 1))) for part in (0, 1)]


def hsetp2(g, n, form, together):
    low, high = half_outcomes(g, n, form)
    if together:
        low, high = low and high, not (low and high)
    return {"P0": combine(g.i0, low, bool(g.p0[n])), "P1": combine(g.i0, high, bool(g.p0[n]))}


for _form in FORMS:
    for _together in (False, True):
        known(f"hsetp2_{_form}{'_both' * _together}", "half_comparisons")(
            each(partial(hsetp2, form=FORMS[_form], together=_together))
        )
    known(f"hset2_{_form}", "half_comparisons")(
        both(lambda g, n, part, f=FORMS[_form]: g.i2 * combine(
            g.i0, half_outcomes(g, n, f)[part], bool(g.p0[n])))
    )  # fmt: skip
    known(f"{_form}_from_f32", "floats")(each(lambda g, n, f=FORMS[_form]: encoded(number(g, 0, n), f)))
    known(f"f32_from_{_form}", "halves")(each(lambda g, n, f=FORMS[_form]: encoded(half(g, 0, n, 0, f), F32)))
    for _down in (False, True):
        for _relu in (False, True):

            def packed(g, n, part, f=FORMS[_form], down=_down, relu=_relu):
                value = number(g, 1 - part, n)
                if relu and value[1] not in (NAN, 0) and value[0]:
                    value = read(0, F32)
                return encoded(value, f, "rz" if down else "rn")

            known(f"pack_{_form}{'_rz' * _down}{'_relu' * _relu}", "finite" if _down else "floats")(
                both(packed)
            )
