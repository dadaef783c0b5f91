"""The clock of a simulated GPU as long as it has no time: it counts the instructions a warp has executed. A nanosecond
of a trace is one of them, in records and in the durations of launches alike, and views print them as instructions."""

from __future__ import annotations

from typing import Any

from tileprobe.ir.machine import INSTRUCTIONS


class InstructionClock:
    """Keeps the protocol of `targets.base.ClockSource`, and of the GPUs' clock the part that records go through."""

    name = INSTRUCTIONS
    bits = 64
    timer = None  # each program counts from its own beginning: there is nothing to align

    def start(self) -> None: ...

    def hz(self) -> float:
        return 1e9  # a tick is a nanosecond is an instruction

    def floor_ticks(self) -> float:
        return 2.0  # a record: CS2R and STG

    def learn(self, *_: Any) -> None:
        """The rate is known."""
