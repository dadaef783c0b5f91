"""Which run of a loop a record of the cursor's segment belongs to, also where runs have one iteration only."""

import numpy as np
import pytest

from tileprobe.ir.layout import EPOCH, PUSHED, Body, Span, Stamp, allocate
from tileprobe.trace.decode import decode


def _runs(trips, slots, outer_slots, branches=()):
    """Decodes a `while` in a `while` whose inner loop has these trip counts; the runs that the spans show."""
    inner = Body(1, 4, tuple(Stamp(n) for n in slots), counted=False)
    outer = Body(0, 4, (*(Stamp(n) for n in outer_slots), inner), counted=False)
    spans = [Span(n, slot, slot, "mark") for n, slot in enumerate(slots)]
    layout = allocate([outer], spans=spans, cursor_capacity=100)
    pushed, expected = [], {slot: [] for slot in slots}
    for run, trip in enumerate(trips):
        pushed += [(slot, run) for slot in outer_slots]
        for iteration in range(trip):
            for slot in slots:
                if (run, slot) not in branches:
                    pushed.append((slot, iteration))
                    expected[slot].append((iteration, run))
    words = np.zeros(layout.block_words, np.uint64)
    words[EPOCH], words[PUSHED], base = 1, len(pushed), layout.streams[0].cursor_base
    for n, (slot, iteration) in enumerate(pushed):
        words[base + 2 * n : base + 2 * n + 2] = slot | iteration << 32, 100 + n
    columns = decode(words, layout, epochs=[1], programs=1).columns
    found = {slot: [] for slot in slots}
    for region, iteration, outer in zip(columns["region"], columns["iteration"], columns["outer"]):
        found[slots[region]].append((int(iteration), int(outer)))
    return found, expected


@pytest.mark.parametrize("trips", [(1, 1, 1), (3, 1, 1, 2), (1, 2, 1), (2, 5, 5)])
@pytest.mark.parametrize("outer_slots", [(), (0,)])
def test_runs_of_one_iteration_are_told_apart(trips, outer_slots):
    slots = [n + len(outer_slots) for n in range(2)]
    found, expected = _runs(trips, slots, outer_slots)
    assert found == expected


def test_a_record_outside_tells_runs_apart_that_begin_differently():
    found, expected = _runs((1, 1), [1, 2], (0,), branches=[(0, 1)])
    assert found == expected


def test_a_start_without_its_stop_does_not_meet_the_stop_of_the_next_iteration():
    """The stop of iteration 3 and the start of iteration 4 were not recorded."""
    body = Body(0, 8, (Stamp(0), Stamp(1)), counted=False)
    layout = allocate([body], spans=[Span(0, 0, 1)], cursor_capacity=100)
    words = np.zeros(layout.block_words, np.uint64)
    pushed = [(0, 2), (1, 2), (0, 3), (1, 4), (0, 5), (1, 5)]
    words[EPOCH], words[PUSHED], base = 1, len(pushed), layout.streams[0].cursor_base
    for n, (slot, iteration) in enumerate(pushed):
        words[base + 2 * n : base + 2 * n + 2] = slot | iteration << 32, 100 + n
    columns = decode(words, layout, epochs=[1], programs=1).columns
    assert columns["iteration"].tolist() == [2, 5]
    assert (columns["stop"] - columns["start"]).tolist() == [1, 1]


def test_runs_of_one_iteration_behind_the_end_of_a_longer_one_are_told_apart():
    """A segment that was written round and round begins in the middle of a run: iterations 5 and 6, then three runs of
    one iteration each."""
    inner = Body(1, 4, (Stamp(0),), counted=False)
    layout = allocate([Body(0, 4, (inner,), counted=False)], spans=[Span(0, 0, 0, "mark")], cursor_capacity=5)
    words = np.zeros(layout.block_words, np.uint64)
    words[EPOCH], words[PUSHED], base = 1, 5, layout.streams[0].cursor_base
    for n, iteration in enumerate([5, 6, 0, 0, 0]):
        words[base + 2 * n : base + 2 * n + 2] = iteration << 32, 100 + n
    columns = decode(words, layout, epochs=[1], programs=1).columns
    assert list(zip(columns["iteration"].tolist(), columns["outer"].tolist())) == [
        (5, 0),
        (6, 0),
        (0, 1),
        (0, 2),
        (0, 3),
    ]
