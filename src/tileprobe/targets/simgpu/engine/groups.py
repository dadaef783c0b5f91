"""Products of warp groups: 64 x N sums, of which each of four warps has 16 rows. B, and A unless it is in registers,
come from shared memory, where a descriptor of 64 bits says how they lie.

The descriptor: start >> 4 (bits 0 to 13), a stride along the major dimension's groups >> 4 (16 to 29), one between
groups of eight rows >> 4 (32 to 45), and swizzling within 128, 64 or 32 bytes (bits 62, 63: 1, 2, 3). Of exchanged
matrices without swizzling the two mean each other (CUTLASS, canonical layouts of `mma_sm90_desc.hpp`).
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import clocks, raw, shadow
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.calls import execute
from tileprobe.targets.simgpu.engine.fields import field, predicate, row
from tileprobe.targets.simgpu.engine.lanes_matrix import M_A, M_B, M_C
from tileprobe.targets.simgpu.engine.numbers import NUMBERS, family
from tileprobe.targets.simgpu.engine.scalar import from_f8
from tileprobe.targets.simgpu.engine.vectors import NUMBERS as HANDLERS

# Forms of elements, I1: bits 0 to 3; bit 4: A exchanged, bit 5: B exchanged, bit 6: A in registers, bit 7: sums are
# halves. I0: N.
FORMS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")
_F16, _BF16, _TF32, _E4M3, _E5M2, _S8, _U8 = range(7)
EXCHANGED_A, EXCHANGED_B, REGISTERS, HALF_SUMS = 16, 32, 64, 128
LAST_OF_GROUP = 256  # what was issued up to here is waited for together
_ENTRIES = tuple(
    8 * HANDLERS[name]
    for name in (
        "block_f16_h100", "block_bf16_h100", "block_tf32_h100", "block_e4m3_h100", "block_e5m2_h100", "block_s8",
        "block_s8",
    )
)  # fmt: skip
_FAST = tuple(
    8 * HANDLERS[name]
    for name in (
        "block_f16_fast", "block_bf16_fast", "block_tf32_fast", "block_e4m3_fast", "block_e5m2_fast", "block_s8",
        "block_s8",
    )
)  # fmt: skip
FAST_SUMS = 512  # in I1
OTHER_B = 1024  # B is of the other format of 8 bits
_MIXED = 8 * HANDLERS["block_e4m3e5m2_h100"], 8 * HANDLERS["block_e5m2e4m3_h100"]
_NONE, _ROW = at.BAD_DESCRIPTOR, at.ROW
_WAIT = NUMBERS["WARPGROUP"]


@part
def _entry(form, other):
    if form != other:
        return _MIXED[0] if form == _E4M3 else _MIXED[1]
    if form == _F16:
        return _ENTRIES[0]
    if form == _BF16:
        return _ENTRIES[1]
    if form == _TF32:
        return _ENTRIES[2]
    if form == _E4M3:
        return _ENTRIES[3]
    if form == _E5M2:
        return _ENTRIES[4]
    return _ENTRIES[5]


@part
def _fast_entry(form):
    if form == _F16:
        return _FAST[0]
    if form == _BF16:
        return _FAST[1]
    if form == _TF32:
        return _FAST[2]
    if form == _E4M3:
        return _FAST[3]
    if form == _E5M2:
        return _FAST[4]
    return _FAST[5]


@part
def _size(form):
    if form == _TF32:
        return 4
    return 2 if form in (_F16, _BF16) else 1


@part
def _place(descriptor, line, along, size, exchanged):
    """The address of an element: `line` along M or N, `along` K."""
    start = (descriptor & 0x3FFF) << 4
    leading = ((descriptor >> 16) & 0x3FFF) << 4
    stride = ((descriptor >> 32) & 0x3FFF) << 4
    mode = (descriptor >> 62) & 3
    width = 16
    if mode:
        width = 256 >> mode
    if exchanged:
        each = width // size
        if mode == 0:
            leading, stride = stride, leading
        place = start + (line // each) * leading + (along // 8) * stride + (along % 8) * width
        place += (line % each) * size
    elif mode:
        place = start + (line // 8) * stride + (line % 8) * width + along * size
    else:  # pieces of eight rows and 16 bytes, one behind the other along K
        each = 16 // size
        place = start + (line // 8) * stride + (along // each) * leading + (line % 8) * 16
        place += (along % each) * size
    if mode:
        place ^= ((place >> 7) & ((8 >> (mode - 1)) - 1)) << 4
    return place


@part
def _put(out, place, form):
    """One element as a float (or integer) into the scratch memory."""
    if form == _F16:
        raw.put_f32(out, raw.half_of(raw.u16(place)))
    elif form == _BF16:
        raw.put32(out, raw.u16(place) << 16)
    elif form == _TF32:
        raw.put32(out, raw.u32(place) & 0xFFFFE000)
    elif form == _E4M3:
        raw.put_f32(out, from_f8(raw.u8(place), 1))
    elif form == _E5M2:
        raw.put_f32(out, from_f8(raw.u8(place), 0))
    elif form == _S8:
        raw.put32(out, raw.i8(place))
    else:
        raw.put32(out, raw.u8(place))


@part
def _descriptor(uop, warp, constants, pair):
    place = row(uop, at.E, warp, constants) + 2 * pair * _ROW
    return raw.u32(place) | (raw.u32(place + _ROW) << 32)


@part
def _fits(cta, descriptor, lines, depth, size, exchanged):
    """Whether the corners of a matrix lie in shared memory: where it is largest, the corner is furthest away."""
    start, room = raw.i64(cta + at.CTA_SHARED_BASE), raw.i64(cta + at.CTA_SHARED_BYTES)
    low = (descriptor & 0x3FFF) << 4
    mode = (descriptor >> 62) & 3
    leading, stride = ((descriptor >> 16) & 0x3FFF) << 4, ((descriptor >> 32) & 0x3FFF) << 4
    width = 256 >> mode if mode else 16
    if exchanged:
        each = width // size
        if mode == 0:
            leading, stride = stride, leading
        last = low + ((lines - 1) // each) * leading + ((depth - 1) // 8) * stride + 7 * width
    else:
        pieces = 0 if mode else (depth * size + 15) // 16 - 1
        last = low + ((lines - 1) // 8) * stride + pieces * leading + 7 * width
    far = (last // width + 1) * width  # a product may begin within a line
    return low >= start and far <= start + room


@part
def _look(cta, warp, descriptor, first, lines, depth, size, exchanged):
    """What the checks say about a matrix, in pieces of 16 bytes."""
    if raw.i64(cta + at.CTA_CHECKS) == 0:
        return at.OK
    start, each = raw.i64(cta + at.CTA_SHARED_BASE), 16 // size
    across, along = (each, 1) if exchanged else (1, each)
    for line in range(first, first + lines, across):
        for k in range(0, depth, along):
            offset = _place(descriptor, line, k, size, exchanged) - start
            wrong = shadow.engine_reads(cta, warp, clocks.PRODUCTS, offset, 16)
            if wrong:
                return wrong
    return at.OK


@part
def _put_a(uop, warp, cta, constants, scratch, form, size, depth, how):
    """16 rows of A: those of this warp."""
    if how & REGISTERS:
        source = row(uop, at.A, warp, constants)
        each = 4 // size
        for lane in range(32):
            for register in range(4):
                line = lane // 4 + 8 * (register % 2)
                first = (lane % 4) * each + (register // 2) * 4 * each
                for n in range(each):
                    place = source + register * _ROW + 4 * lane + n * size
                    _put(scratch + M_A + 4 * (depth * line + first + n), place, form)
        return True
    descriptor = _descriptor(uop, warp, constants, 0)
    if not _fits(cta, descriptor, 64, depth, size, how & EXCHANGED_A):
        return False
    base = raw.i64(cta + at.CTA_SHARED) - raw.i64(cta + at.CTA_SHARED_BASE)
    first = 16 * (raw.i32(warp + at.W_NUMBER) % 4)
    for line in range(16):
        for k in range(depth):
            place = _place(descriptor, first + line, k, size, how & EXCHANGED_A)
            _put(scratch + M_A + 4 * (depth * line + k), base + place, form)
    return True


@part
def _put_b(cta, scratch, descriptor, first, form, size, depth, how):
    """Eight columns of B."""
    base = raw.i64(cta + at.CTA_SHARED) - raw.i64(cta + at.CTA_SHARED_BASE)
    for column in range(8):
        for k in range(depth):
            place = _place(descriptor, first + column, k, size, how & EXCHANGED_B)
            _put(scratch + M_B + 4 * (8 * k + column), base + place, form)


@part
def _put_c(scratch, source, half, keep):
    for lane in range(32):
        for n in range(4):
            line, column = lane // 4 + 8 * (n // 2), 2 * (lane % 4) + n % 2
            out = scratch + M_C + 4 * (8 * line + column)
            if not keep:
                raw.put32(out, 0)
            elif half:
                bits = raw.u16(source + (n // 2) * _ROW + 4 * lane + 2 * (n % 2))
                raw.put_f32(out, raw.half_of(bits))
            else:
                raw.put32(out, raw.u32(source + n * _ROW + 4 * lane))


@part
def _get_c(scratch, target, half):
    for lane in range(32):
        for n in range(4):
            line, column = lane // 4 + 8 * (n // 2), 2 * (lane % 4) + n % 2
            found = scratch + M_C + 4 * (8 * line + column)
            if half:
                raw.put_half(target + (n // 2) * _ROW + 4 * lane + 2 * (n % 2), raw.f32(found))
            else:
                raw.put32(target + n * _ROW + 4 * lane, raw.u32(found))


@family("HGMMA", "WARPGROUP")
def group_product(op, uop, warp, cta, constants, mask, pc):
    if mask == 0:
        return at.OK
    if op == _WAIT:  # all groups of products but so many are done
        clocks.wait_groups(cta, warp, clocks.PRODUCTS, field(uop, at.I0))
        return at.OK
    columns, how = field(uop, at.I0), field(uop, at.I1)
    form = how & 15
    other = _E4M3 + _E5M2 - form if how & OTHER_B else form
    size = _size(form)
    depth = 32 // size
    scratch = raw.i64(cta + at.CTA_SCRATCH)
    half = how & HALF_SUMS
    each = 2 if half else 4
    keep = predicate(uop, 0, warp) & 1
    descriptor = _descriptor(uop, warp, constants, 1)
    if not _put_a(uop, warp, cta, constants, scratch, form, size, depth, how):
        return _NONE
    if not _fits(cta, descriptor, columns, depth, size, how & EXCHANGED_B):
        return _NONE
    wrong = _look(cta, warp, descriptor, 0, columns, depth, size, how & EXCHANGED_B)
    if wrong == at.OK and not how & REGISTERS:
        first = 16 * (raw.i32(warp + at.W_NUMBER) % 4)
        matrix = _descriptor(uop, warp, constants, 0)
        wrong = _look(cta, warp, matrix, first, 16, depth, size, how & EXCHANGED_A)
    if wrong:
        return wrong
    if how & LAST_OF_GROUP:
        clocks.close_group(cta, warp, clocks.PRODUCTS)
    entry = raw.i64(cta + at.CTA_TABLE) + (_fast_entry(form) if how & FAST_SUMS else _entry(form, other))
    sums, results = row(uop, at.C, warp, constants), row(uop, at.D, warp, constants)
    for block in range(columns // 8):
        _put_b(cta, scratch, descriptor, 8 * block, other, size, depth, how)
        _put_c(scratch, sums + each * block * _ROW, half, keep)
        execute(entry, uop, warp, constants, mask, scratch)
        _get_c(scratch, results + each * block * _ROW, half)
    return at.OK
