"""Bulk copies of tiles (TMA): a descriptor says how a tensor lies in global memory, coordinates which tile.

A load is put into the program's queue when it is issued and done when every warp has had a turn, so that what does not
wait for it sees what was there before; then its bytes arrive at its barrier. A store is done at once.

The descriptor, 128 bytes, is in the form that ptxas itself writes when a kernel makes one (`tensormap.replace`):
address at 0; at 8 rank - 1 (bits 4 to 6), element type (7 to 10), swizzle (13, 14) and what stands outside (15: NaN);
from 12 on strides in units of 16 bytes, their upper four bits from 28 on; from 32 on sizes - 1; at 55 to 59 the tile's
sizes - 1. Only the host makes descriptors of columns of pixels (im2col), so their form is our own: bit 16 at 8,
channels - 1 at 55, pixels - 1 at 60, from 64 on the corners of the box, lower and upper, and at 76 the steps, all for
W, H, D.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import clocks, raw, shadow
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.addresses import fault, inside
from tileprobe.targets.simgpu.engine.clusters import after_end, member
from tileprobe.targets.simgpu.engine.fields import field, row
from tileprobe.targets.simgpu.engine.mbarriers import change
from tileprobe.targets.simgpu.engine.numbers import NUMBERS, family

_LOAD, _STORE, _FLUSH, _FENCE = (NUMBERS[n] for n in ("UTMALDG", "UTMASTG", "UTMACMDFLUSH", "FENCE"))
DESCRIPTOR_BYTES = 128
_TF32, _TF32_FLUSHED = 11, 12  # element types
IM2COL = 1 << 16  # in a descriptor, and with the offsets of an instruction
_OFFSETS = 36  # of an entry of the queue (`layout.ASYNC`): those of pixels


@part
def element_bytes(kind):
    """Of the element types: u8, u16, u32, s32, u64, s64, f16, f32, f32 flushed, f64, bf16, tf32, tf32 flushed."""
    if kind == 0:
        return 1
    if kind in (1, 6, 10):
        return 2
    if kind in (4, 5, 9):
        return 8
    if kind <= 12:
        return 4
    return 0


@part
def stride(place, n):
    """In bytes, of the dimension n + 1."""
    low = raw.u32(place + 12 + 4 * n)
    high = (raw.u32(place + 28) >> (4 * n)) & 15
    return ((high << 32) | low) << 4


@part
def swizzled(address, kind):
    """Kind 1, 2, 3: within 32, 64, 128 bytes; pieces of 16 bytes change places."""
    if kind == 0:
        return address
    return address ^ (((address >> 7) & ((1 << kind) - 1)) << 4)


@part
def _watch(cta, pc, memory, shared, base, element, swizzle, tile, start, size, load):
    """Tells the checks which elements of a line are touched, and whether a store changes them."""
    if raw.i64(cta + at.CTA_RACES) == 0:
        return
    piece = 16 // element
    for n in range(0, tile, piece):
        low, high = max(start + n, 0), min(start + min(n + piece, tile), size)
        if low >= high:
            continue
        here, there = memory + swizzled(shared + n * element, swizzle), base + low * element
        here += (low - start - n) * element
        same = True
        for k in range((high - low) * element):
            same = same and raw.u8(here + k) == raw.u8(there + k)
        shadow.line(cta, pc, there, (high - low) * element, load, same)


@part
def _move(cta, pc, place, shared, base, element, swizzle, tile, start, load, fill):
    """One line of the inner dimension. `tile`: how many elements; `start`: the first one's coordinate. `base`: the
    address of coordinate 0 of the line, or 0 where the whole line is outside."""
    size = raw.u32(place + 32) + 1
    memory = raw.i64(cta + at.CTA_SHARED) - raw.i64(cta + at.CTA_SHARED_BASE)
    piece = 16 // element
    if base:
        _watch(cta, pc, memory, shared, base, element, swizzle, tile, start, size, load)
    for n in range(0, tile, piece):
        here = memory + swizzled(shared + n * element, swizzle)
        count = min(piece, tile - n)
        first = start + n
        if base and first >= 0 and first + count <= size:
            if load:
                raw.copy(here, base + first * element, count * element)
            else:
                raw.copy(base + first * element, here, count * element)
            continue
        for k in range(count):
            where = first + k
            good = base != 0 and 0 <= where < size
            if load and not good:
                raw.fill(here + k * element, fill, element)
            elif good and load:
                raw.copy(here + k * element, base + where * element, element)
            elif good:
                raw.copy(base + where * element, here + k * element, element)


@part
def _pixel(place, rank, offsets, w, h, d, image):
    """The address of a pixel, moved by the offsets; 0 outside of the tensor."""
    bits = 16 if rank == 3 else 8 if rank == 4 else 5
    base = raw.i64(place) + image * stride(place, rank - 2)
    if image < 0 or image > raw.u32(place + 32 + 4 * (rank - 1)):
        return 0
    for n in range(rank - 2):
        where = (w if n == 0 else h if n == 1 else d) + ((offsets >> (bits * n)) & ((1 << bits) - 1))
        if where < 0 or where > raw.u32(place + 36 + 4 * n):
            return 0
        base += where * stride(place, n)
    return base


@part
def _signed(place):
    value = raw.u16(place)
    return value - 65536 if value >> 15 else value


@part
def _columns(cta, entry, place, rank, shared, element, swizzle, tile, fill):
    """Pixels of a box one after another, first along W, then H, D and the images, from where the coordinates say; of
    each the channels (PTX ISA, "im2col mode")."""
    offsets, places = raw.u32(entry + _OFFSETS) & 0xFFFF, entry + at.ASYNC_AT
    w, image = raw.i32(places + 4), raw.i32(places + 4 * (rank - 1))
    h = raw.i32(places + 8) if rank > 3 else 0
    d = raw.i32(places + 12) if rank > 4 else 0
    for line in range(raw.u16(place + 60) + 1):
        base = _pixel(place, rank, offsets, w, h, d, image)
        at_line = shared + line * tile * element
        first, pc = raw.i32(places), raw.i32(entry + at.ASYNC_PC)
        _move(cta, pc, place, at_line, base, element, swizzle, tile, first, True, fill)
        w += raw.u8(place + 76)
        if w <= raw.u32(place + 36) + _signed(place + 70):
            continue
        w = _signed(place + 64)
        if rank > 3:
            h += raw.u8(place + 77)
            if h <= raw.u32(place + 40) + _signed(place + 72):
                continue
            h = _signed(place + 66)
        if rank > 4:
            d += raw.u8(place + 78)
            if d <= raw.u32(place + 44) + _signed(place + 74):
                continue
            d = _signed(place + 68)
        image += 1


@part
def _rounded(memory, size):
    """Singles that become TF32: to the nearest of ten bits, ties to even; infinity and NaN stay."""
    for place in range(memory, memory + size, 4):
        bits = raw.u32(place)
        if bits & 0x7F800000 != 0x7F800000:
            raw.put32(place, (bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000)


@part
def transfer(cta, entry, load):
    """Moves the tile of an entry of the queue. OK or a fault."""
    wrong = _moved(cta, entry, load)
    place = raw.i64(entry + at.ASYNC_DESCRIPTOR)
    if wrong == at.OK and load and (raw.u32(place + 8) >> 7) & 15 in (_TF32, _TF32_FLUSHED):
        offset = (raw.u32(entry + at.ASYNC_SHARED) & 0xFFFFFF) - raw.i64(cta + at.CTA_SHARED_BASE)
        _rounded(raw.i64(cta + at.CTA_SHARED) + offset, tile_bytes(place))
    return wrong


@part
def _moved(cta, entry, load):
    place = raw.i64(entry + at.ASYNC_DESCRIPTOR)
    rank = raw.i32(entry + at.ASYNC_RANK)
    head = raw.u32(place + 8)
    element, swizzle = element_bytes((head >> 7) & 15), (head >> 13) & 3
    offsets = raw.u32(entry + _OFFSETS)
    if ((head >> 4) & 7) + 1 != rank or element == 0 or (head ^ offsets) & IM2COL:
        return fault(cta, at.BAD_DESCRIPTOR, 0, place, rank)
    tile, size = raw.u8(place + 55) + 1, tile_bytes(place)
    reach = raw.u32(place + 32) * element + element
    for n in range(1, rank):
        reach += stride(place, n - 1) * raw.u32(place + 32 + 4 * n)
    origin = raw.i64(place)
    shared = raw.u32(entry + at.ASYNC_SHARED) & 0xFFFFFF
    start, room = raw.i64(cta + at.CTA_SHARED_BASE), raw.i64(cta + at.CTA_SHARED_BYTES)
    if shared < start or shared + size > start + room:
        return fault(cta, at.SHARED_BOUNDS, 0, shared - start, room)
    if not inside(cta, origin, origin + reach):
        return fault(cta, at.OUT_OF_BOUNDS, 0, origin, reach)
    if load:
        barrier, pc = raw.u32(entry + at.ASYNC_BARRIER), raw.i32(entry + at.ASYNC_PC)
        shadow.loaded(cta, barrier, shared - start, size, pc)
    fill = 0xFF if (head >> 15) & 1 else 0
    if head & IM2COL:
        _columns(cta, entry, place, rank, shared, element, swizzle, tile, fill)
        return at.OK
    for line in range(size // (tile * element)):
        rest, base = line, origin
        for n in range(1, rank):
            width = raw.u8(place + 55 + n) + 1
            where = raw.i32(entry + at.ASYNC_AT + 4 * n) + rest % width
            rest //= width
            if where < 0 or where > raw.u32(place + 32 + 4 * n):
                base = 0
                break
            base += where * stride(place, n - 1)
        at_line = shared + line * tile * element
        first = raw.i32(entry + at.ASYNC_AT)
        _move(
            cta, raw.i32(entry + at.ASYNC_PC), place, at_line, base, element, swizzle, tile, first, load, fill
        )
    return at.OK


@part
def tile_bytes(place):
    head = raw.u32(place + 8)
    size = element_bytes((head >> 7) & 15)
    if head & IM2COL:
        return size * (raw.u8(place + 55) + 1) * (raw.u16(place + 60) + 1)
    for n in range(((head >> 4) & 7) + 1):
        size *= raw.u8(place + 55 + n) + 1
    return size


@part
def _bring(cta, entry, size):
    """The value that a lane stores (`remote_stores`), which was looked at when it was issued."""
    offset = (raw.u32(entry + at.ASYNC_SHARED) & 0xFFFFFF) - raw.i64(cta + at.CTA_SHARED_BASE)
    shadow.loaded(cta, raw.u32(entry + at.ASYNC_BARRIER), offset, size, raw.i32(entry + at.ASYNC_PC))
    raw.copy(raw.i64(cta + at.CTA_SHARED) + offset, entry + at.ASYNC_AT, size)


@part
def finish(cta, entry):
    """Does a load that is under way, and tells the barrier. OK or a fault."""
    descriptor, barrier, wrong = (
        raw.i64(entry + at.ASYNC_DESCRIPTOR),
        raw.u32(entry + at.ASYNC_BARRIER),
        at.OK,
    )
    if descriptor:
        wrong = transfer(cta, entry, True)
        size = tile_bytes(descriptor)
    else:
        size = raw.i32(entry + at.ASYNC_RANK)
        _bring(cta, entry, size)
    if wrong == at.OK and not change(cta, barrier, 0, -size):
        wrong = fault(cta, at.BAD_MBARRIER, 0, barrier, 0)
    if wrong:
        raw.put64(cta + at.CTA_ERROR_PC, raw.i32(entry + at.ASYNC_PC))
    return wrong


@part
def complete_all(cta):
    """Does all loads that are under way. OK, or a fault: then the load stays in the queue with those behind it, as the
    memory it wants may turn out to be a tensor's."""
    queue, count = raw.i64(cta + at.CTA_ASYNC), raw.i64(cta + at.CTA_ASYNC_COUNT)
    for n in range(count):
        wrong = finish(cta, queue + at.ASYNC * n)
        if wrong:
            for k in range(n, count):
                raw.copy(queue + at.ASYNC * (k - n), queue + at.ASYNC * k, at.ASYNC)
            raw.put64(cta + at.CTA_ASYNC_COUNT, count - n)
            return wrong
    raw.put64(cta + at.CTA_ASYNC_COUNT, 0)
    return at.OK


