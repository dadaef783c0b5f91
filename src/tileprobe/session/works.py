"""What is repeated: launches of one compiled kernel over one grid. Each work knows which variant runs next.

The first launch is probed. Of later ones every other is left unprobed, so that the cost of profiling is
measured on the same work, in turns; a few write each record several times, from which replay learns the cost
of one. Every launch does the user's work exactly once, whichever variant it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tileprobe.targets.base import Kernel, Variant

PLAIN, PROBED = 0, 1  # the dose: how often each record is written
_DOSED_EVERY, _DOSED_TIMES = 6, 4


@dataclass
class Work:
    """Launches of one kernel over one grid, under the same sessions."""

    kernel: Kernel
    grid: tuple[int, int, int]
    count: int = 0
    recorded: int = 0  # of these, with records
    stride: int = 1  # of programs, where all would cost too much
    variants: dict[int, Variant | None] = field(default_factory=dict)  # by dose; None: could not be probed

    @property
    def largest_dose(self) -> int:
        return max(self.kernel.target.doses, default=PROBED)

    def next_dose(self, alternate: bool) -> int:
        n, self.count = self.count, self.count + 1
        if not alternate or not self.kernel.target.doses:  # where probes are free there is nothing to compare
            return PROBED
        if n % 2:
            return PLAIN
        dosed = n and n % _DOSED_EVERY == 0 and n <= _DOSED_EVERY * _DOSED_TIMES
        return self.largest_dose if dosed else PROBED

    def thin(self, kept: int, programs: int, cost_ns: float, busy_ns: float, allowed: float) -> None:
        """Leaves out programs, evenly, until the records take no more than the allowed share of the time."""
        share = (kept + 2 * programs) * cost_ns / busy_ns if busy_ns else 0.0
        if share > allowed:
            self.stride = max(self.stride, min(int(self.stride * share / allowed) + 1, max(programs, 1)))
