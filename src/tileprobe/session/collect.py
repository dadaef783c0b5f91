"""Observed launches become a trace.

In come `Recorded` launches as they end; out goes one `Trace`, with the launches of all targets under one numbering.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tileprobe.session.decoding import CALIBRATING, add_recorded
from tileprobe.session.exact import add_exact
from tileprobe.session.making import Making
from tileprobe.session.recorded import Recorded
from tileprobe.targets.base import Kernel, Variant
from tileprobe.trace.trace import Trace


@dataclass
class Observed:
    """All launches of one kernel."""

    kernel: Kernel
    variant: Variant
    launches: list[Recorded] = field(default_factory=list)
    dosed: list[Recorded] = field(default_factory=list)


@dataclass
class Collected:
    """By compiled kernel, in the order they were first seen."""

    kernels: dict[Any, Observed] = field(default_factory=dict)

    def add(self, kernel: Kernel, variant: Variant, recorded: Recorded, calibration: bool) -> None:
        seen = self.kernels.setdefault((kernel.machine, kernel.name, variant.key), Observed(kernel, variant))
        if not calibration:
            seen.launches.append(recorded)
        elif len(seen.dosed) < CALIBRATING:
            seen.dosed.append(recorded)


def build_trace(collected: Collected, meta: dict[str, Any]) -> Trace:
    making = Making()
    for seen in collected.kernels.values():
        add = add_exact if seen.kernel.target.takes == "probe" else add_recorded
        add(making, seen)
    return making.trace(meta)
