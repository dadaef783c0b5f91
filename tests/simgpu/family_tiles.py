"""Cases for bulk copies and reductions of tiles, in one to five dimensions, that reach beyond their tensors or not."""

from __future__ import annotations

from itertools import product

import numpy as np
from family_barriers import barrier_word, clock, put_barrier, random_clocks
from family_machine import ALL, SHARED, UR, WARPS, Bench, group, near
from family_memory import found_range

from tileprobe.targets.simgpu.engine import clocks, shadow
from tileprobe.targets.simgpu.engine import layout as at

U8, U16, U32, S32, U64, S64, F_16, F_32, F_32_FLUSHED, F_64, BF_16, TF32, TF32_FLUSHED = range(13)
BYTES = [1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4]
DESCRIPTOR = 256  # where in `other`; the tensor begins at 0 of `global`


class Tensor:
    """Sizes, strides in bytes (from the second dimension on), a tile, an element type, swizzling,
    what stands outside."""

    def __init__(self, sizes, tile, kind=F_32, strides=None, swizzle=0, nan=False, origin=0):
        self.sizes, self.tile, self.kind, self.swizzle, self.nan, self.origin = (
            sizes,
            tile,
            kind,
            swizzle,
            nan,
            origin,
        )
        self.element = BYTES[kind]
        self.strides, step = [], self.element * sizes[0]
        for n in range(1, len(sizes)):
            step = (step + 15) // 16 * 16
            self.strides.append(step)
            step *= sizes[n]
        self.strides = strides or self.strides

    @property
    def bytes(self):
        return int(np.prod(self.tile)) * self.element

    @property
    def reach(self):
        return self.element * self.sizes[0] + sum(s * (n - 1) for s, n in zip(self.strides, self.sizes[1:]))

    def write(self, b, place=DESCRIPTOR):
        block = b.part("other")[place : place + 128]
        block[:] = 0
        block[:8].view(np.int64)[0] = b.at("global") + self.origin
        words = block.view(np.uint32)
        words[2] = len(self.sizes) - 1 << 4 | self.kind << 7 | self.swizzle << 13 | self.nan << 15
        for n, stride in enumerate(self.strides):
            words[3 + n] = stride >> 4 & ALL
            words[7] |= stride >> 36 << 4 * n
        for n, size in enumerate(self.sizes):
            words[8 + n] = size - 1
            block[55 + n] = self.tile[n] - 1
        return b.at("other") + place

    def elements(self, shared, coordinates):
        """(where in shared memory, where in the tensor or None) of each element of a tile."""
        for number, index in enumerate(product(*(range(n) for n in self.tile[::-1]))):
            at_shared = shared + number * self.element
            if self.swizzle:
                at_shared ^= (at_shared >> 7 & (1 << self.swizzle) - 1) << 4
            where = [c + i for c, i in zip(coordinates, index[::-1])]
            if any(not 0 <= w < n for w, n in zip(where, self.sizes)):
                yield at_shared, None
            else:
                yield (
                    at_shared,
                    self.origin
                    + where[0] * self.element
                    + sum(w * s for w, s in zip(where[1:], self.strides)),
                )

    def arriving(self, value):
        """TF32: the nearest, ties to even."""
        if self.kind not in (TF32, TF32_FLUSHED):
            return value
        bits = int(value.view(np.uint32)[0])
        if bits & 0x7F800000 == 0x7F800000:
            return value
        low, rest = bits & ~0x1FFF, bits & 0x1FFF
        up = rest > 0x1000 or (rest == 0x1000 and low & 0x2000)
        return np.array([low + 0x2000 * bool(up)], np.uint32).view(np.uint8)

    def moved(self, b, shared, coordinates, load, member=None):
        memory = b.part(f"shared{b.me if member is None else member}")
        for here, there in self.elements(shared, coordinates):
            mine = memory[here - b.base : here - b.base + self.element]
            if there is not None:
                other = b.part("global")[there : there + self.element]
                (mine if load else other)[:] = self.arriving(other) if load else mine
            elif load:
                mine[:] = 255 if self.nan else 0


