"""Cases for what the engine's loop calls between instructions: turns of lanes, arrivals of copies, a warp that exits.

They are functions of a warp or of a program and stand in no table; `LOOP` says which, and `family_machine` gives them
the form of an instruction's.
"""

from __future__ import annotations

import numpy as np
from family_arrivals import put_arrival, word, words_of
from family_barriers import barrier_word, named_barrier, put_barrier
from family_copies import done, entry, filled
from family_machine import ALL, LANES, Bench, bits, chosen, group, near
from family_memory import SOME

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import shadow
from tileprobe.targets.simgpu.engine.copies import COPY, RING
from tileprobe.targets.simgpu.engine.mbarriers import ARRIVAL, BYTE, WORD


def lanes_of(b, place, n=0):
    return b.warp(n)[place : place + 128].view(np.int32)


@group
def turns():
    """The first lane that could go on does, with all that are at its place; those that ran wait for nothing."""
    made = []
    masks = (
        (0xFFFF0000, 0),
        (0x0000FFFE, 0),
        (0x7FFFFFFF, 0),
        (0x00FF00FF, 0x0F000F00),
        (ALL, 0),
        (1, ALL - 1),
    )
    for n, (active, exited) in enumerate((*masks, (0xFFFFFFFE, 0), (0xFFFFFFFD, 0), (0x80000001, 2), (6, 1))):
        for waits in (0, 1, 2):
            b = Bench(seed=n)
            b.put(1, W_ACTIVE=active, W_EXITED=exited, W_PC=40)
            places, wait = lanes_of(b, at.W_LANE_PC, 1), lanes_of(b, at.W_LANE_WAIT, 1)
            places[:] = b.random.choice([7, 9], 32)
            wait[:] = b.random.choice([0, 0, 1, -1], 32) if waits == 1 else waits

            def then(b=b, active=active, exited=exited):
                places, wait = lanes_of(b, at.W_LANE_PC, 1), lanes_of(b, at.W_LANE_WAIT, 1)
                ready = ~chosen(active | exited) & (wait == 0)
                if not ready.any():
                    return
                there = int(places[ready][0])
                b.put(1, W_ACTIVE=bits(ready & (places == there)), W_PC=there)
                places[chosen(active)], wait[chosen(active)] = 40, 0

            made.append(b.case("rotate", then, warp=1))
    return made


@group
def newest_copies():
    made = []
    for count in (1, 2, 40, RING, RING + 1, 2 * RING + 7):
        b = Bench(seed=count)
        b.put(2, W_COPIES_MADE=count)
        for n in range(RING):
            words, *_ = entry(b, n)
            words[:] = b.random.integers(0, 1 << 32, 4)

        def then(b=b, count=count):
            words, *_ = entry(b, (count - 1) % RING)
            return int(words[0]) & ~int(words[1])

        made.append(b.case("loaded_last", then, warp=2))
    return made


def put_barriers(b, how, there):
    """One at 48 with nine arrivals missing; or nothing that is one."""
    if how == WORD:
        words_of(b)[6] = word(9, 11, 1)
    else:
        put_barrier(b, 48, barrier_word(9, 11, 20, 1) if there else 5)


def arrived(b, how, lanes):
    """So many arrivals at it."""
    if how == WORD:
        words_of(b)[6] = word(9 - lanes, 11, 1)
    else:
        left = (9 - lanes, 20) if how == ARRIVAL else (9, 20 - lanes)
        put_barrier(b, 48, barrier_word(left[0], 11, left[1], 1))
        b.set(CTA_PROGRESS=b.get("CTA_PROGRESS") + lanes)


# Copies (c) and arrivals (a) of a warp that are under way, and how many of them an arrival is among or behind.
_QUEUES = (("", 0), ("cc", 0), ("a", 1), ("ca", 2), ("cac", 2), ("acca", 4), ("cacac", 4), ("aa", 2))


@group
def arrivals_of_all_warps():
    made = []
    for arch, how in ((80, WORD), (90, ARRIVAL), (90, BYTE)):
        for first in (0, RING - 2):
            for n, (queue, finished) in enumerate(_QUEUES):
                for there in (True, False) if arch == 90 and "a" in queue else (True,):
                    for others in (0, 1, 2):
                        made.append(
                            _arrivals(Bench(arch, seed=n), how, first, queue, finished, there, others)
                        )
    return made


