"""What a user can choose about simulated GPUs: `tileprobe.use("sim:a100", threads=2, check=True)`."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tileprobe.targets.simgpu.execute import STEP_LIMIT


@dataclass
class Settings:
    threads: int = 0  # 0: all that the process may use
    check: bool | str = True  # False, True, or "all": what takes much memory, too, and one thread
    fast_sums: bool = False  # tensor cores add in plain single precision
    step_limit: int = STEP_LIMIT
    timed: bool = False  # launches take time on a chip of multiprocessors, cycle by cycle
    cold: bool = False  # with empty caches each
    # Of timed launches: "none" are needed for loops and lines, "free" ones take no time, "real" ones what they would.
    probes: str = "none"
    clock: str = "nominal"  # of the machine's file, or "sustained"
    verify: bool = False  # recorded launches also run without records and with free ones

    @property
    def free_probes(self) -> bool:
        return self.timed and self.probes == "free" and not self.verify

    @property
    def no_probes(self) -> bool:
        return self.timed and self.probes == "none" and not self.verify

    def level(self) -> int:
        """How thorough the checks are: 0, 1, 2."""
        return 2 if self.check == "all" else int(bool(self.check))

    def wanted_threads(self) -> int:
        if self.check == "all" and not self.threads:
            return 1  # reports are the same in every run then
        return self.threads or len(os.sched_getaffinity(0))


settings = Settings()
