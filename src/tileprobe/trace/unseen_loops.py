"""Loops that ran in a launch of which no iteration was recorded there: launches of the same work that have some stand
for them.

A rare inner loop lies in an iteration that a stride passes by in most launches. How many iterations it had is counted
in each of them, so that those that were recorded are as many as all. Their time is left as it is: each launch has
scaled up what it saw of it, and launches that saw nothing make up for that. In come the intervals of one kernel, launch
by launch, and how often its loops ran; the weights are changed in place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tileprobe.ir.layout import Layout

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Ran:
    """Iterations of a loop in one launch, and those that were recorded."""

    loop: int
    launch: int
    total: float
    seen: float


def stand_for_unseen(
    pieces: Sequence[Columns], ran: Iterable[Ran], layout: Layout, works: Mapping[int, Hashable]
) -> None:
    """`works` says what each launch repeats."""
    all_of_it: dict[tuple[int, Hashable], float] = defaultdict(float)
    recorded: dict[tuple[int, Hashable], float] = defaultdict(float)
    for one in ran:
        key = one.loop, works[one.launch]
        all_of_it[key] += one.total
        recorded[key] += one.total if one.seen else 0.0
    factors = {key: total / recorded[key] for key, total in all_of_it.items() if recorded[key]}
    factors = {key: factor for key, factor in factors.items() if factor > 1}
    if not factors:
        return
    regions = _regions(layout)
    for piece in pieces:
        for (loop, work), factor in factors.items():
            mine = [launch for launch, other in works.items() if other == work]
            here = np.isin(piece["launch"], mine) & np.isin(piece["region"], list(regions[loop]))
            piece["weight"][here] *= factor
            piece["fit"][here] /= factor


def _regions(layout: Layout) -> dict[int, set[int]]:
    """For each loop the regions of its body that lie in no loop further in."""
    found: dict[int, set[int]] = defaultdict(set)
    for span in layout.spans:
        loops = layout.slots[span.start].loops
        if loops:
            found[loops[-1]].add(span.region)
    return found
