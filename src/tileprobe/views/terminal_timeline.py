"""The timeline in a terminal: a line a track, a letter a region, and how loops develop as sparklines.

In come a trace and a screen; out go, for each kernel, its typical launch in as many columns as the screen has. A cell
shows the innermost region that took most of its time there; a point is time in which nothing ran.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from rich.text import Text

from tileprobe.tools.iterations import iteration_times
from tileprobe.tools.regions import region_tree
from tileprobe.tools.signatures import labels
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.works import left_out
from tileprobe.views import text
from tileprobe.views.brackets import depths
from tileprobe.views.screen import Screen
from tileprobe.views.tracks import SLICES, tracks

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
STYLES = ("blue", "yellow", "green", "magenta", "cyan", "red", "bright_blue", "bright_green")
TRACKS = 24  # of a launch; more are counted
SPARKS, PLAIN_SPARKS = "▁▂▃▄▅▆▇█", "._-=+*#@"


@dataclass
class Letter:
    """What stands for a region."""

    letter: str
    style: str
    name: str
    share: float


def print_timeline(trace: Trace, screen: Screen) -> None:
    """Every kernel of which something was recorded."""
    with text.units_of(trace):
        _print_kernels(trace, screen)


def _print_kernels(trace: Trace, screen: Screen) -> None:
    if text.counts(trace):
        screen.say(f"! {text.NO_TIME}", "yellow")
    names = labels(trace.kernels)
    for kernel in trace.kernels:
        mine = trace.filter(launches=[launch.id for launch in trace.kernel_launches(kernel.id)])
        launch = _typical(mine)
        if launch is None:
            screen.say(f"{names[kernel.id]}: nothing was recorded", "yellow")
            continue
        _print_launch(trace, kernel, launch, names[kernel.id], screen)
        _print_loops(trace, kernel, screen)


def _typical(trace: Trace) -> int | None:
    """The launch that is in the middle by its length."""
    spans = trace.scan().group_by("launch").agg(pl.col("stop_ns").max() - pl.col("start_ns").min())
    frame = spans.collect().sort("stop_ns", "launch")
    return None if not frame.height else int(frame["launch"][(frame.height - 1) // 2])


def _print_launch(trace: Trace, kernel: Kernel, launch: int, name: str, screen: Screen) -> None:
    drawn = tracks(trace.filter(launches=[launch]))
    slices = drawn.frame.filter(pl.col("kind").is_in(SLICES))
    low, high = float(slices["start_ns"].min()), float(slices["stop_ns"].max())  # type: ignore[arg-type]
    screen.print(screen.words(f"{name}, launch {launch}: {text.duration(high - low)}", "bold"))
    letters = _letters(trace, kernel)
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
            known = letters.get(region)
            line.append(
                known.letter if known else "." if screen.plain else "·", known.style if known else "dim"
            )
        screen.print(line)
    if len(titles) > len(shown):
        screen.say(f"and {len(titles) - len(shown):,} more tracks", "dim")
    _print_ruler(low, high, left, width, screen)
    _print_legend(letters, screen)


def _letters(trace: Trace, kernel: Kernel) -> dict[int, Letter]:
    """The regions by their own time."""
    rows = region_tree(trace, kernel).filter(pl.col("region").is_not_null())
    whole = float(rows["self_ns"].sum()) or 1.0
    ranked = rows.group_by("region").agg(pl.col("self_ns").sum(), pl.col("name").first())
    ranked = ranked.sort("self_ns", "region", descending=[True, False])
    found: dict[int, Letter] = {}
    for n, (region, own, name) in enumerate(ranked.iter_rows()):
        letter = LETTERS[n] if n < len(LETTERS) else "?"
        found[region] = Letter(letter, STYLES[n % len(STYLES)], name, own / whole)
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


def _print_legend(letters: dict[int, Letter], screen: Screen) -> None:
    for known in letters.values():
        if known.share < 0.001:
            continue
        line = Text("  ", no_wrap=True)
        line.append(known.letter, f"bold {known.style}")
        line.append_text(screen.words(f" {text.percent(known.share):>6}  {known.name}"))
        screen.print(screen.fit(line, screen.width))
    screen.print()


def _print_loops(trace: Trace, kernel: Kernel, screen: Screen) -> None:
    """The median of each iteration, from nothing to the largest."""
    names = {region.id: region.name for region in trace.regions}
    gone = left_out(trace)
    for region in trace.kernel_regions(kernel.id):
        if region.kind != "iteration":
            continue
        times = iteration_times(trace, region, gone=gone)
        if times.height < 2:
            continue
        name = names.get(region.parent, region.name) if region.parent is not None else region.name
        line = sparkline(times["p50_ns"].to_list(), max(10, screen.width // 2), screen.plain)
        low, high = (text.duration(float(f)) for f in (times["p50_ns"].min(), times["p50_ns"].max()))  # type: ignore[arg-type]
        screen.print(screen.words(f"{name}: {line} {low} to {high} an iteration"))
    screen.print()


def sparkline(values: list[float], width: int, plain: bool = False) -> str:
    """A character a value, or a mean of neighbours where there are more than `width`."""
    bins = np.array_split(np.asarray(values, float), min(width, len(values)))
    means = np.array([part.mean() for part in bins])
    most = means.max() if len(means) else 0.0
    marks = PLAIN_SPARKS if plain else SPARKS
    level = np.zeros(len(means)) if most <= 0 else means / most * (len(marks) - 1)
    return "".join(marks[round(float(n))] for n in level)
