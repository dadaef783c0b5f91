"""Cases for barriers that asynchronous copies arrive at, and for those of sm_80, which a kernel's own code lays out."""

from __future__ import annotations

import numpy as np
from family_barriers import asked, barrier_word, clock, put_barrier, random_clocks, ticked
from family_copies import done, entry, filled
from family_machine import ALL, LANES, SHARED, Bench, K, R, chosen, group, near
from family_memory import SOME

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import shadow
from tileprobe.targets.simgpu.engine.copies import RING
from tileprobe.targets.simgpu.engine.mbarriers import ARRIVAL, BYTE, WORD


def word(missing, count, phase):
    """A barrier of sm_80, as ptxas's code makes and reads it."""
    return (1 << 30) - count | ((1 << 31) - missing | phase << 31) << 32


def counted(missing, count, phase, arrivals):
    """The same after so many arrivals."""
    for _ in range(arrivals):
        missing -= 1
        if missing == 0:
            missing, phase = count, 1 - phase
    return word(missing, count, phase)


def words_of(b):
    return b.shared.view(np.uint64)


@group
def words_arrived_at():
    made = []
    for missing, count, phase in (
        (3, 3, 0),
        (1, 3, 0),
        (1, 1, 1),
        (2, 7, 1),
        (40, 40, 0),
        ((1 << 20) - 1,) * 2 + (0,),
    ):
        for mask in (1, 0x10101, ALL):
            b = Bench()
            slots = np.where(LANES < 8, 5, 9)
            words_of(b)[[5, 9]] = word(missing, count, phase)
            b.rows(R(3))[0], b.rows(K(2))[:] = 8 * slots - 24 & ALL, 0

            def then(b=b, missing=missing, count=count, phase=phase, mask=mask, slots=slots):
                for slot in (5, 9):
                    lanes = LANES[chosen(mask) & (slots == slot)]
                    for n, lane in enumerate(lanes):
                        before = counted(missing, count, phase, n)
                        b.rows(R(20), 2)[:, lane] = before & ALL, before >> 32
                    words_of(b)[slot] = counted(missing, count, phase, len(lanes))

            made.append(b.case("ATOMS_ARRIVE", then, mask, A=R(3), B=K(2), I0=24, D=R(20)))
    made.append(Bench().case("ATOMS_ARRIVE", None, 0, A=R(3), B=K(2), D=R(20)))
    return made


@group
def words_refused():
    made = []
    for offset, kind in ((SHARED, at.SHARED_BOUNDS), (SHARED - 4, at.MISALIGNED), (12, at.MISALIGNED)):
        for op in ("ATOMS_ARRIVE", "ARRIVES"):
            b = Bench()
            b.rows(R(3))[0], b.rows(K(2))[:] = np.where(LANES == 9, offset, 16), 0

            def then(b=b, offset=offset, kind=kind):
                return b.faulted(kind, 9, offset, SHARED if kind == at.SHARED_BOUNDS else 8)

            made.append(b.case(op, then, A=R(3), B=K(2), D=R(20), I2=WORD))
    for says in (0, at.UNINITIALISED):
        b = Bench(checks=True)
        words_of(b)[2] = word(2, 2, 0)
        b.rows(R(3))[0], b.rows(K(2))[:] = 16, 0

        def told(b=b, says=says):
            if not says:
                b.rows(R(20), 2)[:, 4] = word(2, 2, 0) & ALL, word(2, 2, 0) >> 32
                words_of(b)[2] = word(1, 2, 0)
            return says

        heard = [(shadow.ARRIVES, near(0), 0x10, 8, 0)]
        made.append(b.case("ATOMS_ARRIVE", told, 0x10, told=heard, says=says, A=R(3), B=K(2), D=R(20)))
    return made


def put_arrival(b, n, mask, time, how, number, targets, pc=5):
    words, _, tos, code = entry(b, n)
    words[:] = mask, time, -how & ALL, number
    tos[:], code[0] = targets, pc


