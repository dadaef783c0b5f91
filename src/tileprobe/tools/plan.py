"""A plan: what a tool wants probed. Plans of several tools add up to one, and turn into a pass pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CAPACITY = 256  # iterations of a loop with room, unless somebody says otherwise
_WORDS = 64  # that a block may have for each iteration with room


@dataclass(frozen=True)
class Plan:
    """What to probe. `kinds` are kinds of operations, ("all",) takes every stage; `lines` are ranges such as
    "31-44" that limit loops and stages to those lines; `scopes` are "name@first-last"."""

    kernel: bool = True
    loops: bool = False
    iterations: bool = False
    kinds: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    min_cost: float = 0.0  # leave out stages with a smaller estimate of their work
    flows: bool = False  # how the operations of stages depend on each other, and what they cost: likewise
    fenced: bool = False  # nothing of what is in front of a clock is still under way behind it
    units: bool = False  # what each unit of a simulated machine did: likewise without a probe
    accesses: bool = False  # what loads and stores do to memory: no probe is needed for it

    def __or__(self, other: Plan) -> Plan:
        """Everything that either plan wants."""
        everywhere = not self.lines or not other.lines
        return Plan(
            self.kernel or other.kernel,
            self.loops or other.loops,
            self.iterations or other.iterations,
            _union(self.kinds, other.kinds),
            () if everywhere else _union(self.lines, other.lines),
            _union(self.scopes, other.scopes),
            min(self.min_cost, other.min_cost),
            self.flows or other.flows,
            self.fenced or other.fenced,
            self.units or other.units,
            self.accesses or other.accesses,
        )

    def pipeline(
        self,
        structure: str = "scf",
        *,
        level: str = "record",
        capacity: int = CAPACITY,
        dynamic: bool = True,
        copies: int = 1,
        records: Mapping[str, str | int] | None = None,
    ) -> str:
        """The passes from selection down to a level, `probe` or `record`, as `tileprobe.passes.pipeline` takes
        them. `records` are options of assign-slots: granularity, buffer, strategy, clock_bits."""
        how = f"structure={structure}"
        flags = [f"{name}={str(getattr(self, name)).lower()}" for name in ("kernel", "loops", "iterations")]
        lists = [f"kinds={_quoted(self.kinds or ('none',))}"]
        lists += [
            f"{name}={_quoted(getattr(self, name))}" for name in ("lines", "scopes") if getattr(self, name)
        ]
        if capacity != CAPACITY:
            room = {"capacity": capacity, "cursor_capacity": 0, "max_words": block_words(capacity)}
            records = {**room, **(records or {})}
        select = " ".join([how, *flags, *lists, f"min_cost={float(self.min_cost)}"])
        flows = " flows=true" if self.flows else ""
        probes = [f"select{{{select}}}", f"instrument{{{how}{flows}}}", f"user-probes{{{how}}}"]
        probes += [f"fence-probes{{{how}}}"] if self.fenced else []
        if level == "probe":
            return ",".join(probes)
        return ",".join(
            [
                *probes,
                f"merge-probes{{{how}}}",
                f"sample{{{how} capacity={capacity} dynamic={str(dynamic).lower()}}}",
                f"assign-slots{{{' '.join([how, *(f'{k}={v}' for k, v in (records or {}).items())])}}}",
                f"probe-to-record{{{how} copies={copies}}}",
            ]
        )


def block_words(capacity: int) -> int:
    """The most that the records of a program take, with room for so many iterations of a loop."""
    return _WORDS * max(capacity, CAPACITY)


def _union(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    return (*a, *(item for item in b if item not in a))


def _quoted(items: tuple[str, ...]) -> str:
    return ",".join(f'"{item}"' for item in items)
