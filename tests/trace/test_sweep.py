"""Sweeps over intervals, against a look at every nanosecond."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprobe.trace.sweep import KINDS, at_once, innermost, states

TIMES = st.integers(0, 12)
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), TIMES, TIMES), max_size=14)


def columns(rows):
    return tuple(np.array(column) for column in zip(*rows)) if rows else (np.zeros(0, int),) * 4


@given(ROWS)
def test_kinds_at_each_moment(rows):
    group, kind, start, stop = columns(rows)
    found = states(group, kind, start.astype(float), stop.astype(float))
    assert (found.stop > found.start).all()
    seen = {}
    for n in range(len(found.group)):
        for t in range(int(found.start[n]), int(found.stop[n])):
            assert (found.group[n], t) not in seen
            seen[found.group[n], t] = found.mask[n]
    for g in range(3):
        for t in range(13):
            here = sum(1 << k for k in {k for q, k, a, b in rows if q == g and a <= t < b})
            assert seen.get((g, t), 0) == here


@given(ROWS)
def test_how_many_at_each_moment(rows):
    group, _, start, stop = columns(rows)
    found = at_once(group, start, stop)
    assert (found.stop > found.start).all()
    seen = {}
    for n in range(len(found.group)):
        for t in range(int(found.start[n]), int(found.stop[n])):
            seen[found.group[n], t] = found.mask[n]
    for g in range(3):
        for t in range(13):
            assert seen.get((g, t), 0) == sum(1 for q, _, a, b in rows if q == g and a <= t < b)


@st.composite
def nested(draw, low=0, high=16, depth=3):
    """Intervals one within the other or apart, as the regions of a stream."""
    rows, at = [], low
    while at < high and draw(st.booleans()):
        start = draw(st.integers(at, high))
        stop = draw(st.integers(start, high))
        rows.append((start, stop))
        if depth:
            rows += draw(nested(start, stop, depth - 1))
        at = stop + draw(st.integers(0, 2))
    return rows


@given(st.lists(nested(), min_size=1, max_size=3))
def test_the_innermost_at_each_moment(streams):
    rows = [(g, a, b) for g, stream in enumerate(streams) for a, b in stream]
    group, start, stop = (np.array(c) for c in zip(*rows)) if rows else (np.zeros(0, int),) * 3
    found = innermost(group, start, stop)
    seen = {}
    for n in range(len(found.group)):
        for t in range(int(found.start[n]), int(found.stop[n])):
            assert (found.group[n], t) not in seen
            seen[found.group[n], t] = found.index[n]
    for g in range(len(streams)):
        for t in range(17):
            around = [(b - a, n) for n, (q, a, b) in enumerate(rows) if q == g and a <= t < b]
            assert ((g, t) in seen) == bool(around)
            if around:
                a, b = rows[seen[g, t]][1:]
                assert (g, t) in seen and b - a == min(around)[0] and a <= t < b


@given(ROWS)
def test_what_crosses_keeps_all_its_time(rows):
    group, _, start, stop = columns(rows)
    found = innermost(group, start, stop)
    assert (found.start >= start[found.index]).all() and (found.stop <= stop[found.index]).all()
    covered = {(g, t) for g, a, b in zip(found.group, found.start, found.stop) for t in range(a, b)}
    assert covered == {(g, t) for g, _, a, b in rows for t in range(a, b)}


def test_more_kinds_than_bits_are_refused():
    with pytest.raises(ValueError, match="kinds are numbers from 0 to 61"):
        states(np.zeros(1), np.array([KINDS]), np.zeros(1), np.ones(1))
