"""Recorded launches of a simulated machine, one behind the other: each of them began at zero by the machine's clock.

In come the tables of a trace while they grow; their ticks are moved so that a launch begins where the one before it, of
whichever kernel, ended. Where instructions are counted and no time, it begins behind the last of them.
"""

from __future__ import annotations

import numpy as np

from tileprobe.session.making import Columns, Making
from tileprobe.trace.model import Launch

ENDS = ("start", "stop", "from_tick", "to_tick")


def in_turns(making: Making) -> None:
    kernels = {kernel.id: kernel for kernel in making.kernels}
    last = _last_ticks(making)
    passed: dict[str, float] = {}  # machine -> ticks
    moved: dict[int, float] = {}  # launch -> ticks
    for launch in sorted(making.launches, key=_began):
        kernel = kernels[launch.kernel]
        if kernel.layout is None or not kernel.clock.is_simulated:
            continue
        moved[launch.id] = passed.get(kernel.target, 0.0)
        lasted = (launch.duration_ns or 0.0) * kernel.clock.hz / 1e9 if kernel.clock.is_time else 0.0
        passed[kernel.target] = np.ceil(moved[launch.id] + max(lasted, last.get(launch.id, 0.0)))
    if any(moved.values()):
        for piece in (*making.intervals, *making.edges):
            _move(piece, moved)


def _began(launch: Launch) -> float:
    return launch.start_ns or 0.0


def _last_ticks(making: Making) -> dict[int, float]:
    found: dict[int, float] = {}
    for piece in making.intervals:
        launches, where = np.unique(piece["launch"], return_inverse=True)
        last = np.zeros(len(launches))
        for end in ("stop", "stop_corrected"):
            np.maximum.at(last, where, piece[end])
        for launch, ticks in zip(launches.tolist(), last.tolist()):
            found[launch] = max(found.get(launch, 0.0), ticks)
    return found


def _move(piece: Columns, moved: dict[int, float]) -> None:
    launches, where = np.unique(piece["launch"], return_inverse=True)
    ticks = np.array([moved.get(launch, 0.0) for launch in launches.tolist()])[where]
    for end in ENDS:
        if end in piece:
            piece[end] = piece[end] + ticks.astype(piece[end].dtype)
            piece[f"{end}_corrected"] = piece[f"{end}_corrected"] + ticks
