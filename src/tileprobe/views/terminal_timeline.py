"""The timeline in a terminal: a line a track, a letter a region; then the tree of regions, with how each one develops
over a loop's iterations as a sparkline.

In come a trace and a screen; out go, for each kernel, its typical launch in as many columns as the screen has. A cell
shows the innermost region that took most of its time there; a point is time in which nothing ran.
"""

from __future__ import annotations

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
from tileprobe.views.tracks import SLICES, tracks

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
STYLES = ("blue", "yellow", "green", "magenta", "cyan", "red", "bright_blue", "bright_green")
TRACKS = 24  # of a launch; more are counted
LITTLE = 0.001  # of the own time of all regions: with less, one that is not drawn is left out
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
    drawn = tracks(trace.filter(launches=[launch.id]))
    slices = drawn.frame.filter(pl.col("kind").is_in(SLICES))
    low, high = float(slices["start_ns"].min()), float(slices["stop_ns"].max())  # type: ignore[arg-type]
    span, lasted = text.duration(high - low), text.duration(launch.duration_ns or high - low)
    inside = "" if span == lasted else f", recorded for {span}"
    screen.print(screen.words(f"{name}, launch {launch.id}: {lasted}{inside}", "bold"))
    seen: set[int] = set()
    titles = dict(drawn.table.select("track", "name").iter_rows())
    left = min(max(len(title) for title in titles.values()), max(8, screen.width // 4))
    width = max(10, screen.width - left - 3)
    edge = "|" if screen.plain else "│"
    shown = list(titles)[:TRACKS]
    for track in shown:
        line = Text(no_wrap=True, end="")
        line.append_text(screen.fit(screen.words(f"{titles[track]:<{left}}"), left))
        line.append(f" {edge}", "dim")
        for region in _cells(slices.filter(pl.col("track") == track), low, high, width):
            seen.add(region)
            known = letters.get(region)
            line.append(
                known.letter if known else "." if screen.plain else "·", known.style if known else "dim"
            )
        screen.print(line)
    if len(titles) > len(shown):
        screen.say(f"and {len(titles) - len(shown):,} more tracks", "dim")
    _print_ruler(low, high, left, width, screen)
    return seen


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
    """For each cell the region with the most own time in it, -1 where nothing ran for most of it."""
    start, stop = slices["start_ns"].to_numpy(), slices["stop_ns"].to_numpy()
    region = slices["region"].to_numpy().astype(np.int64)
    size = (high - low) / width or 1.0
    depth = depths(np.zeros(len(start), np.int64), start, stop)
    numbers, place = np.unique(region, return_inverse=True)
    own = np.zeros((len(numbers) + 1, width))  # a row a region; the last one is idle
    own[-1] = size
    around = _around(start, depth)
    for n in range(len(start)):
        first, last = int((start[n] - low) / size), min(int((stop[n] - low) / size), width - 1)
        cells = np.arange(first, last + 1)
        inside = np.minimum(stop[n], low + (cells + 1) * size) - np.maximum(start[n], low + cells * size)
        inside = np.maximum(inside, 0.0)
        own[place[n], cells] += inside
        own[place[around[n]] if around[n] >= 0 else -1, cells] -= inside
    best = own.argmax(axis=0)
    return [int(numbers[n]) if n < len(numbers) else -1 for n in best]


def _around(start: np.ndarray, depth: np.ndarray) -> list[int]:
    """The slice around each one; they come in the order of their starts, outer ones first."""
    open_: list[int] = []
    found = []
    for n in range(len(start)):
        del open_[depth[n] :]
        found.append(open_[-1] if open_ else -1)
        open_.append(n)
    return found


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
