"""A session around launches, and its trace afterwards.

In comes what to profile and how closely; while the session is on, every launch on any target passes by its
manager; out goes a `Trace`, and what the tools make of it.
"""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

from tileprobe import __version__
from tileprobe.errors import TileProbeError
from tileprobe.ir.layout_check import BUFFERS, GRANULARITIES, STRATEGIES
from tileprobe.session.choices import Choice
from tileprobe.session.collect import Collected, build_trace
from tileprobe.session.manager import manager
from tileprobe.session.progress import Progress
from tileprobe.session.recorded import Recorded
from tileprobe.targets.base import Kernel, Variant
from tileprobe.tools.base import Tool
from tileprobe.tools.load import DEFAULT, load_tool
from tileprobe.tools.plan import Plan
from tileprobe.trace import Trace

# Elementary operations: about 50 ns, four records. Time spent in less shows up as the region around it.
WORTHWHILE = 1024.0


class Session:
    """One profiling session. Use it as a context manager; `trace` and `report()` are there afterwards."""

    def __init__(
        self,
        kernels: str | Sequence[str] = "*",
        *,
        tools: Sequence[str | Tool] = DEFAULT,
        plan: Plan | None = None,
        skip: int = 0,
        take: int | None = None,
        programs: str = "auto",
        iterations: str = "all",
        capacity: int = 256,
        min_cost: float = WORTHWHILE,
        alternate: bool = True,
        max_overhead: float = 0.01,
        launch_mb: float = 32.0,
        total_mb: float = 64.0,
        intervals: int = 1_000_000,
        records: Mapping[str, str | int] | None = None,
        progress: bool = False,
    ) -> None:
        """Profiles the kernels whose names match.

        tools: what to find out; decides what is probed, unless `plan` does.
        skip, take: of each kernel's launches leave out the first, then look at so many.
        programs: auto, all, 1%, random:16, or numbers such as 0,5,9.
        min_cost: stages with fewer elementary operations than this get no probes of their own.
        iterations: all, every:4, first:8, last:8; `capacity` of a loop's iterations have room.
        alternate: every other launch of the same work runs without probes, to measure what they cost.
        max_overhead: the share of a launch's time that records may take with programs="auto".
        launch_mb, total_mb: room for the records of one launch, and of the session.
        records: what records are, where the target has a choice: granularity, buffer, strategy, clock_bits.
        intervals: of a simulated machine, which needs no records, so many intervals a launch.
        """
        self.patterns = (kernels,) if isinstance(kernels, str) else tuple(kernels)
        if not self.patterns or skip < 0 or (take is not None and take < 1):
            raise TileProbeError("a session needs a kernel pattern, skip of 0 or more and take of 1 or more")
        self.tools = [load_tool(tool) if isinstance(tool, str) else tool for tool in tools]
        if not self.tools and plan is None:
            raise TileProbeError("a session needs a tool or a plan: they say what is probed")
        if not max_overhead > 0:
            raise TileProbeError(f"max_overhead is a share of the time such as 0.01, not {max_overhead}")
        self.plan = plan or replace(reduce(or_, (tool.plan() for tool in self.tools)), min_cost=min_cost)
        self.skip, self.take = skip, take
        self.choice = Choice(programs, iterations)
        self.capacity, self.alternate, self.max_overhead = capacity, alternate, max_overhead
        self.launch_bytes, self.total_bytes = int(launch_mb * 2**20), int(total_mb * 2**20)
        self.intervals = intervals
        self.records = check_records(records or {})
        self.progress = Progress(progress)
        self.seen: dict[str, int] = {}  # every kernel launched, and how often
        self.problems: dict[str, str] = {}  # kernels that could not be probed, and why
        self._bytes = 0
        self._collected = Collected()
        self._trace: Trace | None = None
        self._on = self._used = False

    # -- asked by the manager --------------------------------------------------------------------------------

    def selects(self, name: str) -> bool:
        """Whether this launch of a kernel is to be looked at. Called once a launch."""
        count = self.seen[name] = self.seen.get(name, 0) + 1
        self.progress.launched(name)
        if not matches(name, self.patterns):
            return False
        return self.skip < count and (self.take is None or count <= self.skip + self.take)

    def choices(self) -> tuple[Any, ...]:
        """What of a launch is recorded, and how."""
        return self.choice, self.records, self.intervals, self.launch_bytes

    def spent(self) -> bool:
        return self._bytes >= self.total_bytes

    def add(self, kernel: Kernel, variant: Variant, recorded: Recorded, calibration: bool) -> None:
        self._bytes += recorded.nbytes
        self._collected.add(kernel, variant, recorded, calibration)

    # -- used as a context manager ---------------------------------------------------------------------------

    def __enter__(self) -> Session:
        if self._used:
            raise TileProbeError("a session is used once; call tileprobe.profile(...) again for another")
        manager.enter(self)
        self._on = self._used = True
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        manager.leave(self)
        self._on = False
        self.progress.end()
        if kind is None:
            self.check_patterns()

    def check_patterns(self) -> None:
        """A pattern that no kernel matched is a mistake, and the message lists what there was to match."""
        missed = [p for p in self.patterns if p != "*" and not any(matches(n, (p,)) for n in self.seen)]
        if missed:
            seen = ", ".join(sorted(self.seen)) or "none"
            raise TileProbeError(
                f"no kernel that ran matches {', '.join(map(repr, missed))}; the kernels that ran: {seen}"
            )

    # -- afterwards ------------------------------------------------------------------------------------------

    @property
    def trace(self) -> Trace:
        """What was recorded, decoded once. While the session is on: up to now."""
        if self._trace is not None:
            return self._trace
        trace = build_trace(self._collected, self._meta())
        if not self._on:
            self._trace, self._collected = trace, Collected()
        return trace

    def _meta(self) -> dict[str, Any]:
        """How the trace came to be."""
        return {
            "tileprobe": __version__,
            "command": list(sys.argv),
            "kernels": list(self.patterns),
            "launches": {"skip": self.skip, "take": self.take, "alternate": self.alternate},
            "sampling": {"programs": self.choice.programs, "iterations": self.choice.iterations},
            "kernels_seen": dict(self.seen),
            "problems": dict(self.problems),
        }

    def results(self) -> list[Any]:
        """What each tool makes of the trace."""
        return [tool.read(self.trace) for tool in self.tools]

    def save(self, path: str | os.PathLike[str]) -> None:
        self.trace.save(path)


def check_records(records: Mapping[str, str | int]) -> dict[str, str | int]:
    """The options of records, checked; whether a target can do them is known when a kernel is compiled."""
    known = {"granularity": GRANULARITIES, "buffer": BUFFERS, "strategy": STRATEGIES, "clock_bits": None}
    for name, value in records.items():
        if name not in known:
            raise TileProbeError(f"records have no {name!r}; they have {', '.join(known)}")
        there = known[name]
        if there is not None and value not in there:
            raise TileProbeError(f"the {name} of records is one of {', '.join(there)}, not {value!r}")
        if there is None and not str(value).isdigit():
            raise TileProbeError(f"clock_bits is a number, not {value!r}")
    return dict(records)


def matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
