"""A session around launches, and its trace afterwards.

In comes what to profile and how closely; while the session is on, every launch on any target passes by its
manager; out goes a `Trace`, and what the tools make of it.
"""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import reduce
from math import prod
from operator import or_
from typing import Any

from tileprobe import __version__
from tileprobe.errors import TileProbeError
from tileprobe.ir.layout_check import BUFFERS, GRANULARITIES, STRATEGIES, check_clock_bits, check_shared_words
from tileprobe.session.arguments import WORKS
from tileprobe.session.budget import Budget
from tileprobe.session.choices import Choice, check_numbers
from tileprobe.session.collect import build_trace
from tileprobe.session.crowd import Crowd
from tileprobe.session.gathering import gather
from tileprobe.session.manager import manager
from tileprobe.session.progress import Progress
from tileprobe.session.recorded import Recorded
from tileprobe.session.seen import SeenKernel
from tileprobe.session.works import LEFT_OUT, PROBED, Work
from tileprobe.targets.base import Kernel, Target, Variant
from tileprobe.tools.base import Tool
from tileprobe.tools.load import DEFAULT, checked, load_tool, plan_of, read
from tileprobe.tools.plan import Plan, block_words
from tileprobe.trace import Trace

# Elementary operations: about 50 ns, four records. Time spent in less shows up as the region around it.
WORTHWHILE = 1024.0

_REMEMBERED = 4096  # launches whose work is found at once

