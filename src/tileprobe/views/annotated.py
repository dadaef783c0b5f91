"""The kernel's source with the time each line took, its hot lines coloured; and that of functions it calls."""

from __future__ import annotations

import polars as pl
from rich.syntax import Syntax
from rich.text import Text

from tileprobe.views import text
from tileprobe.views.screen import Screen
from tileprobe.views.tables import heat

BAR = 8  # as long as this for the hottest line
LEFT = 1 + 8 + 1 + 6 + 1 + BAR + 1  # the mark, the time, the share and the bar before a line's number
NARROW = 1 + 8 + 1 + 6 + 1  # the same without the bar, where a terminal has no room for it
COLD = 8  # a longer run of lines without time, in a long kernel, is left out
LONG = 60
HOT = 25  # lines of a long kernel that are always shown: the hottest
NOTES = {
    "~": "~ an estimate: what a line has of a fused stage, or of what was not recorded",
    ">": "> in functions that are called there: their own lines are below",
}


def print_source(frame: pl.DataFrame, screen: Screen, full: bool = False) -> set[str]:
    """`frame` is that of `tools.source.line_times`. Returns the marks that were used."""
    texts = [screen.words(line.expandtabs(8)).plain for line in frame["text"].to_list()]
    code = _highlight(texts, screen)
    digits = len(str(frame["line"].max() or 0))
    hidden = _hidden(frame) if frame.height > LONG and not full else set()
    hottest = max(frame["share"].to_list(), default=0.0)
    bars = screen.width >= LEFT + digits + 40
    used: set[str] = set()
    rows = list(frame.iter_rows(named=True))
    for n, row in enumerate(rows):
        if n in hidden:
            if n - 1 not in hidden:
                screen.print(
                    _gap(rows, n, hidden, (LEFT if bars else NARROW) + text.wider() + digits, screen)
                )
            continue
        out = _left(row, hottest, bars, screen, used)
        out.append_text(screen.words(f"{row['line']:>{digits}} │ ", "dim"))
        out.append_text(code[n])
        screen.print(screen.fit(out, screen.width), no_wrap=True)
    return used


def _left(row: dict, hottest: float, bars: bool, screen: Screen, used: set[str]) -> Text:
    """The time of a line, its share and a bar."""
    if row["ns"] is None:
        return Text(" " * ((LEFT if bars else NARROW) + text.wider()))
    mark = ">" if row["called_ns"] > 0.5 * row["ns"] else "~" if row["estimate"] else " "
    used.add(mark)
    if row["estimate"]:
        used.add("~")
    out = screen.words(
        f"{mark}{text.duration(row['ns']):>{8 + text.wider()}} {text.percent(row['share']):>6} "
    )
    if bars:
        length = row["share"] / hottest if hottest else 0.0
        out.append(f"{text.bar(length, BAR, screen.plain):<{BAR}} ", style=heat(row["share"]))
    return out


def _gap(rows: list[dict], first: int, hidden: set[int], left: int, screen: Screen) -> Text:
    """In place of lines that are left out: how many, and what they took."""
    last = first
    while last + 1 in hidden:
        last += 1
    share = sum(row["share"] for row in rows[first : last + 1])
    took = f", {text.percent(share)}" if share >= 0.0005 else ""
    return screen.words(f"{'':>{left}} ... {text.several(last - first + 1, 'line')}{took}", "dim")


def _highlight(lines: list[str], screen: Screen) -> list[Text]:
    if not screen.is_terminal:
        return [Text(line) for line in lines]
    syntax = Syntax("", "python", theme="ansi_dark", background_color="default")
    found = syntax.highlight("\n".join(lines)).split("\n", allow_blank=True)
    return [found[n] if n < len(found) else Text(line) for n, line in enumerate(lines)]


def _hidden(frame: pl.DataFrame) -> set[int]:
    """Lines in the middle of long runs that took no time, or hardly any."""
    times = frame["ns"].fill_null(0.0).to_list()
    hot = sorted((n for n, ns in enumerate(times) if ns), key=lambda n: -times[n])[:HOT]
    near = {m for n in hot for m in range(n - 3, n + 4)} | {0, 1, 2}
    cold = [n for n in range(len(times)) if n not in near]
    runs: list[list[int]] = []
    for n in cold:
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return {n for run in runs if len(run) > COLD for n in run}
