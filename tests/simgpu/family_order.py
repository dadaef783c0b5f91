"""Cases for what orders lanes, warps and programs: branches, convergence, barriers of all kinds."""

from __future__ import annotations

import numpy as np
from family_machine import ALL, LANES, SHARED, WARPS, Bench, K, R, chosen, group
from family_memory import SOME

from tileprobe.targets.simgpu.engine import clocks, numbers
from tileprobe.targets.simgpu.engine import layout as at

LEAVE, STAY, SYSTEM = numbers.LEAVE, numbers.STAY, numbers.SYSTEM
UP, DOWN = 40, 2  # places in the code, behind and before 5
BSYNC_3 = 4  # what lanes at BSYNC of B3 wait for


def lanes_of(b, place):
    return b.warp()[place : place + 128].view(np.uint32)


def converge(b):
    return b.warp()[at.W_CONVERGE : at.W_CONVERGE + 64].view(np.uint32)


def parked(b, mask, pc, wait=0):
    on = chosen(mask)
    lanes_of(b, at.W_LANE_PC)[on] = pc
    lanes_of(b, at.W_LANE_WAIT)[on] = wait


def split(active, exited=0, **groups):
    """A warp of which only some lanes are active. Groups: name=(mask, pc, wait)."""
    b = Bench()
    b.put(W_ACTIVE=active, W_EXITED=exited)
    for mask, pc, wait in groups.values():
        parked(b, mask, pc, wait)
    return b


@group
def branches():
    made = []
    for active in (ALL, 0x0000FFFF):
        for taken in (ALL, 0, SOME):
            for target in (UP, DOWN, 5):
                for negated in (False, True):
                    b = split(active, rest=(~active & ALL, 9, 0))
                    b.predicate(2, ~taken & ALL if negated else taken)
                    mask = active & 0x7FFFFFFF
                    go = mask & taken

                    def then(b=b, active=active, go=go, target=target):
                        rest = active & ~go
                        if not rest:
                            b.put(W_PC=target)
                        elif not go:
                            b.put(W_PC=6)
                        elif target <= 5:
                            parked(b, rest, 6)
                            b.put(W_ACTIVE=go, W_PC=target)
                        else:
                            parked(b, go, target)
                            b.put(W_ACTIVE=rest, W_PC=6)
                        return LEAVE

                    made.append(b.case("BRA", then, mask, PS=2 | at.NEGATED * negated, I0=target))
    # all that are here if one goes; only if others are elsewhere; only if none is
    for how, wanted, exited, go in (
        (1, 0, 0, 0xFF), (2, ALL, 0, 0x0F), (2, 0xFF, 0, 0), (2, 0x1FF, 0x100, 0), (3, ALL, 0, 0), (3, 0xFF, 0, 0x0F), (3, 0x1FF, 0x100, 0x0F),
        (2, 0x1FF, 0, 0x0F), (3, 0x1FF, 0, 0), (1, 0, 0, 0), (2, ALL, 0, 0), (3, 0xFF, 0, 0),
    ):  # fmt: skip
        mask = 0x0F if go or how > 1 else 0
        if (how, wanted, go) in ((2, ALL, 0), (3, 0xFF, 0)):  # no lane goes: none is asked
            mask = 0
        b = split(0xFF, exited, rest=(0xFFFFFF00 & ~exited, 9, 0))
        b.rows(R(3))[:] = wanted

        def then(b=b, how=how, go=go):
            if go == 0xFF:
                b.put(W_PC=UP)
            elif go:
                parked(b, go, UP)
                b.put(W_ACTIVE=0xF0, W_PC=6)
            else:
                b.put(W_PC=6)
            return LEAVE

        made.append(b.case("BRA", then, mask, PS=at.PT, A=R(3), I0=UP, I1=how))
    return made


