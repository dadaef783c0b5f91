"""A picture of a sweep: one curve for each combination of the parameters that are not on the x axis."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tileprobe.errors import TileProbeError
from tileprobe.files import replacing

_LONGEST = 60  # characters of a name in the legend
MOST_NAMED = 16  # curves with a line in the legend


def plot_sweep(
    frame: pl.DataFrame, axes: list[str], column: str, path: Path, label: str, title: str = ""
) -> Path | None:
    """Draw `column` over the first axis that is a number (else the first); None when matplotlib is not
    there.
    """
    if column not in frame.columns:
        known = [name for name in frame.columns if frame[name].dtype.is_numeric()]
        raise TileProbeError(f"--plot {column}: the table has no such column; it has {', '.join(known)}")
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    good = frame.filter(pl.col("error").is_null())
    numeric = [name for name in axes if good[name].dtype.is_numeric()]
    x = numeric[0] if numeric else axes[0]
    rest = [name for name in axes if name != x]
    figure, plot = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    groups = good.partition_by(rest, as_dict=True, maintain_order=True) if rest else {(): good}
    for values, part in groups.items():
        name = ", ".join(
            f"{value}" if isinstance(value, str) else f"{axis} {value}" for axis, value in zip(rest, values)
        )
        part = part.sort(x) if numeric else part
        xs = part[x].to_list() if numeric else [str(v) for v in part[x].to_list()]
        plot.plot(
            xs,
            part[column].to_list(),
            marker="o",
            linewidth=1.6,
            markersize=4.5,
            label=name[:_LONGEST] or None,
        )
    _dress(plot, good, x, column, label, title, bool(numeric), 1 < len(groups) <= MOST_NAMED)
    try:
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=150, format="png")
    finally:
        pyplot.close(figure)
    return path


def _dress(
    plot, frame: pl.DataFrame, x: str, column: str, label: str, title: str, numeric: bool, legend: bool
) -> None:
    plot.set_xlabel(x.replace("_", " "))
    plot.set_ylabel(label)
    plot.set_title(title, fontsize=10)
    values = frame[x].to_list()
    if numeric and len(values) and min(values) > 0 and max(values) / min(values) >= 8:
        plot.set_xscale("log", base=2)
        plot.set_xticks(sorted(set(values)), [f"{v:g}" for v in sorted(set(values))])
        plot.minorticks_off()
    found = frame[column].drop_nulls().to_list()
    if found and min(found) > 0 and max(found) / min(found) > 20:
        plot.set_yscale("log")
    else:
        plot.set_ylim(bottom=0)
    plot.grid(True, alpha=0.25)
    if legend:
        plot.legend(frameon=False, fontsize=8)
    for side in ("top", "right"):
        plot.spines[side].set_visible(False)
