"""The interval algebra against sets of integer points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprobe.trace import intervals as iv

PAIRS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=12)
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 8)), max_size=14)


def columns(pairs):
    start = np.array([s for s, _ in pairs], np.int64)
    return start, start + np.array([n for _, n in pairs], np.int64)


def grouped(rows):
    group = np.array([g for g, _, _ in rows], np.int64)
    return group, *columns([row[1:] for row in rows])


def points(start, stop):
    return {t for a, b in zip(start.tolist(), stop.tolist()) for t in range(a, b)}


def check(spans, expected):
    """The spans cover just these points, in order, without touching each other."""
    assert points(spans[:, 0], spans[:, 1]) == expected
    flat = spans.ravel()
    assert (np.diff(flat) > 0).all()
    assert iv.length(spans) == len(expected)


@given(PAIRS, PAIRS)
def test_sets(a, b):
    one, two = iv.merge(*columns(a)), iv.merge(*columns(b))
    left, right = points(*columns(a)), points(*columns(b))
    check(one, left)
    check(iv.union(one, two), left | right)
    check(iv.intersect(one, two), left & right)
    check(iv.subtract(one, two), left - right)
    check(iv.gaps(one, 3, 25), set(range(3, 25)) - left)
    assert iv.overlap(one, two) == len(left & right)


@given(ROWS)
def test_groups(rows):
    group, start, stop = grouped(rows)
    owner, spans = iv.merge_by(group, start, stop)
    groups, lengths = iv.covered_by(group, start, stop)
    assert groups.tolist() == sorted({row[0] for row in rows})
    for one, covered in zip(groups, lengths):
        mine = points(start[group == one], stop[group == one])
        check(spans[owner == one], mine)
        assert covered == len(mine)


def first_fit(rows, fits):
    """The lowest lane that holds the interval, tried one after the other."""
    taken, chosen = {}, {}
    for n in sorted(range(len(rows)), key=lambda n: (rows[n][1], -rows[n][2] * fits.outer_first, n)):
        group, start, size = rows[n]
        lane = 0
        while not all(fits(start, start + size, *other) for other in taken.get((group, lane), [])):
            lane += 1
        taken.setdefault((group, lane), []).append((start, start + size))
        chosen[n] = lane
    return [chosen[n] for n in range(len(rows))]


def apart(a, b, c, d):
    return b <= c or d <= a


def nests(a, b, c, d):
    return apart(a, b, c, d) or (c <= a and b <= d) or (a <= c and d <= b)


apart.outer_first, nests.outer_first = False, True


@given(ROWS)
def test_lanes_are_the_lowest_that_are_free(rows):
    rows = [(g, s, n + 1) for g, s, n in rows]
    assert iv.lanes(*grouped(rows)).tolist() == first_fit(rows, apart)


@given(ROWS)
def test_nesting_lanes_are_the_lowest_that_hold(rows):
    rows = [(g, s, n + 1) for g, s, n in rows]
    assert iv.nesting_lanes(*grouped(rows)).tolist() == first_fit(rows, nests)


@given(ROWS)
def test_empty_intervals_are_never_in_the_way(rows):
    """What is only an instant neither moves others nor is it an error; and no two of a lane cross."""
    group, start, stop = grouped(rows)
    for place, fits in ((iv.lanes, apart), (iv.nesting_lanes, nests)):
        lane = place(group, start, stop)
        kept = [n for n in range(len(rows)) if stop[n] > start[n]]
        for n in kept:
            for m in kept:
                if n < m and (group[n], lane[n]) == (group[m], lane[m]):
                    assert fits(start[n], stop[n], start[m], stop[m])


def test_floats_that_differ_by_little_stay_apart():
    base = 2.0**40
    step = np.spacing(base)
    start = np.array([base, base + 2 * step])
    groups = np.array([0, 0, 10**9, 10**9])
    owner, spans = iv.merge_by(groups, np.r_[start, start], np.r_[start + step, start + step])
    assert len(spans) == 4
    assert owner.tolist() == groups.tolist()


def test_nothing():
    none = np.zeros(0)
    for spans in (iv.merge(none, none), iv.intersect(iv.merge(none, none), iv.merge(none, none))):
        assert spans.shape == (0, 2)
    assert iv.lanes(none, none, none).shape == iv.nesting_lanes(none, none, none).shape == (0,)
    assert iv.covered_by(none, none, none)[1].shape == (0,)
    assert iv.gaps(iv.merge(none, none), 5, 5).shape == (0, 2)


@pytest.mark.parametrize("place", [iv.lanes, iv.nesting_lanes])
def test_a_million_intervals_that_do_not_overlap(place, monkeypatch):
    """No Python for each row: the slow paths are not entered."""
    monkeypatch.setattr(iv, "_first_free", None)
    monkeypatch.setattr(iv, "_first_that_holds", None)
    n = 1_000_000
    start = np.arange(n, dtype=np.float64) * 10
    assert not place(np.arange(n) % 64, start, start + 640).any()


def test_what_has_ended_makes_room_inside_what_has_not():
    """Three deep: behind the inner interval there is room in the outer one, on the same lane."""
    assert iv._first_that_holds([0, 0, 60], [100, 50, 90]) == [0, 0, 0]
    assert iv._first_that_holds([0, 0, 40], [100, 50, 90]) == [0, 0, 1]
