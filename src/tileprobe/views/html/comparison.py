"""Two traces side by side as a page: by region with the noise, and by line of source.

In come two traces and what `tools.compare` says of them; out goes a page made like the report's. A line's time is that
in a program, as a region's is, so that traces with different numbers of launches can be held against each other.
"""

from __future__ import annotations

import os
from difflib import SequenceMatcher
from typing import Any

import polars as pl

from tileprobe.files import write_file
from tileprobe.tools.compare import compare
from tileprobe.tools.matching import match_kernels
from tileprobe.tools.result import Result, Table
from tileprobe.tools.source import line_times
from tileprobe.trace import Kernel, Trace
from tileprobe.views import text
from tileprobe.views.encodable import encodable
from tileprobe.views.html import assemble, embedded
from tileprobe.views.html.listing import highlight

SCRIPTS = ("words.js", "comparing.js")
ROW = ("name", "a_name", "depth", "a_ns", "b_ns", "change", "noise", "verdict", "estimate")


def write_comparison(
    a: Trace, b: Trace, path: str | os.PathLike[str], names: tuple[str, str] = ("A", "B")
) -> None:
    write_file(path, comparison(a, b, names))


def comparison(a: Trace, b: Trace, names: tuple[str, str] = ("A", "B")) -> str:
    """The page as text; `names` are what the two are called."""
    a, b = encodable(a), encodable(b)
    result = compare(a, b)
    data = {
        "names": [os.path.basename(name) for name in names],
        "unit": "instructions" if text.counts(a) and text.counts(b) else "ns",
        "findings": [{"text": finding.text, "level": finding.level} for finding in result.findings],
        "kernels": _kernels(result, a, b),
    }
    return assemble(
        f"{data['names'][0]} against {data['names'][1]}", {"data": embedded(data)}, "compare.html", SCRIPTS
    )


def _kernels(result: Result, a: Trace, b: Trace) -> list[dict[str, Any]]:
    before = {other.id: mine for mine, other in match_kernels(a, b).pairs}
    after = {kernel.id: kernel for kernel in b.kernels}
    found = []
    for table in result.tables:
        if table.kernel is None or table.kernel not in before:
            continue
        rows = table.frame.select(ROW).to_dicts()
        pair = before[table.kernel], after[table.kernel]
        figure = table.frame["figure"][0]
        found.append(
            {"title": table.title, "figure": figure, "rows": rows, "lines": _lines(a, b, *pair, table)}
        )
    return found


def _lines(a: Trace, b: Trace, mine: Kernel, other: Kernel, table: Table) -> list[dict[str, Any]]:
    """Lines that both have in one row, and those that one of them has alone."""
    if not mine.source or not other.source:
        return []
    top = table.frame.filter(pl.col("depth") == 0)
    left = _timed(a, mine, float(top["a_ns"].sum()))
    right = _timed(b, other, float(top["b_ns"].sum()))
    matcher = SequenceMatcher(
        None, [line["text"] for line in left], [line["text"] for line in right], autojunk=False
    )
    rows: list[dict[str, Any]] = []
    for kind, a0, a1, b0, b1 in matcher.get_opcodes():
        if kind == "equal":
            rows += [_line(x, y) for x, y in zip(left[a0:a1], right[b0:b1])]
        else:
            rows += [_line(x, None) for x in left[a0:a1]] + [_line(None, y) for y in right[b0:b1]]
    return rows


def _timed(trace: Trace, kernel: Kernel, program_ns: float) -> list[dict[str, Any]]:
    frame = line_times(trace, kernel)
    pieces = highlight(frame["text"].to_list())
    return [
        {"n": n, "text": text, "pieces": pieces[at], "ns": None if ns is None else share * program_ns}
        for at, (n, text, ns, share) in enumerate(frame.select("line", "text", "ns", "share").iter_rows())
    ]


def _line(a: dict[str, Any] | None, b: dict[str, Any] | None) -> dict[str, Any]:
    shown = b or a
    assert shown is not None
    return {
        "a": a and {"n": a["n"], "ns": a["ns"]},
        "b": b and {"n": b["n"], "ns": b["ns"]},
        "pieces": shown["pieces"],
    }
