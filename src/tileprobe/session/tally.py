"""What a session counts of each work: launches that ran, and what became of them.

In come launches as they are seen and as they end; out goes the row of the work in a trace.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from statistics import median

from tileprobe.session.recorded import Recorded
from tileprobe.trace.model import Work


def work_of(recorded: Recorded) -> Hashable:
    """What the launch repeats: as the session says, or else its grid."""
    return recorded.grid if recorded.work is None else recorded.work


@dataclass
class Ran:
    """Launches of one work: all that were seen of it, and what became of them."""

    kernel: Hashable  # machine, name and key of the compiled kernel
    grid: tuple[int, ...]
    arguments: str = ""
    ran: int = 0
    unrecorded: int = 0
    probed: int = 0
    plain: int = 0
    dosed: int = 0
    session_ns: list[int] = field(default_factory=list)
    variant: Hashable = None  # of the kernel with probes that was recorded; None while none was

    def add(self, recorded: Recorded, calibration: bool) -> None:
        self.dosed += calibration
        self.probed += recorded.probed and not calibration
        self.plain += not (recorded.probed or calibration)
        if recorded.session_ns and recorded.probed:
            self.session_ns.append(recorded.session_ns)

    def row(self, number: int, kernel: int) -> Work:
        known = self.probed + self.plain + self.dosed
        cost = median(self.session_ns) / 1e3 if self.session_ns else None
        return Work(
            id=number,
            kernel=kernel,
            grid=self.grid,
            arguments=self.arguments,
            ran=max(self.ran, known),
            probed=self.probed,
            plain=self.plain,
            dosed=self.dosed,
            unrecorded=self.unrecorded,
            session_us=cost,
        )
