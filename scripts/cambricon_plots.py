"""The plots of docs/cambricon-*.md, from simulations: `python scripts/cambricon_plots.py [NAME ...]`, all by default.

Each function runs what its plot shows and returns the figure; the files go to docs/images.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import polars

matplotlib.use("Agg")
from matplotlib import pyplot

from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.simulate import simulate

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def _axes(x: str, y: str, title: str):
    figure, plot = pyplot.subplots(figsize=(7, 3.8), layout="constrained")
    plot.set_xlabel(x)
    plot.set_ylabel(y)
    plot.set_title(title, fontsize=10)
    plot.grid(True, alpha=0.25)
    for side in ("top", "right"):
        plot.spines[side].set_visible(False)
    return figure, plot


def experts():
    """Tokens/s of a mixture over the DRAM that keeps experts, for several distributions of its tokens."""
    figure, plot = _axes(
        "DRAM for experts (GB)", "tokens/s", "Qwen3-30B-A3B on cambricon:m, 8 of 128 experts a token"
    )
    model, machine = (
        load_model("qwen3-30b-a3b"),
        load_machine("cambricon:m").replace(dram_capacity_bytes=34 * 10**9),
    )
    sizes = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 29.0)
    for how in ("uniform", "zipf:0.8", "zipf:1.2"):
        rates = [
            simulate(model, machine, Options(routing=how, expert_cache_gb=gb)).tokens_per_s for gb in sizes
        ]
        print("experts", how, [f"{gb:g} GB {rate:.3g}" for gb, rate in zip(sizes, rates)])
        plot.plot(sizes, rates, marker="o", markersize=4, label=how)
    plot.axvline(2.0, color="grey", linewidth=0.8, linestyle="--")
    plot.annotate("the device's 2 GB", (2.2, plot.get_ylim()[0]), fontsize=8, color="grey", va="bottom")
    plot.set_ylim(bottom=0)
    plot.legend(frameon=False, fontsize=8)
    return figure


def contexts():
    """Tokens/s over the context: a DRAM large enough, what does not fit in flash, and all of it in flash."""
    figure, plot = _axes("context (tokens)", "tokens/s", "Llama-3-8B, 8-bit keys and values")
    model, lengths = load_model("llama3-8b"), [1000 * 2**n for n in range(8)]
    for device, colour in (("s", "tab:blue"), ("m", "tab:orange"), ("l", "tab:green")):
        machine = load_machine(f"cambricon:{device}")
        ways = (("DRAM of 10 GB", "--", machine.replace(dram_capacity_bytes=10**10), "dram"),
                ("2 GB, then flash", "-", machine, "spill"), ("flash", ":", machine, "flash"))  # fmt: skip
        for label, line, one, kv in ways:
            rates = [simulate(model, one, Options(context=n, kv=kv)).tokens_per_s for n in lengths]
            print("context", device, kv, [f"{n} {rate:.3g}" for n, rate in zip(lengths, rates)])
            plot.plot(
                lengths,
                rates,
                line,
                color=colour,
                marker="o",
                markersize=3,
                label=f"{device.upper()}, {label}",
            )
    plot.set_xscale("log", base=2)
    plot.set_xticks(lengths, [f"{n // 1000}K" for n in lengths])
    plot.set_yscale("log")
    plot.legend(frameon=False, fontsize=7, ncols=3)
    return figure


def pareto():
    """Devices for Llama-3-8B that none beats: speed, energy, area of the compute cores and how many channels."""
    import tempfile

    from tileprobe.cli import main as tileprobe
    from tileprobe.sweeps.front_plot import draw_front
    from tileprobe.targets.cambricon.explore import goals_of, parse_prices

    space = (
        "channels=4..32",
        "chips_per_channel=1..8",
        "weights=w8a8,w4a16",
        "channel_gb_per_s=1.0..2.4..0.2",
    )
    with tempfile.TemporaryDirectory() as folder:
        words = [
            "llm",
            "search",
            "--model",
            "llama3-8b",
            "--points",
            "400",
            "--cost",
            "channel=1",
            "--out",
            f"{folder}/s",
        ]
        if tileprobe([*words, *(word for one in space for word in ("--space", one))]):
            raise SystemExit("the search failed")
        frame = polars.read_parquet(f"{folder}/s.parquet")
    goals = goals_of((), parse_prices((), ("channel=1",)))
    names = {
        "tokens_per_s": "tokens/s", "joules_per_token": "energy (J a token)", "mm2": "area of compute cores (mm2)",
        "cost": "channels",
    }  # fmt: skip
    return draw_front(frame, goals, names)


PLOTS = {"cambricon-kv": contexts, "cambricon-experts": experts, "cambricon-pareto": pareto}


def main(names: list[str]) -> int:
    for name in names or PLOTS:
        if name not in PLOTS:
            print(f"no plot {name}; there are {', '.join(PLOTS)}", file=sys.stderr)
            return 2
        figure = PLOTS[name]()
        figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})
        print(f"{IMAGES / name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
