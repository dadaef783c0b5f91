"""What a user can choose about simulated GPUs: `tileprobe.use("sim:a100", threads=2, check=True)`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tileprobe.errors import TileProbeError
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
    waves: int = 0  # of timed launches: so many waves of programs have time, 0: all
    sms: int = 0  # and so many multiprocessors are simulated, 0: all
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


def check_part(given: Mapping[str, Any]) -> None:
    """Whether a part of a launch can be timed, as it is asked for."""
    for name in ("waves", "sms"):
        number = given[name]
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise TileProbeError(f"{name} of a simulated GPU is a number from 1, not {number!r}")
        if given["verify"] or given["probes"] in ("free", "real"):
            raise TileProbeError(
                f"{name}={number}: programs that are executed for their values alone have no times to record; records"
                " (probes free or real, verify) need all programs timed"
            )
        if not given["timed"]:
            raise TileProbeError(f"{name}={number} is about launches that take time: timed=True (--timed)")


settings = Settings()
