"""The table of `kperfir.py` as a picture: overhead, errors of regions, rounds as the models have them."""

from __future__ import annotations

from typing import Any

OURS, CODE, PROTON = "#1f6feb", "#9ec1f7", "#c9c9c9"


def draw(rows: list[dict[str, Any]], paper_percent: float, path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "kperfir"  # the same rows are the same file
    from matplotlib import pyplot

    names = [f"{each['machine']} {each['kernel'].replace('product, ', '')}" for each in rows]
    figure, plots = pyplot.subplots(
        1, 3, figsize=(11, 0.34 * len(rows) + 1.7), layout="constrained", sharey=True
    )
    _overhead(plots[0], rows, paper_percent)
    _errors(plots[1], rows)
    _rounds(plots[2], rows)
    plots[0].set_yticks(range(len(names)), names, fontsize=8)
    plots[0].invert_yaxis()
    for plot in plots:
        plot.tick_params(labelsize=8)
        for side in ("top", "right"):
            plot.spines[side].set_visible(False)
    figure.savefig(path, **({"metadata": {"Date": None}} if path.endswith(".svg") else {"dpi": 150}))


def _overhead(plot: Any, rows: list[dict[str, Any]], paper_percent: float) -> None:
    """On a scale that is linear up to one percent."""
    places = range(len(rows))
    theirs = [each["proton_percent"] or 0.0 for each in rows]
    plot.barh([place + 0.2 for place in places], theirs, 0.36, color=PROTON, label="Proton, all stages")
    plot.barh(
        [place - 0.2 for place in places], [each["overhead_percent"] for each in rows], 0.36, color=OURS,
        label="ours, default plan",
    )  # fmt: skip
    plot.axvline(
        paper_percent, color="black", linewidth=0.8, linestyle=":", label=f"paper's mean {paper_percent} %"
    )
    plot.axvline(0, color="black", linewidth=0.8)
    plot.set_xscale("symlog", linthresh=1)
    plot.set_xticks([0, 1, 3, 10, 100], ["0", "1", "3", "10", "100"])
    plot.set_xlim(min(-0.5, *(each["overhead_percent"] for each in rows)), 150)
    plot.set_xlabel("overhead, %", fontsize=8)
    _legend(plot)


def _errors(plot: Any, rows: list[dict[str, Any]]) -> None:
    marks = {"loop": "o", "iteration": "^"}
    plot.axvspan(-2, 2, color="black", alpha=0.06)
    plot.axvline(0, color="black", linewidth=0.8)
    seen: set[str] = set()
    for place, each in enumerate(rows):
        for region in each["regions"]:
            kind = region["kind"] if region["kind"] in marks else "stage"
            if region["kind"] == "kernel":
                continue
            plot.plot(
                region["error_percent"], place, marks.get(kind, "s"), color=OURS, markersize=4,
                label=None if kind in seen else kind,
            )  # fmt: skip
            seen.add(kind)
    most = max(3.0, *(abs(r["error_percent"]) for each in rows for r in each["regions"])) * 1.1
    plot.set_xlim(-most, most)
    plot.set_xlabel("region after replay against the truth, %", fontsize=8)
    _legend(plot)


def _rounds(plot: Any, rows: list[dict[str, Any]]) -> None:
    for place, each in enumerate(rows):
        for loop in each["rounds"]:
            plot.plot([loop["measured_ns"], loop["predicted_ns"]], [place, place], color=CODE, linewidth=2)
            plot.plot(loop["measured_ns"], place, "o", color=OURS, markersize=5)
            plot.plot(loop["predicted_ns"], place, "D", color="white", markeredgecolor=OURS, markersize=5)
    plot.plot([], [], "o", color=OURS, markersize=5, label="simulated")
    plot.plot([], [], "D", color="white", markeredgecolor=OURS, markersize=5, label="predicted by the models")
    plot.set_xlim(left=0)
    plot.set_xlabel("a round of the loop, ns", fontsize=8)
    _legend(plot)


def _legend(plot: Any) -> None:
    """Above the rows, where it covers none."""
    plot.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