@part
def put_entry(entry, coordinates, shared, barrier, rank, pc, descriptor, offsets):
    """What a transfer needs to know."""
    raw.put32(entry + _OFFSETS, offsets)
    raw.put32(entry + at.ASYNC_SHARED, shared)
    raw.put32(entry + at.ASYNC_BARRIER, barrier)
    for n in range(rank):
        raw.put32(entry + at.ASYNC_AT + 4 * n, raw.u32(coordinates + at.ROW * n))
    raw.put32(entry + at.ASYNC_RANK, rank)
    raw.put32(entry + at.ASYNC_PC, pc)
    raw.put64(entry + at.ASYNC_DESCRIPTOR, descriptor)


@part
def _tile(cta, address, descriptor):
    """Where a tile lies in a program's shared memory, and its bytes; -1 after a fault was noted."""
    offset, size = (address & 0xFFFFFF) - raw.i64(cta + at.CTA_SHARED_BASE), tile_bytes(descriptor)
    if offset < 0 or offset + size > raw.i64(cta + at.CTA_SHARED_BYTES):
        fault(cta, at.SHARED_BOUNDS, 0, offset, raw.i64(cta + at.CTA_SHARED_BYTES))
        return -1, size
    return offset, size


@part
def free_entry(cta):
    """A place in a program's queue, and OK or a fault of what had to be done to make room."""
    wrong = complete_all(cta) if raw.i64(cta + at.CTA_ASYNC_COUNT) >= at.ASYNC_ROOM else at.OK
    return raw.i64(cta + at.CTA_ASYNC) + at.ASYNC * raw.i64(cta + at.CTA_ASYNC_COUNT), wrong


