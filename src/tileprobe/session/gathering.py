"""What the works of a session kept, put together for decoding: in come works, out goes a `Collected`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tileprobe.session.collect import Collected
from tileprobe.session.recorded import Recorded
from tileprobe.session.works import Work
from tileprobe.targets.base import Variant


def gather(works: Iterable[Work]) -> Collected:
    """Launches in the order in which they ran. A work of which nothing was recorded as its session asked has what it
    borrowed; one without either is only counted."""
    collected = Collected()
    kept: list[tuple[Work, Variant, Recorded]] = []
    for number, work in enumerate(works):
        collected.saw(work.kernel, number, work.grid, work.arguments, work.unrecorded, times=work.ran)
        kept += [(work, variant, _of(run, number)) for variant, run in _runs(work)]
    for work, variant, run in sorted(kept, key=lambda one: one[2].start_ns):
        collected.add(work.kernel, variant, run, calibration=run.calibrates)
    return collected


def _runs(work: Work) -> list[tuple[Variant, Recorded]]:
    """Launches without probes belong to the variant that the others were recorded with."""
    variant = work.variant
    if variant is None:
        return [] if work.borrowed is None else [work.borrowed]
    return [(own or variant, run) for own, run in work.runs]


def _of(run: Recorded, work: int) -> Recorded:
    """The same launch under the number of its work; sessions that share it number their works each."""
    return replace(run, work=work)