def _arrivals(b, how, first, queue, finished, there, mine):
    """The queue is that of one warp; another one has an arrival, too, and one only copies."""
    other = (mine + 1) % 3
    far = b.base + 48 + (b.me << 24) * (b.arch == 90)
    put_barriers(b, how, there)
    b.set(CTA_ARRIVALS=9)
    b.put(mine, W_COPIES_MADE=first + len(queue), W_COPIES_DONE=first)
    b.put(other, W_COPIES_MADE=21, W_COPIES_DONE=20)
    b.put((mine + 2) % 3, W_COPIES_MADE=31, W_COPIES_DONE=30)
    filled(b, 30)
    put_arrival(b, 20, 0b100, 17, how, 0, far, 8)
    for k, kind in enumerate(queue):
        place = (first + k) % RING
        if kind == "c":
            filled(b, place)
            entry(b, place)[2][:] = b.at(f"shared{b.me}") + 1024 + 128 * k + 4 * LANES
        else:
            put_arrival(b, place, 0b1010, 5 + k, how, 0, far, 3 + k)

    def then():
        lanes = 0
        for warp in sorted((mine, other)):
            if warp == other:
                b.set(CTA_ARRIVALS=b.get("CTA_ARRIVALS") - 1)
                b.put(other, W_COPIES_DONE=21)
                lanes += 1
                if not there:
                    return _refused(b, 2, far, 8)
                continue
            for k in range(finished):
                if queue[k] == "c":
                    done(b, (first + k) % RING)
                    continue
                b.set(CTA_ARRIVALS=b.get("CTA_ARRIVALS") - 1)
                lanes += 2
                if not there:
                    b.put(mine, W_COPIES_DONE=first + k + 1)
                    return _refused(b, 1, far, 3 + k)
            b.put(mine, W_COPIES_DONE=first + finished)
        arrived(b, how, lanes)
        return at.OK

    return b.case("arrive_all", then)


@group
def arrivals_told():
    """What the checks hear of the copies before an arrival: the time at which the warp arrived."""
    b = Bench(checks=True)
    put_barriers(b, WORD, True)
    b.set(CTA_ARRIVALS=1)
    b.put(W_COPIES_MADE=12, W_COPIES_DONE=10)
    filled(b, 10)
    entry(b, 10)[2][:] = b.at("shared0") + 1024 + 4 * LANES
    put_arrival(b, 11, 0b1010, 77, WORD, 0, 48)

    def then():
        done(b, 10)
        arrived(b, WORD, 2)
        b.set(CTA_ARRIVALS=0)
        b.put(W_COPIES_DONE=12)

    told = [(shadow.COPIED, near(1, COPY * 10 + 272), SOME, 4, 3 | 77 << 32)]
    return [b.case("arrive_all", then, told=told)]


def _refused(b, lane, address, pc):
    b.set(CTA_ERROR_LANE=lane, CTA_ERROR_ADDRESS=address, CTA_ERROR_MORE=0, CTA_ERROR_PC=pc)
    return at.BAD_MBARRIER


@group
def warps_that_exit():
    """Barriers of all that live open when those that are left are there; others wait for the number they were given."""
    made = []
    for live in (3, 2, 1):
        for number in (0, 3, 15):
            for threads, there, waiting in (
                (0, 64, 0b110),
                (0, 32, 0b010),
                (0, 0, 0),
                (64, 32, 0b010),
                (0, 64, 0),
            ):
                b = Bench()
                b.set(CTA_LIVE=live)
                named_barrier(b, number)[:] = threads, there, waiting
                for n in LANES[:3][[bool(waiting >> k & 1) for k in range(3)]]:
                    b.put(int(n), W_STATUS=at.AT_BARRIER)

                def then(b=b, live=live, number=number, threads=threads, there=there, waiting=waiting):
                    b.set(CTA_LIVE=live - 1)
                    if waiting and not threads and live > 1 and there >= 32 * (live - 1):
                        named_barrier(b, number)[1:] = 0
                        b.set(CTA_PROGRESS=b.get("CTA_PROGRESS") + 1, CTA_EPOCH=b.get("CTA_EPOCH") + 1)
                        for n in range(3):
                            if waiting >> n & 1:
                                b.put(n, W_STATUS=at.RUNNING)

                made.append(b.case("one_less", then))
    return made
