"""What each handler of integers and predicates should do."""

from __future__ import annotations

from functools import partial

import numpy as np
from exact_floats import NAN
from lane_known import M32, M64, each, known, signed, term, two_rows, whole, wide

from tileprobe.targets.simgpu.engine.lanes_integer import UNSIGNED

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
    if not high and g.negated(0):
        value = (~value & M32) + 1
    if not carry:
        return value + whole(g, 1, n) & M32
    return carries(value + term(g, 1, n) + int(g.p0[n]))


for _high, _extended in ((False, False), (True, False), (True, True)):
    for _carry in (False, True):
        known(
            "lea" + "_hi" * _high + "_sx" * _extended + "_carry" * _carry,
            "shift31" if _high else "signed_shift31",
        )(each(partial(lea, high=_high, extended=_extended, carry=_carry)))


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


_BYTES = {  # of the eight, from the lowest of the result on: the table of the PTX ISA, by the selector
    "f4e": ["0123", "1234", "2345", "3456"],
    "b4e": ["0765", "1076", "2107", "3210"],
    "rc8": ["0000", "1111", "2222", "3333"],
    "ecl": ["0123", "1123", "2223", "3333"],
    "ecr": ["0000", "0111", "0122", "0123"],
    "rc16": ["0101", "2323", "0101", "2323"],
}
for _mode, _table in _BYTES.items():

    def by_mode(g, n, table=_table):
        eight = [(int(g.c[0, n]) << 32 | int(g.a[0, n])) >> 8 * k & 255 for k in range(8)]
        return sum(eight[int(c)] << 8 * k for k, c in enumerate(table[int(g.b[0, n]) % 4]))

    known(f"prmt_{_mode}", "amounts")(each(by_mode))


def bytes_of(word, is_signed):
    return [
        signed(word >> place & 0xFF, 8) if is_signed else word >> place & 0xFF for place in (0, 8, 16, 24)
    ]


def distance(g, n, is_signed):
    x, y = (signed(int(s[0, n])) if is_signed else int(s[0, n]) for s in (g.a, g.b))
    return abs(x - y) + int(g.c[0, n]) & M32


def distances(g, n, is_signed, added):
    x, y = bytes_of(int(g.a[0, n]), is_signed), bytes_of(int(g.b[0, n]), is_signed)
    each_ = [abs(p - q) for p, q in zip(x, y)]
    return sum(each_) + int(g.c[0, n]) & M32 if added else sum(d << 8 * k for k, d in enumerate(each_))


for _kind, _signed in (("u", False), ("s", True)):
    known(f"absdiff_{_kind}")(each(partial(distance, is_signed=_signed)))
    for _added in (False, True):
        known(f"absdiff4_{_kind}{'_acc' * _added}")(each(partial(distances, is_signed=_signed, added=_added)))


def packed(g, n, bits, is_signed):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    x, y = (min(max(signed(int(s[0, n])), low), high) & (1 << bits) - 1 for s in (g.a, g.b))
    return (x << bits | y | (int(g.c[0, n]) << 2 * bits if bits < 16 else 0)) & M32


for _bits in (2, 4, 8, 16):
    for _kind, _signed in (("u", False), ("s", True)):
        known(f"pack_{_kind}{_bits}", "small")(each(partial(packed, bits=_bits, is_signed=_signed)))


def extended(g, n, is_signed, wrap=False):
    value, count = int(g.a[0, n]), int(g.b[0, n])
    count = count % 32 if wrap else count
    if count >= 32:
        return value
    value &= (1 << count) - 1
    return (signed(value, count) if is_signed and count else value) & M32


known("sgxt", "amounts")(each(partial(extended, is_signed=True)))
known("sgxt_u", "amounts")(each(partial(extended, is_signed=False)))
known("sgxt_w", "amounts")(each(partial(extended, is_signed=True, wrap=True)))
known("sgxt_u_w", "amounts")(each(partial(extended, is_signed=False, wrap=True)))
known("bmsk_w", "both_amounts")(
    each(lambda g, n: ((1 << int(g.b[0, n]) % 32) - 1 << int(g.a[0, n]) % 32) & M32)
)
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


def at_least_zero(found):
    return 0 if found >> 31 else found


for _plus in (False, True):
    known("iaddmnmx_relu" if _plus else "imnmx_relu", "negated")(
        each(lambda g, n, plus=_plus: at_least_zero(smaller(g, n, True, plus)))
    )
for _signed in (False, True):
    for _plus in (False, True):
        known(("iaddmnmx" if _plus else "imnmx") + ("_s" if _signed else "_u"), "negated")(
            each(partial(smaller, is_signed=_signed, plus=_plus))
        )


def smaller_pairs(g, n, is_signed, three=False):
    pick, found = (min if g.p0[n] else max), 0
    for place in (0, 16):
        given = [int(s[0, n]) >> place & 0xFFFF for s in (g.a, g.b, g.c)[: 3 if three else 2]]
        found |= pick(given, key=lambda v: signed(v, 16) if is_signed else v) << place
    return found


def smaller_sums(g, n, is_signed):
    pick, found = (min if g.p0[n] else max), 0
    for place in (0, 16):
        x, y, z = (int(s[0, n]) >> place & 0xFFFF for s in (g.a, g.b, g.c))
        found |= pick((x + y & 0xFFFF, z), key=lambda v: signed(v, 16) if is_signed else v) << place
    return found


def smallest(g, n, is_signed):
    given = [whole(g, source, n) for source in range(3)]
    return (min if g.p0[n] else max)(given, key=signed if is_signed else int)


known("imnmx3_relu", "negated")(each(lambda g, n: at_least_zero(smallest(g, n, True))))
for _kind, _signed in (("u", False), ("s", True)):
    known(f"iaddmnmx_{_kind}16x2")(each(partial(smaller_sums, is_signed=_signed)))
    known(f"imnmx_{_kind}16x2")(each(partial(smaller_pairs, is_signed=_signed)))
    known(f"imnmx3_{_kind}16x2")(each(partial(smaller_pairs, is_signed=_signed, three=True)))
    known(f"imnmx3_{_kind}", "negated")(each(partial(smallest, is_signed=_signed)))


@known("iadd_16x2")
@each
def two_sums(g, n):
    x, y = int(g.a[0, n]), int(g.b[0, n])
    return (x + y) & 0xFFFF | ((x >> 16) + (y >> 16) & 0xFFFF) << 16


def products_of_bytes(g, n, first, second):
    x, y = bytes_of(int(g.a[0, n]), first), bytes_of(int(g.b[0, n]), second)
    return (whole(g, 2, n) + sum(p * q for p, q in zip(x, y))) & 0xFFFFFFFF


for _first in (False, True):
    for _second in (False, True):
        known(f"idp4a_{'us'[_first]}{'us'[_second]}", "negated")(
            each(partial(products_of_bytes, first=_first, second=_second))
        )


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
