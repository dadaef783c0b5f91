"""Observed launches become a trace.

In come `Recorded` launches, and for every launch that was seen, recorded or not, a word that it ran; out
goes one `Trace`, with the launches of all targets under one numbering and the works that they repeat.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from tileprobe.session.decoding import CALIBRATING, add_recorded
from tileprobe.session.exact import add_exact
from tileprobe.session.in_turns import in_turns
from tileprobe.session.making import Making
from tileprobe.session.recorded import Recorded
from tileprobe.session.tally import Ran, work_of
from tileprobe.targets.base import Kernel, Variant
from tileprobe.trace.trace import Trace


@dataclass
class Observed:
    """All launches of one kernel."""

    kernel: Kernel
    variant: Variant
    launches: list[Recorded] = field(default_factory=list)
    dosed: list[Recorded] = field(default_factory=list)
    light: list[Recorded] = field(default_factory=list)
    works: dict[Hashable, Ran] = field(default_factory=dict)


@dataclass
class Collected:
    """By compiled kernel, in the order they were first seen."""

    kernels: dict[Any, Observed] = field(default_factory=dict)
    works: dict[Hashable, Ran] = field(default_factory=dict)

    def saw(
        self,
        kernel: Kernel,
        work: Hashable,
        grid: tuple[int, ...],
        arguments: str = "",
        unrecorded: int = 0,
        times: int = 1,
    ) -> None:
        """Launches of `work` ran, looked at or not; of `unrecorded` ones there was no room for the records."""
        mine = self.works.setdefault(work, Ran(_code(kernel), grid, arguments))
        mine.ran += times
        mine.unrecorded += unrecorded

    def add(self, kernel: Kernel, variant: Variant, recorded: Recorded, calibration: bool) -> None:
        key = kernel.machine, kernel.name, variant.key
        seen = self.kernels.setdefault(key, Observed(kernel, variant))
        work = work_of(recorded)
        ran = self.works.get(work)
        if ran is not None and ran.variant not in (None, key):
            ran.ran -= 1  # probed otherwise than before, as another session began or ended
            ran = None
        mine = seen.works.setdefault(work, ran or Ran(_code(kernel), recorded.grid))
        mine.variant = key
        mine.add(recorded, calibration)
        if not calibration:
            seen.launches.append(recorded)
        else:
            same = seen.light if recorded.light else seen.dosed
            if len(same) < CALIBRATING:
                same.append(recorded)

    def unrecorded(self, seen: Observed) -> list[Ran]:
        """The works of a kernel of which nothing was recorded."""
        code = _code(seen.kernel)
        return [ran for ran in self.works.values() if ran.variant is None and ran.kernel == code]


def _code(kernel: Kernel) -> Hashable:
    return kernel.machine, kernel.name, kernel.key


def _exact(seen: Observed) -> bool:
    """Whether a machine told what happened, by what is there: it may be one that records in other sessions."""
    if any(run.words is not None for run in (*seen.launches, *seen.dosed)):
        return False
    return seen.kernel.target.takes == "probe" or any(run.exact for run in seen.launches)


def build_trace(collected: Collected, meta: dict[str, Any]) -> Trace:
    making = Making()
    for seen in collected.kernels.values():
        add = add_exact if _exact(seen) else add_recorded
        kernel = len(making.kernels)
        add(making, seen)
        if len(making.kernels) > kernel:
            rest = [
                ran.row(len(making.works) + n, kernel) for n, ran in enumerate(collected.unrecorded(seen))
            ]
            making.works += rest
    in_turns(making)
    return making.trace(meta)
