"""What a load or a store of a kernel does to memory: how much it asks for, how much moves, in which pattern.

A target makes an `Access` for each, from the IR, from addresses of a few programs, or from all that it executed; as
`counters` they lie in a trace, bounded in number, and `accesses` reads them back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# How its figures are known, and what a trace calls that.
AFFINE, SAMPLED, COUNTED = "affine", "sampled", "counted"
_QUALITY = {AFFINE: "static", SAMPLED: "sampled", COUNTED: "exact"}
_HOW = {quality: how for how, quality in _QUALITY.items()}
PREFIX = "access "  # of the names of its counters
# What a stage computes has rows among them: of its operations those on elements that masks let through
ELEMENTS, COMPUTING = "elements", "computing "
MOST = 256  # accesses of a kernel that are kept
# Of each: totals of the programs that were looked at, unless they say other. A figure that is not known is left out.
FIGURES = (
    "programs",  # that were looked at
    "grid",  # programs of the launch
    "times",  # it was executed: by a stage, a warp
    "lanes",  # elements it was asked for, masks aside
    "active",  # of these, not masked off
    "size",  # bytes of an element
    "moved",  # bytes of the lines (sectors) that each execution touched, added up
    "unit",  # bytes of a line or sector
    "program",  # bytes of different lines that one program touched, in the mean
    "sample",  # bytes of different lines that all programs looked at touched
    "stride",  # bytes from an element to its neighbour, the most common one
    "regular",  # the share of neighbours that are so far apart
    "beside",  # the share of neighbours that lie side by side
    "alignment",  # the largest power of two that all vectors begin at a multiple of, 64 at most
    "width",  # bytes that one instruction of a lane or a vector moves
    "passes",  # through the banks of shared memory
    "least",  # passes that as many bytes need at the least
)
_SITE = re.compile(r"(.+) in (\w+) #(\d+)")


@dataclass(frozen=True)
class Access:
    """A load, store or atomic operation: `what` ("load f32") it does, in which `space` (memory, global, shared)."""

    file: str
    line: int
    what: str
    space: str
    number: int  # among those of its kernel
    how: str  # AFFINE, SAMPLED, COUNTED
    figures: Mapping[str, float] = field(default_factory=dict)

    def get(self, name: str) -> float | None:
        return self.figures.get(name)

    @property
    def asked(self) -> float | None:
        """Bytes, without what is masked off."""
        active, size = self.get("active"), self.get("size")
        return None if active is None or size is None else active * size


def counters(found: Sequence[Access]) -> dict[str, list[Any]]:
    """Columns of a trace's counters."""
    rows = [
        (one.file, one.line, f"{one.what} in {one.space} #{one.number}", PREFIX + name, float(value), _QUALITY[one.how])
        for one in found[:MOST]
        for name, value in one.figures.items()
    ]  # fmt: skip
    names = ("file", "line", "instruction", "name", "value", "quality")
    return {name: [row[n] for row in rows] for n, name in enumerate(names)}


def accesses(rows: Iterable[Mapping[str, Any]]) -> list[Access]:
    """From rows of a trace's counters, of one launch; what is none of ours, or is damaged, is passed over."""
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows:
        site = _SITE.fullmatch(row["instruction"] or "")
        name = row["name"].removeprefix(PREFIX)
        if site is None or name not in FIGURES or not row["name"].startswith(PREFIX):
            continue
        what, space, number = site.groups()
        key = (row["file"], row["line"], what, space, int(number), _HOW[row["quality"]])
        found.setdefault(key, {})[name] = row["value"]
    made = [
        Access(file, line, what, space, number, how, figures)
        for (file, line, what, space, number, how), figures in found.items()
    ]
    return sorted(made, key=lambda one: one.number)
