"""Handlers of integers, logic, selection and predicates. What each instruction does is said in docs/simgpu.md."""

from __future__ import annotations

from functools import partial
from typing import Any

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.lanes import F64, I32, I64, POINTER, Lanes, handler, named, vector

A, B, C = at.A, at.B, at.C


@named("mov")
def mov(k: Lanes) -> None:
    k.out(k.row(A))


@named("mov_pair")
def mov_pair(k: Lanes) -> None:
    low, high = k.row(A), k.row(A, 1)
    k.out(low)
    k.out(high, 1)


# -- sums ----------------------------------------------------------------------------------------------------------


@named("iadd3")
def iadd3(k: Lanes) -> None:
    k.out(k.b.add(k.b.add(k.integer(A), k.integer(B)), k.integer(C)))


def _carried(k: Lanes, bits: Any) -> Any:
    """A predicate as 0 or 1 in 64-bit lanes."""
    return k.b.zext(k.vector_of(bits), vector(I64))


def _term(k: Lanes, source: int) -> Any:
    """A source for a sum with carries: -x is ~x + 1 in 33 bits, so that -0 carries."""
    return _signed_term(k, k.inverted(source), source)


def _signed_term(k: Lanes, value: Any, source: int) -> Any:
    """The same of what a source has become."""
    b, sign = k.b, k.negation(source)
    return b.sub(b.zext(b.xor(value, sign), vector(I64)), b.sext(sign, vector(I64)))


def _sum_with_carries(k: Lanes, total: Any) -> None:
    b = k.b
    carry = b.lshr(total, k.splat(32, I64))
    first = k.bits_of(b.icmp_unsigned(">=", carry, k.splat(1, I64)))
    second = k.bits_of(b.icmp_unsigned(">=", carry, k.splat(2, I64)))
    k.out(b.trunc(total, vector(I32)))
    k.out_predicate(0, first)
    k.out_predicate(1, second)


@named("iadd3_carry")
def iadd3_carry(k: Lanes) -> None:
    total = k.b.add(k.b.add(_term(k, A), _term(k, B)), _term(k, C))
    for n in (0, 1):
        total = k.b.add(total, _carried(k, k.predicate(n)))
    _sum_with_carries(k, total)


def _lea(k: Lanes, high: bool, extended: bool, carry: bool) -> None:
    """I0 is the shift. {C:A} << I0, its high or low word, plus B; the low word may be negated once it is shifted, as
    where a pointer goes back. `extended`: C is A's sign."""
    b = k.b
    low, amount = k.row(A), k.splat(k.field(at.I0))
    if high:
        upper = b.ashr(low, k.splat(31, I32)) if extended else k.row(C)
        shifted = k.call("llvm.fshl", upper, low, amount)
    else:
        shifted = b.shl(low, amount)
    first = b.zext(shifted, vector(I64)) if high else _signed_term(k, shifted, A)
    if not carry:
        k.out(b.add(b.trunc(first, vector(I32)), k.integer(B)))
        return
    total = b.add(first, _term(k, B))
    _sum_with_carries(k, b.add(total, _carried(k, k.predicate(0))))


for _high, _extended in ((False, False), (True, False), (True, True)):
    for _carry in (False, True):
        _name = "lea" + "_hi" * _high + "_sx" * _extended + "_carry" * _carry
        handler(_name, partial(_lea, high=_high, extended=_extended, carry=_carry))


# -- products ------------------------------------------------------------------------------------------------------


@named("imad")
def imad(k: Lanes) -> None:
    k.out(k.b.add(k.b.mul(k.integer(A), k.integer(B)), k.integer(C)))


@named("imad_x")
def imad_x(k: Lanes) -> None:
    carry = k.b.zext(k.vector_of(k.predicate(0)), vector(I32))
    k.out(k.b.add(k.b.add(k.b.mul(k.integer(A), k.integer(B)), k.integer(C)), carry))