@part
def entered(cta):
    """The entry at that place is what it has to be."""
    raw.put64(cta + at.CTA_ASYNC_COUNT, raw.i64(cta + at.CTA_ASYNC_COUNT) + 1)
    raw.put64(cta + at.CTA_PROGRESS, raw.i64(cta + at.CTA_PROGRESS) + 1)


@part
def _load(cta, warp, what, descriptor, rank, pc, shared, barrier, offsets):
    """Puts a load into the queue of the program whose shared memory it goes to."""
    target = member(cta, shared)
    if target == 0:
        return fault(cta, at.SHARED_BOUNDS, 0, shared, 0)
    offset, size = _tile(target, shared, descriptor)
    if offset < 0:
        return fault(cta, at.SHARED_BOUNDS, 0, offset, raw.i64(target + at.CTA_SHARED_BYTES))
    entry, wrong = free_entry(target)
    if wrong:
        return wrong
    after_end(cta, target, warp)
    put_entry(entry, what + 2 * at.ROW, shared, barrier, rank, pc, descriptor, offsets)
    raw.put64(entry + at.ASYNC_BY, raw.i64(warp + at.W_CYCLE) * 64 + raw.i32(warp + at.W_NUMBER))
    shadow.copy(target, warp, offset, size)
    entered(target)
    return at.OK


