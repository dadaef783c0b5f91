"""A kernel's source with the time of each line, as the page shows it, and the places that other parts refer to.

In come a kernel and the times of its lines; out go listings (the kernel, then the functions it calls) whose lines are
numbered through, so that regions and lines of IR can name them, and their text in coloured pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token

from tileprobe.ir.parts import Frame
from tileprobe.tools.source import function_times, line_times
from tileprobe.tools.times import Times
from tileprobe.trace import Kernel, Region, Trace

RANGES = ("partition", "kernel", "loop", "iteration", "scope")
# Pygments' kinds of pieces, the more special ones first, and the class of ours that colours them.
CLASSES = (
    (Comment, "c"),
    (String, "s"),
    (Number, "n"),
    (Name.Decorator, "d"),
    (Name.Function, "f"),
    (Name.Builtin, "b"),
    (Operator.Word, "k"),
    (Keyword, "k"),
)
Piece = list[str]


class Places:
    """The lines of a kernel's listings by file and number, numbered through from 0."""

    def __init__(self) -> None:
        self.numbers: dict[Frame, int] = {}

    def add(self, place: Frame) -> int:
        return self.numbers.setdefault(place, len(self.numbers))

    def find(self, frames: Iterable[Frame]) -> list[int]:
        """The numbers of places that are shown, each once, ascending."""
        return sorted({self.numbers[frame] for frame in frames if frame in self.numbers})

    def of(self, region: Region, kernel: Kernel) -> list[int]:
        """The lines that a region was made from; of a range all that it spans."""
        file = region.file or kernel.file
        frames: set[Frame] = {(file, line) for line in region.all_lines}
        if region.kind not in RANGES:
            frames |= {frame for part in region.parts for frame in part.frames}
        return self.find(frames)


def listings(trace: Trace, kernel: Kernel, times: Times, places: Places) -> list[dict[str, Any]]:
    if not kernel.source:
        return []
    shown = [(kernel.name, kernel.file, line_times(trace, kernel, times))]
    shown += [
        (function.name, function.file, frame) for function, frame in function_times(trace, kernel, times)
    ]
    return [_listing(name, file, frame, places) for name, file, frame in shown]


def _listing(name: str, file: str, frame: pl.DataFrame, places: Places) -> dict[str, Any]:
    pieces = highlight(frame["text"].to_list())
    lines = [
        {
            "id": places.add((file, row["line"])),
            "n": row["line"],
            "ns": row["ns"],
            "share": row["share"],
            "estimate": row["estimate"],
            "called_ns": row["called_ns"],
            "pieces": pieces[number],
        }
        for number, row in enumerate(frame.iter_rows(named=True))
    ]
    return {"name": name, "file": file.rsplit("/", 1)[-1], "lines": lines}


def highlight(lines: list[str]) -> list[list[Piece]]:
    """The lines in pieces [class, text]."""
    found: list[list[Piece]] = [[]]
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    for kind, text in lexer.get_tokens("\n".join(lines)):
        style = _class(kind)
        for number, part in enumerate(text.split("\n")):
            if number:
                found.append([])
            if part and found[-1] and found[-1][-1][0] == style:
                found[-1][-1][1] += part
            elif part:
                found[-1].append([style, part])
    if len(found) != len(lines):  # a character that only the lexer takes for the end of a line
        return [[["", line]] for line in lines]
    return found


def _class(kind: Any) -> str:
    return next((name for known, name in CLASSES if kind in known), "") if kind is not Token.Text else ""
