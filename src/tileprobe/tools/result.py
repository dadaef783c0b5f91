"""What a tool returns: tables and findings, as data. Views print them; programs read them."""

from __future__ import annotations

import math
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


def _finite(value: Any) -> Any:
    """The same without what JSON has no numbers for."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass
class Result:
    """All that a tool has to say about a trace."""

    tool: str
    tables: list[Table] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """All of it; `columns` are those that a report shows, in which form and under which title; `kernel` is its
        number in the trace. What is not finite is null."""
        tables = [
            {
                "title": table.title,
                "kernel": table.kernel,
                "columns": [{"name": c.name, "form": c.form, "title": c.title} for c in table.columns],
                "rows": _finite(table.frame.to_dicts()),
            }
            for table in self.tables
        ]
        findings = [
            {"text": f.text, "level": f.level, "kernel": f.kernel, "data": _finite(f.data)}
            for f in self.findings
        ]
        return {"tool": self.tool, "tables": tables, "findings": findings}

    def _repr_html_(self) -> str:
        return html_of(self)