@part
def _to_many(uop, warp, cta, constants, what, descriptor, rank, pc, offsets):
    """A load for several programs of the cluster: each has the tile, and the arrival at its barrier, in the same place
    of its shared memory. C: which, from bit 16 on."""
    wanted = raw.u32(row(uop, at.C, warp, constants)) >> 16
    for n in range(16):
        if (wanted >> n) & 1:
            shared = (n << 24) | (raw.u32(what) & 0xFFFFFF)
            barrier = (n << 24) | (raw.u32(what + at.ROW) & 0xFFFFFF)
            wrong = _load(cta, warp, what, descriptor, rank, pc, shared, barrier, offsets)
            if wrong:
                return wrong
    return at.OK


@part
def descriptor_of(uop, warp, cta, constants):
    """The address of a descriptor, out of the pair of registers B; 0, and a fault, where none can be."""
    place = row(uop, at.B, warp, constants)
    descriptor = raw.u32(place) | (raw.u32(place + at.ROW) << 32)
    if descriptor == 0 or descriptor & 63 or not inside(cta, descriptor, descriptor + DESCRIPTOR_BYTES):
        fault(cta, at.BAD_DESCRIPTOR, 0, descriptor, 0)
        return 0
    return descriptor


@family("UTMALDG", "UTMASTG", "UTMACMDFLUSH", "FENCE")
def bulk(op, uop, warp, cta, constants, mask, pc):
    """A: shared address, [barrier,] coordinates in uniform registers; B: the descriptor's address; I0: the rank.
    I1: bit 0, to several programs, bit 1, columns of pixels; C: their offsets, and which programs."""
    if mask == 0:
        return at.OK
    if op == _FLUSH:  # stores up to here are a group; they are done already
        clocks.close_group(cta, warp, clocks.STORES)
        return at.OK
    if op == _FENCE:
        clocks.fence(cta, warp)
        return at.OK
    what, rank = row(uop, at.A, warp, constants), field(uop, at.I0)
    descriptor = descriptor_of(uop, warp, cta, constants)
    if descriptor == 0:
        return at.BAD_DESCRIPTOR
    offsets = IM2COL | (raw.u32(row(uop, at.C, warp, constants)) & 0xFFFF) if field(uop, at.I1) & 2 else 0
    if op == _LOAD and field(uop, at.I1) & 1:
        return _to_many(uop, warp, cta, constants, what, descriptor, rank, pc, offsets)
    if op == _LOAD:
        return _load(cta, warp, what, descriptor, rank, pc, raw.u32(what), raw.u32(what + at.ROW), offsets)
    entry = (
        raw.i64(cta + at.CTA_ASYNC) + at.ASYNC * at.ASYNC_ROOM
    )  # the last place is for what is done at once
    put_entry(entry, what + at.ROW, raw.u32(what), 0, rank, pc, descriptor, 0)
    offset, size = _tile(cta, raw.u32(what), descriptor)
    if offset < 0:
        return at.SHARED_BOUNDS
    wrong = shadow.engine_reads(cta, warp, clocks.STORES, offset, size)
    return wrong if wrong else transfer(cta, entry, False)
