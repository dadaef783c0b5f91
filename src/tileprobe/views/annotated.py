"""The kernel's source with the time each line took, its hot lines coloured."""

from __future__ import annotations

import polars as pl
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from tileprobe.views import text

BAR = 8  # as long as this for the hottest line
LEFT = 1 + 8 + 1 + 6 + 1 + BAR + 1  # the mark, the time, the share and the bar before a line's number
COLD = 8  # a longer run of lines without time, in a long kernel, is left out
LONG = 60


def print_source(frame: pl.DataFrame, console: Console) -> None:
    """`frame` is that of `tools.source.line_times`."""
    from tileprobe.views.terminal import heat

    code = _highlight(frame["text"].to_list(), console)
    digits = len(str(frame["line"].max() or 0))
    hidden = _hidden(frame["ns"].to_list()) if frame.height > LONG else set()
    plain = console.options.ascii_only
    hottest = max(frame["share"].to_list(), default=0.0)
    for n, row in enumerate(frame.iter_rows(named=True)):
        if n in hidden:
            if n - 1 not in hidden:
                console.print(Text(f"{'':>{LEFT + digits}} ...", style="dim"))
            continue
        out = Text(no_wrap=True, overflow="ellipsis", end="")
        if row["ns"] is None:
            out.append(" " * LEFT)
        else:
            about = "~" if row["estimate"] else " "
            out.append(f"{about}{text.duration(row['ns']):>8} {text.percent(row['share']):>6} ")
            length = row["share"] / hottest if hottest else 0.0
            out.append(f"{text.bar(length, BAR, plain):<{BAR}} ", style=heat(row["share"]))
        out.append(f"{row['line']:>{digits}} │ " if not plain else f"{row['line']:>{digits}} | ", style="dim")
        out.append_text(code[n])
        out.truncate(console.width, overflow="ellipsis")
        console.print(out)
    if frame["estimate"].any():
        note = "~ a stage fused from several lines, its time spread over them: an estimate"
        console.print(Text(note, style="dim"))


def _highlight(lines: list[str], console: Console) -> list[Text]:
    if not console.is_terminal:
        return [Text(line) for line in lines]
    syntax = Syntax("", "python", theme="ansi_dark", background_color="default")
    found = syntax.highlight("\n".join(lines)).split("\n", allow_blank=True)
    return [found[n] if n < len(found) else Text(line) for n, line in enumerate(lines)]


def _hidden(times: list[float | None]) -> set[int]:
    """Lines in the middle of long runs without any time."""
    near = {m for n, ns in enumerate(times) if ns is not None for m in range(n - 3, n + 4)} | {0, 1, 2}
    cold = [n for n in range(len(times)) if n not in near]
    runs: list[list[int]] = []
    for n in cold:
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return {n for run in runs if len(run) > COLD for n in run}
