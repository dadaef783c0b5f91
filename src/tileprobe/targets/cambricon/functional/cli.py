"""`tileprobe llm generate` and `tileprobe llm ber`: arguments in, text, tables and files out.

Each command is a pair `add_..._arguments(parser)` and `run_...(args) -> int`; what is heavy is imported
inside.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError

CODES = "paper, paper:signed, none, hamming, bch, bch:T"
LINE = 72  # characters of generated text a line


def _rate(text: str) -> float:
    from tileprobe.targets.cambricon.functional.inject import check_rate

    try:
        return check_rate(float(text))
    except (ValueError, TileProbeError):
        raise argparse.ArgumentTypeError(f"{text!r} is no bit error rate: a number from 0 to 1") from None


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", required=True, type=Path, help="a Hugging Face folder: config.json, safetensors"
    )
    parser.add_argument("--device", default="cambricon:s", help="cambricon:s, :m, :l or a TOML file")
    parser.add_argument("--weights", default="w8a8", choices=("w8a8", "w4a16"))
    parser.add_argument("--tiling", default="paper", choices=("paper", "best"))
    parser.add_argument(
        "--tile", default="", metavar="HxW", help="the shape of a request, instead of --tiling"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")


def add_generate_arguments(parser: argparse.ArgumentParser) -> None:
    _common(parser)
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--tokens", type=int, default=64, help="how many tokens to generate (default 64)")
    parser.add_argument("--ber", type=_rate, default=0.0, help="bit error rate of the stored pages, 0 to 1")
    parser.add_argument("--ecc", default="paper", help=f"one of {CODES}")
    parser.add_argument(
        "--packages", type=int, default=1, metavar="N", help="packages that have a part of every matrix each"
    )
    parser.add_argument(
        "--age", default="", metavar="NAME=NUMBER,...",
        help="a flash that ages instead of --ber, as in `tileprobe llm --age`: its errors, and the time of its retries",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the bit errors and of the choice of tokens")
    parser.add_argument(
        "--temperature", type=float, default=0.7, help="0 takes the likeliest token (default 0.7)"
    )
    parser.add_argument("--top-k", type=int, default=40)
    parser.add_argument("--each-token", action="store_true", help="one line a token, with its own time")


def _options(args: argparse.Namespace):
    from tileprobe.targets.cambricon.compile import Options

    return Options(
        weights=args.weights, tiling=args.tiling, tile=args.tile, age=args.age, packages=args.packages
    )


def run_generate(args: argparse.Namespace) -> int:
    from tileprobe.targets.cambricon.functional.flash import Work
    from tileprobe.targets.cambricon.functional.generate import Sampler, generate
    from tileprobe.targets.cambricon.functional.model import FlashModel
    from tileprobe.targets.cambricon.functional.timing import make_timer
    from tileprobe.targets.cambricon.functional.tokenizer import load_tokenizer

    if args.age and args.ber:
        raise TileProbeError("--age says how many bits are read wrong: leave out --ber")
    _notice_first_use()
    sampler = Sampler(args.temperature, args.top_k, args.seed)
    model = FlashModel.load(args.model, args.device, args.weights, args.ecc, options=_options(args))
    tokenizer = load_tokenizer(args.model, model.spec.vocab)
    flips = model.inject(args.ber, args.seed)
    if args.age:
        flips, _ = model.age()
    outcome = model.flash.audit(model.quantised.values, flips)
    timer = make_timer(model.spec.model, model.machine, model.options)
    model.transformer([0, 0], model.new_cache())  # compiles what is not compiled yet, outside of the timing
    model.transformer([0], model.new_cache())
    model.flash.work, _ = Work(), timer(1)
    printer = _EachToken(args.prompt) if args.each_token else _Lines(args.prompt)
    tokens, begin = [], time.perf_counter()
    for token in generate(model, tokenizer, args.prompt, args.tokens, sampler, timer):
        tokens.append(token)
        printer.show(token)
    seconds = time.perf_counter() - begin
    printer.close()
    report = _generate_report(args, model, tokens, outcome)
    print(_generate_summary(report, seconds))
    if args.json:
        from tileprobe.files import write_json

        write_json(args.json, report, make_folder=True)
    return 0


class _Lines:
    """The text in lines, each behind the simulated time at which it begins."""

    def __init__(self, prompt: str):
        self._us, self._line = 0.0, ""
        self._fresh = True
        self._put(prompt)

    def show(self, token) -> None:
        self._put(token.text)
        self._us += token.simulated_us or 0.0

    def _put(self, text: str) -> None:
        for char in text:
            if self._fresh:
                print(f"{self._us / 1e3:9.2f} ms  ", end="")
                self._fresh, self._line = False, ""
            full = len(self._line) >= LINE and char == " "
            if full or char == "\n":
                print()
                self._fresh = True
                continue
            print(char, end="", flush=True)
            self._line += char

    def close(self) -> None:
        print()


class _EachToken:
    def __init__(self, prompt: str):
        print(f"prompt: {prompt}\n{'token':>6}  {'time':>10}  text")
        self._count = 0

    def show(self, token) -> None:
        self._count += 1
        print(f"{self._count:6}  {(token.simulated_us or 0.0) / 1e3:7.3f} ms  {token.text!r}", flush=True)

    def close(self) -> None:
        pass


def _generate_report(args: argparse.Namespace, model, tokens: list, outcome) -> dict[str, Any]:
    times = [t.simulated_us for t in tokens if t.simulated_us]
    total = sum(times)
    work = model.flash.work
    return {
        "model": str(args.model),
        "device": model.machine.name,
        "weights": args.weights,
        "prompt": args.prompt,
        "age": args.age,
        "text": "".join(t.text for t in tokens),
        "tokens": [{"token": t.number, "text": t.text, "simulated_us": t.simulated_us} for t in tokens],
        "tokens_per_s": len(times) / total * 1e6 if total else None,
        "latency_ms": total / len(times) / 1e3 if times else None,
        "ber": args.ber,
        "seed": args.seed,
        **model.flash.codec.describe(),
        "errors": outcome.as_dict(),
        "read_computes": work.read_computes,
        "page_reads": work.page_reads,
        "saturated_partial_sums": work.saturated,
    }


def _generate_summary(report: dict[str, Any], seconds: float) -> str:
    count = len(report["tokens"])
    rate, latency = report["tokens_per_s"], report["latency_ms"]
    lines = [f"\n{count} tokens on {report['device']}"]
    if rate:
        lines[0] += f": {latency:.3f} ms a token, {rate:,.0f} tokens/s (simulated)"
    lines[0] += f"; computed here at {count / max(seconds, 1e-9):.0f} tokens/s"
    spare = -(-report["spare_bits_used"] // 8)
    lines.append(
        f"pages read: {report['read_computes']:,} computed in flash, {report['page_reads']:,} to the NPU; "
        f"ECC {report['ecc']}: {spare} of {report['spare_bytes']} spare bytes a page"
    )
    e = report["errors"]
    if report["ber"] or report["age"]:
        d = e["decoder"]
        lines.append(
            f"bit errors: {e['flips_data']:,} in data, {e['flips_spare']:,} in spare; "
            f"of {e['hit']:,} values hit {e['corrected']:,} corrected, "
            f"{e['zeroed']:,} zeroed, {e['missed']:,} missed; "
            f"{e['collateral']:,} others harmed; "
            f"{d['discarded']:,} records discarded, {e['misled']:,} misled "
            f"({e['hit_unused']:,} more were hit where pages hold no weight)"
        )
    if report["saturated_partial_sums"]:
        lines.append(
            f"{report['saturated_partial_sums']:,} partial sums were too wide for the core and saturated"
        )
    return "\n".join(lines)


def add_ber_arguments(parser: argparse.ArgumentParser) -> None:
    _common(parser)
    parser.add_argument("--ecc", nargs="+", metavar="CODE", help=f"codes to compare: {CODES}")
    parser.add_argument("--ber", nargs="+", type=_rate, metavar="RATE", help="bit error rates")
    parser.add_argument("--seeds", type=int, default=5, help="runs at each rate (default 5)")
    parser.add_argument(
        "--tokens", type=int, default=1024, help="tokens of the text to predict (default 1024)"
    )
    parser.add_argument("--text", type=Path, help="a text file (default: heldout.txt in the model's folder)")
    parser.add_argument(
        "--outliers", type=float, metavar="SIZE", help="plant weight outliers this many times as large"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="write a plot here")
    parser.add_argument("--parquet", type=Path, metavar="FILE", help="write all runs here as a table")


def run_ber(args: argparse.Namespace) -> int:
    from tileprobe.targets.cambricon.functional import experiment
    from tileprobe.targets.cambricon.functional.ecc import make_codec
    from tileprobe.targets.cambricon.machine import load_machine

    path = args.text or args.model / "heldout.txt"
    if not path.is_file():
        raise TileProbeError(f"no text {path}: give one with --text")
    for name in args.ecc or ():
        make_codec(name)  # an unknown name should not be found after minutes
    plan = experiment.Plan(
        folder=args.model,
        machine=load_machine(args.device),
        text=path.read_text(encoding="utf-8", errors="replace"),
        weights=args.weights,
        codes=tuple(args.ecc or experiment.CODES),
        rates=tuple(sorted(args.ber or experiment.RATES)),
        seeds=args.seeds,
        tokens=args.tokens,
        tiling=args.tiling,
        tile=args.tile,
        outliers=args.outliers,
    )
    _notice_first_use()
    rows = _with_progress(plan)
    table = experiment.summary(rows)
    _print_table(table)
    _write_results(args, rows, table)
    return 0


def _with_progress(plan) -> list[dict[str, Any]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from tileprobe.targets.cambricon.functional import experiment

    columns = (TextColumn("{task.description:14}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("quantising", total=plan.runs)
        return experiment.run(plan, lambda code: bar.update(task, advance=1, description=code))


def _print_table(table: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    out = Table("ECC", "spare B", "BER", "perplexity", "seeds from, to", "next token right")
    for row in table:
        spread = f"{row['perplexity_low']:.4g}, {row['perplexity_high']:.4g}"
        right = f"{100 * row['accuracy']:.1f} % +- {100 * row['accuracy_spread']:.1f}"
        rate = f"{row['rate']:.0e}" if row["rate"] else "0"
        out.add_row(row["ecc"], str(row["spare_bytes_used"]), rate, f"{row['perplexity']:.4g}", spread, right)
    Console().print(out)


def _write_results(args: argparse.Namespace, rows: list[dict[str, Any]], table: list[dict[str, Any]]) -> None:
    from tileprobe.files import write_file, write_json
    from tileprobe.targets.cambricon.functional.plot import ber_panel, page

    if args.json:
        report = {"model": str(args.model), "device": args.device, "runs": rows, "summary": table}
        write_json(args.json, report, make_folder=True)
    if args.parquet:
        import io

        import polars as pl

        buffer = io.BytesIO()
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(buffer)
        write_file(args.parquet, buffer.getvalue(), make_folder=True)
    if args.plot:
        panel = ber_panel(table, f"{args.model.name}, {args.weights}")
        write_file(args.plot, page([panel]), make_folder=True)


def _notice_first_use() -> None:
    from tileprobe.targets.cambricon.functional.ecc.outlier import _decode

    if not _decode.stats.cache_hits and not Path(_decode._cache.cache_path).is_dir():
        print("compiling the page codes, once", file=sys.stderr, flush=True)
