"""What records and traces say about the machine: its units, its clocks, and which of them limit. Plain data, on
every level the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

INSTRUCTIONS = "instructions"  # the name of a clock that counts what a warp has executed: no time
SIMULATED = "simulated"  # the name of a clock that a model of a machine keeps


@dataclass(frozen=True)
class Clock:
    """What a tick is. `bits` is the width of the raw counter; ticks in a trace are already unwrapped."""

    hz: float
    name: str = "tsc"
    bits: int = 64

    @property
    def is_time(self) -> bool:
        return self.name != INSTRUCTIONS

    @property
    def is_simulated(self) -> bool:
        """What is counted is the same each time, whatever this machine does meanwhile."""
        return self.name in (INSTRUCTIONS, SIMULATED)


@dataclass(frozen=True)
class Unit:
    """A part of the machine on which intervals lie: a core, an SM, a warp, a channel, a die, an engine."""

    id: int
    name: str
    kind: str = "core"
    parent: int | None = None
    domain: str = ""  # Domain.name of the clock its ticks are of; "" is the kernel's own clock


@dataclass(frozen=True)
class Domain:
    """A clock that some units share. Time is ticks * 1e9 / hz + offset_ns, so that the times of all domains
    can be compared; `error_ns` is how far off that time may be, either way."""

    name: str
    hz: float
    offset_ns: float = 0.0
    error_ns: float = 0.0


@dataclass(frozen=True)
class GlobalTimer:
    """A clock that the whole machine shares: `hz` ticks a second, of which it shows every `step`-th."""

    hz: float
    step: float = 1.0

    @property
    def step_ns(self) -> float:
        return self.step * 1e9 / self.hz

    def tells_turns(self, clock: Clock) -> bool:
        """Whether two readings always say how often a counter has turned over between them."""
        return 2 * self.step * clock.hz / self.hz < 1 << (clock.bits - 1)


ALWAYS = 0.8  # a kind of unit that is busy for this share of the time is what limits, whatever else there is
ALIKE = 0.9  # kinds whose busy shares differ by less than a tenth limit alike


def limiting(busy: Mapping[str, float]) -> list[str]:
    """The kinds of units that limit a run, given the share of the time in which each is busy: the busiest and
    those that are nearly as busy. A simulator that knows its units and a tool that reads a trace both ask here."""
    ordered = sorted((kind for kind in busy if busy[kind] > 0), key=lambda kind: -busy[kind])
    return [kind for kind in ordered if busy[kind] >= ALIKE * busy[ordered[0]]]