# Numbers of what kernels are compiled with: plan, room for iterations, records. Quicker to compare.
_made_with: dict[Any, int] = {}


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
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        """Profiles the kernels whose names match.

        tools: what to find out; decides what is probed, unless `plan` does.
        skip, take: of each kernel's launches leave out the first, then look at so many.
        programs: auto, all, 1%, random:16, or numbers such as 0,5,9.
        min_cost: stages with fewer elementary operations than this get no probes of their own.
        iterations: all, every:4, first:8, last:8; `capacity` of a loop's iterations have room.
        alternate: a random half of the launches of a work runs without probes, to measure what they cost.
        max_overhead: the share of a launch's time that records may take with programs="auto".
        launch_mb, total_mb: room for the records of one launch, and of the session.
        records: what records are, where the target has a choice: granularity, buffer, strategy, clock_bits,
            shared_words (of shared memory, for those of one program).
        intervals: of a simulated machine, which needs no records, so many intervals a launch.
        seed: of what is drawn (launches, programs, iterations); the same seed draws the same.
        """
        self.patterns = (kernels,) if isinstance(kernels, str) else tuple(kernels)
        if not self.patterns or not all(isinstance(pattern, str) for pattern in self.patterns):
            raise TileProbeError(f"a session needs kernel patterns such as '*attn*', not {kernels!r}")
        check_numbers(skip=skip, take=take, capacity=capacity, intervals=intervals, seed=seed)
        check_numbers(min_cost=min_cost, max_overhead=max_overhead, launch_mb=launch_mb, total_mb=total_mb)
        named = (tools,) if isinstance(tools, str) else tools
        self.tools = [load_tool(tool) if isinstance(tool, str) else checked(tool) for tool in named]
        if not self.tools and plan is None:
            raise TileProbeError("a session needs a tool or a plan: they say what is probed")
        if plan is not None and not isinstance(plan, Plan):
            raise TileProbeError(f"the plan of a session is a Plan, not {plan!r}")
        self.plan = plan or replace(reduce(or_, map(plan_of, self.tools)), min_cost=min_cost)
        self.skip, self.take = skip, take
        self.choice = Choice(programs, iterations)
        self.capacity, self.alternate, self.max_overhead = capacity, alternate, max_overhead
        self.budget = Budget(launch_mb, total_mb)
        self.intervals, self.seed = intervals, seed
        self.records = check_records(records or {})
        made_with = (self.plan, capacity, tuple(sorted(self.records.items())))
        self.made_with = _made_with.setdefault(made_with, len(_made_with))
        # What of a launch is recorded, and how: sessions that have it in common share launches.
        limit = max_overhead if self.choice.auto else None
        self.choices = (self.choice, capacity, self.records, limit, intervals, self.budget.launch, seed)
        self.progress = Progress(progress)
        self.seen: dict[str, int] = {}  # every kernel launched, and how often
        self.problems: dict[str, str] = {}  # kernels that could not be probed, and why
        self._kernels: dict[Any, SeenKernel] = {}
        self._again: dict[Hashable, Work] = {}  # works by launches as they came
        self._trace: Trace | None = None
        self._crowd = Crowd()
        self._on = self._used = False

    # -- asked by the manager --------------------------------------------------------------------------------

    def again(self, kernel: Kernel, grid: tuple[int, ...], arguments: tuple[Any, ...]) -> Work | None:
        """In place of `saw`, for a launch like one before while the same sessions are on: its work, or None."""
        try:
            work = self._again.get((kernel, grid, arguments))
        except TypeError:  # something that cannot be looked up
            return None
        if work is not None:
            self.seen[kernel.name] += 1
            self.progress.launches += 1
            work.ran += 1
        return work

    def forget(self) -> None:
        """Other sessions are on from now on."""
        self._again.clear()

    def saw(
        self, kernel: Kernel, grid: tuple[int, ...], arguments: tuple[Any, ...], company: Hashable
    ) -> Work | None:
        """Called once for each launch: the work it belongs to, or None if it is not to be looked at. In other `company`
        a kernel is compiled with other probes, which makes it another one."""
        name = kernel.name
        count = self.seen[name] = self.seen.get(name, 0) + 1
        self.progress.launched(name)
        key = (kernel.machine, kernel.key, company)
        seen = self._kernels.get(key)
        if seen is None:
            seen = self._kernels[key] = SeenKernel(kernel, matches(name, self.patterns), self.seed)
        if not seen.matches:
            return None
        work = seen.work(grid, arguments)
        work.ran += 1
        if not self.skip and self.take is None and not self.progress.show:  # all are looked at in silence
            self._remember((kernel, grid, arguments), work)
            return work
        looked_at = self.skip < count and (self.take is None or count <= self.skip + self.take)
        return work if looked_at else None

    def _remember(self, launch: Hashable, work: Work) -> None:
        if len(self._again) >= _REMEMBERED:
            self._again.clear()
        with suppress(TypeError):
            self._again[launch] = work

    def passed_by(self, name: str, why: str) -> None:
        """A launch that cannot be looked at: it counts, and the report says why there is no more of it."""
        self.seen[name] = self.seen.get(name, 0) + 1
        if matches(name, self.patterns):
            self.problems[f"{name}, unseen"] = f"{name}: {why}"

    def draw(self, work: Work) -> int:
        """The dose of the next launch of a work."""
        dose = work.next_dose(self.alternate)
        if dose == LEFT_OUT or self.budget.has_room(work):
            return dose
        work.unrecorded += dose == PROBED
        return LEFT_OUT

    def add(self, work: Work, variant: Variant | None, recorded: Recorded) -> None:
        work.runs.append((variant, recorded))
        self.budget.add(work, recorded)
        if self.budget.used >= self.budget.shared:
            self.budget.make_room(self.works())

    def borrow(self, work: Work, variant: Variant | None, recorded: Recorded) -> None:
        """Keeps a launch that was recorded as another session asked, until there is one of its own."""
        if variant is not None and work.borrowed is None:
            work.borrowed = variant, recorded

    def works(self) -> list[Work]:
        return [work for seen in self._kernels.values() for work in seen.works.values()]

    # -- used as a context manager ---------------------------------------------------------------------------

    def __enter__(self) -> Session:
        if self._used:
            raise TileProbeError("a session is used once; call tileprobe.profile(...) again for another")
        manager.enter(self)
        self._crowd.start()
        self._on = self._used = True
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if not self._on:
            return
        manager.leave(self)
        self._on = False
        self._crowd.stop()
        self._say_what_is_missing()
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
        with manager.lock:
            collected, meta = gather(self.works()), self._meta()
            machines = {work.kernel.machine: work.kernel.target for work in self.works() if work.runs}
        meta["roofs"] = _roofs(machines)
        if self.plan.flows:
            meta["costs"] = _costs(machines)
        trace = build_trace(collected, meta)
        self._say_what_no_line_has(trace)
        self._say_what_no_grid_has(trace)
        self._say_what_room_is_shared(trace)
        if not self._on:
            self._trace = trace
            self._kernels.clear()
        return trace

    def _say_what_no_line_has(self, trace: Trace) -> None:
        """Kernels with nothing to probe in the lines that were asked for."""
        empty = [k.name for k in trace.kernels if all(r.kind == "kernel" for r in trace.kernel_regions(k.id))]
        if self.plan.lines and empty:
            where = ", ".join(self.plan.lines)
            said = [f"{name}: no loop and no stage in the lines {where}" for name in dict.fromkeys(empty)]
            trace.meta["notes"] = [*trace.meta.get("notes", ()), *said]

    def _say_what_no_grid_has(self, trace: Trace) -> None:
        """Kernels without some of the programs that were asked for by their numbers."""
        for kernel in trace.kernels if self.choice.numbers else ():
            most = max((prod(work.grid) for work in trace.works if work.kernel == kernel.id), default=0)
            beyond = [f"{number:,}" for number in self.choice.numbers if number >= most]
            if beyond and most:
                said = f"{kernel.name}: no program {', '.join(beyond)}; its largest grid has {most:,}, counted from 0"
                trace.meta["notes"] = [*trace.meta.get("notes", ()), said]

    def _say_what_room_is_shared(self, trace: Trace) -> None:
        """Loops that lost iterations and have less room than was asked for, as loops within loops share a block."""
        for kernel in trace.kernels:
            if kernel.layout is None or not any(x.losses.lost for x in trace.kernel_launches(kernel.id)):
                continue
            halves = {self.capacity >> times for times in range(1, self.capacity.bit_length())}
            rooms = [loop["capacity"] for loop in kernel.layout["loops"] if loop["capacity"] in halves]
            if rooms:
                said = (
                    f"{kernel.name}: a loop has room for {min(rooms):,} iterations and not for {self.capacity:,} "
                    f"(--capacity): the records of one program may take {block_words(self.capacity):,} words, which "
                    "loops within loops share; --iterations every:N covers all of a loop"
                )
                trace.meta["notes"] = [*trace.meta.get("notes", ()), said]

    def _meta(self) -> dict[str, Any]:
        """How the trace came to be."""
        return {
            "tileprobe": __version__,
            "command": list(sys.argv),
            "kernels": list(self.patterns),
            "launches": {"skip": self.skip, "take": self.take, "alternate": self.alternate},
            "sampling": {"programs": self.choice.programs, "iterations": self.choice.iterations},
            "seed": self.seed,
            "budget": self._spent(),
            "switched_per_s": self._crowd.switched_per_s(),
            "kernels_seen": dict(self.seen),
            "problems": dict(self.problems),
        }

    def _spent(self) -> dict[str, Any]:
        """Whether the room for records was used up, and what that cost."""
        missing: dict[tuple[str, str], int] = {}
        for work in self.works():
            kernel = (work.kernel.name, getattr(work.kernel, "signature", ""))
            missing[kernel] = missing.get(kernel, 0) + work.unrecorded
        rows = [
            {"kernel": n, "signature": s, "launches": count} for (n, s), count in missing.items() if count
        ]
        return {"megabytes": self.budget.megabytes, "spent": bool(rows), "not_recorded": rows}

    def _say_what_is_missing(self) -> None:
        """Once the session is over: what a reader of the report could not know otherwise."""
        spent = self._spent()
        if spent["spent"]:
            parts = [f"{row['launches']:,} launches of {row['kernel']}" for row in spent["not_recorded"]]
            self.problems["budget"] = (
                f"the {self.budget.megabytes:g} MB for records were used up: {', '.join(parts)} were not recorded, "
                "chosen at random; more room: --budget-mb (total_mb)"
            )
        borrowed = sorted({w.kernel.name for w in self.works() if w.borrowed and w.variant is None})
        if borrowed:
            self.problems["borrowed"] = (
                f"{', '.join(borrowed)}: recorded as another session that was on at the same time asked "
                "(programs, iterations, records, room); there was no launch left for this one"
            )
        full = sorted({seen.kernel.name for seen in self._kernels.values() if seen.telling.full})
        if full:
            self.problems["works"] = (
                f"{', '.join(full)}: called with more than {WORKS} kinds of arguments; the rest is taken together"
            )

    def results(self) -> list[Any]:
        """What each tool makes of the trace."""
        return [read(tool, self.trace) for tool in self.tools]

    def save(self, path: str | os.PathLike[str]) -> None:
        self.trace.save(path)


