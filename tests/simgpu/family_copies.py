"""Cases for asynchronous copies of warps, and for matrices between shared memory and registers."""

from __future__ import annotations

import numpy as np
from family_barriers import random_clocks
from family_machine import ALL, LANES, SHARED, UR, Bench, K, R, chosen, group, near
from family_memory import SOME, look

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import shadow
from tileprobe.targets.simgpu.engine.copies import COPY, RING
from tileprobe.targets.simgpu.engine.lanes_address import PAIR_A, PAIR_B


def entry(b, n):
    """A copy in the ring: four words, where from, where to, the place in the code."""
    block = b.part("ring")[COPY * n : COPY * (n + 1)]
    return (
        block[:16].view(np.uint32),
        block[16:272].view(np.int64),
        block[272:528].view(np.int64),
        block[528:532].view(np.int32),
    )


def put_copy(b, n, mask, zeros, size, number, source, target, pc=3):
    words, froms, tos, code = entry(b, n)
    words[:] = mask, zeros, size, number
    froms[:], tos[:], code[0] = source, target, pc


def done(b, n):
    """What a copy does."""
    (mask, zeros, size, _), froms, tos, _ = entry(b, n)
    for lane in LANES[chosen(int(mask))]:
        to = int(tos[lane]) - b.at(f"shared{b.me}")
        data = np.zeros(size, np.uint8)
        if not int(zeros) >> int(lane) & 1:
            place = int(froms[lane]) - b.at("global")
            data = b.part("global")[place : place + size].copy()
        b.shared[to : to + size] = data


