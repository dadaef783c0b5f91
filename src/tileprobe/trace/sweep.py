"""Sweeps over intervals: what is innermost at each moment, which kinds run at once, how many.

In come NumPy columns in any order; out go pieces of time that do not overlap within their group. Each is one sort and a
few passes over arrays, so that a million intervals take about a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileprobe.trace.intervals import merge_by, nesting_lanes

Array = np.ndarray
KINDS = 62  # that one sweep can tell apart: the bits of a number


@dataclass(frozen=True)
class Pieces:
    """Pieces of time: the group each is in, which of the intervals given it belongs to, start and stop."""

    group: Array
    index: Array
    start: Array
    stop: Array

    @property
    def length(self) -> Array:
        return self.stop - self.start


def innermost(group: Array, start: Array, stop: Array) -> Pieces:
    """Every moment of a group, with the innermost interval around it; of equal ones the last given. Intervals that
    cross are on lines of their own, so that only there pieces of one group overlap."""
    group, start, stop = (np.asarray(column) for column in (group, start, stop))
    real = np.flatnonzero(stop > start)
    line = nesting_lanes(group[real], start[real], stop[real])
    order = np.lexsort((-stop[real], start[real], line, group[real]))  # outer ones first
    index = real[order]
    row = _numbered(group[index], line[order])
    count = len(index)
    ids = np.tile(np.arange(count), 2)
    closes = np.repeat([False, True], count)
    time = np.r_[start[index], stop[index]]
    # at one time inner ones close first, then outer ones open first
    events = np.lexsort((np.where(closes, -ids, ids), ~closes, time, row[ids]))
    ids, closes, time = ids[events], closes[events], time[events]
    depth = np.cumsum(np.where(closes, -1, 1))
    inside = _last_opened(depth, ids, closes)
    kept = np.flatnonzero((depth > 0) & (time < np.r_[time[1:], time[-1:]]))
    found = index[inside[kept]]
    return Pieces(group[found], found, time[kept], time[kept + 1])


def _last_opened(depth: Array, ids: Array, closes: Array) -> Array:
    """For each event the interval that is open at its depth: the last one that opened it. Where intervals nest, the
    first event at a depth opens it, so that nothing is taken over from another depth."""
    by_depth = np.lexsort((np.arange(len(ids)), depth))
    opened = np.maximum.accumulate(np.where(closes[by_depth], 0, np.arange(len(ids))))
    found = np.empty(len(ids), np.int64)
    found[by_depth] = ids[by_depth[opened]] if len(ids) else ids
    return found


def _numbered(*columns: Array) -> Array:
    """Rows of sorted columns by number, the same where all columns are."""
    new = np.zeros(len(columns[0]), bool)
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.cumsum(new)


@dataclass(frozen=True)
class States:
    """Pieces of time in each group, with the kinds that run in them as the bits of `mask`."""

    group: Array
    mask: Array
    start: Array
    stop: Array

    @property
    def length(self) -> Array:
        return self.stop - self.start


def states(group: Array, kind: Array, start: Array, stop: Array) -> States:
    """Which kinds run at each moment of a group; moments in which none does between its first and its last are there,
    too. Kinds are numbers below KINDS."""
    group, kind = np.asarray(group, np.int64), np.asarray(kind, np.int64)
    if len(kind) and not 0 <= kind.min() <= kind.max() < KINDS:
        raise ValueError(f"kinds are numbers from 0 to {KINDS - 1}")
    owner, spans = merge_by(group * KINDS + kind, start, stop)
    groups, bits = owner // KINDS, np.left_shift(np.int64(1), owner % KINDS)
    group = np.r_[groups, groups]
    time, change = np.r_[spans[:, 0], spans[:, 1]], np.r_[bits, -bits]
    order = np.lexsort((time, group))
    group, time, mask = group[order], time[order], np.cumsum(change[order])
    kept = np.flatnonzero((group[:-1] == group[1:]) & (time[:-1] < time[1:]))
    return States(group[kept], mask[kept], time[kept], time[kept + 1])


def at_once(group: Array, start: Array, stop: Array) -> States:
    """How many of a group's intervals run at each moment: `mask` is that number."""
    group, start, stop = (np.asarray(column) for column in (group, start, stop))
    real = stop > start
    owner = np.r_[group[real], group[real]]
    time = np.r_[start[real], stop[real]]
    change = np.repeat([1, -1], int(real.sum()))
    order = np.lexsort((time, owner))
    owner, time, count = owner[order], time[order], np.cumsum(change[order])
    kept = np.flatnonzero((owner[:-1] == owner[1:]) & (time[:-1] < time[1:]))
    return States(owner[kept], count[kept], time[kept], time[kept + 1])
