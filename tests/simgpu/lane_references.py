"""What each handler over lanes should do, in NumPy and in fractions, by its name: `REFERENCES[name](given)`.

A reference answers a dictionary: rows of the result under their numbers, predicate results under "P0", "P1".
`GIVEN[name]` names the kind of inputs, of which its answer depends on every part.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from exact_floats import BF16, F16, F32, F64, NAN, added, encoded, flushed, multiplied, read

from tileprobe.targets.simgpu.engine.lanes_integer import UNSIGNED

REFERENCES, GIVEN = {}, {}
M32, M64 = (1 << 32) - 1, (1 << 64) - 1
SPECIAL = [0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x8001, 0x1FFFF, 0x3F800000]
FLOATS = [
    0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000,
    0xFF800000, 0x7FC00000, 0x7F800001, 0x3F7FFFFF, 0x4B000001, 0x477FE000, 0x387FC000, 0x33000001,
]  # fmt: skip


def known(name, given="integers"):
    def keep(function):
        REFERENCES[name], GIVEN[name] = function, given
        return function

    return keep


def signed(x, bits=32):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> bits - 1 else x


def wide(rows, lane):
    return int(rows[0, lane]) | int(rows[1, lane]) << 32


def whole(g, n, lane):
    """An integer source with its modifiers, 32 bits."""
    x = int(g.source(n)[0, lane])
    if g.inverted(n):
        x = ~x & M32
    return -x & M32 if g.negated(n) else x


def term(g, n, lane):
    """The same in a sum with carries."""
    x = int(g.source(n)[0, lane])
    if g.inverted(n):
        x = ~x & M32
    return (~x & M32) + 1 if g.negated(n) else x


def each(function):
    """A reference lane by lane: `function(given, lane)` answers an integer, or several by name."""

    def reference(g):
        answers = [function(g, lane) for lane in range(32)]
        if not isinstance(answers[0], dict):
            answers = [{0: answer} for answer in answers]
        return {key: np.array([a[key] for a in answers]) for key in answers[0]}

    return reference


def two_rows(value):
    return {0: value & M32, 1: value >> 32 & M32}


# -- integers ------------------------------------------------------------------------------------------------------

known("mov")(lambda g: {0: g.a[0]})
known("mov_pair")(lambda g: {0: g.a[0], 1: g.a[1]})
known("iadd3", "negated")(each(lambda g, n: whole(g, 0, n) + whole(g, 1, n) + whole(g, 2, n) & M32))
known("imad", "negated")(each(lambda g, n: whole(g, 0, n) * whole(g, 1, n) + whole(g, 2, n) & M32))
known("imad_x", "negated")(
    each(lambda g, n: whole(g, 0, n) * whole(g, 1, n) + whole(g, 2, n) + int(g.p0[n]) & M32)
)


def carries(total):
    return {0: total & M32, "P0": total >> 32 >= 1, "P1": total >> 32 >= 2}


@known("iadd3_carry", "negated")
@each
def iadd3_carry(g, n):
    return carries(sum(term(g, k, n) for k in range(3)) + int(g.p0[n]) + int(g.p1[n]))


def lea(g, n, high, extended, carry):
    a, s = int(g.a[0, n]), g.i0
    upper = (M32 if a >> 31 else 0) if extended else int(g.c[0, n])
    value = ((upper << 32 | a) << s >> 32 if high else a << s) & M32
    if not carry:
        return value + whole(g, 1, n) & M32
    return carries(value + term(g, 1, n) + int(g.p0[n]))


for _high, _extended in ((False, False), (True, False), (True, True)):
    for _carry in (False, True):
        known("lea" + "_hi" * _high + "_sx" * _extended + "_carry" * _carry, "shift31")(
            each(partial(lea, high=_high, extended=_extended, carry=_carry))
        )


def imad_wide(g, n, is_signed, high, carry):
    x, y = (signed(int(s[0, n])) if is_signed else int(s[0, n]) for s in (g.a, g.b))
    c = wide(g.c, n)
    c = -c & M64 if g.negated(2) else c
    total = (x * y & M64) + c
    answer = {}
    if carry:
        first = total >> 64
        total = (total & M64) + int(g.p0[n])
        answer["P0"] = bool(first or total >> 64)
    total &= M64
    return {**answer, **({0: total >> 32} if high else two_rows(total))}


for _signed in (False, True):
    for _high in (False, True):
        for _carry in (False, True):
            known(
                f"imad_{'hi' if _high else 'wide'}_{'s' if _signed else 'u'}{'_carry' * _carry}", "negated_c"
            )(each(partial(imad_wide, is_signed=_signed, high=_high, carry=_carry)))


def table3(table, a, b, c):
    """Bit by bit."""
    return sum((table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) & 1) << k for k in range(32))


lop3 = each(lambda g, n: table3(g.i0, int(g.a[0, n]), int(g.b[0, n]), int(g.c[0, n])))
known("lop3", "table")(lop3)


@known("lop3_predicate", "table")
def lop3_predicate(g):
    value = lop3(g)[0]
    return {0: value, "P0": (value != 0) | g.p0}


known("lop_and")(lambda g: {0: g.a[0] & g.b[0]})
known("lop_or")(lambda g: {0: g.a[0] | g.b[0]})
known("lop_xor")(lambda g: {0: g.a[0] ^ g.b[0]})


@known("plop3", "tables")
@each
def plop3(g, n):
    index = int(g.p0[n]) << 2 | int(g.p1[n]) << 1 | int(g.p2[n])
    return {"P0": bool(g.i0 >> index & 1), "P1": bool(g.i1 >> index & 1)}


def shift(g, n, left, high, wrap, is_signed, double):
    amount, limit = int(g.b[0, n]), 64 if double else 32
    amount = amount % limit if wrap else min(amount, limit)
    value = int(g.c[0, n]) << 32 | int(g.a[0, n])
    if left:
        value = value << amount & M64
    elif high and not double:
        upper = int(g.c[0, n])
        return (signed(upper) if is_signed else upper) >> amount & M32
    else:
        value = (signed(value, 64) if is_signed else value) >> amount & M64
    return (value >> 32 if high else value) & M32


for _left in (False, True):
    for _high in (False, True):
        for _wrap in (False, True):
            for _signed in (False, True):
                for _double in (False, True):
                    _kind = ("s" if _signed else "u") + ("64" if _double else "32")
                    known(f"shf_{'l' if _left else 'r'}{'_w' * _wrap}_{_kind}{'_hi' * _high}", "amounts")(
                        each(
                            partial(
                                shift, left=_left, high=_high, wrap=_wrap, is_signed=_signed, double=_double
                            )
                        )
                    )
known("shl", "shift31")(lambda g: {0: g.a[0] << np.uint32(g.i0)})
known("lshr", "shift31")(lambda g: {0: g.c[0] >> np.uint32(g.i0)})
known("ashr", "shift31")(lambda g: {0: (g.c[0].view(np.int32) >> g.i0).view(np.uint32)})


def permuted(a, c, selector):
    eight = [(c << 32 | a) >> 8 * k & 255 for k in range(8)]
    found = 0
    for k in range(4):
        code = selector >> 4 * k & 15
        byte = eight[code & 7]
        found |= ((255 if byte >> 7 else 0) if code & 8 else byte) << 8 * k
    return found


known("prmt")(each(lambda g, n: permuted(int(g.a[0, n]), int(g.c[0, n]), int(g.b[0, n]))))
known("prmt_immediate", "selector")(each(lambda g, n: permuted(int(g.a[0, n]), int(g.c[0, n]), g.i0)))


def extended(g, n, is_signed):
    value, count = int(g.a[0, n]), int(g.b[0, n])
    if count >= 32:
        return value
    value &= (1 << count) - 1
    return (signed(value, count) if is_signed and count else value) & M32


known("sgxt", "amounts")(each(partial(extended, is_signed=True)))
known("sgxt_u", "amounts")(each(partial(extended, is_signed=False)))
known("bmsk", "both_amounts")(
    each(lambda g, n: ((1 << min(int(g.b[0, n]), 32)) - 1 << min(int(g.a[0, n]), 32)) & M32)
)
known("popc")(each(lambda g, n: int(g.a[0, n]).bit_count()))
known("brev")(each(lambda g, n: int(f"{int(g.a[0, n]):032b}"[::-1], 2)))
known("iabs")(each(lambda g, n: abs(signed(int(g.a[0, n]))) & M32))


def highest_one(g, n, is_signed, far):
    value = whole(g, 0, n)
    if is_signed and value >> 31:
        value = ~value & M32
    place = value.bit_length() - 1
    return M32 if place < 0 else 31 - place if far else place


for _signed in (False, True):
    for _far in (False, True):
        known(f"flo_{'s' if _signed else 'u'}{'_sh' * _far}", "negated")(
            each(partial(highest_one, is_signed=_signed, far=_far))
        )
known("sel", "negated")(each(lambda g, n: whole(g, 0 if g.p0[n] else 1, n)))


def smaller(g, n, is_signed, plus):
    x = whole(g, 0, n) + whole(g, 1, n) & M32 if plus else whole(g, 0, n)
    y = whole(g, 2 if plus else 1, n)
    pick = min if g.p0[n] else max
    return pick(x, y, key=signed if is_signed else int)


for _signed in (False, True):
    for _plus in (False, True):
        known(("iaddmnmx" if _plus else "imnmx") + ("_s" if _signed else "_u"), "negated")(
            each(partial(smaller, is_signed=_signed, plus=_plus))
        )


def smaller_pairs(g, n, is_signed):
    pick, found = (min if g.p0[n] else max), 0
    for place in (0, 16):
        x, y = (int(s[0, n]) >> place & 0xFFFF for s in (g.a, g.b))
        found |= pick(x, y, key=lambda v: signed(v, 16) if is_signed else v) << place
    return found


known("imnmx_u16x2")(each(partial(smaller_pairs, is_signed=False)))
known("imnmx_s16x2")(each(partial(smaller_pairs, is_signed=True)))


def combine(how, x, y):
    return (x and y, x or y, x != y)[how]


def outcome(code, x, y):
    if NAN in (x, y):
        return bool(code & 8)
    return bool(code >> (0 if x < y else 1 if x == y else 2) & 1)


def compared(g, n, x, y):
    holds = outcome(g.i1, x, y)
    return {"P0": combine(g.i0, holds, bool(g.p0[n])), "P1": combine(g.i0, not holds, bool(g.p0[n]))}


def integers(g, n):
    read_as = int if g.i1 & UNSIGNED else signed
    return read_as(whole(g, 0, n)), read_as(whole(g, 1, n))


known("isetp", "comparisons")(each(lambda g, n: compared(g, n, *integers(g, n))))


@known("isetp_ex", "comparisons")
@each
def isetp_ex(g, n):
    x, y = integers(g, n)
    holds = bool(g.p1[n]) if x == y else outcome(g.i1, x, y)
    return {"P0": combine(g.i0, holds, bool(g.p0[n])), "P1": combine(g.i0, not holds, bool(g.p0[n]))}


@known("p2r", "predicates")
@each
def p2r(g, n):
    packed = sum(int(g.slots[k, n]) << k for k in range(7))
    mask = g.i0 << g.i1 & M32
    return packed << g.i1 & mask | int(g.a[0, n]) & ~mask & M32


@known("r2p", "predicates")
def r2p(g):
    found = g.slots.copy()
    for k in range(7):
        if g.i0 >> k & 1:
            found[k] = g.a[0] >> np.uint32(g.i1 + k) & 1 != 0
    return {"slots": found}


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
known("dsetp", "double_comparisons")(
    each(lambda g, n: compared(g, n, *(order(number(g, k, n, F64)) for k in (0, 1))))
)


def dsetp_extreme(g, n, larger):
    x, y = (order(number(g, k, n, F64)) for k in (0, 1))
    none = NAN in (x, y)
    takes = (y == NAN) or (not none and (x > y if larger else x < y))
    return {"P0": bool(takes and g.p0[n]), "P1": bool(none and g.p0[n])}


known("dsetp_max", "doubles")(each(partial(dsetp_extreme, larger=True)))
known("dsetp_min", "doubles")(each(partial(dsetp_extreme, larger=False)))


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
    how = g.halves(k)
    place = 1 if how == 2 else 0 if how == 1 else part
    word = int(g.source(k)[0, n]) >> 16 * place & 0xFFFF
    word = word & 0x7FFF if g.absolute(k) else word
    return read(word ^ (0x8000 if g.negated(k) else 0), form)


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
