"""Which launches repeat one another: the works of a trace, and how many launches a recorded one stands for.

In comes a trace, perhaps of a file that is older than works; out goes the same trace in which every launch has a
work, or the share of it that a filter leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tileprobe.trace.model import Launch, Work

if TYPE_CHECKING:
    from tileprobe.trace.trace import Trace


UNDISTURBED = 0.01  # of a launch's time, spent waiting for a processor
ENOUGH = 8  # launches of a work that were left alone stand for those that were not


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
    """For each probed launch how many launches of its work it stands for: all that ran over those recorded. Launches
    that are left out stand for none."""
    trace = with_works(trace)
    recorded = [launch for launch in trace.launches if launch.probed]
    gone = left_out(trace)
    kept = Counter(launch.work for launch in recorded if launch.id not in gone)
    ran = {work.id: work.ran for work in trace.works}
    for work, count in Counter(launch.work for launch in recorded).items():
        ran[work] = max(ran[work], count)
    return {
        launch.id: 0.0 if launch.id in gone else ran[launch.work] / kept[launch.work] for launch in recorded
    }


def left_out(trace: Trace) -> set[int]:
    """Probed launches that had to wait for a processor, where enough others of their work had not: what ran in
    between has emptied the caches, too. Which launches are struck has nothing to do with the kernel."""
    works: dict[int, list[Launch]] = {}
    for launch in with_works(trace).launches:
        if launch.probed:
            works.setdefault(launch.work, []).append(launch)
    gone: set[int] = set()
    for mine in works.values():
        struck = {launch.id for launch in mine if not undisturbed(launch)}
        if len(mine) - len(struck) >= ENOUGH:
            gone |= struck
    return gone


def undisturbed(launch: Launch) -> bool:
    """Whether it waited for no more than a hundredth of its time, as far as is known."""
    return (launch.preempted_ns or 0.0) <= UNDISTURBED * (launch.duration_ns or 0.0)
