"""Cases for conversions, slow functions, directed doubles and floats of eight bits, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from exact_floats import (
    BF16,
    F16,
    F32,
    F64,
    INF,
    NAN,
    Format,
    added,
    encoded,
    flushed,
    multiplied,
    read,
    write,
)
from family_machine import ALL, LANES, Bench, R, chosen, group
from family_memory import SOME

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import scalar as s

_F32 = [
    0, 0x80000000, 1, 0x807FFFFF, 0x3F000000, 0xBF000000, 0x3FC00000, 0x40200000, 0xC0200000, 0x3F800000,
    0xBF800000, 0x42FE0000,
    0x42FF0000, 0x43000000, 0xC3000000, 0xC3008000, 0xC3010000, 0x437F0000, 0x43800000, 0x47000000, 0x4F000000,
    0xCF000000, 0x4F7FFFFF,
    0x4F800000, 0x5F000000, 0xDF000000, 0x5F7FFFFF, 0x5F800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x4B000001,
    0x3EFFFFFF, 0xBF7FFFFF,
    0x46FFFE00, 0x5EFFFFFF, 0x4EFFFFFF,
]  # fmt: skip
_ROUNDINGS = ("rn", "rz", "rm", "rp")


def doubles(b, count=32):
    """At the edges of integers and of the format, and others."""
    edges = np.array([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 126.5, 127.0, 127.5, -128.0, -128.5, -129.0, 255.5,
    32767.9, 65535.5,
                      2147483647.0, 2147483648.0, -2147483648.0, -2147483649.5, 4294967295.5, 4294967296.0,
                      2.0**63, -(2.0**63),
                      2.0**63 - 1024, 2.0**63 + 2048, 2.0**64, 2.0**64 - 2048, np.inf, -np.inf, np.nan, 1e-310,
                      1e-39, -1e-39, 5e-324,
                      1.7976931348623157e308, 0.9999999999999999])  # fmt: skip
    noise = b.random.standard_normal(count) * 2.0 ** b.random.integers(-3, 66, count)
    return np.where(b.random.random(count) < 0.7, b.random.choice(edges, count), noise).view(np.uint64)


def singles(b, count=32):
    noise = (
        (b.random.standard_normal(count) * 2.0 ** b.random.integers(-3, 66, count))
        .astype(np.float32)
        .view(np.uint32)
    )
    return np.where(b.random.random(count) < 0.7, b.random.choice(np.array(_F32, np.uint32), count), noise)


def sources(b, wide):
    words = doubles(b) if wide else singles(b)
    words[10:12] = (0x0001000000000000, 0x8001000000000000) if wide else (0x00012345, 0x80012345)  # subnormal
    words[12:14] = (0x37A0000000000000, 0xB7A0000000000000) if wide else words[12:14]  # a subnormal float
    if wide:
        b.pairs(R(0), words.view(np.int64))
    else:
        b.rows(R(0))[0] = words
    return [int(w) for w in words]


def modified(word, mods, n, form):
    top = 1 << form.bits - 1
    if mods >> at.ABSOLUTE + n & 1:
        word &= ~top
    if mods >> at.NEGATE + n & 1:
        word ^= top
    return word


def whole(value, how):
    """A fraction to an integer."""
    down = value.numerator // value.denominator
    rest = value - down
    if how == "rn":
        return down + int(rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down & 1))
    return down + int(rest != 0 and (how == "rp" or (how == "rz" and value < 0)))


def put(b, lane, value, rows):
    for n in range(rows):
        b.rows(R(20), rows)[n, lane] = value >> 32 * n & ALL


def tiny(value):
    return value not in (NAN, INF) and abs(value) < Fraction(2) ** -126


@group
def to_integers():
    made = []
    for width in (8, 16, 32, 64):
        for is_signed in (False, True):
            for wide in (0, 1):
                for how in range(4):
                    b = Bench(seed=4 * width + how)
                    words, form = sources(b, wide), F64 if wide else F32
                    mods = (9, 8, 1, 0)[how]
                    flush = width != 16

                    def then(
                        b=b,
                        words=words,
                        form=form,
                        width=width,
                        is_signed=is_signed,
                        wide=wide,
                        how=how,
                        mods=mods,
                        flush=flush,
                    ):
                        low, high = (
                            (-(1 << width - 1), (1 << width - 1) - 1) if is_signed else (0, (1 << width) - 1)
                        )
                        for lane in LANES[chosen(SOME)]:
                            sign, value = read(modified(words[lane], mods, 0, form), form)
                            if flush and tiny(value):
                                value = Fraction(0)
                            if value == NAN:
                                answer = 1 << width - 1 if wide or width == 64 else 0
                            elif value == INF:
                                answer = low if sign else high
                            else:
                                answer = min(max(whole(value, _ROUNDINGS[how]), low), high)
                            put(b, lane, answer, 2 if width == 64 else 1)

                    kind, manner = width | 256 * is_signed, wide | how << 4 | 256 * flush
                    made.append(
                        b.case(
                            "F2I", then, SOME, D=R(20), A=R(0), B=R(4), C=R(8), MODS=mods, I0=kind, I1=manner
                        )
                    )
    return made


FORMS = (F32, F64, F16, BF16)  # as `scalar` numbers them


@group
def from_integers():
    made = []
    edges = [0, 1, (1 << 24) - 1, (1 << 24) + 1, (1 << 24) + 2, (1 << 24) + 3, (1 << 31) - 1, 1 << 31,
    (1 << 32) - 1, (1 << 63) - 1, 1 << 63,
             (1 << 63) + 1, (1 << 64) - 1, (1 << 64) - 129, (1 << 53) + 1, (1 << 53) + 2,
             (1 << 53) + 3, 255, 128, 127, 0x8000, 0x7FFF, 0xFFFF,
             (1 << 63) + (1 << 39), (1 << 63) + (1 << 39) + 1, (1 << 63) + (3 << 39), (1 << 63) + 1024,
             (1 << 63) + 3072, (1 << 63) + 1025,
             (1 << 63) - 512, 0xFFFFFFFF00000000, 0x123456789ABCDEF1, 0x8123456789ABCDEF, 0xFEDCBA9876543210,
             (1 << 64) - 1025, 65503, 65519, 65520, 65535, 2049, 2051, 4098, 257, 259, 514, (1 << 24) + (1 << 13),
             (1 << 24) + (1 << 16), (1 << 62) + (1 << 54), (1 << 62) + (1 << 54) + 1]  # fmt: skip
    for width in (8, 16, 32, 64):
        for is_signed in (False, True):
            for wide in range(4):
                for direction in range(4 if wide < 2 else 1):
                    for shift in (0,) if width > 16 else (0, 8, 16):
                        for seed in (0, 1, 2):
                            b = Bench(seed=direction + 100 * seed)
                            values = b.random.choice(np.array(edges, np.uint64), 32)
                            fresh = b.random.random(32) < 0.3
                            values[fresh] = b.random.integers(0, 1 << 64, int(fresh.sum()), np.uint64)
                            b.pairs(R(0), values.view(np.int64))

                            def then(
                                b=b,
                                values=values,
                                width=width,
                                is_signed=is_signed,
                                wide=wide,
                                direction=direction,
                                shift=shift,
                            ):
                                form = FORMS[wide]
                                for lane in LANES[chosen(SOME)]:
                                    value = (int(values[lane]) & (ALL if width < 64 else -1)) >> shift & (
                                        1 << width
                                    ) - 1
                                    if is_signed and value >> width - 1:
                                        value -= 1 << width
                                    word = write(
                                        Fraction(value), 0, form, ("rn", "rz", "rm", "rp")[direction]
                                    )
                                    put(b, lane, word, 2 if wide == 1 else 1)

                            kind = width | 256 * is_signed | shift << 16
                            made.append(
                                b.case(
                                    "I2F_ANY",
                                    then,
                                    SOME,
                                    D=R(20),
                                    A=R(0),
                                    B=R(4),
                                    C=R(8),
                                    I0=kind,
                                    I1=wide | direction << 4,
                                )
                            )
    return made


@group
def rounded():
    made = []
    for wide in (0, 1):
        for how in range(4):
            for flush in (False, True):
                b = Bench(seed=how)
                words, form = sources(b, wide), F64 if wide else F32
                mods = (9, 8, 1, 0)[how]

                def then(b=b, words=words, form=form, how=how, mods=mods, flush=flush, wide=wide):
                    for lane in LANES[chosen(SOME)]:
                        word = modified(words[lane], mods, 0, form)
                        sign, value = read(word, form)
                        if value == NAN:
                            answer = word if wide else 0x7FFFFFFF
                        elif value == INF:
                            answer = word
                        else:
                            value = Fraction(0) if flush and tiny(value) else value
                            answer = write(Fraction(whole(value, _ROUNDINGS[how])), sign, form)
                        put(b, lane, answer, 2 if wide else 1)

                manner = wide | how << 4 | 256 * flush
                made.append(b.case("FRND", then, SOME, D=R(20), A=R(0), B=R(4), C=R(8), MODS=mods, I1=manner))
    return made


def halves(b):
    """Both halves of each word: numbers about whole ones and about a half beside them, tiny ones, and none."""
    words = b.random.integers(0, 1 << 32, 32, dtype=np.uint32)
    near = (b.random.integers(-9, 9, (2, 32)) / 2 + b.random.integers(-1, 2, (2, 32)) / 64).astype(np.float16)
    words[:12] = (
        near.view(np.uint16)[0].astype(np.uint32) | near.view(np.uint16)[1].astype(np.uint32) << 16
    )[:12]
    words[12:16] = 0x7C00FC00, 0x7E00FF81, 0x80000001, 0x03FF8000
    words[16:20] = 0x7F80FF80, 0x7FC0FFC1, 0x3F00BFC0, 0x4020C0E0
    b.rows(R(0))[0] = words
    return [int(word) for word in words]


@group
def directed_floats():
    """Doubles to the float toward zero, below and above."""
    made = []
    for direction in (1, 2, 3):
        for mods in (0, 1, 8, 9):
            b = Bench(seed=direction)
            words = sources(b, 1)
            words[20:26] = (0x47EFFFFFF0000000, 0xC7F0000000000001, 0x36A0000000000001, 0xB6A0000000000001,
                            0x3FF0000010000000, 0xBFF0000030000000)  # fmt: skip
            b.pairs(R(0), np.array(words, np.uint64).view(np.int64))

            def then(b=b, words=words, direction=direction, mods=mods):
                for lane in LANES[chosen(SOME)]:
                    sign, value = read(modified(words[lane], mods, 0, F64), F64)
                    if value == NAN:
                        answer = 0x7FFFFFFF
                    elif value == INF:
                        answer = F32.infinity | sign << 31
                    else:
                        answer = write(value, sign, F32, ("", "rz", "rm", "rp")[direction])
                    put(b, lane, answer, 1)

            given = {"MODS": mods, "I0": direction << 4, "I1": 1}
            made.append(b.case("F2F_ANY", then, SOME, D=R(20), A=R(0), B=R(4), C=R(8), **given))
    return made


@group
def rounded_halves():
    made = []
    for number, form in ((2, F16), (3, BF16)):
        for how in range(4):
            for place in (0, 16):
                b, mods = Bench(seed=how + place), (9, 8, 1, 0)[how]
                words = halves(b)

                def then(b=b, words=words, form=form, how=how, mods=mods, place=place):
                    for lane in LANES[chosen(SOME)]:
                        word = modified(words[lane] >> place & 0xFFFF, mods, 0, form)
                        sign, value = read(word, form)
                        if value == NAN:
                            answer = 0x7FFF
                        elif value == INF:
                            answer = word
                        else:
                            answer = write(Fraction(whole(value, _ROUNDINGS[how])), sign, form)
                        put(b, lane, answer, 1)

                more = {"MODS": mods, "I1": number | how << 4, "I2": place}
                made.append(b.case("FRND", then, SOME, D=R(20), A=R(0), B=R(4), C=R(8), **more))
    return made


@group
def functions_of_halves():
    """EX2 and TANH, to the nearest half."""
    made = []
    for number, form in ((2, F16), (3, BF16)):
        for which in (3, 4):
            for place, mods in ((0, 0), (16, 8), (0, 1)):
                b = Bench(seed=which + place)
                words = halves(b)

                def then(b=b, words=words, form=form, which=which, mods=mods, place=place):
                    for lane in LANES[chosen(ALL)]:
                        sign, value = read(modified(words[lane] >> place & 0xFFFF, mods, 0, form), form)
                        put(b, lane, function_of_half(which, sign, value, form), 1)

                more = {"MODS": mods, "I0": which, "I1": number, "I2": place}
                made.append(b.case("MUFU_SLOW", then, ALL, D=R(20), A=R(0), B=R(4), C=R(8), **more))
    return made


def function_of_half(which, sign, value, form):
    if value == NAN:
        return 0x7FFF
    if which == 3:
        answer = Fraction(1 if value == INF else abs(math.tanh(float(value))))
        return write(-answer if sign else answer, sign, form)
    if value == INF or abs(value) > 1000:
        return 0 if sign else form.infinity
    return write(Fraction(2.0 ** float(value)), 0, form)


def approximated(which, value):
    """What a function of MUFU answers for a double, rounded to the nearest float."""
    if value != value:
        return math.nan
    if which == 0:
        return math.nan if value < 0 else -math.inf if value == 0 else math.log2(value)
    if which == 3:
        return math.tanh(value)
    if math.isinf(value):
        return math.nan
    turns = 2 * math.pi * (value - math.floor(value))
    return math.sin(turns) if which == 1 else math.cos(turns)


@group
def functions():
    made = []
    for which in range(4):
        for mods in (0, 1, 8):
            b = Bench(seed=which)
            words = sources(b, 0)
            words[::3] = (b.random.random(11) * 3 - 1).astype(np.float32).view(np.uint32).tolist()
            words[1] = np.float32(1.0).view(np.uint32)
            words[2] = 0x3B800000
            words[4] = 0x2F000001  # a sine that is tiny, not zero
            words[7] = 0x00C00000
            b.rows(R(0))[0] = words

            def then(b=b, words=words, which=which, mods=mods):
                for lane in LANES[chosen(ALL)]:
                    word = flushed(modified(int(words[lane]), mods, 0, F32))
                    value = approximated(which, float(np.uint32(word).view(np.float32)))
                    if value != value:
                        put(b, lane, 0x7FFFFFFF, 1)
                    elif abs(value) < 2.0**-126:
                        put(
                            b,
                            lane,
                            flushed(int(np.float32(value).view(np.uint32))) if value or which else 0,
                            1,
                        )
                    else:
                        put(b, lane, int(np.float32(value).view(np.uint32)), 1)

            made.append(b.case("MUFU_SLOW", then, ALL, D=R(20), A=R(0), B=R(4), C=R(8), MODS=mods, I0=which))
    return made


@group
def directed():
    """DADD, DMUL, DFMA toward zero, down and up: one rounding of the exact result."""
    made = []
    for op in range(3):
        for direction in range(3):
            for seed, mods in enumerate((0, 0x15, 0x2A, 0)):
                b = Bench(seed=10 * op + seed)
                values = []
                for n, operand in enumerate((R(0), R(4), R(8))):
                    plain = b.random.standard_normal(32) * 2.0 ** b.random.integers(-30, 30, 32)
                    plain[:6] = [0.0, -0.0, 1.0, np.inf, np.nan, 3.0][n % 2 :] + [0.5] * (n % 2)
                    plain[6:10] = [
                        [1.0, 1.0, -1.0, 2.0],
                        [2.0**-60, -(2.0**-60), 2.0**-70, 2.0],
                        [1.0, -1.0, 1e-30, -4.0],
                    ][n]
                    plain[10:12] = [1 + 2.0**-52, 1 - 2.0**-53]
                    if seed == 3:
                        plain = np.round(plain)
                    b.pairs(operand, plain.view(np.int64))
                    values.append([int(w) for w in plain.view(np.uint64)])

                def then(b=b, values=values, op=op, direction=direction, mods=mods):
                    for lane in LANES[chosen(SOME)]:
                        x, y, z = (read(modified(v[lane], mods, n, F64), F64) for n, v in enumerate(values))
                        exact = added(x, y) if op == 0 else multiplied(x, y)
                        exact = added(exact, z) if op == 2 else exact
                        word = encoded(exact, F64, ("rz", "rm", "rp")[direction])
                        put(b, lane, word, 2)

                case = b.case(
                    "DIRECTED_64", then, SOME, D=R(20), A=R(0), B=R(4), C=R(8), MODS=mods, I0=direction, I1=op
                )
                made.append(case)
    return made


E4M3, E5M2 = Format(8, 4, -6, 0x7F), Format(8, 3, -14, 0x7F)


def eight(word, kind, form):
    """A float to eight bits, saturating; e4m3 has no infinity, and one number in its place."""
    sign, value = read(word, form)
    top = Fraction(448) if kind else Fraction(57344)
    if value == NAN:
        return 0x7F
    if value == INF or abs(value) >= top:
        return sign << 7 | (0x7E if kind else 0x7B)
    if kind and abs(value) > 240:  # above what the format with infinity holds: units of 32
        return sign << 7 | 0x78 + whole(abs(value) / 32, "rn") - 8
    return write(value, sign, E4M3 if kind else E5M2)


@group
def packed_eights():
    made = []
    for kind in (0, 1):
        for halves in (0, 1):
            for seed, mods in enumerate((0, 3, 0x18)):
                b = Bench(seed=seed)
                size = 2.0 ** b.random.integers(-19, 18, (2, 32))
                plain = (b.random.standard_normal((2, 32)) * size).astype(np.float32)
                plain[:, :12] = [
                    0,
                    -0.0,
                    448,
                    464,
                    -480,
                    57344,
                    61440,
                    np.inf,
                    -np.inf,
                    np.nan,
                    2.0**-9,
                    2.0**-10,
                ]
                plain[:, 12:20] = [
                    3 * 2.0**-10,
                    2.0**-17,
                    3 * 2.0**-17,
                    1.0625,
                    1.1875,
                    240,
                    248,
                    2.0**-6 * 0.97,
                ]
                b.rows(R(0))[0], b.rows(R(4))[0] = plain.view(np.uint32)
                if halves:
                    with np.errstate(over="ignore"):
                        pair = plain.astype(np.float16).view(np.uint16).astype(np.uint32)
                    b.rows(R(0))[0] = pair[1] | pair[0] << 16

                def then(b=b, kind=kind, halves=halves, mods=mods):
                    for lane in LANES[chosen(SOME)]:
                        first, second = int(b.rows(R(0))[0, lane]), int(b.rows(R(4))[0, lane])
                        if halves:
                            high, low = eight(first >> 16, kind, F16), eight(first & 0xFFFF, kind, F16)
                        else:
                            high = eight(modified(first, mods, 0, F32), kind, F32)
                            low = eight(modified(second, mods, 1, F32), kind, F32)
                        put(b, lane, high << 8 | low | (int(b.rows(R(8))[0, lane]) & 0xFFFF) << 16, 1)

                case = b.case(
                    "PACK_F8", then, SOME, D=R(20), A=R(0), B=R(4), C=R(8), MODS=mods, I0=kind, I1=halves
                )
                made.append(case)
    return made


@group
def unpacked_eights():
    """Every number of eight bits."""
    made = []
    for kind in (0, 1):
        for first in range(0, 256, 32):
            for shift in (0, 16):
                b = Bench(seed=first)
                low, high = first + LANES, 255 - first - LANES
                b.rows(R(0))[0] = (low | high << 8) << shift | (0xABCD << 16 - shift)

                def then(b=b, low=low, high=high, kind=kind):
                    for lane in LANES:
                        word = 0
                        for n, byte in ((0, int(low[lane])), (16, int(high[lane]))):
                            if kind == 0:
                                half = byte << 8
                            elif byte & 0x7F == 0x7F:
                                half = 0x7FFF
                            else:
                                wide = Format(8, 4, -6, 0)
                                sign = byte >> 7
                                value = (
                                    read(byte, wide)[1]
                                    if byte & 0x78 != 0x78
                                    else Fraction((8 + (byte & 7)) * 32) * (-1) ** sign
                                )
                                half = write(value, sign, F16)
                            word |= half << n
                        put(b, lane, word, 1)

                made.append(
                    b.case("UNPACK_F8", then, ALL, D=R(20), A=R(0), B=R(4), C=R(8), I0=kind, I1=shift)
                )
    return made


@group
def clocks():
    made = []
    for which in range(4):
        for both in (0, 1):
            b = Bench()
            now = (3 << 32) + 77

            def then(b=b, which=which, both=both, now=now):
                on = chosen(SOME)
                b.rows(R(20))[0, on] = (now >> 32 if which & 1 else now) & ALL
                if both:
                    b.rows(R(20), 2)[1, on] = now >> 32

            made.append(b.case("CS2R", then, SOME, D=R(20), I0=which, I1=both))
    for op in ("F2I", "FRND", "PACK_F8", "CS2R"):
        made.append(Bench().case(op, None, 0, D=R(20), A=R(0), B=R(4), C=R(8), I0=32))
    assert (s.NEAREST, s.TRUNCATED, s.FLOOR, s.CEILING) == (0, 1, 2, 3)
    return made