def filled(b, n, mask=SOME, zeros=0x0F000005, size=4, number=0):
    slots = b.random.permutation(SHARED // size)[:32]
    put_copy(
        b,
        n,
        mask,
        zeros,
        size,
        number,
        b.at("global") + size * b.random.permutation(100)[:32],
        b.at(f"shared{b.me}") + size * slots,
    )


@group
def copies_issued():
    made = []
    for arch in (80, 90):
        for size in (4, 8, 16):
            for mask, held, pending, first in (
                (ALL, ALL, 0, 0),
                (SOME, 0x0F0F00FF, 3, 61),
                (SOME, 0, 0, 7),
                (ALL, SOME, RING, 70),
                (ALL, ALL, RING - 1, 2),
            ):
                b = Bench(arch, seed=size)
                b.put(W_COPIES_MADE=first + pending, W_COPIES_DONE=first, W_GROUP=9)
                for n in range(RING if pending >= RING else 0):
                    filled(b, n, size=size)
                offsets = size * b.random.permutation(SHARED // size)[:32]
                sources = b.at("global") + size * b.random.permutation(4096 // size)[:32]
                b.rows(R(0))[0] = b.base + (b.me << 24) * (arch == 90) + offsets - 8 & ALL
                b.rows(K(2))[:] = 0
                b.pairs(R(4), sources - 100)
                b.pairs(UR(4), 60)
                b.predicate(2, held)

                def then(
                    b=b,
                    size=size,
                    mask=mask,
                    held=held,
                    pending=pending,
                    first=first,
                    offsets=offsets,
                    sources=sources,
                ):
                    loaded = mask & held
                    look(b, sources, loaded, size)
                    made_so_far = first + pending
                    place = made_so_far % RING
                    if pending >= RING:
                        done(b, place)
                        b.put(W_COPIES_DONE=first + 1)
                    froms = sources if loaded else b.part("scratch")[512:768].view(np.int64).copy()
                    put_copy(
                        b, place, mask, mask & ~loaded, size, 9, froms, b.at(f"shared{b.me}") + offsets, 5
                    )
                    b.put(W_COPIES_MADE=made_so_far + 1)

                made.append(
                    b.case(
                        "LDGSTS",
                        then,
                        mask,
                        A=R(0),
                        B=K(2),
                        I0=8,
                        C=R(4),
                        E=UR(4),
                        SPARE=40,
                        UNIT=PAIR_A | PAIR_B,
                        PS=2,
                        I2=size,
                    )
                )
    return made


@group
def copies_told():
    b = Bench(races=True, checks=True)
    offsets, sources = 4 * LANES, b.at("global") + 8 * LANES
    b.rows(R(0))[0], b.rows(K(2))[:] = offsets, 0
    b.pairs(R(4), sources)
    b.predicate(2, 0xFF)
    b.put(W_COPIES_MADE=RING, W_COPIES_DONE=0)
    filled(b, 0)
    told = [
        (shadow.GLOBAL, near(0, 512), 0xFF & SOME, 4 | shadow.READ << 8, 0),
        (shadow.COPIED, near(1, 272), SOME, 4, 3),
        (shadow.COPIES, near(0), SOME, 4, 0),
    ]

    def then(b=b):
        look(b, sources, 0xFF & SOME, 4)
        done(b, 0)
        put_copy(b, 0, SOME, SOME & ~0xFF, 4, 0, sources, b.at("shared0") + offsets, 5)
        b.put(W_COPIES_MADE=RING + 1, W_COPIES_DONE=1)

    return [b.case("LDGSTS", then, SOME, told=told, A=R(0), B=K(2), C=R(4), E=K(2), UNIT=PAIR_A, PS=2, I2=4)]


@group
def copies_refused():
    made = []
    for what, kind in (
        ("shared", at.SHARED_BOUNDS),
        ("global", at.OUT_OF_BOUNDS),
        ("crooked", at.MISALIGNED),
    ):
        b = Bench()
        offsets, sources = 8 * LANES, b.at("global") + 8 * LANES
        offsets[9] = SHARED if what == "shared" else offsets[9]
        sources[9] = b.span("global")[1] if what == "global" else sources[9] + 4 * (what == "crooked")
        b.rows(R(0))[0], b.rows(K(2))[:] = offsets, 0
        b.pairs(R(4), sources)
        b.predicate(2, ALL)
        b.set(CTA_LAST_RANGE=1)

        def then(b=b, what=what, kind=kind, sources=sources):
            address, more = (SHARED, SHARED) if what == "shared" else (int(sources[9]), 8)
            return b.faulted(kind, 9, address, more)

        fields = {"A": R(0), "B": K(2), "C": R(4), "E": K(2), "UNIT": PAIR_A, "PS": 2, "I2": 8}
        made.append(b.case("LDGSTS", then, **fields))
        made += [b.case(op, None, 0, **fields) for op in ("LDGSTS", "LDGDEPBAR", "DEPBAR", "LDSM", "STSM")]
    return made


@group
def copies_waited_for():
    made = []
    for first in (0, 62):
        for pending, left in ((0, 0), (1, 2), (2, 3), (3, 5), (9, 5)):
            for races in (False, True):
                b = Bench(races=races)
                b.put(W_COPIES_MADE=first + 5, W_COPIES_DONE=first, W_GROUP=3)
                for n, number in enumerate((0, 0, 1, 2, 2)):
                    filled(
                        b,
                        (first + n) % RING,
                        mask=ALL if n == 2 else SOME,
                        number=number,
                        size=(4, 8, 16, 4, 8)[n],
                    )
                if races:
                    random_clocks(b)
                    b.part("counters").view(np.uint32)[:] = 60 + np.arange(b.part("counters").nbytes // 4)

                def then(b=b, first=first, pending=pending, left=left, races=races):
                    for n in range(5 - left):
                        done(b, (first + n) % RING)
                    b.put(W_COPIES_DONE=first + 5 - left)
                    if races:
                        known = b.part("clocks").view(np.uint32)[3:4]  # bulk stores of warp 0
                        known[0] = max(int(known[0]), 60 - pending)

                # two groups are complete, the third is not: five copies, of which pending groups stay
                made.append(b.case("DEPBAR", then, I0=pending))
    b = Bench()
    b.put(W_GROUP=7)
    made.append(b.case("LDGDEPBAR", lambda b=b: b.put(W_GROUP=8)))
    return made


@group
def matrices():
    made = []
    for arch in (80, 90):
        for load in (True, False):
            for count in (1, 2, 4):
                for exchanged in (False, True):
                    b = Bench(arch, seed=count)
                    offsets = 16 * b.random.permutation(SHARED // 16)[:32]
                    offsets[[0, 5]] = 0, SHARED - 16
                    if count < 4:
                        offsets[8 * count :] = SHARED + 7  # not needed
                    b.rows(R(0))[0] = b.base + offsets + (b.me << 24) * (arch == 90)
                    b.rows(K(2))[:] = 0

                    def then(b=b, load=load, count=count, exchanged=exchanged, offsets=offsets):
                        for n in range(count):
                            own = b.rows(R(20), 4)[n].view(np.uint16).reshape(8, 8)
                            own = own.T if exchanged else own
                            for k in range(8):
                                line = b.shared[offsets[8 * n + k] :][:16].view(np.uint16)
                                if load:
                                    own[k] = line
                                else:
                                    line[:] = own[k]

                    fields = {"D": R(20), "E": R(20), "A": R(0), "B": K(2), "I2": count | 0x100 * exchanged}
                    made.append(b.case("LDSM" if load else "STSM", then, **fields))
    return made


@group
def matrices_told():
    made = []
    for load, says in ((True, 0), (True, at.UNINITIALISED), (False, 0)):
        b = Bench(checks=True)
        offsets = 32 * LANES
        b.rows(R(0))[0], b.rows(K(2))[:] = offsets, 0
        b.shared[32 * 3 : 32 * 3 + 16] = b.rows(R(20))[0].view(np.uint8)[48:64]  # the same already
        b.shared[32 * 5 : 32 * 5 + 8] = b.rows(R(20))[0].view(np.uint8)[80:88]  # the first half of it
        b.shared[32 * 6 + 8 : 32 * 6 + 16] = b.rows(R(20))[0].view(np.uint8)[104:112]

        def then(b=b, load=load, says=says):
            if says:
                return says
            for k in range(8):
                if load:
                    b.rows(R(20))[0].view(np.uint8)[16 * k : 16 * k + 16] = b.shared[32 * k : 32 * k + 16]
                else:
                    b.shared[32 * k : 32 * k + 16] = b.rows(R(20))[0].view(np.uint8)[16 * k : 16 * k + 16]

        told = (
            [(shadow.LOADS, near(0), 0xFF, 16, 0)]
            if load
            else [(shadow.STORE, k, 32 * k, 16, int(k == 3)) for k in range(8)]
        )
        op = "LDSM" if load else "STSM"
        made.append(b.case(op, then, told=told, says=says, D=R(20), E=R(20), A=R(0), B=K(2), I2=1))
    return made


@group
def matrices_refused():
    made = []
    for arch in (80, 90):
        for where, kind in (
            (SHARED, at.SHARED_BOUNDS),
            (-16, at.SHARED_BOUNDS),
            (8, at.MISALIGNED),
            (SHARED - 8, at.MISALIGNED),
        ):
            for op in ("LDSM", "STSM"):
                for room in (SHARED, SHARED - 8):
                    if (arch == 80 and where < 0) or (room != SHARED and where != SHARED):
                        continue
                    b = Bench(arch)
                    offset = SHARED - 16 if room != SHARED else where  # the end of a row decides
                    b.set(CTA_SHARED_BYTES=room)
                    offsets = 16 * LANES
                    offsets[9] = offset
                    b.rows(R(0))[0], b.rows(K(2))[:] = b.base + offsets, 0

                    def then(b=b, kind=kind, offset=offset, room=room):
                        place, more = (offset + b.base, 16) if kind == at.MISALIGNED else (offset, room)
                        b.set(CTA_ERROR_LANE=9, CTA_ERROR_ADDRESS=place, CTA_ERROR_MORE=more)
                        return kind

                    made.append(b.case(op, then, ALL & ~(1 << 9), D=R(20), E=R(20), A=R(0), B=K(2), I2=2))
    return made
