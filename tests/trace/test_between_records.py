"""Iterations that ran between two records and left none, counted by hand for programs of random trip counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprobe.ir.layout import EPOCH, PUSHED, Body, Stamp, allocate
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.trace.cursor import in_sequence, read
from tileprobe.trace.decode import read_rows
from tileprobe.trace.unseen import UNKNOWN, unseen

EVERY = st.builds(Every, st.integers(1, 4), st.integers(-3, 3), st.integers(1, 5))


def counted(layout, blocks, sampling=None):
    """For each record in execution order but a program's first one, before which nothing is asked: its clock, and how
    many iterations lie before it without one."""
    ((rows,), *_) = read_rows(np.stack(blocks), layout, epochs=[1], programs=len(blocks), sampling=sampling)
    pushed = read(rows)
    records = in_sequence(rows, pushed)
    count = zip(records.clock.tolist(), unseen(rows, pushed, records).tolist())
    follows = np.r_[False, records.row[1:] == records.row[:-1]]
    return [one for one, here in zip(count, follows) if here]


def chosen(every, trips, room):
    return [i for i in range(trips) if 0 <= every.index(i, trips) < room]


class Program:
    """One program's block, and what is to be found: each record's clock with the iterations since the one before."""

    def __init__(self, layout, clock, unsure):
        self.layout, self.clock, self.unsure = layout, clock, unsure
        self.words = np.zeros(layout.block_words, np.uint64)
        self.words[EPOCH] = 1
        self.found, self.since = [], 0

    def trip(self, loop, trips, *indices):
        loop = self.layout.loops[loop]
        self.words[loop.trip_base + sum(i * s for i, s in zip(indices, loop.strides))] = 1 << 32 | trips

    def put(self, slot, *indices, sure=False):
        self.clock += 1
        self.words[self.layout.slots[slot].place(indices)] = self.clock
        self.found.append((self.clock, UNKNOWN if self.unsure and not sure else self.since))
        self.since = 0


@pytest.mark.parametrize("around", [True, False])
@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), min_size=1, max_size=3),
    EVERY,
    st.integers(1, 4),
)
def test_iterations_without_records_are_counted(around, programs, every, room):
    """A loop with all its iterations, around one that is sampled and has little room; trip counts differ. With records
    `around` the inner loop, and with none."""
    inner = Body(1, room, (Stamp(1), Stamp(2)))
    whole = [Stamp(0), Body(0, 3, (inner, Stamp(3)) if around else (inner,))]
    layout, clock, made = allocate(whole), 0, []
    for runs in programs:
        one = Program(layout, clock, any(trips and not chosen(every, trips, room) for trips in runs))
        one.trip(0, len(runs))
        one.put(0)
        for n, trips in enumerate(runs):
            one.trip(1, trips, n)
            kept = chosen(every, trips, room)
            for i in range(trips):
                one.since += i not in kept
                if i in kept:
                    one.put(1, n, kept.index(i), sure=i > kept[0])
                    one.put(2, n, kept.index(i), sure=True)
            if around:
                one.put(3, n)
        made.append(one)
        clock = one.clock
    found = counted(layout, [one.words for one in made], Sampling(loops={1: every}))
    if all(len(chosen(every, trips, room)) == trips for runs in programs for trips in runs):
        assert not any(count for _, count in found)
    else:
        assert found == [row for one in made for row in one.found[1:]]


def pushed_block(layout, records, pushed=None):
    words = np.zeros(layout.block_words, np.uint64)
    words[EPOCH], words[PUSHED], base = 1, pushed or len(records), layout.streams[0].cursor_base
    for n, (slot, iteration, clock) in enumerate(records):
        words[base + 2 * n : base + 2 * n + 2] = slot | iteration << 32, clock
    return words


def test_beside_records_that_were_lost_nothing_is_known():
    """A `while` loop with a record in front and two behind: three records fit in, of two programs one lost some."""
    layout = allocate(
        [Stamp(0), Body(0, 4, (Stamp(1),), counted=False), Stamp(2), Stamp(3)], cursor_capacity=3
    )
    blocks = []
    for at, lost in ((100, 0), (200, 4)):
        words = pushed_block(layout, [(1, i, at + 10 + i) for i in range(3)], 3 + lost)
        for slot, clock in ((0, at), (2, at + 50), (3, at + 60)):
            words[layout.slots[slot].place([])] = clock
        blocks.append(words)
    whole = [(110, 0), (111, 0), (112, 0), (150, 0), (160, 0)]
    partly = [(210, UNKNOWN), (211, UNKNOWN), (212, UNKNOWN), (250, UNKNOWN), (260, 0)]
    assert counted(layout, blocks) == [*whole, *partly]
    sampled = counted(layout, blocks[:1], Sampling(loops={0: Every(2)}))
    assert [count for _, count in sampled] == [UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 0]
