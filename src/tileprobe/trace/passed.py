"""What iterations that are not kept cost, where their records are passed all the same: on GPUs a store that no thread
makes is still an instruction.

In come rows of the same work at several doses; out goes for each loop what probes take in an iteration without records,
and with that by how much the record behind such iterations was delayed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from tileprobe.trace.blocks import Rows
from tileprobe.trace.cursor import Pushed, in_sequence, read
from tileprobe.trace.unseen import unseen_by_loop, words_of

_SURE = 2.0  # standard errors: what is less is taken for nothing

_Cell = tuple[int, int, int]  # a loop, the slot behind its iterations, how many


def passed_costs(doses: Mapping[int, Sequence[Rows]], costs: np.ndarray) -> dict[int, float]:
    """Ticks that the records of an iteration take which is not kept, by loop. `costs` is what a record takes, by slot.

    The time from a record to the next one that is kept grows with the dose by that one's cost and by that of all
    iterations between. Like is compared with like: as many iterations before the same slot."""
    cells = {dose: _cells(streams) for dose, streams in doses.items()}
    dose = np.array(sorted(doses), float)
    centred = dose - dose.mean()
    weights = centred / (centred**2).sum()
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for cell in set.intersection(*map(set, cells.values())):
        loop, slot, count = cell
        gaps = [np.concatenate(cells[int(d)][cell]) for d in dose]
        medians = np.array([np.median(part) for part in gaps])
        # As in `replay`: the deviation by the median of deviations, never surer than half a tick.
        spread = [max(1.4826 * np.median(np.abs(p - m)), 0.5) for p, m in zip(gaps, medians)]
        errors = np.sqrt(np.pi / 2 / np.array([len(part) for part in gaps])) * spread
        cost = (weights @ medians - costs[slot]) / count
        found[loop].append((cost, float(np.sqrt((weights**2) @ errors**2)) / count))
    return {loop: _combined(several) for loop, several in found.items()}


def _combined(several: list[tuple[float, float]]) -> float:
    values, errors = np.array(several).T
    sure = 1.0 / errors**2
    mean = float((values * sure).sum() / sure.sum())
    return mean if mean > _SURE / np.sqrt(sure.sum()) else 0.0


def _cells(streams: Sequence[Rows]) -> dict[_Cell, list[np.ndarray]]:
    """Ticks from each record to the next, where iterations of one loop lie between."""
    cells: dict[_Cell, list[np.ndarray]] = defaultdict(list)
    for rows in streams:
        pushed = read(rows)
        records = in_sequence(rows, pushed)
        counts, unknown = unseen_by_loop(rows, pushed, records)
        ticks = np.r_[0, np.diff(records.clock)]
        same = np.r_[False, records.row[1:] == records.row[:-1]] & ~unknown
        everything = sum(counts.values(), np.zeros(len(unknown), np.int64))
        for loop, count in counts.items():
            alone = same & (count > 0) & (count == everything)
            keys = np.c_[records.slot[alone], count[alone]]
            for slot, number in np.unique(keys, axis=0):
                at = (keys == (slot, number)).all(axis=1)
                cells[loop, int(slot), int(number)].append(ticks[alone][at])
    return cells


def delayed_by_passed(rows: Rows, pushed: Pushed, costs: Mapping[int, float], least: float) -> np.ndarray:
    """By how much the record at each word was delayed since the one before it, by iterations between that were not
    kept. Those of a loop that stands still, waiting for what is asynchronous, as far as those do that were kept, hide
    what probes take; a wait of `least` ticks or less found nothing to wait for."""
    delays = np.zeros(rows.clocks.shape)
    records = in_sequence(rows, pushed)
    counts, _ = unseen_by_loop(rows, pushed, records)
    word = words_of(rows, pushed, records)
    placed = word >= 0
    for loop, count in counts.items():
        cost = costs.get(loop, 0.0) * (1.0 - _standing_still(rows, loop, least))
        np.add.at(delays, (records.row[placed], word[placed]), count[placed] * cost)
    return delays


def _standing_still(rows: Rows, loop: int, least: float) -> float:
    """The share of a loop's kept iterations in which it waited for something."""
    layout, shares = rows.layout, [0.0]
    for span in layout.spans:
        start, stop = layout.slots[span.start], layout.slots[span.stop]
        if span.kind == "wait" and loop in stop.loops and start.stream == rows.stream.id and not stop.cursor:
            begin, end = (rows.slot(slot) for slot in (start, stop))
            there = (begin >= 0) & (end >= 0)
            if there.any():
                shares.append(float((end - begin > least)[there].mean()))
    return max(shares)
