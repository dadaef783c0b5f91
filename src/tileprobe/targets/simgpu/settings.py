"""What a user can choose about simulated GPUs: `tileprobe.use("sim:a100", threads=2, check=True)`."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tileprobe.targets.simgpu.execute import STEP_LIMIT


@dataclass
class Settings:
    threads: int = 0  # 0: all that the process may use
    check: bool = True
    step_limit: int = STEP_LIMIT

    def wanted_threads(self) -> int:
        return self.threads or len(os.sched_getaffinity(0))


settings = Settings()
