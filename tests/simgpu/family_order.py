"""Cases for what orders lanes, warps and programs: branches, convergence, barriers of all kinds."""

from __future__ import annotations

import numpy as np
from family_machine import ALL, LANES, Bench, R, chosen, group
from family_memory import SOME

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import numbers

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
        (1, 0, 0, 0xFF), (2, ALL, 0, 0x0F), (2, 0xFF, 0, 0), (2, 0x1FF, 0x100, 0), (3, ALL, 0, 0),
        (3, 0xFF, 0, 0x0F), (3, 0x1FF, 0x100, 0x0F),
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
def branches_of_some():
    """The lowest lane that goes says for whom; lanes that have exited long ago play no part."""
    made = []
    for how, wanted, go in ((2, 0xFF, 0), (2, 0x1FF, 0xF0), (3, 0xFF, 0xF0), (3, 0x1FF, 0)):
        b = split(0xFF, exited=0xFF000000, rest=(0x00FFFF00, 9, 0), gone=(0xFF000000, 1, 0))
        b.rows(R(3))[:] = ~wanted & ALL
        b.rows(R(3))[0, 4] = wanted

        def then(b=b, go=go):
            if go:
                parked(b, go, UP)
                b.put(W_ACTIVE=0x0F)
            b.put(W_PC=6)
            return LEAVE

        made.append(b.case("BRA", then, 0xF0, PS=at.PT, A=R(3), I0=UP, I1=how))
    b = split(0xFF, exited=0xFF000000, rest=(0x00FFFF00, 9, 0), gone=(0xFF000000, 1, 0))

    def more(b=b):
        b.put(W_ACTIVE=0x00FFFF00, W_EXITED=0xFF0000FF, W_PC=9)
        return LEAVE

    made.append(b.case("EXIT", more, 0xFF))
    b = split(0xFF, exited=0xFFFFFF00)

    def last(b=b):
        b.put(W_ACTIVE=0, W_EXITED=ALL, W_STATUS=at.EXITED)
        return STAY

    made.append(b.case("EXIT", last, 0xFF))
    b = Bench()
    b.rows(R(3))[0] = np.where(LANES == 4, 16 * UP, 16 * np.where(LANES < 4, 50, UP))

    def back(b=b):
        parked(b, 0xF0, UP)
        b.put(W_ACTIVE=ALL & ~0xF0, W_PC=6)
        return LEAVE

    made.append(b.case("RET", back, 0xF0, A=R(3)))
    # three groups at WARPSYNC: {4} alone, {5, 6}, and one that waits on
    b = split(0x70, waiting=(0x0F, 9, at.WAIT_WARPSYNC), rest=(0xFFFFFF80, 2, 0))
    b.rows(R(3))[0] = np.where(LANES == 4, 0x10, 0x60)
    lanes_of(b, at.W_LANE_MASK)[:4] = 0x8F

    def groups(b=b):
        lanes_of(b, at.W_LANE_MASK)[4:7] = 0x10, 0x60, 0x60
        parked(b, 0x70, 6, 0)
        b.put(W_ACTIVE=0xFFFFFF80, W_PC=2)
        return LEAVE

    made.append(b.case("WARPSYNC", groups, 0x70, A=R(3)))
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
        converge(b)[3] = 0
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
    for active, there in ((ALL, 0), (0xFFF0, 0), (0xFFF0, 0xF000F)):  # lanes of before are waited for, too
        b = split(active)
        converge(b)[7] = there

        def kept(b=b, active=active, there=there):
            converge(b)[7] = active | there

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
                converge(b)[3] = 0
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
        converge(b)[3] = 0
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
            converge(b)[number] = 0
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
                converge(b)[3] = 0
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
    made += [
        b.case(op, None, 0, A=R(3), D=R(20))
        for op in ("BMOV_WRITE", "NANOSLEEP", "BAR", "TRAP", "RET", "LEPC", "BSYNC", "WARPSYNC", "BSSY")
    ]
    return made
