"""Goals, and the points that none beats in all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError


@dataclass(frozen=True)
class Goal:
    column: str
    more: bool  # is better

    def __str__(self) -> str:
        return f"{'max' if self.more else 'min'}:{self.column}"


def parse_goals(texts: Sequence[str], known: Iterable[str]) -> tuple[Goal, ...]:
    """`["max:tokens_per_s", "min:joules_per_token"]`; figures that a point has are known."""
    known, goals = list(known), []
    for text in texts:
        way, colon, column = text.partition(":")
        if way not in ("max", "min") or not colon:
            raise TileProbeError(f"--goal {text!r}: write max:COLUMN or min:COLUMN, such as max:tokens_per_s")
        if column not in known:
            raise TileProbeError(f"--goal {text}: a point has no {column}; it has {', '.join(known)}")
        if column in [goal.column for goal in goals]:
            raise TileProbeError(f"--goal: {column} is given twice")
        goals.append(Goal(column, way == "max"))
    return tuple(goals)


def values_of(rows: Sequence[Mapping[str, Any]], goals: Sequence[Goal]) -> np.ndarray:
    """What is to be made small: a row for each point, a column for each goal."""
    signs = [-1.0 if goal.more else 1.0 for goal in goals]
    table = [[sign * float(row[goal.column]) for sign, goal in zip(signs, goals)] for row in rows]
    return np.array(table, float).reshape(len(rows), len(goals))


def front(values: np.ndarray) -> np.ndarray:
    """Whether each row is on the front: no other is as small in all columns and smaller in one."""
    order = np.lexsort(values.T[::-1])  # whoever beats a row comes before it
    kept: list[int] = []
    best = np.empty((0, values.shape[1]))
    for n in order:
        row = values[n]
        beaten = (best <= row).all(axis=1) & (best < row).any(axis=1)
        if not beaten.any():
            kept.append(n)
            best = np.vstack((best, row))
    found = np.zeros(len(values), bool)
    found[kept] = True
    return found


def hypervolume(values: np.ndarray, reference: Sequence[float]) -> float:
    """The part of two goals' plane that a front leaves behind it, up to a reference: more is better."""
    inside = values[(values < reference).all(axis=1)]
    if not len(inside):
        return 0.0
    rows = inside[front(inside)]
    rows = rows[np.argsort(rows[:, 0])]
    above = np.concatenate(([reference[1]], rows[:-1, 1]))
    return float(((reference[0] - rows[:, 0]) * np.maximum(above - rows[:, 1], 0.0)).sum())
