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

from tileprobe.sweeps.front_plot import plain_numbers
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
    plain_numbers(plot.yaxis)
    plot.legend(frameon=False, handlelength=4, fontsize=7, ncols=3)
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


def life():
    """Days until blocks are worn, over tokens a day: TLC and SLC by temperature."""
    figure, plot = _axes(
        "tokens a day", "life (years)", "OPT-6.7B on cambricon:s+tlc, rewritten as late as possible"
    )
    model, tokens = load_model("opt-6.7b"), [10**n for n in range(2, 7)]
    for cycles, line in ((100, "-"), (500, "--")):
        for celsius, colour in ((30, "tab:blue"), (45, "tab:orange"), (60, "tab:red")):
            years = []
            for n in tokens:
                age = f"cycles={cycles},celsius={celsius},reclaim=auto,refresh=auto,tokens_a_day={n}"
                found = simulate(model, load_machine("cambricon:s+tlc"), Options(age=age)).aging
                assert found is not None
                years.append(found["life_days"] / 365.25)
            print("life", cycles, celsius, [f"{n} {y:.3g}" for n, y in zip(tokens, years)])
            plot.plot(tokens, years, line, color=colour, marker="o", markersize=3,
                      label=f"TLC at {cycles} cycles, {celsius} C")  # fmt: skip
    plot.set_xscale("log")
    plot.set_yscale("log")
    plain_numbers(plot.yaxis)
    plot.legend(frameon=False, handlelength=4, fontsize=7)
    return figure


def retries():
    """Tokens/s over the days since the model was written, without rewriting; a band for what a retry gains."""
    figure, plot = _axes(
        "days since the model was written, at 30 C",
        "tokens/s",
        "OPT-6.7B on cambricon:s+tlc, never rewritten",
    )
    model, machine, days = load_model("opt-6.7b"), load_machine("cambricon:s+tlc"), (0, 1, 3, 10, 30, 90, 365)
    for cycles, colour in ((10, "tab:blue"), (500, "tab:orange"), (1000, "tab:red")):
        rates = {
            gain: [
                simulate(
                    model, machine.replace(retry_factor=gain), Options(age=f"cycles={cycles},days={d}")
                ).tokens_per_s
                for d in days
            ]
            for gain in (0.3, 0.5, 0.8)
        }
        print("retries", cycles, {g: [f"{r:.3g}" for r in found] for g, found in rates.items()})
        at = range(len(days))
        plot.plot(at, rates[0.5], color=colour, marker="o", markersize=3, label=f"{cycles} cycles")
        plot.fill_between(at, rates[0.3], rates[0.8], color=colour, alpha=0.15, linewidth=0)
    plot.set_xticks(range(len(days)), [str(d) for d in days])
    plot.set_ylim(bottom=0)
    plot.legend(frameon=False, fontsize=8)
    return figure


def packages():
    """Tokens/s over packages: split by tensors over two links, and a pipeline for one token and for several."""
    figure, plot = _axes("packages", "tokens/s", "Llama-3-8B, 1000 tokens of context")
    model, counts = load_model("llama3-8b"), (1, 2, 4, 8)
    for device, colour in (("s", "tab:blue"), ("l", "tab:green")):
        machine = load_machine(f"cambricon:{device}")
        fast = machine.replace(packages_gb_per_s=64.0, packages_latency_us=0.1)
        for label, line, one in (("PCIe 5.0 x4, 1 us", "-", machine), ("64 GB/s, 0.1 us", "--", fast)):
            rates = [simulate(model, one, Options(packages=n)).tokens_per_s for n in counts]
            print("packages", device, label, [f"{n} {rate:.3g}" for n, rate in zip(counts, rates)])
            plot.plot(counts, rates, line, color=colour, marker="o", markersize=3,
                      label=f"{device.upper()}, tensor, {label}")  # fmt: skip
        found = [simulate(model, machine, Options(packages=n, split="pipeline")) for n in counts]
        full = [r.packages["all_busy_tokens_per_s"] if r.packages else r.tokens_per_s for r in found]
        print(
            "packages",
            device,
            "pipeline",
            [f"{n} {r.tokens_per_s:.3g} {f:.3g}" for n, r, f in zip(counts, found, full)],
        )
        plot.plot(
            counts,
            [r.tokens_per_s for r in found],
            ":",
            color=colour,
            label=f"{device.upper()}, pipeline, one sequence",
        )
        plot.plot(counts, full, "-.", color=colour, label=f"{device.upper()}, pipeline, a sequence in each")
    plot.set_xscale("log", base=2)
    plot.set_yscale("log")
    plain_numbers(plot.yaxis)
    plot.set_xticks(counts, [str(n) for n in counts])
    plot.legend(frameon=False, handlelength=4, fontsize=7, ncols=2)
    return figure


PLOTS = {
    "cambricon-pareto": pareto,
    "cambricon-packages": packages,
    "cambricon-kv": contexts,
    "cambricon-experts": experts,
    "cambricon-life": life,
    "cambricon-retries": retries,
}


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
