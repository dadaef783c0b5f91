"""How long the regions of probes are in the plain run, by the lines of its machine code.

In comes the log of a launch without probes and the regions that probes were put around; out goes for each region, of
the warp that would record it, how long it lasts from the first to the last issue of its instructions, and how much of
that is other regions' instructions, which the compiler put between. Instructions belong to lines by the cubin's table,
to loops by the branches that go back. A loop's iterations are as long as the loop. Asynchronous operations and waits
have no instruction that ends them alone, and scopes no lines of their own in the code: of these nothing is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from tileprobe.ir.regions import Region
from tileprobe.targets.base import PlainTruth
from tileprobe.targets.simgpu.program import Program
from tileprobe.targets.simgpu.timing.causes import by_warp
from tileprobe.targets.simgpu.timing.chip import Timed
from tileprobe.targets.simgpu.timing.loops import Loop, loops_of

Array = np.ndarray
_WHOLE = ("kernel", "loop", "iteration")
_UNKNOWN = ("async", "wait", "scope", "mark", "value")


def plain_truth(
    program: Program, took: Timed, regions: Sequence[Region], warps: bool, programs: Array
) -> Mapping[int, PlainTruth]:
    """By the number of a region. `warps`: all warps of a program record, not the first; `programs`: those that do."""
    assert took.log is not None
    loops = _loops(program, regions)
    wanted = np.zeros(int(max(programs.max(initial=0), 0)) + 1, bool)
    wanted[programs] = True
    found: dict[int, list[tuple[int, int, int]]] = {}
    seen = 0
    for events in took.log.events.values():
        inside = (events["program"] < len(wanted)) & wanted[np.minimum(events["program"], len(wanted) - 1)]
        if not inside.any():
            continue
        events = by_warp(events[inside])
        seen += len(np.unique(events["program"]))
        for number, row in _of(program, events, regions, loops, warps).items():
            found.setdefault(number, []).append(row)
    times = len(programs) / max(seen, 1)  # multiprocessors that were left out of the log are like the others
    kinds = {region.id: region.kind for region in regions}
    sums = {number: np.sum(rows, 0) for number, rows in found.items()}
    return {
        number: PlainTruth(
            float(ticks * times),
            None if kinds[number] == "iteration" else round(int(count) * times),
            float(other * times),
        )
        for number, (ticks, count, other) in sums.items()
    }


def _loops(program: Program, regions: Sequence[Region]) -> dict[int, list[Loop]]:
    """By region the loops of the machine code that it became. Loops in loops are regions in regions; of those at one
    level it is the one that has the branch's line and most of the loop's."""
    found: dict[int, list[Loop]] = {}
    alike = Counter((r.first_line, r.last_line) for r in regions if r.kind == "loop")  # of specialised warps
    of_loops = [r for r in regions if r.kind == "loop" and alike[r.first_line, r.last_line] == 1]
    byid = {region.id: region for region in regions}
    became: dict[int, Region | None] = {}  # by the head of a loop
    known: list[Loop] = []
    for loop in loops_of(program):  # outer ones first
        around = min((k for k in known if loop.body < k.body), key=lambda k: len(k.body), default=None)
        known.append(loop)
        if around is not None and became[around.head] is None:
            became[loop.head] = None
            continue
        outer = None if around is None else became[around.head]
        became[loop.head] = region = _fitting(
            program, loop, [r for r in of_loops if _outer(r, byid) is outer]
        )
        if region is not None:
            found.setdefault(region.id, []).append(loop)
    return found


def _outer(loop: Region, byid: Mapping[int, Region]) -> Region | None:
    """The loop around a loop."""
    return _around(None if loop.parent is None else byid.get(loop.parent), byid)


def _fitting(program: Program, loop: Loop, regions: Sequence[Region]) -> Region | None:
    body = np.array(sorted(loop.body))
    lines = program.lines[body][
        (program.files[body] == program.files[loop.branch]) & (program.lines[body] > 0)
    ]
    share = {
        region.id: np.isin(lines, region.all_lines).mean() if len(lines) else 0.0
        for region in regions
        if int(program.lines[loop.branch]) in region.all_lines
    }
    best = max(share, key=lambda number: share[number], default=None)
    return next((r for r in regions if r.id == best and share[r.id] >= 0.5), None)


def _of(
    program: Program, events: Array, regions: Sequence[Region], loops: Mapping[int, list[Loop]], warps: bool
) -> dict[int, tuple[int, int, int]]:
    """Ticks, how often, and ticks of others', of a multiprocessor's events warp by warp."""
    warp = np.zeros(len(events), np.int64)
    warp[1:] = np.cumsum(
        (events["program"][1:] != events["program"][:-1]) | (events["warp"][1:] != events["warp"][:-1])
    )
    byid = {region.id: region for region in regions}
    alike = Counter((_around(r, byid), r.all_lines) for r in regions if r.kind not in (*_WHOLE, *_UNKNOWN))
    made: dict[int, tuple[int, int, int]] = {}
    for region in regions:
        around = _around(region, byid)
        if region.kind in _UNKNOWN or (around is not None and around.id not in loops):
            continue
        if alike[around, region.all_lines] > 1:  # lines do not tell them apart
            continue
        inside, turn = _turns(program, events, loops.get(around.id, []) if around else None, warp)
        if region.kind in _WHOLE:
            mine = inside & (
                np.isin(program.lines[events["pc"]], region.all_lines) | (region.kind == "kernel")
            )
            group = _runs(inside, warp) if region.kind != "kernel" else warp
            first_to_last = inside
        else:
            within = np.zeros(len(program.lines), bool)
            for other in regions:  # what lies in loops within is theirs
                if other.kind == "loop" and _outer(other, byid) is around:
                    for loop in loops.get(other.id, []):
                        within[sorted(loop.body)] = True
            mine = inside & np.isin(program.lines[events["pc"]], region.all_lines) & ~within[events["pc"]]
            group, first_to_last = _apart(turn, within[events["pc"]]), mine
        if not warps:
            first_to_last = first_to_last & _first_warps(events, mine)
        row = _sum(events["cycle"], group, first_to_last, mine)
        if row[1]:
            made[region.id] = row
    return made


def _apart(turn: Array, within: Array) -> Array:
    """Turns, anew behind each loop within them: what stands in front of a loop and behind it is not one."""
    left = np.zeros(len(within), np.int64)
    left[1:] = within[:-1] & ~within[1:]
    new = np.append(True, (turn[1:] != turn[:-1]) | (left[1:] > 0))
    return np.cumsum(new)


def _around(region: Region | None, byid: Mapping[int, Region]) -> Region | None:
    """The loop that a region is of: its own, or the nearest around it."""
    while region is not None and region.kind != "loop":
        region = None if region.parent is None else byid.get(region.parent)
    return region


def _turns(program: Program, events: Array, loops: list[Loop] | None, warp: Array) -> tuple[Array, Array]:
    """Which instructions are of some loops (of the kernel, without), and a number for each turn of each warp."""
    if loops is None:
        return np.ones(len(events), bool), warp
    body, head = np.zeros(len(program.lines), bool), np.zeros(len(program.lines), bool)
    for loop in loops:
        body[sorted(loop.body)] = True
        head[loop.head] = True
    inside = body[events["pc"]]
    new = head[events["pc"]] & inside
    new[1:] |= (warp[1:] != warp[:-1]) | (inside[1:] & ~inside[:-1])
    return inside, np.cumsum(new)


def _runs(inside: Array, warp: Array) -> Array:
    """A number for each time that a warp goes into the loop."""
    new = inside.copy()
    new[1:] &= ~inside[:-1] | (warp[1:] != warp[:-1])
    return np.cumsum(new)


def _first_warps(events: Array, mine: Array) -> Array:
    """Of each program the first warp that has any of these instructions."""
    _, program = np.unique(events["program"], return_inverse=True)
    first = np.full(int(program.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, program[mine], events["warp"][mine])
    return events["warp"] == first[program]


def _sum(cycle: Array, group: Array, spans: Array, mine: Array) -> tuple[int, int, int]:
    """From the first to the last of `spans` in each group; what lies between and is not `mine` is others'."""
    at = np.flatnonzero(spans)
    if not len(at):
        return 0, 0, 0
    firsts = at[np.append(True, group[at[1:]] != group[at[:-1]])]
    lasts = at[np.append(group[at[1:]] != group[at[:-1]], True)]
    before = np.concatenate(([0], np.cumsum(np.where(mine[1:], 0, np.diff(cycle)))))
    return int((cycle[lasts] - cycle[firsts]).sum()), len(firsts), int((before[lasts] - before[firsts]).sum())
