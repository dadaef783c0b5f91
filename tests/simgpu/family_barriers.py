"""Cases for barriers: named ones of a program, those of a cluster, and those in shared memory."""

from __future__ import annotations

import numpy as np
from family_machine import ALL, LANES, SHARED, WARPS, Bench, K, R, chosen, group
from family_memory import clock

from tileprobe.targets.simgpu.engine import clocks, numbers
from tileprobe.targets.simgpu.engine import layout as at

STAY = numbers.STAY


def named_barrier(b, number):
    first = at.CTA_BARRIERS + at.BARRIER * number
    return b.part(f"cta{b.me}")[first : first + at.BARRIER].view(np.int64)


def ticked(b, warp=0):
    clock(b, warp)[0, warp] += 1


def random_clocks(b):
    b.part("clocks").view(np.uint32)[:] = b.random.integers(1, 50, b.part("clocks").nbytes // 4)


@group
def named_barriers():
    made = []
    for threads, there, live, waits, opens in (
        (0, 64, 3, True, True), (0, 32, 3, True, False), (64, 32, 3, True, True), (96, 32, 3, True, False),
        (64, 32, 3, False, True),
        (64, 0, 3, False, False), (0, 32, 2, True, True), (0, 0, 1, True, True),
    ):  # fmt: skip
        for number in (0, 15, 6):
            for races in (False, True):
                b = Bench(races=races)
                if races:
                    random_clocks(b)
                b.set(CTA_LIVE=live)
                b.rows(R(3))[:], b.rows(K(2))[:] = number, threads
                waiting = 0b010 if there else 0
                named_barrier(b, number)[:] = 7, there, waiting
                b.put(1, W_STATUS=at.AT_BARRIER)

                def then(
                    b=b,
                    number=number,
                    threads=threads,
                    there=there,
                    waits=waits,
                    opens=opens,
                    races=races,
                    waiting=waiting,
                ):
                    barrier = named_barrier(b, number)
                    mine = clocks.named_at(WARPS, True, 0) + number
                    if races:
                        clock(b, mine)[:] = np.maximum(clock(b, mine), clock(b, 0))
                        ticked(b)
                    if waits:
                        waiting |= 1
                        b.put(W_WAIT_AT=number)
                    if not opens:
                        barrier[:] = threads, there + 32, waiting
                        if waits:
                            b.put(W_STATUS=at.AT_BARRIER, W_PC=6)
                            return STAY
                        return at.OK
                    barrier[:] = threads, 0, 0
                    for n in range(WARPS):
                        if waiting >> n & 1:
                            b.put(n, W_STATUS=at.RUNNING)
                            if races:
                                clock(b, n)[:] = np.maximum(clock(b, n), clock(b, mine))
                    if races:
                        clock(b, mine)[:] = 0
                    b.set(CTA_PROGRESS=b.get("CTA_PROGRESS") + 1, CTA_EPOCH=8)

                made.append(b.case("BAR", then, A=R(3), B=K(2), I0=0 if waits else 1))
    for number, threads in ((16, 0), (-1, 0), (3, -32)):
        b = Bench()
        b.rows(R(3))[:], b.rows(K(2))[:] = number & ALL, threads & ALL
        made.append(b.case("BAR", lambda: at.BAD_BARRIER, A=R(3), B=K(2)))
    return made


@group
def cluster_clocks():
    """Whoever arrives hands on what it knows; when all have, those that wait get it, and the barrier begins anew."""
    made = []
    come, gone = WARPS, WARPS + 1
    for arrived, opens in ((0, False), (5, True)):
        b = Bench(90, races=True)
        random_clocks(b)
        b.part("cluster").view(np.int64)[:2] = arrived, 6

        def then(b=b, arrived=arrived, opens=opens):
            b.put(W_CLUSTER_PHASE=6)
            b.part("cluster").view(np.int64)[:2] = (0, 7) if opens else (arrived + 1, 6)
            clock(b, come)[:] = np.maximum(clock(b, come), clock(b, 0))
            ticked(b)
            if opens:
                clock(b, gone)[:], clock(b, come)[:] = clock(b, come).copy(), 0
                for n in range(2):
                    b.set(n, CTA_PROGRESS=b.get("CTA_PROGRESS", n) + 1)

        made.append(b.case("UCGABAR_ARV", then))
    for over in (False, True):
        b = Bench(90, races=True)
        random_clocks(b)
        b.part("cluster").view(np.int64)[1] = 4
        b.put(W_CLUSTER_PHASE=3 if over else 4)

        def wait(b=b, over=over):
            if not over:
                b.put(W_STATUS=at.AT_CLUSTER)
                return STAY
            clock(b, 0)[:] = np.maximum(clock(b, 0), clock(b, gone))

        made.append(b.case("UCGABAR_WAIT", wait))
    return made


@group
def cluster_barriers():
    made = []
    for arrived, opens in ((0, False), (4, False), (5, True), (9, True)):
        for opened in (0, 0x80000003):
            b = Bench(90)
            block = b.part("cluster").view(np.int64)
            block[0], block[1] = arrived, opened

            def then(b=b, arrived=arrived, opens=opens, opened=opened):
                block = b.part("cluster").view(np.int64)
                b.put(W_CLUSTER_PHASE=opened & 0x7FFFFFFF)
                block[0], block[1] = (0, opened + 1) if opens else (arrived + 1, opened)
                for n in range(2 if opens else 0):
                    b.set(n, CTA_PROGRESS=b.get("CTA_PROGRESS", n) + 1)

            made.append(b.case("UCGABAR_ARV", then))
    for phase, opened, over in ((3, 3, False), (3, 4, True), (3, 0x80000003, False), (0, 1, True)):
        b = Bench(90)
        b.part("cluster").view(np.int64)[1] = opened
        b.put(W_CLUSTER_PHASE=phase)

        def wait(b=b, over=over):
            if not over:
                b.put(W_STATUS=at.AT_CLUSTER)
                return STAY

        made.append(b.case("UCGABAR_WAIT", wait))
    made += [Bench(90).case(op, None, 0) for op in ("UCGABAR_ARV", "UCGABAR_WAIT")]
    return made


def barrier_word(missing, count, waiting, phase):
    return missing | count << 20 | waiting + (1 << 20) << 40 | 1 << 61 | phase << 62


def put_barrier(b, offset, word, member=None):
    b.part(f"shared{b.me if member is None else member}")[offset : offset + 8].view(np.int64)[0] = word


def asked(b, offset, member=None):
    """The operands of an instruction that names a barrier: a register, a uniform register and an offset."""
    member = b.me if member is None else member
    b.rows(R(3))[:], b.rows(K(2))[:] = b.base + offset - 24 & ALL, member << 24
    return {"A": R(3), "B": K(2), "I0": 24, "C": R(8)}


@group
def mbarrier_arrivals():
    """Arrivals and bytes, in the program and in the other one of its cluster; the phase turns when both are there."""
    made = []
    cases = (  # missing, count, bytes waited for, phase, how, value, lanes, missing, bytes, phase after
        (2, 2, 0, 0, 1, 9, 1, 1, 0, 0), (1, 2, 0, 0, 1, 9, 1, 2, 0, 1), (1, 2, 0, 1, 1, 9, 1, 2, 0, 0),
        (1, 2, 64, 0, 1, 9, 1, 0, 64, 0),
        (1, 1, 0, 0, 5, 128, 1, 0, 128, 0), (5, 5, 0, 0, 2, 3, 1, 2, 0, 0), (3, 5, 0, 0, 2, 3, 1, 5, 0, 1),
        (4, 4, 0, 0, 4, 96, 1, 4, 96, 0),
        (4, 4, 0, 1, 1, 0, 0b10101, 1, 0, 1), (3, 4, 0, 1, 1, 0, 0b10101, 4, 0, 0),
        (0, 4, 8, 0, 0, 7, 1, 0, 8, 0), (2, 7, -16, 0, 5, 16, 1, 1, 0, 0),
        (1, 7, -16, 0, 5, 16, 1, 7, 0, 1), (4, 4, 3, 0, 8, 99, 0b101, 4, 5, 0),
    )  # fmt: skip
    for arch in (80, 90):
        for missing, count, waiting, phase, how, value, mask, left, still, turned in cases:
            for member in range(2 if arch == 90 else 1):
                for races in (False, True):
                    b = Bench(arch, races=races)
                    if races:
                        random_clocks(b)
                    given = asked(b, 48, member)
                    put_barrier(b, 48, barrier_word(missing, count, waiting, phase), member)
                    b.rows(R(8))[0] = np.where(chosen(mask), value, 3)

                    def then(
                        b=b,
                        left=left,
                        count=count,
                        still=still,
                        turned=turned,
                        member=member,
                        mask=mask,
                        races=races,
                    ):
                        put_barrier(b, 48, barrier_word(left, count, still, turned), member)
                        lanes = int(chosen(mask).sum())
                        b.set(member, CTA_PROGRESS=b.get("CTA_PROGRESS", member) + lanes)
                        address = b.base + 48 + (member << 24)
                        mine = b.barrier(address, member)
                        for _ in range(lanes if races else 0):
                            clock(b, mine)[:] = np.maximum(clock(b, mine), clock(b, 0))
                            ticked(b)

                    made.append(b.case("SYNCS_ARRIVE", then, mask, I2=how, **given))
    return made


NO_BARRIERS = (
    (SHARED, 1), (-8, 1), (52, 1), (SHARED - 4, 1), (48, 2), (56, 1), (64, 1),
)  # outside, crooked, another program, nobody's  # fmt: skip


@group
def no_mbarriers():
    made = []
    for op in ("SYNCS_ARRIVE", "SYNCS_PHASE", "SYNCS_EXCH", "SYNCS_CCTL"):
        for offset, member in NO_BARRIERS:
            if op in ("SYNCS_EXCH", "SYNCS_CCTL") and offset in (56, 64):
                continue
            b = Bench(90)
            given = asked(b, offset, member)
            put_barrier(b, 56, (1 << 40) | 5)  # not marked as one
            put_barrier(b, 64, barrier_word(1, 1, 0, 0) - (1 << 63))  # taken back

            def then(b=b, offset=offset, member=member):
                b.set(CTA_ERROR_LANE=4, CTA_ERROR_ADDRESS=(b.base + offset + (member << 24)) & ALL)
                return at.BAD_MBARRIER

            made.append(b.case(op, then, 0x30, I2=1, **given))
    return made


@group
def mbarrier_waits():
    made = []
    for arch in (80, 90):
        for phase in (0, 1):
            for parity in (0, 1):
                for waits in (0, 1):
                    for races in (False, True):
                        b = Bench(arch, races=races)
                        if races:
                            random_clocks(b)
                        offset = SHARED - 8 if waits else 0
                        given = asked(b, offset)
                        put_barrier(b, offset, barrier_word(3, 4, 0, phase))
                        b.rows(R(8))[0] = np.where(LANES == 2, parity << 31 | 0x1234, (1 - parity) << 31)
                        b.predicate(4, 0xA5A5A5A5)
                        over = phase != parity

                        def then(b=b, over=over, waits=waits, parity=parity, offset=offset, races=races):
                            address = b.base + offset + (b.me << 24)
                            mine = b.barrier(address, b.me)
                            if over or not waits:
                                b.predicate(4, 0xA5A5A5A5 & ~0xFC | (0xFC if over else 0))
                                if over and races:
                                    clock(b, 0)[:] = np.maximum(clock(b, 0), clock(b, mine))
                                return at.OK
                            b.put(W_STATUS=at.AT_MBARRIER, W_WAIT_AT=address, W_WAIT_VALUE=parity)
                            return STAY

                        made.append(b.case("SYNCS_PHASE", then, 0xFC, PD=4, I2=waits, **given))
    return made


@group
def mbarriers_made():
    made = []
    for arch in (80, 90):
        for count in (1, 3, (1 << 20) - 1):
            b = Bench(arch)
            given = asked(b, 48)
            b.rows(R(8))[0] = np.where(LANES == 2, (1 << 20) - count << 1, 99)

            def then(b=b, count=count):
                put_barrier(b, 48, barrier_word(count, count, 0, 0))

            made.append(b.case("SYNCS_EXCH", then, 0xFC, **given))
        b = Bench(arch)
        made.append(b.case("SYNCS_CCTL", lambda b=b: put_barrier(b, 48, -1), 0xFC, **asked(b, 48)))
    made += [
        Bench(90).case(op, None, 0, A=R(3), B=K(2), C=R(8))
        for op in ("SYNCS_EXCH", "SYNCS_ARRIVE", "SYNCS_PHASE", "SYNCS_CCTL")
    ]
    return made
