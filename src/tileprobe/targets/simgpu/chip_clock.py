"""The clock of a simulated GPU: cycles of the chip, or, where launches are not timed, the instructions that a warp has
executed. Then a nanosecond of a trace is one of them, in records and in the durations of launches alike, and views
print them as instructions."""

from __future__ import annotations

from typing import Any

from tileprobe.ir.machine import INSTRUCTIONS, SIMULATED
from tileprobe.targets.gpu.gpu_clock import FLOOR_TICKS


class ChipClock:
    """Keeps the protocol of `targets.base.ClockSource`, and of the GPUs' clock the part that records go through."""

    bits = 64
    timer = None  # all multiprocessors have one time: there is nothing to align

    def __init__(self) -> None:
        self._hz, self._free = 0.0, False  # 0: nothing is timed

    @property
    def name(self) -> str:
        return SIMULATED if self._hz else INSTRUCTIONS

    def start(self) -> None:
        """At each launch: at the end of a session another driver may be Triton's, and the next one may be timed
        otherwise."""
        from triton.runtime import driver

        from tileprobe.targets.simgpu.settings import settings

        active: Any = driver.active
        machine = getattr(active, "machine", None)
        self._hz = machine.clock_mhz * 1e6 if settings.timed and machine is not None else 0.0
        self._free = settings.free_probes

    def hz(self) -> float:
        return self._hz or 1e9  # an instruction is a tick is a nanosecond

    def floor_ticks(self) -> float:
        if self._free:
            return 0.0
        return FLOOR_TICKS if self._hz else 2.0  # a record: CS2R and STG

    def learn(self, *_: Any) -> None:
        """The rate is known."""