def _imad_wide(k: Lanes, signed: bool, high: bool, carry: bool) -> None:
    """A * B + {C+1:C} in 64 bits; all of it or its high word."""
    b = k.b
    extend = b.sext if signed else b.zext
    x, y = (extend(k.row(source), vector(I64)) for source in (A, B))
    sign = k.b.sext(k.negation(C), vector(I64))
    addend = b.sub(b.xor(k.wide(C), sign), sign)
    total = b.add(b.mul(x, y), addend)
    if carry:
        first = b.icmp_unsigned("<", total, addend)
        more = b.add(total, _carried(k, k.predicate(0)))
        second = b.icmp_unsigned("<", more, total)
        k.out_predicate(0, k.bits_of(b.or_(first, second)))
        total = more
    if high:
        k.out(b.trunc(b.lshr(total, k.splat(32, I64)), vector(I32)))
    else:
        k.out_wide(total)


for _signed in (False, True):
    for _high in (False, True):
        for _carry in (False, True):
            _name = "imad" + ("_hi" if _high else "_wide") + ("_s" if _signed else "_u") + "_carry" * _carry
            handler(_name, partial(_imad_wide, signed=_signed, high=_high, carry=_carry))


# -- bits ----------------------------------------------------------------------------------------------------------


def _lop3_value(k: Lanes) -> Any:
    """I0 is the table: bit (a << 2 | b << 1 | c) is the result. A tree of choices, from c up to a."""
    b = k.b
    table = k.field(at.I0)
    a, y, c = k.row(A), k.row(B), k.row(C)

    def choose(by: Any, one: Any, zero: Any) -> Any:
        return b.xor(zero, b.and_(by, b.xor(one, zero)))

    leaves = [k.splat(b.neg(b.and_(b.lshr(table, I32(n)), I32(1)))) for n in range(8)]
    for by in (c, y, a):
        leaves = [choose(by, one, zero) for zero, one in zip(leaves[::2], leaves[1::2])]
    return leaves[0]


@named("lop3")
def lop3(k: Lanes) -> None:
    k.out(_lop3_value(k))


@named("lop3_predicate")
def lop3_predicate(k: Lanes) -> None:
    value = _lop3_value(k)
    nonzero = k.bits_of(k.b.icmp_unsigned("!=", value, k.splat(0, I32)))
    k.out(value)
    k.out_predicate(0, k.b.or_(nonzero, k.predicate(0)))


def _two(k: Lanes, op: str) -> None:
    """A LOP3 of which only two sources matter."""
    k.out(getattr(k.b, op)(k.row(A), k.row(B)))


for _op in ("and_", "or_", "xor"):
    handler(f"lop_{_op.strip('_')}", partial(_two, op=_op))


@named("plop3")
def plop3(k: Lanes) -> None:
    """I0, I1: two tables over three predicates; the third one stands in C."""
    b = k.b
    x, y = k.predicate(0), k.predicate(1)
    code = k.field(at.C)
    z = b.xor(k.slot(b.and_(code, I32(31))), b.neg(b.and_(b.lshr(code, I32(5)), I32(1))))
    results = []
    for field in (at.I0, at.I1):
        table, result = k.field(field), I32(0)
        for n in range(8):
            term = b.neg(b.and_(b.lshr(table, I32(n)), I32(1)))
            for bit, value in ((4, x), (2, y), (1, z)):
                term = b.and_(term, value if n & bit else b.xor(value, I32(-1)))
            result = b.or_(result, term)
        results.append(result)
    for n, result in enumerate(results):
        k.out_predicate(n, result)


def _shift(k: Lanes, left: bool, high: bool, wrap: bool, signed: bool, double: bool) -> None:
    """{C:A} shifted by B, one of its words. The simple shifts of one word have handlers of their own."""
    b = k.b
    limit = 63 if double else 31
    amount = k.row(B)
    if wrap:
        amount = b.and_(amount, k.splat(limit, I32))
    else:
        large = b.icmp_unsigned(">", amount, k.splat(limit + 1, I32))
        amount = b.select(large, k.splat(limit + 1, I32), amount)
    amount = b.zext(amount, vector(I64))
    beyond = b.icmp_unsigned(">", amount, k.splat(63, I64))
    inside = b.select(beyond, k.splat(63, I64), amount)
    low, upper = (b.zext(k.row(source), vector(I64)) for source in (A, C))
    if not left and high and not double:  # the high word alone
        upper = b.sext(k.row(C), vector(I64)) if signed else upper
        k.out(b.trunc((b.ashr if signed else b.lshr)(upper, inside), vector(I32)))
        return
    value = b.or_(low, b.shl(upper, k.splat(32, I64)))
    if left:
        shifted = b.select(beyond, k.splat(0, I64), b.shl(value, inside))
    elif signed:
        shifted = b.ashr(value, inside)  # 63 leaves the sign alone, as 64 would
    else:
        shifted = b.select(beyond, k.splat(0, I64), b.lshr(value, inside))
    k.out(b.trunc(b.lshr(shifted, k.splat(32, I64)) if high else shifted, vector(I32)))