TENSORS = (
    (Tensor([40], [16]), [30]), (Tensor([40], [16], U8), [-3]), (Tensor([20, 6], [8, 4]), [16, 3]),
    (Tensor([20, 6], [8, 4], U16), [-2, -1]),
    (Tensor([10, 5, 4], [4, 2, 3], F_64), [8, 4, -1]),
    (Tensor([12, 3, 2, 3], [4, 2, 2, 2], S32), [0, 2, 1, 2]),
    (Tensor([8, 3, 2, 2, 3], [8, 2, 1, 2, 2], BF_16), [2, -1, 1, 1, 2]),
    (Tensor([32, 8], [32, 8], F_32, swizzle=3), [0, 0]), (Tensor([16, 16], [16, 8], F_32, swizzle=2), [4, 9]),
    (Tensor([32, 9], [16, 8], F_16, swizzle=1), [20, 4]),
    (Tensor([16, 5], [8, 4], F_32, nan=True), [12, 3]), (Tensor([16, 5], [8, 4], TF32, strides=[80]), [0, 0]),
    (Tensor([64], [64], U8), [0]), (Tensor([8, 2], [8, 2], U64), [0, 0]),
    (Tensor([8, 2], [4, 1], S64), [4, 1]), (Tensor([16, 3], [4, 4], F_32_FLUSHED), [-4, -4]),
    (Tensor([16, 3], [4, 4], TF32_FLUSHED), [16, 0]), (Tensor([7, 3], [16, 2], U8, strides=[16]), [0, 1]),
    (Tensor([512, 1], [4, 1], F_32, strides=[1 << 37]), [508, 0]), (Tensor([5], [1], F_32), [4]),
)  # fmt: skip


def operands(b, tensor, coordinates, shared, barrier=None, descriptor=None):
    """Uniform registers: the place in shared memory, a barrier, coordinates; the descriptor's address."""
    words = [shared, *([] if barrier is None else [barrier]), *(c & ALL for c in coordinates)]
    for n, word in enumerate(words):
        b.rows(UR(10 + n))[:] = word
    b.pairs(UR(30), tensor.write(b) if descriptor is None else descriptor)
    return {"A": UR(10), "B": UR(30), "I0": len(coordinates)}


@group
def bulk_stores():
    made = []
    for arch in (80, 90):
        for tensor, coordinates in TENSORS:
            b = Bench(arch)
            shared = b.base + 1024 + (b.me << 24)
            given = operands(b, tensor, coordinates, shared)

            def then(b=b, tensor=tensor, coordinates=coordinates, shared=shared):
                stored(b, tensor, coordinates, shared)

            made.append(b.case("UTMASTG", then, **given))
    return made


def stored(b, tensor, coordinates, shared):
    found_range(b, b.at("other") + DESCRIPTOR, b.at("other") + DESCRIPTOR + 128)
    found_range(b, b.at("global"), b.at("global") + tensor.reach)
    tensor.moved(b, shared & 0xFFFFFF, coordinates, False)
    put_entry(b, at.ASYNC_ROOM, shared, 0, coordinates, b.at("other") + DESCRIPTOR)


OFFSETS = 36


