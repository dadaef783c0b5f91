"""Which launches repeat one another: the works of a trace, and how many launches a recorded one stands for.

In comes a trace, perhaps of a file that is older than works; out goes the same trace in which every launch has a
work, or the share of it that a filter leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tileprobe.trace.cold import cold_launches
from tileprobe.trace.model import Launch, Work
from tileprobe.trace.stand_ins import stand_ins

if TYPE_CHECKING:
    from tileprobe.trace.trace import Trace


def with_works(trace: Trace) -> Trace:
    """The trace, in which each launch is of a work of its kernel. Where the trace does not say, launches of one
    kernel over one grid are one, and those that the trace has are all that ran."""
    known = {(work.id, work.kernel) for work in trace.works}
    strange = [launch for launch in trace.launches if (launch.work, launch.kernel) not in known]
    if not strange:
        return trace
    first = 1 + max((work.id for work in trace.works), default=-1)
    groups: dict[tuple[int, tuple[int, ...]], list[Launch]] = {}
    for launch in strange:
        groups.setdefault((launch.kernel, launch.grid), []).append(launch)
    made = [
        counted(Work(first + n, kernel, grid), launches)
        for n, ((kernel, grid), launches) in enumerate(groups.items())
    ]
    number = {launch.id: work.id for work, group in zip(made, groups.values()) for launch in group}
    launches = [replace(launch, work=number.get(launch.id, launch.work)) for launch in trace.launches]
    return replace(trace, works=[*trace.works, *made], launches=launches)


def counted(work: Work, launches: Sequence[Launch]) -> Work:
    """A work of these launches alone."""
    probed = sum(launch.probed for launch in launches)
    return replace(
        work, ran=len(launches), probed=probed, plain=len(launches) - probed, dosed=0, unrecorded=0
    )


def of_launches(works: Sequence[Work], launches: Sequence[Launch]) -> list[Work]:
    """The works as if only these launches had run: somebody asked for them and not for what they stand for."""
    mine: dict[int, list[Launch]] = {}
    for launch in launches:
        mine.setdefault(launch.work, []).append(launch)
    return [counted(work, mine[work.id]) for work in works if work.id in mine]


def standing_for(trace: Trace) -> dict[int, float]:
    """For each probed launch how many launches of its work it stands for: all that ran over those recorded, and its
    part of those that are left out. Launches that are left out stand for none, a cold one for itself alone."""
    trace = with_works(trace)
    recorded = [launch for launch in trace.launches if launch.probed]
    gone = stand_ins(trace)
    cold = cold_launches(trace) - set(gone)
    counts = Counter(launch.work for launch in recorded)
    ran = {work.id: max(work.ran, counts[work.id]) for work in trace.works}
    for launch in recorded:
        if launch.id in cold:
            counts[launch.work] -= 1
            ran[launch.work] -= 1
    found = {x.id: 1.0 if x.id in cold else ran[x.work] / counts[x.work] for x in recorded}
    each = dict(found)
    for one, kept in gone.items():
        kept = [launch for launch in kept if launch not in cold] or kept
        found[one] = 0.0
        for launch in kept:
            found[launch] += each[one] / len(kept)
    return found


def left_out(trace: Trace) -> set[int]:
    """Launches of which nothing is said about launches in general: others of their work stand for them, or they were
    cold."""
    trace = with_works(trace)
    return set(stand_ins(trace)) | cold_launches(trace)
