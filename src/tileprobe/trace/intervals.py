"""The interval algebra: what is covered, by both, by one alone, by none, and which intervals fit on one line.

In come NumPy arrays of starts and stops in any order; out go *spans*: an array of rows (start, stop), ascending, that
neither overlap nor touch. Intervals are half open, so an empty one covers nothing. What sums up work (an hour of two
workers is two hours) needs none of this; it is for questions of time, where an hour is an hour.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np

Array = np.ndarray


def merge(start: Array, stop: Array) -> Array:
    """The spans that at least one interval covers."""
    return merge_by(np.zeros(len(start), np.int64), start, stop)[1]


def merge_by(group: Array, start: Array, stop: Array) -> tuple[Array, Array]:
    """The same for each group: the group of each span, ascending, and the spans."""
    group, start, stop = (np.asarray(column) for column in (group, start, stop))
    kept = stop > start
    group, start, stop = group[kept], start[kept], stop[kept]
    order = np.lexsort((start, group))
    group, start, stop = group[order], start[order], _reach(group[order], stop[order])
    if not len(group):
        return group, np.stack([start, stop], axis=1)
    fresh = np.r_[True, (group[1:] != group[:-1]) | (start[1:] > stop[:-1])]
    last = np.r_[np.flatnonzero(fresh)[1:] - 1, len(group) - 1]
    return group[fresh], np.stack([start[fresh], stop[last]], axis=1)


def _reach(group: Array, stop: Array) -> Array:
    """The largest stop so far in each group (groups ascending). Ranks are compared in place of times, so that
    a later group can begin above all earlier ones without rounding anything."""
    times, rank = np.unique(stop, return_inverse=True)
    number = np.cumsum(np.r_[False, group[1:] != group[:-1]]) if len(group) else np.zeros(0, np.int64)
    height = number * len(times)
    return times[np.maximum.accumulate(height + rank) - height]


def length(spans: Array) -> float:
    """How long the spans are in all."""
    return float((spans[:, 1] - spans[:, 0]).sum())


def covered_by(group: Array, start: Array, stop: Array) -> tuple[Array, Array]:
    """For each group that there is, ascending: how long at least one of its intervals runs."""
    group = np.asarray(group)
    groups = np.unique(group)
    owner, spans = merge_by(group, start, stop)
    lengths = np.bincount(np.searchsorted(groups, owner), spans[:, 1] - spans[:, 0], len(groups))
    return groups, lengths


def union(a: Array, b: Array) -> Array:
    return _combine(a, b, np.logical_or)


def intersect(a: Array, b: Array) -> Array:
    """The spans that both cover."""
    return _combine(a, b, np.logical_and)


def subtract(a: Array, b: Array) -> Array:
    """The spans of `a` that `b` does not cover."""
    return _combine(a, b, np.greater)


def gaps(spans: Array, begin: float, end: float) -> Array:
    """The spans between `begin` and `end` that are not covered."""
    return subtract(merge(np.array([begin]), np.array([end])), spans)


def overlap(a: Array, b: Array) -> float:
    """How long both are covered."""
    return length(intersect(a, b))


def _combine(a: Array, b: Array, keep: Callable[[Array, Array], Array]) -> Array:
    """Spans are their borders in ascending order: after an odd number of them one is inside."""
    borders = np.unique(np.concatenate([a.ravel(), b.ravel()]))
    inside = [np.searchsorted(spans.ravel(), borders, "right") % 2 == 1 for spans in (a, b)]
    kept = keep(*inside)
    change = np.flatnonzero(kept != np.r_[False, kept[:-1]]) if len(kept) else np.zeros(0, np.int64)
    return borders[change].reshape(-1, 2)


# -- lines ------------------------------------------------------------------------------------------------


def lanes(group: Array, start: Array, stop: Array) -> Array:
    """For each interval the lane of its group (a unit) that it gets: the lowest that is free when it starts; of
    two that start together the one given first chooses first. Intervals of one lane do not overlap."""
    group, start, stop = (np.asarray(column) for column in (group, start, stop))
    lane = np.zeros(len(group), np.int64)
    order = np.lexsort((start, group))
    ordered, begin, reach = group[order], start[order], _reach(group[order], stop[order])
    crowded = np.unique(ordered[1:][(ordered[1:] == ordered[:-1]) & (begin[1:] < reach[:-1])])
    for one in crowded:  # the others have room on lane 0
        first, end = np.searchsorted(ordered, [one, one + 1])
        mine = order[first:end]
        lane[mine] = _first_free(start[mine].tolist(), stop[mine].tolist())
    return lane


def _first_free(starts: list[float], stops: list[float]) -> list[int]:
    """Lanes of intervals that come in the order of their starts."""
    chosen: list[int] = []
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for start, stop in zip(starts, stops):
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        heappush(busy, (stop, lane))
        chosen.append(lane)
    return chosen


def nesting_lanes(group: Array, start: Array, stop: Array) -> Array:
    """As `lanes`, but what lies within another interval may share its lane: on one lane two intervals are apart or
    one holds the other. Of two that are equal the one given first holds the other."""
    group, start, stop = (np.asarray(column) for column in (group, start, stop))
    lane = np.zeros(len(group), np.int64)
    order = np.lexsort((-stop, start, group))
    ordered = group[order]
    for one in _tangled(ordered, start[order], stop[order]):
        first, end = np.searchsorted(ordered, [one, one + 1])
        mine = order[first:end]
        lane[mine] = _first_that_holds(start[mine].tolist(), stop[mine].tolist())
    return lane


def _tangled(group: Array, start: Array, stop: Array) -> Array:
    """The groups in which intervals cross. They come outer ones first. An interval is a pair of brackets: where all
    nest, the n-th bracket that opens a depth is closed by the n-th that closes it."""
    real = np.flatnonzero(stop > start)
    group, start, stop = group[real], start[real], stop[real]
    number = np.arange(len(group))
    ids = np.r_[number, number]
    closes = np.r_[np.zeros(len(group), bool), np.ones(len(group), bool)]
    times = np.r_[start, stop]
    # at one time inner ones close first, then outer ones open first
    order = np.lexsort((np.where(closes, -ids, ids), ~closes, times, group[ids]))
    ids, closes = ids[order], closes[order]
    depth = np.cumsum(np.where(closes, -1, 1)) + closes
    by_depth = np.lexsort((np.arange(len(ids)), depth, group[ids]))
    pairs = ids[by_depth].reshape(-1, 2)
    return np.unique(group[pairs[pairs[:, 0] != pairs[:, 1]].ravel()])


def _first_that_holds(starts: list[float], stops: list[float]) -> list[int]:
    chosen: list[int] = []
    open_: list[list[float]] = []  # a lane: the stops of what is open on it, outer ones first
    for start, stop in zip(starts, stops):
        lane = 0
        while lane < len(open_) and not _holds(open_[lane], start, stop):
            lane += 1
        if lane == len(open_):
            open_.append([])
        open_[lane].append(stop)
        chosen.append(lane)
    return chosen


def _holds(stack: list[float], start: float, stop: float) -> bool:
    """Whether an interval can be put on a lane, from which what has ended is taken."""
    while stack and stack[-1] <= start:
        stack.pop()
    return not stack or stop <= stack[-1]