def put_entry(b, n, shared, barrier, coordinates, descriptor, member=None, pc=5):
    entry = b.part(f"bulk{b.me if member is None else member}")[at.ASYNC * n : at.ASYNC * (n + 1)]
    words = entry.view(np.uint32)
    words[0], words[1] = shared, barrier
    words[2 : 2 + len(coordinates)] = [c & ALL for c in coordinates]
    words[at.ASYNC_RANK // 4], words[at.ASYNC_PC // 4] = len(coordinates), pc
    words[OFFSETS // 4] = 0  # of pixels: these are tiles
    entry[at.ASYNC_DESCRIPTOR : at.ASYNC_DESCRIPTOR + 8].view(np.int64)[0] = descriptor
    if n < at.ASYNC_ROOM:  # a load: when it was issued, by warp 0
        entry[at.ASYNC_BY : at.ASYNC_BY + 8].view(np.int64)[0] = issued(b)


def issued(b):
    return 64 * int(b.warp(0)[at.W_CYCLE : at.W_CYCLE + 8].view(np.int64)[0])


@group
def bulk_stores_told():
    """The checks hear of what an engine reads and of each piece of a line; a fault keeps it from being done."""
    made = []
    for says in (0, at.UNINITIALISED):
        for start in (-2, 12):
            b = Bench(races=True, checks=True)
            tensor = Tensor([16, 3], [8, 2])
            given = operands(b, tensor, [start, 2], 1024)
            b.shared[1024 + 8 : 1024 + 24] = b.part("global")[128 + 4 * (start + 2) :][
                :16
            ]  # the same already, in two pieces

            def then(b=b, tensor=tensor, says=says, start=start):
                if says:
                    found_range(b, b.at("other") + DESCRIPTOR, b.at("other") + DESCRIPTOR + 128)
                    put_entry(b, at.ASYNC_ROOM, 1024, 0, [start, 2], b.at("other") + DESCRIPTOR)
                    return says
                stored(b, tensor, [start, 2], 1024)

            told = [(shadow.ENGINE, clocks.STORES, 1024, tensor.bytes, 0)]
            pieces = [(0, 8, 2), (2, 16, 0)] if start < 0 else [(12, 16, 0)]
            if not says:
                told += [
                    (shadow.LINE, 5, near(4, 128 + 4 * first), size, same) for first, size, same in pieces
                ]
            made.append(b.case("UTMASTG", then, told=told, says=says, **given))
    return made


@group
def bulk_refused():
    made = []
    good = Tensor([16, 3], [8, 2])

    def case(op, kind, given, change, place=None, more=0, then=None, arch=80):
        b = Bench(arch)
        fields = operands(b, good, [0, 0], b.base + 1024 + (b.me << 24), 0 if op == "UTMALDG" else None)
        change(b)
        fields |= given

        def wanted(b=b):
            if then is not None:
                then(b)
            return b.faulted(kind, 0, b.at("other") + DESCRIPTOR if place is None else place(b), more)

        made.append(b.case(op, wanted, **fields))

    def known(b):
        found_range(b, b.at("other") + DESCRIPTOR, b.at("other") + DESCRIPTOR + 128)

    def issued(b):
        known(b)
        put_entry(b, at.ASYNC_ROOM, b.base + 1024 + (b.me << 24), 0, [0, 0], b.at("other") + DESCRIPTOR)

    for op in ("UTMALDG", "UTMASTG", "UTMAREDG"):
        case(
            op,
            at.BAD_DESCRIPTOR,
            {},
            lambda b: b.pairs(UR(30), b.at("other") + 16),
            lambda b: b.at("other") + 16,
        )
        case(
            op,
            at.BAD_DESCRIPTOR,
            {},
            lambda b: b.pairs(UR(30), b.at("other") + 448),
            lambda b: b.at("other") + 448,
        )
        made.append(Bench().case(op, None, 0, A=UR(10), B=UR(30)))
    for op in ("UTMASTG", "UTMAREDG"):
        after = issued if op == "UTMASTG" else known
        case(
            op,
            at.BAD_DESCRIPTOR,
            {"I0": 1},
            lambda b: None,
            more=1,
            then=after if op == "UTMAREDG" else one_less,
        )

        def kind_15(b):
            b.part("other")[DESCRIPTOR + 8 : DESCRIPTOR + 12].view(np.uint32)[0] |= 15 << 7

        case(op, at.BAD_DESCRIPTOR, {}, kind_15, more=2, then=after)

        def too_long(b):
            b.part("other")[DESCRIPTOR + 36 : DESCRIPTOR + 40].view(np.uint32)[0] = 64

        case(op, at.OUT_OF_BOUNDS, {}, too_long, lambda b: b.at("global"), more=64 * 64 + 64, then=after)

        def far_apart(b):  # strides of 40 bits
            far = Tensor([16, 2, 2], [8, 1, 1], strides=[(3 << 36) + 64, (5 << 36) + 128])
            b.pairs(UR(30), far.write(b))

        if op == "UTMASTG":
            more = 64 + (3 << 36) + 64 + (5 << 36) + 128
            case(op, at.OUT_OF_BOUNDS, {"I0": 3}, far_apart, lambda b: b.at("global"), more, issued_third)

        def just_too_long(b):
            b.part("ranges").view(np.int64)[3] = b.at("global") + good.reach - 1

        case(op, at.OUT_OF_BOUNDS, {}, just_too_long, lambda b: b.at("global"), more=good.reach, then=after)
        for arch in (80, 90):
            for offset in (SHARED - 63, -1 if arch == 90 else SHARED):

                def far(b, offset=offset):
                    b.rows(UR(10))[:] = b.base + offset

                def moved_far(b, offset=offset, after=after):
                    after(b)
                    if after is issued:
                        put_entry(b, at.ASYNC_ROOM, b.base + offset, 0, [0, 0], b.at("other") + DESCRIPTOR)

                case(
                    op,
                    at.SHARED_BOUNDS,
                    {},
                    far,
                    lambda b, o=offset: o,
                    more=SHARED,
                    then=(
                        lambda b, m=moved_far, a=after: (
                            m(b),
                            a is known and found_range(b, b.at("global"), b.at("global") + good.reach),
                        )
                    ),
                    arch=arch,
                )

    # of a load: outside of shared memory, another program that is not there
    def beyond(b):
        b.rows(UR(10))[:] = b.base + SHARED - 63 + (b.me << 24)

    case("UTMALDG", at.SHARED_BOUNDS, {}, beyond, lambda b: -1, more=SHARED, then=known, arch=90)

    def nobody(b):
        b.rows(UR(10))[:] = b.base + (5 << 24)

    case("UTMALDG", at.SHARED_BOUNDS, {}, nobody, lambda b: b.base + (5 << 24), then=known, arch=90)
    return made


def issued_third(b):
    found_range(b, b.at("other") + DESCRIPTOR, b.at("other") + DESCRIPTOR + 128)
    third = int(b.rows(UR(13))[0, 0])
    put_entry(b, at.ASYNC_ROOM, b.base + 1024 + (b.me << 24), 0, [0, 0, third], b.at("other") + DESCRIPTOR)


def one_less(b):
    found_range(b, b.at("other") + DESCRIPTOR, b.at("other") + DESCRIPTOR + 128)
    put_entry(b, at.ASYNC_ROOM, b.base + 1024 + (b.me << 24), 0, [0], b.at("other") + DESCRIPTOR)


@group
def bulk_loads_issued():
    """They stand in the queue of the program whose memory they go to; several programs at once."""
    made = []
    tensor = Tensor([16, 3], [8, 2])
    for arch, member, checks in ((80, 0, False), (90, 1, False), (90, 0, False), (80, 0, True)):
        for shared in (0, SHARED - 64):
            b = Bench(arch, checks=checks)
            place, barrier = b.base + shared + (member << 24), b.base + 40 + (member << 24)
            given = operands(b, tensor, [3, -1], place, barrier)
            b.set(member, CTA_ASYNC_COUNT=3)

            def then(b=b, member=member, place=place, barrier=barrier):
                found_range(b, b.at("other") + DESCRIPTOR, b.at("other") + DESCRIPTOR + 128)
                put_entry(b, 3, place, barrier, [3, -1], b.at("other") + DESCRIPTOR, member)
                b.set(member, CTA_ASYNC_COUNT=4, CTA_PROGRESS=b.get("CTA_PROGRESS", member) + 1)

            made.append(b.case("UTMALDG", then, told=[(shadow.COPY, 0, shared, 64, 0)], **given))
    for wanted in (1, 2, 3, 6, 0x8001):
        b = Bench(90)
        given = operands(b, tensor, [3, -1], 0x400 + 128 + (1 << 24), 0x400 + 40 + (1 << 24))
        b.rows(UR(40))[:] = wanted << 16 | 0x77

        def many(b=b, wanted=wanted):
            found_range(b, b.at("other") + DESCRIPTOR, b.at("other") + DESCRIPTOR + 128)
            for n in range(2):
                if wanted >> n & 1:
                    put_entry(
                        b,
                        0,
                        0x400 + 128 + (n << 24),
                        0x400 + 40 + (n << 24),
                        [3, -1],
                        b.at("other") + DESCRIPTOR,
                        n,
                    )
                    b.set(n, CTA_ASYNC_COUNT=1, CTA_PROGRESS=b.get("CTA_PROGRESS", n) + 1)
            if wanted >> 2:
                n = 15 if wanted >> 15 else 2
                return b.faulted(at.SHARED_BOUNDS, 0, 0x400 + 128 + (n << 24), 0)

        made.append(b.case("UTMALDG", many, C=UR(40), I1=1, **given))
    return made


def full_queue(arch, last):
    """A bench whose queue is full: the first loads bring 16 bytes each, the last ones are `last`."""
    b = Bench(arch)
    small = Tensor([4], [4])
    descriptor = small.write(b, 384)
    b.set(CTA_ASYNC_COUNT=at.ASYNC_ROOM)
    for n in range(at.ASYNC_ROOM):
        put_entry(b, n, b.base, b.base + 40 + (b.me << 24), [0], descriptor, pc=20 + n)
    put_barrier(b, 40, barrier_word(1, 1, 1 << 19, 0))
    return b, 16 * (at.ASYNC_ROOM - len(last))


def put_halfway(b):
    """Singles that lie halfway between two of TF32, of even and odd ones, just beside, and those that have no next."""
    words = b.part("global")[: 4 * 96].view(np.uint32)
    rests = np.resize(
        np.array([0x1000, 0x3000, 0x0FFF, 0x2FFF, 0x1001, 0x3001, 0x2000], np.uint32), words.size
    )
    words[:] = words & 0x7FFFC000 & ~np.uint32(1 << 30) | rests
    words[[1, 3, 17, 19]] = 0x7F800001, 0xFFC12345, 0x7F800000, 0x7F7FFFFF


@group
def bulk_loads_done():
    """When the queue is full they are done, in their order, and their bytes arrive."""
    made = []
    for arch in (80, 90):
        for tensor, coordinates in TENSORS:
            b, total = full_queue(arch, [tensor])
            if tensor.kind in (TF32, TF32_FLUSHED):
                put_halfway(b)
            place = b.base + 1024 + (b.me << 24)
            descriptor = tensor.write(b)
            put_entry(b, at.ASYNC_ROOM - 1, place, b.base + 40 + (b.me << 24), coordinates, descriptor, pc=9)
            given = operands(b, tensor, coordinates, b.base + 2048 + (b.me << 24), 77)
            total += tensor.bytes

            def then(b=b, tensor=tensor, coordinates=coordinates, place=place, total=total):
                b.shared[:16] = b.part("global")[:16]
                tensor.moved(b, place & 0xFFFFFF, coordinates, True)
                put_barrier(b, 40, barrier_word(1, 1, (1 << 19) - total, 0))
                put_entry(b, 0, b.base + 2048 + (b.me << 24), 77, coordinates, b.at("other") + DESCRIPTOR)
                b.set(
                    CTA_ASYNC_COUNT=1,
                    CTA_PROGRESS=b.get("CTA_PROGRESS") + at.ASYNC_ROOM + 1,
                    CTA_LAST_RANGE=1,
                )

            made.append(b.case("UTMALDG", then, **given))
    for what in ("barrier", "shared", "descriptor"):
        b, total = full_queue(80, [1])
        tensor = Tensor([16, 3], [8, 2])
        place, barrier = (SHARED if what == "shared" else 1024), 80 if what == "barrier" else 40
        put_barrier(b, 80, 5)
        put_entry(
            b,
            at.ASYNC_ROOM - 1,
            place,
            barrier,
            [0, 0, 0][: 3 if what == "descriptor" else 2],
            tensor.write(b),
            pc=9,
        )
        given = operands(b, tensor, [0, 0], 2048, 77)

        def wrong(b=b, what=what, total=total, tensor=tensor):
            b.shared[:16] = b.part("global")[:16]
            put_barrier(b, 40, barrier_word(1, 1, (1 << 19) - total, 0))
            queue = b.part("bulk0").reshape(-1, at.ASYNC)
            queue[0] = queue[at.ASYNC_ROOM - 1]  # it stays in the queue: its memory may be found
            b.set(
                CTA_ASYNC_COUNT=1,
                CTA_PROGRESS=b.get("CTA_PROGRESS") + at.ASYNC_ROOM - 1,
                CTA_LAST_RANGE=1,
                CTA_ERROR_PC=9,
            )
            if what == "barrier":
                tensor.moved(b, 1024, [0, 0], True)
                return b.faulted(at.BAD_MBARRIER, 0, 80, 0)
            if what == "shared":
                return b.faulted(at.SHARED_BOUNDS, 0, SHARED, SHARED)
            return b.faulted(at.BAD_DESCRIPTOR, 0, b.at("other") + DESCRIPTOR, 3)

        made.append(b.case("UTMALDG", wrong, **given))
    return made


@group
def bulk_groups_and_fences():
    """Stores up to here are a group; what a warp knows of is seen by engines; with nobody asking nothing happens."""
    made = []
    for races in (False, True):
        for warp in (0, 2):
            b = Bench(races=races)
            random_clocks(b)
            b.part("counters").view(np.uint32)[:] = 5

            def flushed_out(b=b, races=races, warp=warp):
                if races:
                    b.part("counters").view(np.uint32)[warp] += 1

            def fenced(b=b, races=races, warp=warp):
                if races:
                    mine = clock(b, warp)
                    mine[1] = np.maximum(mine[0], mine[1])
                    mine[0, warp] += 1

            made.append(b.case("UTMACMDFLUSH", flushed_out, warp=warp))
            made.append(b.case("FENCE", fenced, warp=warp))

            def waited(b=b, races=races, warp=warp):
                if races:
                    agent = 2 * WARPS + warp
                    mine = clock(b, warp)[0]
                    mine[agent] = max(int(mine[agent]), 60 - 2)

            b.part("counters").view(np.uint32)[:] = 60
            made.append(b.case("WARPGROUP", waited, warp=warp, I0=2))
    made += [Bench().case(op, None, 0) for op in ("UTMACMDFLUSH", "FENCE", "WARPGROUP")]
    return made
