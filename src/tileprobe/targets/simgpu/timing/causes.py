"""Why warps went on: what each that stood still had waited for, from the log of a timed launch.

Comes in: what warps issued, each instruction with what had kept it back. Goes out: edges, from the instruction that was
waited for to the one that had to wait. A scoreboard is waited for by its number: the last instruction of the warp that
sets it is meant; groups of copies and of products by how many there were; at barriers the engine has noted who let the
warp go on, another warp's arrival or a bulk load that was over. Scoreboards that kept a warp for a few cycles are left
out: these cycles stay with the instruction that waited.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tileprobe.targets.simgpu.engine import timed_layout as tl

_FEW = 8  # cycles
_CYCLES = 1 << 40  # no launch is as long

Array = np.ndarray


def by_warp(events: Array) -> Array:
    """What a multiprocessor issued, warp by warp."""
    return events[np.lexsort((np.arange(len(events)), events["warp"], events["program"]))]


def handed_over(rows: Array | None, region: Array, logs: Mapping[int, Array], base: int) -> dict[str, Array]:
    """Edges as columns. `rows` say how each instruction is timed, `region` which region it belongs to; `logs` have the
    events of multiprocessors warp by warp."""
    if rows is None:
        return {}
    pieces = [_edges(rows, region, events, sm, base) for sm, events in logs.items()]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]} if pieces else {}


def _edges(rows: Array, region: Array, events: Array, sm: int, base: int) -> dict[str, Array]:
    warp = _numbers(events)
    reason, bar = events["why"] & 15, events["why"] >> 4
    at_barrier = (reason == tl.AT_BARRIER) & (events["waited"] > 0)
    scoreboard = (events["waited"] > _FEW) & np.isin(reason, (tl.LONG, tl.SHORT, tl.GMMA))
    source = np.full(len(events), -1)
    for number in range(6):
        sets = (rows[events["pc"], tl.WRITE_BAR] == number) | (rows[events["pc"], tl.READ_BAR] == number)
        waits = np.flatnonzero(scoreboard & (bar == number))
        source[waits] = _last(np.flatnonzero(sets), waits)
    kind, counted = rows[events["pc"], tl.KIND], rows[events["pc"], tl.COUNT]
    waits = np.flatnonzero(scoreboard & (bar == tl.A_GROUP))
    made = _counted(warp, kind == tl.GROUP, waits, counted[waits])
    source[waits] = np.where(made >= 0, _last(np.flatnonzero(kind == tl.COPY), made), -1)
    waits = np.flatnonzero(scoreboard & (bar == tl.A_PRODUCT))
    source[waits] = _counted(warp, (kind == tl.PRODUCT) & (counted != 0), waits, counted[waits])
    waits = np.flatnonzero(at_barrier)
    source[waits] = _issued(events, warp, waits)
    to = np.flatnonzero((source >= 0) & ((warp[source] == warp) | at_barrier))
    since = source[to]
    return {
        "kind": np.where(at_barrier[to] & (kind[since] != tl.BULK_LOAD), "arrive-wait", "issue-wait"),
        **_end("from", events[since], events["cycle"][since], region, sm, base),
        **_end("to", events[to], _could(events, warp)[to], region, sm, base),
    }


def _could(events: Array, warp: Array) -> Array:
    """When each instruction could be issued as far as it depends on others: where a unit was busy, or another warp went
    first, it was issued later."""
    before = np.append(events["cycle"][:1], events["cycle"][:-1])
    first = np.append(True, warp[1:] != warp[:-1])
    return np.where(first, events["cycle"], np.minimum(before + 1 + events["waited"], events["cycle"]))


def _end(name: str, events: Array, cycle: Array, region: Array, sm: int, base: int) -> dict[str, Array]:
    return {
        f"{name}_program": events["program"].astype(np.uint32),
        f"{name}_stream": events["warp"].astype(np.uint16),
        f"{name}_unit": np.full(len(events), sm, np.uint32),
        f"{name}_region": region[events["pc"]],
        f"{name}_tick": cycle + base,
    }


def _numbers(events: Array) -> Array:
    """Warps by number, as they come."""
    new = np.zeros(len(events), np.int64)
    for name in ("program", "warp"):
        new[1:] |= events[name][1:] != events[name][:-1]
    return np.cumsum(new)


def _last(these: Array, before: Array) -> Array:
    """For each place the last of these in front of it, or -1."""
    at = np.searchsorted(these, before) - 1
    return np.where(at >= 0, these[at], -1) if len(these) else np.full(len(before), -1)


def _counted(warp: Array, makes: Array, waits: Array, left: Array) -> Array:
    """For each wait for all but the newest groups the instruction that closed the last of those it waits for."""
    made = np.flatnonzero(makes)
    at = np.searchsorted(made, waits) - 1 - left
    found = np.where(at >= 0, made[at], -1) if len(made) else np.full(len(waits), -1)
    return np.where((found >= 0) & (warp[found] == warp[waits]), found, -1)


def _issued(events: Array, warp: Array, waits: Array) -> Array:
    """Who let warps go on: the instruction of the same program that a warp issued in a cycle."""
    who = {
        key: n
        for n, key in enumerate(dict.fromkeys(zip(events["program"].tolist(), events["warp"].tolist())))
    }
    by = events["by"][waits]
    wanted = zip(events["program"][waits].tolist(), (by & 63).tolist())
    number = np.array([who.get(key, -1) for key in wanted], np.int64)
    issued = warp * _CYCLES + events["cycle"]
    at = np.searchsorted(issued, number * _CYCLES + (by >> 6))
    at = np.minimum(at, len(events) - 1)
    return np.where((number >= 0) & (issued[at] == number * _CYCLES + (by >> 6)), at, -1)
