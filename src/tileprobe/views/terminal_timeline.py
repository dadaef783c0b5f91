"""The timeline in a terminal: a line a track, a letter a region; then the tree of regions, with how each one develops
over a loop's iterations as a sparkline.

In come a trace and a screen; out go, for each kernel, its typical launch in as many columns as the screen has. A cell
shows the innermost region that took most of its time there; a point is time in which nothing ran, a colon time in
which something did for less than half of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import polars as pl
from rich.text import Text

from tileprobe.tools.figures import LASTED
from tileprobe.tools.kernels import kernel_totals
from tileprobe.tools.regions import region_tree
from tileprobe.tools.result import Column, Table
from tileprobe.tools.signatures import labels
from tileprobe.tools.times import region_times
from tileprobe.trace import Kernel, Launch, Trace
from tileprobe.trace.works import left_out
from tileprobe.views import text
from tileprobe.views.brackets import depths
from tileprobe.views.screen import Screen
from tileprobe.views.tables import print_table
from tileprobe.views.tracks import FINE_NS, SLICES, tracks

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
STYLES = ("blue", "yellow", "green", "magenta", "cyan", "red", "bright_blue", "bright_green")
TRACKS = 24  # of a launch; more are counted
LITTLE = 0.001  # of the own time of all regions: with less, one that is not drawn is left out
IDLE, BUSY = -1, -2  # what a cell shows where no region has most of it
PARTLY = ":"
ALMOST = 0.98  # of a cell in which nothing ran: as good as all of it
RECORDED = 0.9995  # of a launch: as good as all of it
SPARKS, PLAIN_SPARKS = "▁▂▃▄▅▆▇█", "._-=+*#@"


COLUMNS = [
    Column("name", "tree", "region"),
    Column("letter", "letter", ""),
    Column("share", "share", ""),
    Column("sparks", "text", "iterations"),
    Column("range", "text", ""),
    Column("total_ns", "ns", "total", estimate="estimate"),
]


@dataclass
class Letter:
    """What stands for a region."""

    letter: str
    style: str
    share: float  # of the own time of all


NONE = Letter("", "", 0.0)


def print_timeline(trace: Trace, screen: Screen) -> None:
    """Every kernel of which something was recorded, the longest first."""
    with text.units_of(trace):
        _print_kernels(trace, screen)


def _print_kernels(trace: Trace, screen: Screen) -> None:
    if not trace.kernels:
        screen.say("the trace holds no kernel", "yellow")
    if text.counts(trace):
        screen.say(f"! {text.NO_TIME}", "yellow")
    names, times, gone = labels(trace.kernels), region_times(trace), left_out(trace)
    kernels = {kernel.id: kernel for kernel in trace.kernels}
    for number in kernel_totals(trace, times)["kernel"]:
        kernel, name = kernels[number], names[number]
        launches = {launch.id: launch for launch in trace.kernel_launches(kernel.id)}
        typical = _typical(trace.filter(launches=list(launches)))
        if typical is None:
            screen.say(f"{name}: nothing was recorded", "yellow")
            continue
        rows = region_tree(trace, kernel, times)
        letters = _letters(rows)
        drawn = _print_launch(trace, launches[typical], letters, name, screen)
        _print_tree(rows, letters, drawn, _by_iteration(trace, kernel, gone), screen)


def _typical(trace: Trace) -> int | None:
    """The launch that is in the middle by its length."""
    spans = trace.scan().group_by("launch").agg(pl.col("stop_ns").max() - pl.col("start_ns").min())
    frame = spans.collect().sort("stop_ns", "launch")
    return None if not frame.height else int(frame["launch"][(frame.height - 1) // 2])


def _print_launch(
    trace: Trace, launch: Launch, letters: dict[int, Letter], name: str, screen: Screen
) -> set[int]:
    """The regions that are drawn."""
    drawn = tracks(trace.filter(launches=[launch.id]), FINE_NS)
    slices = drawn.frame.filter(pl.col("kind").is_in(SLICES))
    low, high = float(slices["start_ns"].min()), float(slices["stop_ns"].max())  # type: ignore[arg-type]
    span, lasted = text.duration(high - low), text.duration(launch.duration_ns or high - low)
    part = text.part(launch.losses)
    inside = f", {text.percent(part)} of it recorded" if part < RECORDED else ""
    inside = inside or ("" if span == lasted else f", recorded for {span}")
    screen.print(screen.words(f"{name}, launch {launch.id}: {lasted}{inside}", "bold"))
    seen: set[int] = set()
    busy = drawn.table.filter(pl.col("track").is_in(slices["track"].unique().to_list()))
    titles = dict(busy.select("track", "name").iter_rows())
    left = min(max(len(title) for title in titles.values()), max(8, screen.width // 4))
    width = max(10, screen.width - left - 3)
    edge = "|" if screen.plain else "│"
    shown = list(titles)[:TRACKS]
    for track in shown:
        line = Text(no_wrap=True, end="")
        line.append_text(screen.words(f"{_short(titles[track], left, screen.plain):<{left}}"))
        line.append(f" {edge}", "dim")
        for region in _cells(slices.filter(pl.col("track") == track), low, high, width):
            seen.add(region)
            known = letters.get(region)
            idle = PARTLY if region == BUSY else "." if screen.plain else "·"
            line.append(known.letter if known else idle, known.style if known else "dim")
        screen.print(line)
    if len(titles) > len(shown):
        screen.say(f"and {len(titles) - len(shown):,} more tracks", "dim")
    _print_ruler(low, high, left, width, screen)
    if BUSY in seen:
        screen.say(f"{PARTLY} something ran there, for less than half of the time", "dim")
    return seen


def _short(title: str, width: int, plain: bool) -> str:
    """Without spaces, then with the first letters of all parts but the last: each tells a track from others. Cut in
    its middle where that is too long, too."""
    *around, last = title.split(" / ")
    letters = [re.sub(r"([^\W\d_])[^\W\d_]+ ?", r"\1", part) for part in around]
    for shorter in (title, "/".join([*around, last]), "/".join([*letters, last])):
        if len(shorter) <= width:
            return shorter
        title = shorter
    mark = "..." if plain else "…"
    kept = width - len(mark)
    return f"{title[: kept // 2]}{mark}{title[len(title) - (kept - kept // 2) :]}"


def _letters(tree: pl.DataFrame) -> dict[int, Letter]:
    """The regions by their own time."""
    rows = tree.filter(pl.col("region").is_not_null())
    whole = float(rows["self_ns"].sum()) or 1.0
    ranked = rows.group_by("region").agg(pl.col("self_ns").sum())
    ranked = ranked.sort("self_ns", "region", descending=[True, False])
    found: dict[int, Letter] = {}
    for n, (region, own) in enumerate(ranked.iter_rows()):
        letter = LETTERS[n] if n < len(LETTERS) else "?"
        found[region] = Letter(letter, STYLES[n % len(STYLES)], own / whole)
    return found


def _cells(slices: pl.DataFrame, low: float, high: float, width: int) -> list[int]:
    """For each cell the region with the most own time in it; IDLE where nothing ran for most of it, BUSY where
    something did, but for less than half."""
    slices = slices.filter(pl.col("stop_ns") > pl.col("start_ns"))
    start, stop = slices["start_ns"].to_numpy(), slices["stop_ns"].to_numpy()
    size = (high - low) / width or 1.0
    numbers, place = np.unique(slices["region"].to_numpy().astype(np.int64), return_inverse=True)
    own = np.zeros((len(numbers) + 1, width))  # a row a region; the last one is idle
    own[-1] = size
    around = _around(depths(np.zeros(len(start), np.int64), start, stop))
    from_, to = (start - low) / size, (stop - low) / size
    _spread(own, place, from_, to, size)
    _spread(own, np.where(around >= 0, place[around], -1), from_, to, -size)
    best, idle = own.argmax(axis=0).tolist(), own[-1] < ALMOST * size
    return [int(numbers[n]) if n < len(numbers) else BUSY if busy else IDLE for n, busy in zip(best, idle)]


def _spread(own: np.ndarray, row: np.ndarray, start: np.ndarray, stop: np.ndarray, size: float) -> None:
    """Adds each slice to the cells of its row that it covers. Times are in cells; `size` is what a whole one adds."""
    width = own.shape[1]
    first, last = (np.minimum(one.astype(np.int64), width - 1) for one in (start, stop))
    within = first == last
    np.add.at(own, (row, first), np.where(within, stop - start, first + 1 - start) * size)
    np.add.at(own, (row[~within], last[~within]), (stop - last)[~within] * size)
    whole = np.zeros((own.shape[0], width + 1), np.int64)  # how many begin and end to cover a cell whole
    np.add.at(whole, (row[~within], first[~within] + 1), 1)
    np.add.at(whole, (row[~within], last[~within]), -1)
    own += whole.cumsum(axis=1)[:, :width] * size


def _around(depth: np.ndarray) -> np.ndarray:
    """The slice around each one, -1 where there is none; they come in the order of their starts, outer ones first."""
    open_: list[int] = []
    found = []
    for n, deep in enumerate(depth.tolist()):
        del open_[deep:]
        found.append(open_[-1] if open_ else -1)
        open_.append(n)
    return np.array(found, np.int64)


def _print_ruler(low: float, high: float, left: int, width: int, screen: Screen) -> None:
    end = text.duration(high - low)
    line = f"{'':>{left}}  0{end:>{max(len(end), width - 1)}}"
    screen.print(screen.words(line, "dim"))


def _print_tree(
    rows: pl.DataFrame,
    letters: dict[int, Letter],
    drawn: set[int],
    steps: dict[int, list[float]],
    screen: Screen,
) -> None:
    """The regions that are drawn or have some time of their own, with all that is around them; how each one develops
    over the iterations of its loop."""
    kept: set[int] = set()
    path: list[int] = []
    for n, (region, depth) in enumerate(rows.select("region", "depth").iter_rows()):
        del path[depth:]
        path.append(n)
        if region in drawn or (region in letters and letters[region].share >= LITTLE):
            kept.update(path)
    shown = rows[sorted(kept)]
    known = [letters.get(region, NONE) for region in shown["region"].to_list()]
    width = max(8, screen.width // 6)
    medians = [steps.get(region, []) for region in shown["region"].to_list()]
    table = shown.with_columns(
        pl.Series("letter", [one.letter for one in known], pl.String),
        pl.Series("style", [f"bold {one.style}".strip() for one in known], pl.String),
        pl.Series("sparks", [sparkline(one, width, screen.plain) for one in medians], pl.String),
        pl.Series("range", [_range(one) for one in medians], pl.String),
    )
    looped = [column for column in COLUMNS if any(medians) or column.name not in ("sparks", "range")]
    print_table(Table("", table, looped), screen)
    screen.print()


def _range(values: list[float]) -> str:
    if not values:
        return ""
    low, high = text.duration(min(values)), text.duration(max(values))
    return low if low == high else f"{low} to {high}"


def _by_iteration(trace: Trace, kernel: Kernel, gone: set[int]) -> dict[int, list[float]]:
    """For each region in a loop the median of each iteration, where there are several."""
    regions = [region.id for region in trace.kernel_regions(kernel.id)]
    mine = trace.scan().filter(
        pl.col("region").is_in(regions) & pl.col("kind").is_in(SLICES) & (pl.col("iteration") >= 0)
    )
    mine = mine.filter(~pl.col("launch").is_in(list(gone))) if gone else mine
    medians = mine.group_by("region", "iteration").agg(LASTED.median().alias("ns"))
    found: dict[int, list[float]] = {}
    for region, _, ns in medians.sort("region", "iteration").collect(engine="streaming").iter_rows():
        found.setdefault(region, []).append(ns)
    return {region: values for region, values in found.items() if len(values) > 1}


def sparkline(values: list[float], width: int, plain: bool = False) -> str:
    """A character a value, or a mean of neighbours where there are more than `width`."""
    if not values:
        return ""
    bins = np.array_split(np.asarray(values, float), min(width, len(values)))
    means = np.array([part.mean() for part in bins])
    most = means.max()
    marks = PLAIN_SPARKS if plain else SPARKS
    level = np.zeros(len(means)) if most <= 0 else means / most * (len(marks) - 1)
    return "".join(marks[round(float(n))] for n in level)
