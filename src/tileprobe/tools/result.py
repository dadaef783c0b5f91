"""What a tool returns: tables and findings, as data. Views print them; programs read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tileprobe import html_of


@dataclass(frozen=True)
class Column:
    """How a column of a table is to be read: `ns`, `share` (0 to 1, with a bar), `percent` (0 to 1), `count`, `text`,
    `tree`, `number`, `amount` (words, to the right), `letter` (in the style that the column `style` has)."""

    name: str
    form: str = "text"
    title: str = ""
    estimate: str = ""  # a column that says of each row whether this figure is an estimate
    low: str = ""  # columns with the bounds of its 95 % interval, null where there is none
    high: str = ""


@dataclass
class Table:
    """A titled frame. `columns` says which columns to show, in which form; the frame may have more."""

    title: str
    frame: pl.DataFrame
    columns: list[Column]
    kernel: int | None = None  # the kernel it is about, if it is about one

    def _repr_html_(self) -> str:
        return html_of(self)


@dataclass(frozen=True)
class Finding:
    """One thing worth saying, in a sentence, with the numbers behind it."""

    text: str
    level: str = "info"  # info, or warning when something is wrong with the measurement or the kernel
    data: dict[str, Any] = field(default_factory=dict)
    kernel: int | None = None  # the kernel it is about, if it is about one: shown with it


@dataclass
class Result:
    """All that a tool has to say about a trace."""

    tool: str
    tables: list[Table] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "tables": [{"title": t.title, "rows": t.frame.to_dicts()} for t in self.tables],
            "findings": [{"text": f.text, "level": f.level, "data": f.data} for f in self.findings],
        }

    def _repr_html_(self) -> str:
        return html_of(self)
