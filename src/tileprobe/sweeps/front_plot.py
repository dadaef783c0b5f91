"""A picture of a front: the first goal over each of the others, all points grey, those of the front in colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tileprobe.files import replacing
from tileprobe.sweeps.pareto import Goal, front, values_of


def plot_front(
    frame: pl.DataFrame, goals: Sequence[Goal], path: Path, labels: Mapping[str, str]
) -> Path | None:
    """None where matplotlib is not there. The suffix of the path says which kind of picture it is."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = draw_front(frame, goals, labels)
    try:
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=150, format=path.suffix[1:])
    finally:
        pyplot.close(figure)
    return path


def draw_front(frame: pl.DataFrame, goals: Sequence[Goal], labels: Mapping[str, str]) -> Any:
    from matplotlib import pyplot

    good = frame.filter(pl.col("error").is_null())
    best = good.filter("front")
    first, others = goals[0], list(goals[1:]) or [goals[0]]
    figure, plots = pyplot.subplots(
        1,
        len(others),
        figsize=(1.2 + 3.4 * len(others), 3.8),
        layout="constrained",
        squeeze=False,
        sharey=True,
    )
    for plot, goal in zip(plots[0], others):
        x, y = goal.column, first.column
        plot.scatter(good[x], good[y], s=6, color="0.75", label=f"{good.height:,} points", linewidths=0)
        plot.scatter(
            best[x], best[y], s=14, color="tab:blue", label=f"{best.height:,} on the front", linewidths=0
        )
        pair = good.filter(pl.Series(front(values_of(good.to_dicts(), [first, goal])))).sort(x)
        plot.plot(pair[x], pair[y], color="tab:orange", linewidth=1.2, label="best of these two alone")
        plot.set_xlabel(labels.get(x, x.replace("_", " ")))
        _scale(plot, good[x], "x")
        _scale(plot, good[y], "y")
        plot.grid(True, alpha=0.25)
        for side in ("top", "right"):
            plot.spines[side].set_visible(False)
    plots[0][0].set_ylabel(labels.get(first.column, first.column.replace("_", " ")))
    plots[0][0].legend(frameon=False, fontsize=7)
    return figure


def _scale(plot: Any, values: pl.Series, axis: str) -> None:
    """Logarithmic where values differ by much."""
    low, high = float(values.min()), float(values.max())  # pyright: ignore[reportArgumentType]
    if low > 0 and high / low > 20:
        getattr(plot, f"set_{axis}scale")("log")
        plain_numbers(getattr(plot, f"{axis}axis"))


def plain_numbers(axis: Any) -> None:
    """20 and 0.5 on a logarithmic axis, where there would be powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
