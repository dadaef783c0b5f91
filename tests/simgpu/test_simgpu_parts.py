"""Parts of registers through inline assembly and libdevice: what the PTX ISA says, against Python's whole numbers."""

import numpy as np
import pytest
import triton
import triton.language as tl
from simgpu_harness import MACHINES
from triton.language.extra import libdevice

import tileprobe

N = 128
M32 = 0xFFFFFFFF


@triton.jit
def asm(A, B, C, OUT, TEXT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    given = [tl.load(A + i), tl.load(B + i), tl.load(C + i)]
    tl.store(OUT + i, tl.inline_asm_elementwise(TEXT, "=r,r,r,r", given, tl.int32, is_pure=True, pack=1))


@triton.jit
def distances(A, B, C, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(
        OUT + i, libdevice.sad(tl.load(A + i), tl.load(B + i), tl.load(C + i).to(tl.uint32, bitcast=True))
    )


def numbers(seed):
    random = np.random.default_rng(seed)
    made = random.integers(-(2**31), 2**31, (3, N)).astype(np.int32)
    made[:2] >>= random.integers(0, 32, (2, N)).astype(np.int32)
    made[1, ::3] %= 40  # amounts
    return made


def signed(value, bits=32):
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def chosen(bytes_by_selector):
    def of(a, b, c):
        eight = [((b & M32) << 32 | a & M32) >> 8 * k & 255 for k in range(8)]
        return sum(eight[int(n)] << 8 * k for k, n in enumerate(bytes_by_selector[c % 4]))

    return of


def packed(bits, has_sign):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if has_sign else (0, (1 << bits) - 1)

    def of(a, b, c):
        x, y = (min(max(value, low), high) % (1 << bits) for value in (a, b))
        return x << bits | y | (c << 2 * bits if bits < 16 else 0)

    return of


def extended(a, count, has_sign):
    if count >= 32:
        return a
    return signed(a % (1 << count), count) if has_sign and count else a % (1 << count)


def ones(start, count):
    return (1 << min(count, 32)) - 1 << min(start, 32)


def bytes_of(word, has_sign):
    four = [word >> 8 * k & 255 for k in range(4)]
    return [signed(v, 8) for v in four] if has_sign else four


def far(a, b, has_sign):
    return [abs(x - y) for x, y in zip(bytes_of(a, has_sign), bytes_of(b, has_sign))]


CASES = {
    "prmt.b32.f4e $0, $1, $2, $3;": chosen(["0123", "1234", "2345", "3456"]),
    "prmt.b32.b4e $0, $1, $2, $3;": chosen(["0765", "1076", "2107", "3210"]),
    "prmt.b32.rc8 $0, $1, $2, $3;": chosen(["0000", "1111", "2222", "3333"]),
    "prmt.b32.ecl $0, $1, $2, $3;": chosen(["0123", "1123", "2223", "3333"]),
    "prmt.b32.ecr $0, $1, $2, $3;": chosen(["0000", "0111", "0122", "0123"]),
    "prmt.b32.rc16 $0, $1, $2, $3;": chosen(["0101", "2323", "0101", "2323"]),
    "sad.s32 $0, $1, $2, $3;": lambda a, b, c: abs(a - b) + c,
    "sad.u32 $0, $1, $2, $3;": lambda a, b, c: abs((a & M32) - (b & M32)) + c,
    "vabsdiff4.u32.u32.u32 $0, $1, $2, $3;": lambda a, b, c: int.from_bytes(
        bytes(far(a, b, False)), "little"
    ),
    "vabsdiff4.u32.u32.u32.add $0, $1, $2, $3;": lambda a, b, c: sum(far(a, b, False)) + c,
    "vabsdiff4.u32.s32.s32.add $0, $1, $2, $3;": lambda a, b, c: sum(far(a, b, True)) + c,
    "szext.clamp.s32 $0, $1, $2;": lambda a, b, c: extended(a, b & M32, True),
    "szext.wrap.s32 $0, $1, $2;": lambda a, b, c: extended(a, b % 32, True),
    "szext.clamp.u32 $0, $1, $2;": lambda a, b, c: extended(a & M32, b & M32, False),
    "szext.wrap.u32 $0, $1, $2;": lambda a, b, c: extended(a & M32, b % 32, False),
    "bmsk.clamp.b32 $0, $2, $1;": lambda a, b, c: ones(b & M32, a & M32),
    "bmsk.wrap.b32 $0, $2, $1;": lambda a, b, c: ones(b % 32, a % 32),
    "cvt.pack.sat.s16.s32 $0, $1, $2;": packed(16, True),
    "cvt.pack.sat.u16.s32 $0, $1, $2;": packed(16, False),
    "cvt.pack.sat.s8.s32.b32 $0, $1, $2, $3;": packed(8, True),
    "cvt.pack.sat.u8.s32.b32 $0, $1, $2, $3;": packed(8, False),
    "cvt.pack.sat.s4.s32.b32 $0, $1, $2, $3;": packed(4, True),
    "cvt.pack.sat.u4.s32.b32 $0, $1, $2, $3;": packed(4, False),
    "cvt.pack.sat.s2.s32.b32 $0, $1, $2, $3;": packed(2, True),
    "cvt.pack.sat.u2.s32.b32 $0, $1, $2, $3;": packed(2, False),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_inline_assembly(machine):
    given = numbers(5)
    wrong = []
    with tileprobe.use(machine):
        held = [tileprobe.array(row) for row in given]
        for text, reference in CASES.items():
            out = tileprobe.array(np.zeros(N, np.int32))
            asm[(1,)](*held, out, text, N, num_warps=1)
            want = [signed(reference(*(int(v) for v in column))) for column in given.T]
            if (out.numpy() != want).any():
                wrong.append(text)
    assert not wrong


@pytest.mark.parametrize("machine", MACHINES)
def test_sums_of_distances_of_the_language(machine):
    given = numbers(6)
    with tileprobe.use(machine):
        out = tileprobe.array(np.zeros(N, np.int32))
        made = distances[(1,)](*(tileprobe.array(row) for row in given), out, N)
    assert "VABSDIFF" in made.asm["sass"]
    want = [signed(abs(int(a) - int(b)) + int(c)) for a, b, c in given.T]
    np.testing.assert_array_equal(out.numpy(), want)


@triton.jit
def asked(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(OUT + i, libdevice.isnan(x).to(tl.float32))
    tl.store(OUT + N + i, libdevice.isinf(x).to(tl.float32))
    tl.store(OUT + 2 * N + i, libdevice.finitef(x).to(tl.float32))


@pytest.mark.parametrize("machine", MACHINES)
def test_comparisons_whose_results_are_floats(machine):
    x = np.array([0.0, -0.0, 1.5, np.nan, np.inf, -np.inf, 1e-40, -3e38] * 16, np.float32)
    with tileprobe.use(machine):
        out = tileprobe.array(np.full((3, N), -1, np.float32))
        made = asked[(1,)](tileprobe.array(x), out, N)
    assert "FSET.BF" in made.asm["sass"]
    np.testing.assert_array_equal(out.numpy(), [np.isnan(x), np.isinf(x), np.isfinite(x)])