def shift_name(left: bool, high: bool, wrap: bool, signed: bool, double: bool) -> str:
    kind = ("s" if signed else "u") + ("64" if double else "32")
    return f"shf_{'l' if left else 'r'}{'_w' * wrap}_{kind}{'_hi' * high}"


for _left in (False, True):
    for _high in (False, True):
        for _wrap in (False, True):
            for _signed in (False, True):
                for _double in (False, True):
                    _what = {
                        "left": _left, "high": _high, "wrap": _wrap, "signed": _signed, "double": _double,
                    }  # fmt: skip
                    handler(shift_name(**_what), partial(_shift, **_what))


def _immediate_shift(k: Lanes, op: str, source: int) -> None:
    """By I0, which is below 32."""
    k.out(getattr(k.b, op)(k.row(source), k.splat(k.field(at.I0))))


handler("shl", partial(_immediate_shift, op="shl", source=A))
handler("lshr", partial(_immediate_shift, op="lshr", source=C))
handler("ashr", partial(_immediate_shift, op="ashr", source=C))


@named("prmt")
def prmt(k: Lanes) -> None:
    """Each byte of the result is one of the eight of {C:A}; B says which, in four bits each. The highest of these
    repeats the byte's sign instead."""
    k.out(permuted(k, k.row(B)))


def permuted(k: Lanes, selector: Any) -> Any:
    b = k.b
    a, c = k.row(A), k.row(C)
    result = k.splat(0, I32)
    for n in range(4):
        code = b.lshr(selector, k.splat(4 * n, I32))
        upper = b.icmp_unsigned("!=", b.and_(code, k.splat(4, I32)), k.splat(0, I32))
        amount = b.shl(b.and_(code, k.splat(3, I32)), k.splat(3, I32))
        byte = b.and_(b.lshr(b.select(upper, c, a), amount), k.splat(0xFF, I32))
        sign = b.icmp_unsigned("!=", b.and_(code, k.splat(8, I32)), k.splat(0, I32))
        signs = b.ashr(b.shl(byte, k.splat(24, I32)), k.splat(31, I32))
        byte = b.select(sign, b.and_(signs, k.splat(0xFF, I32)), byte)
        result = b.or_(result, b.shl(byte, k.splat(8 * n, I32)))
    return result


@named("prmt_immediate")
def prmt_immediate(k: Lanes) -> None:
    """The selector is I0 and has no signs."""
    b = k.b
    first, second = k.address(A), k.address(C)
    result = k.splat(0, I32)
    for n in range(4):
        code = b.lshr(k.field(at.I0), I32(4 * n))
        upper = b.icmp_unsigned("!=", b.and_(code, I32(4)), I32(0))
        row = b.inttoptr(b.select(upper, second, first), POINTER)
        value = b.load(row, typ=vector(I32), align=4)
        amount = k.splat(b.shl(b.and_(code, I32(3)), I32(3)))
        byte = b.and_(b.lshr(value, amount), k.splat(0xFF, I32))
        result = b.or_(result, b.shl(byte, k.splat(8 * n, I32)))
    k.out(result)


def _count(k: Lanes, source: int, wrap: bool) -> Any:
    return k.b.and_(k.row(source), k.splat(31, I32)) if wrap else k.row(source)


