"""Cases for products of warp groups: matrices of whole numbers in shared memory in every layout, exact sums."""

from __future__ import annotations

import numpy as np
from family_machine import SHARED, UR, Bench, R, group

from tileprobe.targets.simgpu.engine import clocks, shadow
from tileprobe.targets.simgpu.engine import groups as g
from tileprobe.targets.simgpu.engine import layout as at

_SIZE = {"e4m3e5m2": 1, "e5m2e4m3": 1, "f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
_E4M3 = {0: 0, 1: 0x38, 2: 0x40, 3: 0x44, 4: 0x48, 5: 0x4A, 6: 0x4C, 7: 0x4E}
_E5M2 = {0: 0, 1: 0x3C, 2: 0x40, 3: 0x42, 4: 0x44, 6: 0x46, 8: 0x48}


def parts(form):
    """Of A and of B: `e4m3e5m2` is one of each."""
    return (form[:4], form[4:]) if len(form) == 8 else (form, form)


def encoded(value, form):
    """A small whole number in the bytes of an element."""
    if form == "f16":
        return np.float16(value).tobytes()
    if form == "bf16":
        return np.float32(value).tobytes()[2:]
    if form == "tf32":
        return (int(np.float32(value).view(np.uint32)) | 0x1ABC).to_bytes(4, "little")  # what is cut off
    if form in ("e4m3", "e5m2"):
        table = _E4M3 if form == "e4m3" else _E5M2
        return bytes([table[abs(int(value))] | (0x80 if value < 0 else 0)])
    return int(value).to_bytes(1, "little", signed=form == "s8")


def numbers(b, form, shape):
    if form == "e5m2":
        return b.random.choice([-8, -4, -3, -1, 0, 1, 2, 3, 6], shape)
    low = 0 if form == "u8" else -7
    made = b.random.integers(low, 8, shape)
    if form == "u8":
        made[0, 0], made[-1, -1] = 255, 200
    return made


def place(line, k, size, mode, exchanged, leading, stride):
    """Bytes from the start to an element, before swizzling: PTX ISA, "Strides" of `wgmma`, and CUTLASS's canonical
    layouts (`((1,n),(8,k)):((X,SBO),(1,LBO))` without swizzling, else `((w,n),(8,k)):((1,LBO),(w,SBO))`)."""
    width = {0: 16, 1: 128, 2: 64, 3: 32}[mode]
    if exchanged:
        big, small = divmod(line, width // size)
        if mode == 0:
            return big * stride + k // 8 * leading + k % 8 * 16 + small * size
        return big * leading + k // 8 * stride + k % 8 * width + small * size
    eight, row = divmod(line, 8)
    if mode:
        return eight * stride + row * width + k * size
    piece, inside = divmod(k * size, 16)
    return eight * stride + row * 16 + piece * leading + inside


def swizzled(address, mode):
    bits = {0: 0, 1: 7, 2: 3, 3: 1}[mode]
    return address ^ (address >> 7 & bits) << 4


def laid_out(b, values, form, start, mode, exchanged, leading, stride):
    """Writes a matrix (lines x K) into shared memory; gives its descriptor."""
    size = _SIZE[form]
    for (line, k), value in np.ndenumerate(values):
        address = swizzled(start + place(line, k, size, mode, exchanged, leading, stride), mode)
        data = np.frombuffer(encoded(value, form), np.uint8)
        b.shared[address - b.base : address - b.base + size] = data
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62


def fragment(b, operand, values, form, warp):
    """A in registers: 16 rows of a warp."""
    size = _SIZE[form]
    each = 4 // size
    rows = b.rows(operand, 4, warp)
    for register in range(4):
        for lane in range(32):
            line = lane // 4 + 8 * (register % 2)
            first = lane % 4 * each + register // 2 * 4 * each
            data = b"".join(encoded(v, form) for v in values[line, first : first + each])
            rows[register, lane] = int.from_bytes(data, "little")


def accumulated(b, operand, shape, half, warp, values=None):
    """Sums of a warp (16 x N) from its registers, or into them."""
    columns = shape[1]
    rows = b.rows(operand, columns // 8 * (2 if half else 4), warp)
    found = np.zeros(shape[:2], np.float64)
    for block in range(columns // 8):
        for lane in range(32):
            for n in range(4):
                line, column = lane // 4 + 8 * (n // 2), 8 * block + 2 * (lane % 4) + n % 2
                if half:
                    cell = rows[2 * block + n // 2].view(np.float16)[2 * lane + n % 2 :][:1]
                else:
                    cell = rows[4 * block + n].view(np.int32 if shape[2] else np.float32)[lane : lane + 1]
                if values is None:
                    found[line, column] = cell[0]
                else:
                    cell[0] = values[line, column]
    return found


# form, mode of A and B, A exchanged, B exchanged, A in registers, half sums, columns
CASES = (
    ("f16", 0, 0, False, False, False, False, 16), ("f16", 1, 1, False, False, False, False, 8),
    ("f16", 2, 3, False, True, False, True, 16),
    ("f16", 3, 2, True, False, False, False, 8), ("f16", 1, 1, True, True, False, False, 8),
    ("f16", 0, 0, True, True, False, True, 8),
    ("bf16", 3, 0, False, True, False, False, 16), ("bf16", 0, 2, False, False, True, False, 16),
    ("f16", 0, 1, False, True, True, True, 16),
    ("tf32", 1, 1, False, False, False, False, 8), ("tf32", 0, 3, False, False, True, False, 8),
    ("e4m3", 2, 2, False, False, False, False, 16),
    ("e5m2", 0, 0, False, False, True, False, 8), ("e4m3", 0, 3, False, False, True, True, 8),
    ("e4m3e5m2", 0, 2, False, False, True, False, 8), ("e5m2e4m3", 1, 0, False, False, False, False, 8),
    ("e5m2e4m3", 0, 3, False, False, True, True, 16), ("f16", 0, 0, False, True, True, False, 24),
    ("s8", 3, 0, False, False, False, False, 8),
    ("u8", 0, 1, False, False, True, False, 24), ("s8", 0, 0, False, False, True, False, 8),
)  # fmt: skip


def strides(lines, size, mode, exchanged):
    """Room for a matrix of 32 bytes along K: (leading, stride, bytes)."""
    width = {0: 16, 1: 128, 2: 64, 3: 32}[mode]
    if exchanged:
        depth = 32 // size
        stride = 8 * width
        leading = stride * (-(-depth // 8))
        room = leading * -(-lines * size // width)
        return (leading, stride, room) if mode else (stride, leading, room)
    if mode:
        return 16, 8 * width, 8 * width * -(-lines // 8)
    return 128, 256, 256 * -(-lines // 8)


def prepared(case, keep, warp, checks=False, races=False, used=64):
    form, mode_a, mode_b, turned_a, turned_b, registers, half, columns = case
    b = Bench(90, seed=columns + keep, checks=checks, races=races)
    size = _SIZE[form]
    whole = form in ("s8", "u8")
    form_a, form_b = parts(form)
    a, w = numbers(b, form_a, (64, 32 // size)), numbers(b, form_b, (columns, 32 // size))
    b.set(CTA_SHARED_BYTES=SHARED)
    first = b.base
    leading, stride, room = strides(64, size, mode_a, turned_a)
    left = 0
    if not registers and room <= SHARED:
        left = laid_out(b, a, form_a, first, mode_a, turned_a, leading, stride)
        first += -(-room // 1024) * 1024
    elif not registers:  # only this warp's rows fit
        return None
    leading, stride, room = strides(columns, size, mode_b, turned_b)
    if first - b.base + room > SHARED:
        return None
    right = laid_out(b, w, form_b, first, mode_b, turned_b, leading, stride)
    b.warp(warp)[: at.W_SPECIAL] = b.warp(0)[: at.W_SPECIAL]
    b.put(warp, W_NUMBER=warp + 4)  # the second warp group
    mine = a[16 * (warp % 4) : 16 * (warp % 4) + 16]
    fragment(b, R(0), mine, form_a, warp)
    for n, word in enumerate((left & 0xFFFFFFFF, left >> 32, right & 0xFFFFFFFF, right >> 32)):
        b.rows(UR(8 + n), 1, warp)[:] = word
    shape = (16, columns, whole)
    start = b.random.integers(-9, 9, (16, columns))
    accumulated(b, R(8), shape, half, warp, start)
    b.predicate(2, 0xFFFFFFFF if keep else 0xFFFFFFFE, warp)
    how = (
        g.FORMS.index(form_a)
        | g.OTHER_B * (form_a != form_b)
        | g.EXCHANGED_A * turned_a
        | g.EXCHANGED_B * turned_b
        | g.REGISTERS * registers
        | g.HALF_SUMS * half
    )
    fields = {"A": R(0), "C": R(8), "D": R(30), "E": UR(8), "PS": 2, "I0": columns, "I1": how}
    return b, fields, mine @ w.T + (start if keep else 0), shape, half, right


@group
def group_products():
    made = []
    for number, case in enumerate(CASES):
        for keep in (0, 1):
            warp = (number + keep) % 3
            ready = prepared(case, keep, warp)
            assert ready is not None, case
            b, fields, wanted, shape, half, _ = ready

            def then(b=b, wanted=wanted, shape=shape, half=half, warp=warp):
                accumulated(b, R(30), shape, half, warp, wanted)

            made.append(b.case("HGMMA", then, warp=warp, **fields))
            if keep:  # sums in plain single precision are the same here
                fields = fields | {"I1": fields["I1"] | g.FAST_SUMS}
                made.append(b.case("HGMMA", then, warp=warp, **fields))
    made.append(Bench(90).case("HGMMA", None, 0))
    return made


@group
def group_sums():
    """Sixteen fives to 2**26: tensor cores cut each to a four, a chain in single precision rounds each to an eight."""
    made = []
    for fast in (False, True):
        for last in (False, True):
            ready = prepared(CASES[0], 1, 0)
            assert ready is not None
            b, fields, wanted, shape, half, _ = ready
            left, right = (int(b.rows(UR(n))[0, 0]) & 0x3FFF for n in (8, 10))
            laid_out(b, np.full((64, 16), 5), "f16", left << 4, 0, False, 128, 256)
            laid_out(b, np.ones((16, 16), int), "f16", right << 4, 0, False, 128, 256)
            accumulated(b, R(8), shape, half, 0, np.full((16, 16), 2.0**26))
            total = 2.0**26 + 16 * (8 if fast else 4)

            def then(b=b, wanted=wanted, shape=shape, half=half, total=total):
                accumulated(b, R(30), shape, half, 0, np.full_like(wanted, total))

            how = fields["I1"] | g.FAST_SUMS * fast | g.LAST_OF_GROUP * last
            made.append(b.case("HGMMA", then, **(fields | {"I1": how})))
    return made


@group
def group_products_refused():
    """A matrix of which a part lies outside, by one row or one piece; at the very end it is fine."""
    made = []
    for number in (0, 1, 4, 6, 12, 15):
        for which in ("below", "end", "fits"):
            ready = prepared(CASES[number], 1, 0)
            assert ready is not None
            b, fields, wanted, shape, half, right = ready
            _, _, mode_b, _, turned_b, _, _, columns = CASES[number]
            size = _SIZE[CASES[number][0]]
            _, _, room = strides(columns, size, mode_b, turned_b)
            end = ((right & 0x3FFF) << 4) - b.base + room
            if which == "below":
                b.rows(UR(10))[:] = (right & 0xFFFFFFFF) - (((right & 0x3FFF) << 4) - 0x3F0 >> 4)
            b.set(CTA_SHARED_BYTES=SHARED if which == "below" else end if which == "fits" else end - 16)

            def then(b=b, which=which, wanted=wanted, shape=shape, half=half):
                if which != "fits":
                    return at.BAD_DESCRIPTOR
                accumulated(b, R(30), shape, half, 0, wanted)

            made.append(b.case("HGMMA", then, **fields))
    # A outside
    for number in (0, 1, 4):
        ready = prepared(CASES[number], 1, 0)
        assert ready is not None
        b, fields, *_ = ready
        b.rows(UR(8))[:] = int(b.rows(UR(8))[0, 0]) + (SHARED >> 4)
        made.append(b.case("HGMMA", lambda: at.BAD_DESCRIPTOR, **fields))
    return made


@group
def group_products_told():
    """The checks hear of every 16 bytes that are read; groups of products are counted."""
    made = []
    for number, says, last in ((0, 0, True), (0, at.UNINITIALISED, True), (7, 0, False), (4, 0, True)):
        ready = prepared(CASES[number], 1, 1, checks=True, races=True)
        assert ready is not None
        b, fields, wanted, shape, half, _ = ready
        form, mode_a, mode_b, turned_a, turned_b, registers, _, columns = CASES[number]
        size = _SIZE[form]
        told = []
        for pair, mode, turned, first, lines in (
            (10, mode_b, turned_b, 0, columns),
            (8, mode_a, turned_a, 16, 16),
        ):
            if pair == 8 and registers:
                continue
            start = (int(b.rows(UR(pair), 1, 1)[0, 0]) & 0x3FFF) << 4
            leading, stride, _ = strides(columns if pair == 10 else 64, size, mode, turned)
            each = 16 // size
            for line in range(first, first + lines, each if turned else 1):
                for k in range(0, 32 // size, 1 if turned else each):
                    where = (
                        swizzled(start + place(line, k, size, mode, turned, leading, stride), mode) - b.base
                    )
                    told.append((shadow.ENGINE, clocks.PRODUCTS, where, 16, 0))
        told = told[:1] if says else told
        b.put(1, W_NUMBER=1, W_AGENT=1)
        b.part("counters").view(np.uint32)[:] = 6

        def then(b=b, says=says, last=last, wanted=wanted, shape=shape, half=half):
            if says:
                return says
            if last:
                b.part("counters").view(np.uint32)[3 + 1] = 7
            accumulated(b, R(30), shape, half, 1, wanted)

        fields["I1"] |= g.LAST_OF_GROUP * last
        made.append(b.case("HGMMA", then, told=told, says=says, warp=1, **fields))
    return made