@group
def exits():
    made = []
    b = Bench()

    def gone(b=b):
        b.put(W_ACTIVE=0, W_EXITED=ALL, W_STATUS=at.EXITED)
        return STAY

    made.append(b.case("EXIT", gone))
    b = split(0xFF, rest=(0xFFFFFF00, 9, 0))

    def some(b=b):
        b.put(W_ACTIVE=0xF0, W_EXITED=0x0F, W_PC=6)
        return LEAVE

    made.append(b.case("EXIT", some, 0x0F))
    # the others: those furthest back are taken up
    b = split(0xFF, first=(0xFF00, 9, 0), second=(0xF0000, 8, 0), third=(0xFFF00000, 30, 0))

    def others(b=b):
        b.put(W_ACTIVE=0xF0000, W_EXITED=0xFF, W_PC=8)
        return LEAVE

    made.append(b.case("EXIT", others, 0xFF))
    # lanes that waited for those at B3 go on
    b = split(0xFF, waiting=(0xFF00, 9, BSYNC_3), more=(0xFFFF0000, 30, BSYNC_3 + 1))
    converge(b)[3], converge(b)[4] = 0xFFFF, ALL
    lanes_of(b, at.W_LANE_MASK)[:] = ALL

    def freed(b=b):
        b.put(W_ACTIVE=0xFF00, W_EXITED=0xFF, W_PC=9)
        parked(b, 0xFF00, 9, 0)
        return LEAVE

    made.append(b.case("EXIT", freed, 0xFF))
    # nobody can go on
    b = split(0xFF, waiting=(0xFF00, 9, BSYNC_3), more=(0xFFFF0000, 30, BSYNC_3 + 1))
    converge(b)[3], converge(b)[4] = ALL, ALL

    def stuck(b=b):
        b.put(W_ACTIVE=0, W_EXITED=0xFF)
        return at.NOT_CONVERGED

    made.append(b.case("EXIT", stuck, 0xFF))
    made.append(Bench().case("EXIT", None, 0))
    return made


@group
def convergence():
    made = []
    for active in (ALL, 0xFFF0):
        b = split(active)

        def kept(b=b, active=active):
            converge(b)[7] = active

        made.append(b.case("BSSY", kept, active & ~1, I0=7))
    # the last ones arrive at B3, and all go on, the lowest place first
    for active, mask, freed in ((0xFF, 0xFF, True), (0xFF, 0x0F, False), (0xFF, 0xFF, False)):
        b = split(active, waiting=(0xFFFFFF00, 6, BSYNC_3))
        converge(b)[3] = ALL if freed or mask != 0xFF else ALL & ~0x10
        if not freed and mask == 0xFF:  # B3 waits for a lane that is elsewhere
            parked(b, 0x80000000, 20, 0)

        def then(b=b, mask=mask, freed=freed):
            parked(b, mask, 6, BSYNC_3)
            if freed:
                parked(b, ALL, 6, 0)
                b.put(W_ACTIVE=ALL, W_PC=6)
            elif mask == 0xFF:
                b.put(W_ACTIVE=0x80000000, W_PC=20)
            else:
                b.put(W_ACTIVE=0xF0, W_PC=6)
            return LEAVE

        made.append(b.case("BSYNC", then, mask, I0=3))
    # all wait for one that has exited, or for one that waits elsewhere
    b = split(0xFF, exited=0xFF00, waiting=(0xFFFF0000, 6, BSYNC_3))
    converge(b)[3] = ALL

    def left(b=b):
        parked(b, 0xFFFF00FF, 6, 0)
        b.put(W_ACTIVE=0xFFFF00FF, W_PC=6)
        return LEAVE

    made.append(b.case("BSYNC", left, 0xFF, I0=3))
    b = split(0xFF, waiting=(0xFFFFFF00, 6, BSYNC_3 + 1))
    converge(b)[3], converge(b)[4] = ALL, ALL

    def stuck(b=b):
        parked(b, 0xFF, 6, BSYNC_3)
        b.put(W_ACTIVE=0)
        return at.NOT_CONVERGED

    made.append(b.case("BSYNC", stuck, 0xFF, I0=3))
    # B0 and B15, the first and the last
    for number in (0, 15):
        b = split(0xFF, waiting=(0xFF00, 6, 1 + number), more=(0xFFFF0000, 3, 0))
        converge(b)[number] = 0xFFFF

        def end(b=b, number=number):
            parked(b, 0xFFFF, 6, 0)
            b.put(W_ACTIVE=0xFFFF0000, W_PC=3)
            return LEAVE

        made.append(b.case("BSYNC", end, 0xFF, I0=number))
    # BREAK: lanes are no longer waited for; those that waited for them go on
    for held in (ALL, 0x3C):
        b = split(0xFF, waiting=(0xFFFFFF00, 9, BSYNC_3))
        converge(b)[3] = ALL & ~0xC0 if held == ALL else 0xFFFFFF3C
        b.predicate(2, held)

        def broken(b=b, held=held):
            converge(b)[3] = int(converge(b)[3]) & ~(0x3F & held)
            if int(converge(b)[3]) & 0xFF == 0:
                parked(b, 0xFFFFFF00, 9, 0)

        made.append(b.case("BREAK", broken, 0x3F, PS=2, I0=3))
    return made


