"""Cases for what is in the queue of bulk copies beside tiles: columns of pixels, in three to five dimensions, and
values that lanes store into the shared memory of a program of the cluster."""

from __future__ import annotations

from itertools import product

import numpy as np
from family_barriers import barrier_word, put_barrier
from family_machine import ALL, LANES, SHARED, Bench, R, group
from family_tiles import (
    BF_16,
    DESCRIPTOR,
    F_16,
    F_32,
    OFFSETS,
    U8,
    Tensor,
    full_queue,
    issued,
    operands,
    put_entry,
)

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import shadow
from tileprobe.targets.simgpu.engine.bulk import IM2COL

SOME = 0x80F0_1235


class Columns(Tensor):
    """Channels innermost, images outermost. `lower` and `upper` are the corners of the box, along W, H, D."""

    def __init__(self, sizes, channels, pixels, lower, upper, steps, kind=F_16, **rest):
        super().__init__(sizes, [channels] * len(sizes), kind, **rest)
        self.channels, self.pixels, self.lower, self.upper, self.steps = channels, pixels, lower, upper, steps

    @property
    def bytes(self):
        return self.channels * self.pixels * self.element

    def write(self, b, place=DESCRIPTOR):
        super().write(b, place)
        block = b.part("other")[place : place + 128]
        block.view(np.uint32)[2] |= IM2COL
        block[60:62].view(np.uint16)[0] = self.pixels - 1
        for n, (low, high, step) in enumerate(zip(self.lower, self.upper, self.steps)):
            block.view(np.int16)[32 + n], block.view(np.int16)[35 + n] = low, high
            block[76 + n] = step
        return b.at("other") + place

    def boxes(self, first):
        """The pixels from `first` on: W runs fastest, then H, D and the images."""
        ends = [size - 1 + high for size, high in zip(self.sizes[1:-1], self.upper)]
        runs = [range(low, end + 1, step) for low, end, step in zip(self.lower, ends, self.steps)]
        images = range(self.sizes[-1] + self.pixels)
        everything = [where[::-1] for where in product(images, *runs[::-1])]
        return everything[everything.index(tuple(first)) :][: self.pixels]

    def moved(self, b, shared, coordinates, offsets):
        number = 0
        for where in self.boxes(coordinates[1:]):
            place = [w + o for w, o in zip(where, (*offsets, 0))]
            for channel in range(coordinates[0], coordinates[0] + self.channels):
                index = [channel, *place]
                to = shared + number * self.element
                to ^= (to >> 7 & (1 << self.swizzle) - 1) << 4 if self.swizzle else 0
                mine = b.shared[to - b.base : to - b.base + self.element]
                if all(0 <= i < size for i, size in zip(index, self.sizes)):
                    there = channel * self.element + sum(w * s for w, s in zip(place, self.strides))
                    mine[:] = b.part("global")[there : there + self.element]
                else:
                    mine[:] = 255 if self.nan else 0
                number += 1


# The tensor, coordinates, offsets of pixels
IMAGES = (
    (Columns([16, 7, 2], 8, 9, [-1], [1], [1]), [0, -1, 0], [0]),
    (Columns([16, 7, 2], 16, 5, [0], [0], [2], BF_16), [0, 4, 0], [1]),
    (Columns([16, 7, 3], 8, 4, [-2], [-1], [1], F_32), [8, 2, 2], [3]),
    (Columns([16, 250, 1], 8, 3, [0], [0], [1], U8), [0, 1, 0], [258]),
    (Columns([8, 5, 4, 2], 8, 13, [-1, -1], [1, 1], [1, 1]), [0, 0, -1, 0], [0, 0]),
    (Columns([8, 5, 4, 2], 8, 12, [-1, 0], [-1, 0], [1, 2], nan=True), [0, 3, 2, 0], [2, 1]),
    (Columns([8, 6, 4, 2], 16, 7, [0, -1], [-1, -1], [2, 1]), [4, 0, -1, 1], [1, 3]),
    (Columns([32, 5, 4, 2], 32, 6, [0, 0], [0, 0], [1, 1], swizzle=2), [0, 3, 3, 0], [0, 0]),
    (Columns([8, 4, 3, 3, 2], 8, 40, [-1, -1, -1], [0, 0, 0], [1, 1, 1]), [0, -1, 0, 1, 0], [0, 0, 0]),
    (Columns([8, 5, 4, 3, 2], 8, 20, [0, 0, -1], [-2, -1, 0], [1, 2, 1]), [0, 2, 2, 1, 0], [2, 1, 1]),
    (Columns([8, 4, 3, 3, 2], 8, 9, [0, 0, 0], [0, 0, 0], [3, 2, 2]), [0, 3, 2, 2, 1], [0, 0, 0]),
)  # fmt: skip