def _extend(k: Lanes, signed: bool, wrap: bool) -> None:
    """The low B bits of A, extended. 32 and more keep all, or count from 0 on again (`wrap`)."""
    b = k.b
    count = _count(k, B, wrap)
    large = b.icmp_unsigned(">=", count, k.splat(32, I32))
    none = b.icmp_unsigned("==", count, k.splat(0, I32))
    rest = b.and_(b.sub(k.splat(32, I32), count), k.splat(31, I32))
    value = b.shl(k.row(A), rest)
    value = (b.ashr if signed else b.lshr)(value, rest)
    k.out(b.select(none, k.splat(0, I32), b.select(large, k.row(A), value)))


def _ones(k: Lanes, wrap: bool) -> None:
    """B ones from bit A on; both end at 32, or count from 0 on again (`wrap`)."""
    b = k.b

    def clamped(source: int) -> Any:
        count = b.zext(_count(k, source, wrap), vector(I64))
        large = b.icmp_unsigned(">", count, k.splat(32, I64))
        return b.select(large, k.splat(32, I64), count)

    ones = b.sub(b.shl(k.splat(1, I64), clamped(B)), k.splat(1, I64))
    k.out(b.trunc(b.shl(ones, clamped(A)), vector(I32)))


for _wrap in (False, True):
    handler(f"sgxt{'_w' * _wrap}", partial(_extend, signed=True, wrap=_wrap))
    handler(f"sgxt_u{'_w' * _wrap}", partial(_extend, signed=False, wrap=_wrap))
    handler(f"bmsk{'_w' * _wrap}", partial(_ones, wrap=_wrap))


@named("popc")
def popc(k: Lanes) -> None:
    k.out(k.call("llvm.ctpop", k.row(A)))


@named("brev")
def brev(k: Lanes) -> None:
    k.out(k.call("llvm.bitreverse", k.row(A)))


def _flo(k: Lanes, signed: bool, shift: bool) -> None:
    """The place of the highest one (of a negative number: of the highest zero), or all ones where there is none.
    `shift`: how far it is from the top."""
    b = k.b
    value = k.integer(A)
    if signed:
        value = b.xor(value, b.ashr(value, k.splat(31, I32)))
    zeros = _leading_zeros(k, value)
    place = zeros if shift else b.sub(k.splat(31, I32), zeros)
    nothing = b.icmp_unsigned("==", value, k.splat(0, I32))
    k.out(b.select(nothing, k.splat(-1, I32), place))


def _leading_zeros(k: Lanes, value: Any) -> Any:
    """By the exponent of the number as a double, which is exact."""
    b = k.b
    number = b.bitcast(b.uitofp(value, vector(F64)), vector(I64))
    exponent = b.trunc(b.lshr(number, k.splat(52, I64)), vector(I32))
    return b.sub(k.splat(1023 + 31, I32), exponent)


for _signed in (False, True):
    for _far in (False, True):
        handler("flo" + ("_s" if _signed else "_u") + "_sh" * _far, partial(_flo, signed=_signed, shift=_far))


@named("iabs")
def iabs(k: Lanes) -> None:
    value = k.row(A)
    sign = k.b.ashr(value, k.splat(31, I32))
    k.out(k.b.sub(k.b.xor(value, sign), sign))


# -- choices -------------------------------------------------------------------------------------------------------


@named("sel")
def sel(k: Lanes) -> None:
    k.out(k.b.select(k.vector_of(k.predicate(0)), k.integer(A), k.integer(B)))


@named("fsel")
def fsel(k: Lanes) -> None:
    k.out(k.b.select(k.vector_of(k.predicate(0)), k.float_bits(A, True), k.float_bits(B, True)))


# -- comparisons ---------------------------------------------------------------------------------------------------

COMBINE = {"AND": 0, "OR": 1, "XOR": 2}  # how a comparison meets the predicate operand: I0
# Which outcomes of a comparison make it true: bits of I1.
LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
UNSIGNED = 16  # of I1: integers have no sign
COMPARE = {
    "F": 0, "LT": LESS, "EQ": EQUAL, "LE": LESS | EQUAL, "GT": GREATER, "NE": LESS | GREATER, "GE": GREATER | EQUAL,
    "T": LESS | EQUAL | GREATER | UNORDERED,
}  # fmt: skip