@group
def arrivals_issued():
    """They stand behind the copies; who waits for the barrier knows what the warp has done up to here."""
    made = []
    for arch, how in ((80, WORD), (90, ARRIVAL), (90, BYTE)):
        for races in (False, True):
            for mask, first, pending in ((ALL, 3, 2), (SOME, 62, 3), (SOME, 5, RING)):
                b = Bench(arch, races=races)
                if races:
                    random_clocks(b)
                given = asked(b, 48)
                put_barrier(b, 48, barrier_word(3, 4, 0, 1))
                b.put(W_COPIES_MADE=first + pending, W_COPIES_DONE=first, W_GROUP=9)
                b.set(CTA_ARRIVALS=4)
                for n in range(RING if pending >= RING else 0):
                    filled(b, n)

                def then(b=b, how=how, mask=mask, races=races, first=first, pending=pending):
                    address = b.base + 48 + (b.me << 24)
                    time = int(clock(b, 0)[0, 0]) if races else 0
                    mine = b.barrier(address, b.me)
                    for _ in range(int(chosen(mask).sum()) if races else 0):
                        clock(b, mine)[:] = np.maximum(clock(b, mine), clock(b, 0))
                        ticked(b)
                    place = (first + pending) % RING
                    if pending >= RING:
                        done(b, place)
                        b.put(W_COPIES_DONE=first + 1)
                    put_arrival(b, place, mask, time, how, 9, address)
                    b.put(W_COPIES_MADE=first + pending + 1)
                    b.set(CTA_ARRIVALS=5)

                made.append(b.case("ARRIVES", then, mask, I2=how, **given))
    for how in (ARRIVAL, BYTE):
        b = Bench(90)
        given = asked(b, 56)
        put_barrier(b, 56, 5)  # nobody has made one of it

        def refused(b=b):
            b.set(CTA_ERROR_LANE=4, CTA_ERROR_ADDRESS=b.base + 56 + (b.me << 24), CTA_ERROR_MORE=0)
            return at.BAD_MBARRIER

        made.append(b.case("ARRIVES", refused, 0x30, I2=how, **given))
    made.append(Bench().case("ARRIVES", None, 0, I2=WORD, A=R(3), B=K(2)))
    return made


@group
def arrivals_done():
    """Where a warp waits for its copies, arrivals among them come."""
    made = []
    for arch, how in ((80, WORD), (90, ARRIVAL), (90, BYTE)):
        for there in (True, False) if arch == 90 else (True,):
            b = Bench(arch)
            lanes = 0b1010001
            if how == WORD:
                words_of(b)[6] = word(9, 11, 1)
            else:
                put_barrier(b, 48, barrier_word(9, 11, 20, 1) if there else 5)
            b.put(W_COPIES_MADE=3, W_COPIES_DONE=0, W_GROUP=1)
            b.set(CTA_ARRIVALS=4)
            filled(b, 0)
            put_arrival(b, 1, lanes, 17, how, 0, b.base + 48 + (b.me << 24) * (arch == 90))
            filled(b, 2)

            def then(b=b, how=how, there=there, arch=arch):
                done(b, 0)
                b.set(CTA_ARRIVALS=3)
                b.put(W_COPIES_DONE=2 + there)
                if not there:
                    b.set(CTA_ERROR_LANE=0, CTA_ERROR_ADDRESS=b.base + 48 + (b.me << 24), CTA_ERROR_MORE=0)
                    return at.BAD_MBARRIER
                if how == WORD:
                    words_of(b)[6] = word(6, 11, 1)
                else:
                    left = (6, 20) if how == ARRIVAL else (9, 17)
                    put_barrier(b, 48, barrier_word(left[0], 11, left[1], 1))
                    b.set(CTA_PROGRESS=b.get("CTA_PROGRESS") + 3)
                done(b, 2)
                return at.OK

            for n in (0, 2):  # copies elsewhere
                _, _, tos, _ = entry(b, n)
                tos[:] = b.at(f"shared{b.me}") + 1024 + 512 * n + 4 * LANES
            made.append(b.case("DEPBAR", then, I0=0))
    return made
