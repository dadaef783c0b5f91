"""What is repeated: launches of one compiled kernel over one grid. Each work knows which variant runs next.

The first launch is probed. Of later ones every other is left unprobed, so that the cost of profiling is
measured on the same work, in turns; a few write each record several times, from which replay learns the cost
of one. Every launch does the user's work exactly once, whichever variant it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tileprobe.ir.layout import Layout

PLAIN, PROBED, DOSED = 0, 1, 3  # the dose: how often each record is written
_DOSED_EVERY, _DOSED_TIMES = 6, 4


@dataclass
class Variant:
    """A compiled kernel with its records; `layout` is None when there was nothing to probe."""

    kernel: Any
    layout: Layout | None
    probing: dict[str, Any] | None

    @staticmethod
    def of(kernel: Any) -> Variant:
        probing = kernel.run.probing
        return Variant(kernel, None if probing is None else Layout.from_json(probing["layout"]), probing)


@dataclass
class Work:
    """Launches of one kernel over one grid, under the same sessions."""

    launcher: Any
    grid: tuple[int, int, int]
    count: int = 0
    recorded: int = 0  # of these, with records
    stride: int = 1  # of programs, where all would cost too much
    variants: dict[int, Variant] = field(default_factory=dict)

    def next_dose(self, alternate: bool) -> int:
        n, self.count = self.count, self.count + 1
        if not alternate:
            return PROBED
        if n % 2:
            return PLAIN
        dosed = n and n % _DOSED_EVERY == 0 and n <= _DOSED_EVERY * _DOSED_TIMES
        return DOSED if dosed else PROBED

    def thin(self, kept: int, programs: int, cost_ns: float, busy_ns: float, allowed: float) -> None:
        """Leaves out programs, evenly, until the records take no more than the allowed share of the time."""
        share = (kept + 2 * programs) * cost_ns / busy_ns if busy_ns else 0.0
        if share > allowed:
            self.stride = max(self.stride, min(int(self.stride * share / allowed) + 1, max(programs, 1)))
