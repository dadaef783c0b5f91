"""The first launch of a work, where it is unlike the others: its memory was not there yet, its code in no cache.

It ran once, so it counts once: in totals for itself and for no other launch, and not at all where something is said of
launches in general. In comes a trace whose launches have works; out go the launches that are cold.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from tileprobe.trace.model import Kernel, Launch

if TYPE_CHECKING:
    from tileprobe.trace.trace import Trace

OTHERS = 3  # launches that it is held against
COLDER = 1.5  # times as long as is usual among them, and longer than each of them


def cold_launches(trace: Trace) -> set[int]:
    """At most one a work. None where the first launches were skipped: then those that are there are like any other."""
    if (trace.meta.get("launches") or {}).get("skip"):
        return set()
    works: dict[int, list[Launch]] = {}
    for launch in trace.launches:
        if launch.duration_ns:
            works.setdefault(launch.work, []).append(launch)
    kernels = {kernel.id: kernel for kernel in trace.kernels}
    return {mine[0].id for mine in works.values() if _is_cold(mine[0], mine[1:], kernels[mine[0].kernel])}


def _is_cold(first: Launch, others: Sequence[Launch], kernel: Kernel) -> bool:
    if (
        len(others) < OTHERS
        or not kernel.clock.is_time
        or (first.probed and not any(x.probed for x in others))
    ):
        return False
    usual = [launch.duration_ns or 0.0 for launch in others]
    return own_ns(first, kernel) > max(COLDER * median(usual), *usual)


def own_ns(launch: Launch, kernel: Kernel) -> float:
    """What a launch took at the least by itself: its threads waited one behind the other, and so were records written,
    of which the first launch has more than others."""
    known = kernel.calibration
    ticks = float(known.get("dose_ticks") or known.get("cost_ticks") or 0.0)
    records = launch.losses.kept * ticks * 1e9 / kernel.clock.hz if launch.probed else 0.0
    return (launch.duration_ns or 0.0) - (launch.preempted_ns or 0.0) - records
