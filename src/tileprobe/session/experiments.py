"""Experiments that need no edit, derived from a launch and what it shows.

In come a launch that can be run again and facts about it. Out go changes, one each, those that facts speak for first:
numbers of stages and warps, constexpr arguments, orders of programs and hints to caches (passes over Triton's IR do
what an edit would).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tileprobe.session.evidence import ALONE, TAIL, WAITS, Evidence, Fact
from tileprobe.session.relaunching import Relaunch

ORDER = "order of programs"  # among the changes, which are else names of constants and options
_ORDERS = {  # what a user would write
    "reversed": (
        "order-programs{order=reversed}",
        "pid = tl.num_programs(0) - 1 - tl.program_id(0), and so for each axis",
    ),
    "columns": ("order-programs{order=columns}", "the axes of the grid, and those of tl.program_id, change places"),
    "grouped by 8": (
        "order-programs{order=grouped size=8}",
        "one axis of programs, and of each its place: groups of 8 of the second axis, as tl.swizzle2d makes them",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """What is changed, why in a sentence, and the fact that speaks for it. Of an order, the pass that makes it and what
    an edit would be."""

    changes: dict[str, Any]
    because: str
    fact: Fact | None = None
    edits: tuple[str, ...] = ()
    how: str = ""

    @property
    def text(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.changes.items())

    @property
    def constants(self) -> dict[str, Any]:
        return {
            name: value for name, value in self.changes.items() if name.isidentifier()
        }  # others are passes'


@dataclass
class _Made:
    """Experiments in order, with the facts that speak for them."""

    facts: dict[str, Fact]
    rows: list[Experiment] = field(default_factory=list)

    def add(self, changes: dict[str, Any], cause: str, usual: str, **more: Any) -> None:
        fact = self.facts.get(cause)
        self.rows.append(Experiment(changes, fact.text if fact else usual, fact, **more))


def experiments(
    launch: Relaunch, gpu: bool, evidence: Evidence, cache_bytes: int | None = None
) -> list[Experiment]:
    """One change each, those that facts speak for first, the largest share before others. `cache_bytes` is what the
    last cache of a CPU holds: what a launch stores is sent past it where tensors do not fit."""
    made = _Made(evidence.facts)
    if gpu:
        stages, warps = (
            launch.options.get(name, usual) for name, usual in (("num_stages", 3), ("num_warps", 4))
        )
        for n in (stages + 1, stages - 1):
            if 1 <= n <= 6:
                made.add({"num_stages": n}, WAITS, "more or fewer loads under way")
        for n in (warps * 2, warps // 2):
            if 1 <= n <= 16:
                made.add({"num_warps": n}, ALONE, "more warps hide more, fewer have more registers")
    for name, value in launch.constants.items():
        if isinstance(value, bool) or not isinstance(value, int) or name in ("num_warps", "num_stages"):
            continue
        if "GROUP" in name.upper():
            for n in (1, 4, 8, 16):
                if n != value:
                    made.add({name: n}, "", "programs that run together use the same tiles")
        elif value >= 16 and value & (value - 1) == 0:
            for n in (value // 2, value * 2):
                made.add({name: n}, TAIL, "a block of another size")
    _orders(made, launch, evidence)
    if gpu and evidence.editable:
        _hints(made, evidence)
    if cache_bytes is not None and evidence.editable and launch.bytes >= cache_bytes:
        made.add(
            {"what is stored": "past the caches"}, "", "tensors are larger than the caches: nobody finds it there",
            edits=("hint-memory{what=store evicted=streamed}",), how='cache_modifier=".cs" in tl.store',
        )  # fmt: skip
    return sorted(made.rows, key=lambda one: -(one.fact.share if one.fact else 0.0))


def _orders(made: _Made, launch: Relaunch, evidence: Evidence) -> None:
    """Only where programs do not talk to each other: one that waits for an earlier one might wait for ever."""
    grid = launch.programs
    if evidence.talks or not evidence.editable or math.prod(grid) < 2:
        return
    names = {"reversed": (TAIL, "long programs may be the last to begin")}
    if len(grid) > 1 and min(grid[:2]) > 1 and not any("GROUP" in name.upper() for name in launch.constants):
        names |= dict.fromkeys(
            ("columns", "grouped by 8"), ("", "programs that run together use the same tiles")
        )
    for name, (cause, usual) in names.items():
        edit, how = _ORDERS[name]
        made.add({ORDER: name}, cause, usual, edits=(edit,), how=how)


def _hints(made: _Made, evidence: Evidence) -> None:
    """What a load brings is kept longer than other things, or less long; what is stored less long. CPUs have no such
    priorities."""
    for line in evidence.loads:
        for evicted, why in (("last", "what this line reads may be wanted again"), ("first", "or not")):
            made.add(
                {f"eviction of what line {line} reads": evicted}, "", why,
                edits=(f"hint-memory{{what=load line={line} evicted={evicted}}}",),
                how=f'eviction_policy="evict_{evicted}" in the tl.load of line {line}',
            )  # fmt: skip
    made.add(
        {"eviction of what is stored": "first"}, "", "nobody may read what is stored",
        edits=("hint-memory{what=store evicted=first}",), how='eviction_policy="evict_first" in tl.store',
    )  # fmt: skip
