"""How operations of a stage depend on each other: what it does, and the longest chain in it that has to be one by one.

A stage is a number of *strands* that need nothing of each other (vectors of a tile), each with a chain of operations.
Operations are counted by classes ("fma f32", "load"), as instructions of the machine; what a class costs is the
machine's own to say (`Costs`), measured or from its documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

MOST = 32  # stages of a region that are kept apart


@dataclass(frozen=True)
class Flow:
    """`work` of all strands together, the `chain` of one; `times` that the region it belongs to runs it. `lines` have
    their parts of both, by number; 0 is what has none."""

    work: Mapping[str, float]
    chain: Mapping[str, float]
    strands: float = 1.0
    times: float = 1.0
    lines: Mapping[int, tuple[Mapping[str, float], Mapping[str, float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """Nanoseconds from an operation's operands to its result, and between two that need nothing of each other; `unit`
    is what they are held up by."""

    latency_ns: float
    interval_ns: float
    unit: str


@dataclass(frozen=True)
class Costs:
    """What a machine's classes of operations cost. It issues one of any sort each `issue_ns`, and looks `window`
    operations ahead for one that need not wait; `said` is where that is known from."""

    classes: Mapping[str, Cost] = field(default_factory=dict)
    issue_ns: float = 0.0
    window: float = 1.0
    said: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(row: Any) -> Costs | None:
        """From a trace, which may come from anywhere; None if it is nothing of the sort."""
        try:
            classes = {
                str(name): Cost(float(one["latency_ns"]), float(one["interval_ns"]), str(one["unit"]))
                for name, one in row["classes"].items()
            }
            made = Costs(classes, float(row["issue_ns"]), float(row["window"]), str(row["said"]))
        except (TypeError, KeyError, ValueError, AttributeError):
            return None
        numbers = [
            made.issue_ns,
            made.window,
            *(n for c in classes.values() for n in (c.latency_ns, c.interval_ns)),
        ]
        return made if all(0 <= n < float("inf") for n in numbers) and made.window >= 1 else None


def written(flows: Sequence[Flow]) -> str:
    """As text; equal ones are put together."""
    return json.dumps([asdict(flow) for flow in together(flows)], separators=(",", ":"))


def together(flows: Iterable[Flow]) -> list[Flow]:
    found: dict[str, Flow] = {}
    for flow in flows:
        key = json.dumps([dict(flow.work), dict(flow.chain), flow.strands, dict(flow.lines)], sort_keys=True)
        times = flow.times + (found[key].times if key in found else 0.0)
        found[key] = Flow(flow.work, flow.chain, flow.strands, times, flow.lines)
    return list(found.values())


def read(text: str) -> tuple[Flow, ...]:
    """The inverse of `written`; nothing of what is none."""
    try:
        return tuple(
            Flow(
                _counts(row["work"]),
                _counts(row["chain"]),
                float(row["strands"]),
                float(row["times"]),
                {
                    int(n): (_counts(work), _counts(chain))
                    for n, (work, chain) in row.get("lines", {}).items()
                },
            )
            for row in json.loads(text)
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        return ()


def _counts(row: Any) -> dict[str, float]:
    return {str(name): float(count) for name, count in row.items()}
