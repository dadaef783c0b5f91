"""Measures the executed Cambricon-LLM: speed of page codes and of generation, and the bit error experiment.

    python -m benchmarks.cambricon_functional speed
    python -m benchmarks.cambricon_functional ber --out build/ber [--seeds 5] [--tokens 1024]
    python -m benchmarks.cambricon_functional report --out build/ber

`ber` writes every run (runs.parquet) and then does what `report` does from there: means and ranges
(summary.json) and the plot of docs/cambricon-functional.md.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import polars as pl

from tileprobe.files import write_file, write_json
from tileprobe.targets.cambricon.functional import experiment, layers
from tileprobe.targets.cambricon.functional.ecc import make_codec
from tileprobe.targets.cambricon.functional.generate import Sampler, generate
from tileprobe.targets.cambricon.functional.inject import inject
from tileprobe.targets.cambricon.functional.model import FlashModel
from tileprobe.targets.cambricon.functional.plot import Curve, Panel, ber_panel, page
from tileprobe.targets.cambricon.functional.timing import make_timer
from tileprobe.targets.cambricon.functional.tokenizer import load_tokenizer
from tileprobe.targets.cambricon.machine import load_machine

EXAMPLE = Path(__file__).parents[1] / "examples" / "tiny-llm"
FULL_PAGES = "512x1024"  # blocks of 128 x 128: the small model's matrices fill their pages
PLANTED = 32.0  # outliers this many times as large as the other weights


def seconds(repeats: int, work, *args) -> float:
    """The best of some runs in this thread's own time: the machine may be busy with other things."""
    times = []
    for _ in range(repeats):
        begin = time.thread_time()
        work(*args)
        times.append(time.thread_time() - begin)
    return min(times)


def speed() -> None:
    rng = np.random.default_rng(0)
    pages = 256
    print(f"{'code':14}{'BER':>8}{'encode MB/s':>13}{'decode MB/s':>13}")
    for name in ("none", "paper", "hamming", "bch"):
        codec = make_codec(name)
        values = np.clip(rng.standard_normal((pages, 16384)) * 30, -127, 127).astype(np.int8)
        codec.decode(codec.encode(values[:1]))
        encode = values.nbytes / 1e6 / seconds(5, codec.encode, values)
        for rate in (1e-5, 1e-4, 1e-3):
            stored = codec.encode(values)
            inject(stored, np.arange(pages), 16384, rate, seed=1)
            codec.decode(stored[:16])
            decode = values.nbytes / 1e6 / seconds(5, codec.decode, stored)
            print(f"{name:14}{rate:8.0e}{encode:13.0f}{decode:13.0f}")
    for weights in ("w8a8", "w4a16"):
        print(f"generation, {weights}: {tokens_per_second(weights):.0f} tokens/s")


def tokens_per_second(weights: str) -> float:
    model = FlashModel.load(EXAMPLE, weights=weights)
    tokenizer = load_tokenizer(EXAMPLE, model.spec.vocab)
    timer = make_timer(model.spec.model, model.machine, model.options)
    run = lambda: list(generate(model, tokenizer, "It is a truth", 60, Sampler(seed=1), timer))  # noqa: E731
    run()
    return 60 / seconds(3, run)


def ber(out: Path, seeds: int, tokens: int) -> None:
    machine = load_machine("cambricon:s")
    text = (EXAMPLE / "heldout.txt").read_text(encoding="utf-8")
    rows = []
    for name, size in (("as trained", None), (f"outliers x{PLANTED:.0f}", PLANTED)):
        plan = experiment.Plan(
            EXAMPLE, machine, text, seeds=seeds, tokens=tokens, tile=FULL_PAGES, outliers=size
        )
        done = [0]

        def progress(code: str, plan=plan, done=done, name=name) -> None:
            done[0] += 1
            print(f"\r{name}: {done[0]} of {plan.runs} runs ({code})      ", end="", flush=True)

        rows += [{"model": name, **row} for row in experiment.run(plan, progress)]
        print()
    for name, layer in (("plain layer", layers.PLAIN), ("layer with outliers", layers.OUTLIERS)):
        found = layers.run_layer(machine, layer, experiment.CODES, experiment.RATES, seeds)
        rows += [{"model": name, **row} for row in found]
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(_made(out) / "runs.parquet")
    report(out)


def report(out: Path) -> None:
    """Tables and plot of the runs in a folder."""
    rows = pl.read_parquet(out / "runs.parquet").to_dicts()
    tables = {}
    for name in dict.fromkeys(row["model"] for row in rows):
        group = [row for row in rows if row["model"] == name]
        tables[name] = experiment.summary(group) if group[0]["error"] is None else layer_summary(group)
        print(f"\n{name}")
        for row in tables[name]:
            print(f"{row['ecc']:14}{row['rate']:8.0e}{row.get('perplexity', row.get('error')):14.4g}")
    write_json(out / "summary.json", tables, make_folder=True)
    write_file(out / "cambricon-ber.svg", draw(tables), make_folder=True)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def layer_summary(rows: list[dict]) -> list[dict]:
    out = []
    for key in dict.fromkeys((r["ecc"], r["rate"]) for r in rows):
        errors = [r["error"] for r in rows if (r["ecc"], r["rate"]) == key]
        out.append({"ecc": key[0], "rate": key[1], "error": statistics.fmean(errors)})
        out[-1] |= {"low": min(errors), "high": max(errors)}
    return out


def draw(tables: dict[str, list[dict]]) -> str:
    panels = [ber_panel(tables[name], f"Perplexity, {name}") for name in list(tables)[:2]]
    panel = Panel("Relative error of a layer with outliers", "bit error rate", "|y' - y| / |y|")
    for code in experiment.CODES:
        points = [
            (
                r["rate"],
                *(max(1e-4, r[key]) for key in ("error", "low", "high")),
            )
            for r in tables["layer with outliers"]
            if r["ecc"] == code
        ]
        panel.curves.append(Curve(code, points))
    return page([*panels, panel])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("speed")
    sweep = commands.add_parser("ber")
    sweep.add_argument("--out", type=Path, required=True)
    sweep.add_argument("--seeds", type=int, default=5)
    sweep.add_argument("--tokens", type=int, default=1024)
    commands.add_parser("report").add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.command == "speed":
        speed()
    elif args.command == "report":
        report(args.out)
    else:
        ber(args.out, args.seeds, args.tokens)


if __name__ == "__main__":
    main()
