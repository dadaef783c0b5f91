"""Slices as brackets: the order in which those of a track open and close, so that they nest.

In come the track, start and stop of slices that nest within their tracks (`views/tracks.py` sees to that), outer ones
given before inner ones; out goes one event for each end. At one time inner slices close first, then outer ones open
first; an empty slice opens and closes between the two.
"""

from __future__ import annotations

import numpy as np


def brackets(track: np.ndarray, start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each event the number of its slice and whether it closes; by track, then in the order of time."""
    number = np.arange(len(start))
    ids = np.r_[number, number]
    closes = np.r_[np.zeros(len(start), bool), np.ones(len(start), bool)]
    empty = (stop <= start)[ids]
    turn = np.where(empty, 1, np.where(closes, 0, 2))
    tie = np.where(empty, 2 * ids + closes, np.where(closes, -ids, ids))
    order = np.lexsort((tie, turn, np.r_[start, stop], track[ids]))
    return ids[order], closes[order]


def depths(track: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """How many slices are around each one."""
    ids, closes = brackets(track, start, stop)
    step = np.where(closes, -1, 1)
    depth = np.cumsum(step) - (step > 0)
    found = np.zeros(len(start), np.int64)
    found[ids[~closes]] = depth[~closes]
    return np.maximum(found, 0)