def check_records(records: Mapping[str, str | int]) -> dict[str, str | int]:
    """The options of records, checked; whether a target can do them is known when a kernel is compiled."""
    known = {"granularity": GRANULARITIES, "buffer": BUFFERS, "strategy": STRATEGIES}
    checks = {"clock_bits": check_clock_bits, "shared_words": check_shared_words}
    for name, value in records.items():
        if name in checks:
            checks[name](value)
        elif name not in known:
            raise TileProbeError(f"records have no {name!r}; they have {', '.join([*known, *checks])}")
        elif value not in known[name]:
            raise TileProbeError(f"the {name} of records is one of {', '.join(known[name])}, not {value!r}")
    return _flushed(dict(records))


def _flushed(records: dict[str, str | int]) -> dict[str, str | int]:
    """Records that are flushed are collected in shared memory, which need not be said."""
    if records.get("strategy") == "flush" and records.setdefault("buffer", "shared") != "shared":
        raise TileProbeError(
            "strategy=flush copies full windows of shared memory to global memory; records with "
            f"buffer={records['buffer']} have no window: take buffer=shared, or strategy=exact or circular"
        )
    return records


def matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _costs(machines: dict[str, Target]) -> dict[str, Any]:
    """What operations cost on the machines of a trace, of those that know it."""
    asked = {name: getattr(target, "costs", None) for name, target in machines.items()}
    return {name: ask(name.partition(":")[2]).to_json() for name, ask in asked.items() if ask is not None}


def _roofs(machines: dict[str, Target]) -> dict[str, Any]:
    """What the machines of a trace can do at most, of those that know it."""
    asked = {name: getattr(target, "roofs", None) for name, target in machines.items()}
    found = {name: ask(name.partition(":")[2]) for name, ask in asked.items() if ask is not None}
    return {name: asdict(roofs) for name, roofs in found.items() if roofs is not None}
