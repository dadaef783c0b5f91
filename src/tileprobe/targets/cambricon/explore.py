"""`tileprobe llm search`: devices that none beats in speed, energy, area and cost at once."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tileprobe.errors import TileProbeError
from tileprobe.files import write_json
from tileprobe.sweeps.front_plot import plot_front
from tileprobe.sweeps.outcome import DONE, REFUSED
from tileprobe.sweeps.pareto import Goal, front, parse_goals, values_of
from tileprobe.sweeps.run import running
from tileprobe.sweeps.search import Search, parse_space
from tileprobe.sweeps.table import frame_of, print_table, say_failed, write_table
from tileprobe.targets.cambricon.command import check_say, settings_of
from tileprobe.targets.cambricon.points import RESULTS, columns, fixed_of, given, value_of, work
from tileprobe.targets.cambricon.points_told import told_of
from tileprobe.targets.cambricon.prices import Prices, parse_prices
from tileprobe.targets.cambricon.report import print_assumed
from tileprobe.targets.cambricon.sweep import KIND, LABELS

NAMES = {"tokens_per_s": "tokens/s", "joules_per_token": "J a token", "mm2": "mm2", "cost": "cost"}
FIGURES = (*RESULTS, "mm2", "cost")


def goals_of(texts: Sequence[str], prices: Prices) -> tuple[Goal, ...]:
    """What was asked for; else speed and energy, area, and cost where one was given."""
    usual = ["max:tokens_per_s", "min:joules_per_token", "min:mm2", *(["min:cost"] if prices.cost else [])]
    goals = parse_goals(texts or usual, FIGURES)
    if any(goal.column == "cost" for goal in goals) and not prices.cost:
        raise TileProbeError("there is no cost: say what parts cost, such as --cost die=3.1 --cost dram_gb=2")
    return goals


def figures_of(entry: Mapping[str, Any], prices: Prices) -> dict[str, Any]:
    """A point's figures, with the area and the cost of its device, in all its packages."""
    _, machine, options = settings_of(given(entry["settings"]))
    mm2, cost = (of(machine, options.packages) for of in (prices.mm2, prices.price))
    return {**entry["result"], "mm2": mm2, "cost": cost}


def run_search_command(args: argparse.Namespace) -> int:
    """`tileprobe llm search`."""
    space = parse_space(args.space, value_of)
    fixed, prices = fixed_of(args), parse_prices(args.area, args.cost)
    goals = goals_of(args.goal, prices)
    names = [one.name for one in space]
    if "model" not in fixed and "model" not in names:
        raise TileProbeError("say which model: --model opt-6.7b, or --space model=opt-6.7b,opt-13b")
    check_say(fixed, {one.name: one.values or (one.low, one.high) for one in space})
    search = Search(space, goals, args.search_seed, args.population)
    with running("search", args, work(), KIND, settled=(DONE, REFUSED)) as found:
        why = search.run(found, fixed, args.points, lambda entry: figures_of(entry, prices))
        told = told_of(entry["settings"] for entry in found.entries() if entry["outcome"] == DONE)
        entries = [_with_figures(entry, prices) for entry in found.entries()]
    frame = marked(frame_of(entries, columns), goals)
    table = write_table(frame, Path(f"{args.out}.parquet"))
    failed = say_failed(frame, names)
    best = frame.filter("front")
    if not best.height:
        print(f"no point has a result; {table} has the reasons")
        return 1
    write_json(f"{args.out}.json", document(frame, names, goals, prices, args.search_seed) | told.to_json())
    shown = [goal.column for goal in goals]
    first = goals[0].column, goals[0].more
    print_table(best.sort(first[0], descending=first[1]), names, shown, NAMES, first)
    print_assumed(told.assumed, told.notes)
    print(f"\n{best.height} of {frame.height - failed:,} points are on the front; {prices.told()}")
    if why:
        print(f"ended before {args.points:,} points: {why}")
    picture = plot_front(frame, goals, Path(f"{args.out}.png"), {**LABELS, **NAMES, "mm2": "area (mm2)"})
    print(
        f"{args.out}.json, {table}"
        + (f"; plot in {picture}" if picture else "; no plot: pip install matplotlib")
    )
    return 0


def _with_figures(entry: dict[str, Any], prices: Prices) -> dict[str, Any]:
    return {**entry, "result": figures_of(entry, prices)} if entry["outcome"] == DONE else entry


def marked(frame: pl.DataFrame, goals: Sequence[Goal]) -> pl.DataFrame:
    """With a column that says which points are on the front."""
    if goals[0].column not in frame.columns:
        return frame.with_columns(front=pl.lit(False))
    good = frame["error"].is_null()
    found = iter(front(values_of(frame.filter(good).to_dicts(), goals)))
    return frame.with_columns(front=pl.Series([bool(ok and next(found)) for ok in good], dtype=pl.Boolean))


def document(
    frame: pl.DataFrame, names: Sequence[str], goals: Sequence[Goal], prices: Prices, seed: int
) -> dict[str, Any]:
    """The front for scripts, best first by the first goal."""
    best = frame.filter("front").sort(goals[0].column, descending=goals[0].more)
    kept = [name for name in FIGURES if name in best.columns]
    return {
        "schema": 1, "goals": [str(goal) for goal in goals], "area_mm2": dict(prices.area), "cost": dict(prices.cost),
        "seed": seed, "points": frame.height, "failed": frame["error"].is_not_null().sum(),
        "front": [
            {"settings": {name: row[name] for name in names}, **{name: row[name] for name in kept}}
            for row in best.iter_rows(named=True)
        ],
    }  # fmt: skip