@group
def warps_in_step():
    """WARPSYNC: lanes wait for those that they name; groups are let go apart."""
    made = []
    b = Bench()
    b.rows(R(3))[:] = ALL

    def all_there(b=b):
        lanes_of(b, at.W_LANE_MASK)[:] = ALL
        parked(b, ALL, 6, 0)
        b.put(W_ACTIVE=ALL, W_PC=6)
        return LEAVE

    made.append(b.case("WARPSYNC", all_there, A=R(3)))
    # two groups that name each of them itself; a third one waits on
    b = split(0xFF, waiting=(0xFF00, 9, at.WAIT_WARPSYNC), rest=(0xFFFF0000, 2, 0))
    b.rows(R(3))[0] = np.where(LANES < 4, 0x0F, 0xF0F0)
    lanes_of(b, at.W_LANE_MASK)[8:16] = np.where(LANES[8:16] < 12, 0x10F00, 0xF0F0)

    def some(b=b):
        lanes_of(b, at.W_LANE_MASK)[:8] = [0x0F] * 4 + [0xF0F0] * 4
        parked(b, 0xFF, 6, 0)
        parked(b, 0xF000, 9, 0)
        b.put(W_ACTIVE=0xFFFF0000, W_PC=2)
        return LEAVE

    made.append(b.case("WARPSYNC", some, 0xFF, A=R(3)))
    # one that has exited is not waited for; lanes that do not come here go on
    b = split(0xFF, exited=0xFFFFFF00)
    b.rows(R(3))[:] = ALL

    def exited(b=b):
        lanes_of(b, at.W_LANE_MASK)[:4] = ALL
        parked(b, 0x0F, 6, at.WAIT_WARPSYNC)
        b.put(W_ACTIVE=0xF0, W_PC=6)
        return LEAVE

    made.append(b.case("WARPSYNC", exited, 0x0F, A=R(3)))
    b = split(0xFF, exited=0xFFFFFF00)
    b.rows(R(3))[:] = ALL

    def over(b=b):
        lanes_of(b, at.W_LANE_MASK)[:8] = ALL
        parked(b, 0xFF, 6, 0)
        b.put(W_ACTIVE=0xFF, W_PC=6)
        return LEAVE

    made.append(b.case("WARPSYNC", over, 0xFF, A=R(3)))
    return made


@group
def calls_and_returns():
    made = []
    for mask in (ALL, SOME):  # all to one place, or each to its own
        for same in (True, False):
            for place in (UP, DOWN):
                b = Bench()
                places = np.full(32, place) if same else np.where(LANES % 3 == 0, 30, 20)
                b.rows(R(3))[0] = 16 * places + LANES % 16
                b.rows(R(3))[0, ~chosen(mask)] = 16 * 50

                def then(b=b, mask=mask, same=same, places=places, place=place):
                    rest = ALL & ~mask
                    if not same:
                        parked(b, rest, 6)
                        lanes_of(b, at.W_LANE_PC)[chosen(mask)] = places[chosen(mask)]
                        group = rest or int(sum(1 << n for n in range(32) if places[n] == 20))
                        b.put(W_ACTIVE=group, W_PC=6 if rest else 20)
                    elif not rest:
                        b.put(W_PC=place)
                    elif place <= 5:
                        parked(b, rest, 6)
                        b.put(W_ACTIVE=mask, W_PC=place)
                    else:
                        parked(b, mask, place)
                        b.put(W_ACTIVE=rest, W_PC=6)
                    return LEAVE

                made.append(b.case("RET", then, mask, A=R(3)))
    b = Bench()
    b.pairs(R(3), np.arange(32) * (1 << 33) + 5)

    def called(b=b):
        b.set(CTA_ERROR_ADDRESS=2 * (1 << 33) + 5, CTA_ERROR_MORE=0xFC)
        b.put(W_PC=6)
        return SYSTEM

    made.append(b.case("CALL_REGISTER", called, 0xFC, A=R(3)))
    for place, mask in ((-1, SOME), (0, ALL), (9, SOME)):
        b = Bench()

        def lepc(b=b, place=place, mask=mask):
            b.rows(R(20), 2)[0, chosen(mask)] = 16 * (5 if place < 0 else place)
            b.rows(R(20), 2)[1, chosen(mask)] = at.CODE_WINDOW >> 32

        made.append(b.case("LEPC", lepc, mask, D=R(20), I0=place))
    return made