def combined(k: Lanes, bits: Any, number: int = 0) -> Any:
    """A comparison with the predicate operand."""
    b, other, how = k.b, k.predicate(number), k.field(at.I0)
    either = b.select(b.icmp_signed("==", how, I32(1)), b.or_(bits, other), b.xor(bits, other))
    return b.select(b.icmp_signed("==", how, I32(0)), b.and_(bits, other), either)


def out_comparison(k: Lanes, bits: Any) -> None:
    """Both results: the comparison, and its opposite, each with the predicate operand."""
    first, second = combined(k, bits), combined(k, k.b.xor(bits, I32(-1)))
    k.out_predicate(0, first)
    k.out_predicate(1, second)


def wanted(k: Lanes, outcomes: dict[int, Any]) -> Any:
    """The lanes whose outcome is one that I1 asks for."""
    b, asked, bits = k.b, k.field(at.I1), I32(0)
    for outcome, lanes in outcomes.items():
        on = b.neg(b.and_(b.lshr(asked, I32(outcome.bit_length() - 1)), I32(1)))
        bits = b.or_(bits, b.and_(lanes, on))
    return bits


def _integers(k: Lanes) -> tuple[Any, Any, Any]:
    """Lanes in which A is less, equal, greater. Numbers without a sign compare as signed ones shifted by half."""
    b = k.b
    flip = b.and_(b.shl(k.field(at.I1), I32(31 - (UNSIGNED.bit_length() - 1))), I32(-(2**31)))
    x, y = (b.xor(k.integer(source), k.splat(flip)) for source in (A, B))
    less, equal = k.bits_of(b.icmp_signed("<", x, y)), k.bits_of(b.icmp_signed("==", x, y))
    return less, equal, b.xor(b.or_(less, equal), I32(-1))


@named("isetp")
def isetp(k: Lanes) -> None:
    less, equal, greater = _integers(k)
    out_comparison(k, wanted(k, {LESS: less, EQUAL: equal, GREATER: greater}))


@named("isetp_ex")
def isetp_ex(k: Lanes) -> None:
    """Of 64-bit numbers these are the high words; where they are equal the comparison of the low words, the second
    predicate operand, decides."""
    b = k.b
    less, equal, greater = _integers(k)
    strict = b.and_(wanted(k, {LESS: less, GREATER: greater}), b.xor(equal, I32(-1)))
    out_comparison(k, b.or_(strict, b.and_(equal, k.predicate(1))))


# -- predicates and registers --------------------------------------------------------------------------------------


@named("p2r")
def p2r(k: Lanes) -> None:
    """P0 to P6 as bits of a byte (at bit I1), where the mask I0 says so; other bits are A's. I2: which is the first."""
    b = k.b
    mask, base, first = k.field(at.I0), k.field(at.I1), k.field(at.I2)
    value = k.splat(0, I32)
    for n in range(7):
        lanes = b.zext(k.vector_of(k.slot(b.add(first, I32(n)))), vector(I32))
        value = b.or_(value, b.shl(lanes, k.splat(n, I32)))
    amount = k.splat(base)
    value, mask = b.shl(value, amount), b.shl(k.splat(mask), amount)
    rest = b.and_(k.row(A), b.xor(mask, k.splat(-1, I32)))
    k.out(b.or_(b.and_(value, mask), rest))


@named("r2p")
def r2p(k: Lanes) -> None:
    """P0 to P6 from bits of A (from bit I1 on), where the mask I0 says so. I2: which is the first."""
    b = k.b
    first = b.shl(b.zext(k.field(at.I2), I64), I64(2))
    mask, amount = k.field(at.I0), k.splat(k.field(at.I1))
    value = b.lshr(k.row(A), amount)
    for n in range(7):
        bit = b.and_(b.lshr(value, k.splat(n, I32)), k.splat(1, I32))
        bits = k.bits_of(b.icmp_unsigned("!=", bit, k.splat(0, I32)))
        where = b.and_(k.mask, b.neg(b.and_(b.lshr(mask, I32(n)), I32(1))))
        place = b.inttoptr(b.add(b.add(k.warp, first), I64(at.W_PRED + 4 * n)), POINTER)
        before = b.load(place, typ=I32, align=4)
        b.store(b.or_(b.and_(before, b.xor(where, I32(-1))), b.and_(bits, where)), place, align=4)