def packed(offsets):
    bits = 16 if len(offsets) == 1 else 8 if len(offsets) == 2 else 5
    return IM2COL | sum(offset << bits * n for n, offset in enumerate(offsets))


@group
def columns_of_pixels():
    """The queue is full, and the last load is of pixels."""
    made = []
    for tensor, coordinates, offsets in IMAGES:
        b, total = full_queue(90, [tensor])
        place, other = b.base + 1024 + (b.me << 24), b.base + 6144 + (b.me << 24)
        put_entry(b, at.ASYNC_ROOM - 1, place, b.base + 40 + (b.me << 24), coordinates, tensor.write(b), pc=9)
        entry_of(b, at.ASYNC_ROOM - 1)[OFFSETS // 4] = packed(offsets)
        given = operands(b, tensor, coordinates, other, 77, tensor.write(b))
        b.rows(R(40))[:] = packed(offsets) & 0xFFFF
        total += tensor.bytes

        def then(b=b, tensor=tensor, at_=coordinates, offsets=offsets, place=place, other=other, total=total):
            b.shared[:16] = b.part("global")[:16]
            tensor.moved(b, place & 0xFFFFFF, at_, offsets)
            put_barrier(b, 40, barrier_word(1, 1, (1 << 19) - total, 0))
            put_entry(b, 0, other, 77, at_, b.at("other") + DESCRIPTOR)
            entry_of(b, 0)[OFFSETS // 4] = packed(offsets)
            b.set(
                CTA_ASYNC_COUNT=1, CTA_PROGRESS=b.get("CTA_PROGRESS") + at.ASYNC_ROOM + 1, CTA_LAST_RANGE=1
            )  # fmt: skip

        made.append(b.case("UTMALDG", then, C=R(40), I1=2, **given))
    return made


def entry_of(b, n, member=None):
    first = at.ASYNC * n
    return b.part(f"bulk{b.me if member is None else member}")[first : first + at.ASYNC].view(np.uint32)


def put_value(b, n, address, barrier, words, member, pc=5):
    """An entry for a lane's value: the rest of it is as it was."""
    entry = entry_of(b, n, member)
    entry[:2] = address, barrier
    entry[2 : 2 + len(words)] = words
    entry[at.ASYNC_RANK // 4], entry[at.ASYNC_PC // 4] = 4 * len(words), pc
    entry[at.ASYNC_DESCRIPTOR // 4 : at.ASYNC_DESCRIPTOR // 4 + 2] = 0
    entry[at.ASYNC_BY // 4 : at.ASYNC_BY // 4 + 2].view(np.int64)[0] = issued(b)


def addressed(b, member, size, first=256):
    """Each lane has a place of its own, in an order of its own; the barrier is at 40."""
    to = (member << 24) + b.base + first + size * (LANES * 5 % 32)
    b.rows(R(10), 2)[:] = to, np.full(32, (member << 24) + b.base + 40)
    return to


@group
def values_are_entered():
    made = []
    for member, size, mask, checks in (
        (0, 4, ALL, False),
        (1, 16, SOME, False),
        (0, 8, SOME, True),
        (0, 4, 0, True),
    ):
        b = Bench(90, checks=checks)
        b.set(member, CTA_ASYNC_COUNT=3)
        to = addressed(b, member, size)
        lanes = [n for n in range(32) if mask >> n & 1]

        def then(b=b, member=member, size=size, to=to, lanes=lanes):
            for k, lane in enumerate(lanes):
                words = b.rows(R(20), size // 4)[:, lane]
                put_value(b, 3 + k, to[lane], (member << 24) + b.base + 40, words, member, pc=17)
            b.set(
                member,
                CTA_ASYNC_COUNT=3 + len(lanes),
                CTA_PROGRESS=b.get("CTA_PROGRESS", member) + len(lanes),
            )

        told = [(shadow.COPY, 0, int(to[n]) - b.base - (member << 24), size, 0) for n in lanes]
        made.append(b.case("STAS", then, mask=mask, pc=17, told=told, A=R(10), E=R(20), I2=size))
    return made


@group
def values_arrive():
    """They are done when the queue is full: bytes are there, and the barrier has been told of them."""
    made = []
    for size in (4, 8, 16):
        for member in (0, 1):
            b = Bench(90)
            put_barrier(b, 40, barrier_word(1, 1, 1 << 19, 0), member)
            b.set(member, CTA_ASYNC_COUNT=at.ASYNC_ROOM)
            values = b.random.integers(0, 1 << 32, (at.ASYNC_ROOM, size // 4), dtype=np.uint32)
            ends = b.base + SHARED - size * at.ASYNC_ROOM  # up to the last byte
            for n in range(at.ASYNC_ROOM):
                put_value(
                    b, n, (member << 24) + ends + size * n, (member << 24) + b.base + 40, values[n], member
                )
            to = addressed(b, member, size)

            def then(b=b, member=member, size=size, values=values, to=to):
                b.part(f"shared{member}")[SHARED - size * at.ASYNC_ROOM :] = values.view(np.uint8).ravel()
                put_barrier(b, 40, barrier_word(1, 1, (1 << 19) - size * at.ASYNC_ROOM, 0), member)
                put_value(b, 0, to[3], (member << 24) + b.base + 40, b.rows(R(20), size // 4)[:, 3], member)
                progress = b.get("CTA_PROGRESS", member) + at.ASYNC_ROOM + 1
                b.set(member, CTA_ASYNC_COUNT=1, CTA_PROGRESS=progress)

            made.append(b.case("STAS", then, mask=8, A=R(10), E=R(20), I2=size))
    return made


@group
def values_refused():
    """No such program, not a multiple of the size, outside of shared memory, a barrier in another program."""
    made = []
    for kind, address, barrier, said, more in (
        (at.SHARED_BOUNDS, (2 << 24) + 0x400, (2 << 24) + 0x428, (2 << 24) + 0x400, 0),
        (at.MISALIGNED, 0x400 + 260, 0x428, 0x400 + 260, 8),
        (at.SHARED_BOUNDS, 0x400 - 8, 0x428, -8, SHARED),
        (at.SHARED_BOUNDS, 0x400 + SHARED, 0x428, SHARED, SHARED),
        (at.BAD_MBARRIER, 0x400 + 256, (1 << 24) + 0x428, (1 << 24) + 0x428, 0),
    ):
        b = Bench(90)
        to = addressed(b, 0, 8)
        b.rows(R(10), 2)[:, 7] = address, barrier

        def then(b=b, kind=kind, said=said, more=more, to=to):
            for lane in range(7):
                put_value(b, lane, to[lane], b.base + 40, b.rows(R(20), 2)[:, lane], 0)
            b.set(0, CTA_ASYNC_COUNT=7, CTA_PROGRESS=b.get("CTA_PROGRESS", 0) + 7)
            return b.faulted(kind, 7, said, more)

        made.append(b.case("STAS", then, A=R(10), E=R(20), I2=8))
    last = Bench(90)
    last.rows(R(10), 2)[:, 0] = 0x400 + SHARED - 8, 0x428

    def fits():
        put_value(last, 0, 0x400 + SHARED - 8, 0x428, last.rows(R(20), 2)[:, 0], 0)
        last.set(0, CTA_ASYNC_COUNT=1, CTA_PROGRESS=last.get("CTA_PROGRESS", 0) + 1)

    made.append(last.case("STAS", fits, mask=1, A=R(10), E=R(20), I2=8))
    return made