@group
def moves_and_sleeps():
    made = []
    for clear in (0, 1):
        b = Bench()
        converge(b)[6] = 0xCAFE

        def read(b=b, clear=clear):
            b.rows(R(20))[0, chosen(SOME)] = 0xCAFE
            if clear:
                converge(b)[6] = 0

        made.append(b.case("BMOV_READ", read, SOME, D=R(20), I0=6, I1=clear))
    b = Bench()

    def write(b=b):
        converge(b)[6] = b.rows(R(3))[0, 2]

    made.append(b.case("BMOV_WRITE", write, 0xFC, A=R(3), I0=6))

    def slept(b=b):
        b.put(W_PC=6)
        return STAY

    made.append(b.case("NANOSLEEP", slept))
    made.append(b.case("NOP"))
    made.append(b.case("TRAP", lambda: at.TRAP))
    made += [b.case(op, None, 0, A=R(3), D=R(20)) for op in ("BMOV_WRITE", "NANOSLEEP", "BAR", "TRAP", "RET", "LEPC", "BSYNC", "WARPSYNC", "BSSY")]
    return made


# -- barriers ------------------------------------------------------------------------------------------------------


def named_barrier(b, number):
    first = at.CTA_BARRIERS + at.BARRIER * number
    return b.part(f"cta{b.me}")[first : first + at.BARRIER].view(np.int64)


def clock(b, subject):
    """What a warp or barrier knows, and what of it has passed a fence: two rows of agents."""
    return b.part("clocks").view(np.uint32).reshape(b.subjects, 2, b.agents)[subject]


def ticked(b, warp=0):
    clock(b, warp)[0, warp] += 1


def random_clocks(b):
    b.part("clocks").view(np.uint32)[:] = b.random.integers(1, 50, b.part("clocks").nbytes // 4)


@group
def named_barriers():
    made = []
    for threads, there, live, waits, opens in (
        (0, 64, 3, True, True), (0, 32, 3, True, False), (64, 32, 3, True, True), (96, 32, 3, True, False), (64, 32, 3, False, True),
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

                def then(b=b, number=number, threads=threads, there=there, waits=waits, opens=opens, races=races, waiting=waiting):
                    barrier = named_barrier(b, number)
                    mine = WARPS + number
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
        (2, 2, 0, 0, 1, 9, 1, 1, 0, 0), (1, 2, 0, 0, 1, 9, 1, 2, 0, 1), (1, 2, 0, 1, 1, 9, 1, 2, 0, 0), (1, 2, 64, 0, 1, 9, 1, 0, 64, 0),
        (1, 1, 0, 0, 5, 128, 1, 0, 128, 0), (5, 5, 0, 0, 2, 3, 1, 2, 0, 0), (3, 5, 0, 0, 2, 3, 1, 5, 0, 1), (4, 4, 0, 0, 4, 96, 1, 4, 96, 0),
        (4, 4, 0, 1, 1, 0, 0b10101, 1, 0, 1), (3, 4, 0, 1, 1, 0, 0b10101, 4, 0, 0), (0, 4, 8, 0, 0, 7, 1, 0, 8, 0), (2, 7, -16, 0, 5, 16, 1, 1, 0, 0),
        (1, 7, -16, 0, 5, 16, 1, 7, 0, 1),
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

                    def then(b=b, left=left, count=count, still=still, turned=turned, member=member, mask=mask, races=races):
                        put_barrier(b, 48, barrier_word(left, count, still, turned), member)
                        lanes = int(chosen(mask).sum())
                        b.set(member, CTA_PROGRESS=b.get("CTA_PROGRESS", member) + lanes)
                        address = b.base + 48 + (member << 24)
                        mine = WARPS + clocks.NAMED + (address >> 3 & clocks.IN_MEMORY - 1)
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
                            mine = WARPS + clocks.NAMED + (address >> 3 & clocks.IN_MEMORY - 1)
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
    made += [Bench(90).case(op, None, 0, A=R(3), B=K(2), C=R(8)) for op in ("SYNCS_EXCH", "SYNCS_ARRIVE", "SYNCS_PHASE", "SYNCS_CCTL")]
    return made
