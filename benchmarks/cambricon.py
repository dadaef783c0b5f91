"""Cambricon-LLM: paper | simulated | error for every published figure, what our choices move, and speed.

`python -m benchmarks.cambricon` prints the tables and writes results/cambricon.json; `--sensitivity` adds
the table of choices that the paper leaves open. One set of constants for all devices and models; nothing is
fitted.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from benchmarks._common import RESULTS
from tileprobe.files import write_json
from tileprobe.targets.cambricon.baselines import FLEXGEN_DRAM, FLEXGEN_SSD, offload
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.machine import Machine, load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY
from tileprobe.targets.cambricon.result import Result
from tileprobe.targets.cambricon.simulate import simulate

EXPLAIN_OVER = 0.12  # a point further from the paper than this needs an explanation below
MEAN_LIMIT = 0.07


@dataclass(frozen=True)
class Point:
    """One figure of the paper and how to get it from us."""

    name: str
    paper: float
    model: str = "opt-6.7b"
    device: str = "cambricon:s"
    what: str = "tokens_per_s"
    options: Options = Options()  # noqa: RUF009
    changes: tuple[tuple[str, object], ...] = ()
    why: str = ""

    def machine(self, extra: dict | None = None) -> Machine:
        machine = load_machine(self.device)
        changes = {**dict(self.changes), **(extra or {})}
        return machine.replace(**changes) if changes else machine

    def run(self, extra: dict | None = None) -> Result:
        return simulate(load_model(self.model, mha=True), self.machine(extra), self.options)


_W = (
    "9216 columns are 2.25 tiles of 4096, so in every third request a quarter of the channels work: 33 % of "
    "the time of q, k, v, o, up. The paper's figure leaves no room for that, so it used another shape here. "
    "--tiling best: 1.2 tokens/s."
)
_USE = (
    "the paper contradicts itself: its 2.07 GB at its 2.17 tokens/s over 8 channels are a use of 56 %, as "
    "ours. The same factor, 0.86, lies between its bytes and its use in the full configuration."
)

TOKENS = [
    *(
        Point(f"OPT-6.7B on {d.upper()}", v, "opt-6.7b", f"cambricon:{d}")
        for d, v in zip("sml", (3.56, 10.96, 36.34))
    ),
    Point("OPT-66B on S", 0.36, "opt-66b", "cambricon:s"),
    Point("OPT-66B on M", 1.15, "opt-66b", "cambricon:m", why=_W),
    Point("OPT-66B on L", 2.59, "opt-66b", "cambricon:l"),
    *(
        Point(f"Llama2-70B on {d.upper()}", v, "llama2-70b", f"cambricon:{d}")
        for d, v in zip("sml", (0.30, 0.99, 3.44))
    ),
]
ABLATIONS = [
    Point("S, no slice control", 2.17, options=Options(slicing=False)),
    Point("S, flash only", 2.69, options=Options(mode=FLASH_ONLY)),
    Point("S, tile 128x4096", 3.54, options=Options(tile="128x4096")),
    Point("S, tile 4096x128", 2.81, options=Options(tile="4096x128")),
    Point("S, W4A16", 6.80, options=Options(weights="w4a16")),
    Point("L, W4A16", 42.8, device="cambricon:l", options=Options(weights="w4a16")),
]
SCALING = [
    Point(f"8 channels, {n} chip{'s' * (n > 1)} a channel", v, changes=(("chips_per_channel", n),))
    for n, v in zip((1, 4, 8), (2.37, 6.01, 10.7))
]
OTHERS = [
    Point("channel use, full", 0.792, what="channel_use"),
    Point(
        "channel use, no slice control", 0.484, what="channel_use", options=Options(slicing=False), why=_USE
    ),
    Point("channel use, flash only", 0.032, what="channel_use", options=Options(mode=FLASH_ONLY)),
    Point("GB over the channels a token", 2.07, what="channel_gb"),
    Point("J a token", 1.07, what="joules_per_token"),
]
HOSTS = [("OPT-6.7B", "opt-6.7b", 0.80, 3.55, 36.34), ("OPT-66B", "opt-66b", 0.11, 0.39, 2.59)]

# choices that the paper leaves open: constant -> other values worth a look
CHOICES: dict[str, tuple] = {
    "prefetch": (False,),
    "input_slots": (2, 4),
    "spare_travels": (False,),
    "partial_sum_bytes_w8a8": (1, 2, 4),
    "command_us": (0.0, 0.2),
    "slice_bytes": (256, 4096, 16384),
    "slice_command_us": (0.0, 0.2),
    "register_copy_us": (1.0, 3.0),
    "page_us": (15.0, 25.0),
    "sram_bytes": (524288, 8388608),
    "sfu_lanes": (4, 64),
    "dram_latency_us": (0.0, 1.0),
    "link_gb_per_s": (16.0, 32.0),
    "link_latency_us": (0.0, 1.0),
}


def run_points(title: str, points: list[Point], console: Console, out: list[dict]) -> list[float]:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for n, name in enumerate(("figure", "paper", "simulated", "error")):
        table.add_column(name, justify="left" if n == 0 else "right")
    errors, notes = [], []
    for point in points:
        value = getattr(point.run(), point.what)
        error = value / point.paper - 1
        errors.append(abs(error))
        over = abs(error) > EXPLAIN_OVER
        if over:
            notes.append(f"{point.name}: {point.why or 'NOT EXPLAINED'}")
        table.add_row(
            point.name, f"{point.paper:g}", f"{value:.3g}", f"{'[yellow]' if over else ''}{error:+.1%}"
        )
        out.append(
            {"figure": point.name, "paper": point.paper, "simulated": value, "error": error, "why": point.why}
        )
    console.print(table, highlight=False)
    for note in notes:
        console.print(f"  [dim]{note}[/]", highlight=False)
    console.print()
    return errors


def run_hosts(console: Console, out: list[dict]) -> None:
    table = Table(
        title="Against offloading", title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for n, name in enumerate(("figure", "paper", "simulated", "error")):
        table.add_column(name, justify="left" if n == 0 else "right")

    def row(name: str, paper: float, value: float) -> None:
        table.add_row(name, f"{paper:g}", f"{value:.3g}", f"{value / paper - 1:+.1%}")
        out.append(
            {"figure": name, "paper": paper, "simulated": value, "error": value / paper - 1, "why": ""}
        )

    machine, options = load_machine("cambricon:l"), Options()
    for name, model_name, ssd, dram, ours in HOSTS:
        model = load_model(model_name)
        slow, fast = (offload(host, model, machine, options) for host in (FLEXGEN_SSD, FLEXGEN_DRAM))
        row(f"{name}, FlexGen-SSD, tokens/s", ssd, slow.tokens_per_s)
        row(f"{name}, FlexGen-DRAM, tokens/s", dram, fast.tokens_per_s)
        rate = simulate(model, machine, options).tokens_per_s
        row(f"{name}, L over FlexGen-SSD as measured (x)", ours / ssd, rate / ssd)
        if model_name == "opt-6.7b":
            row("OPT-6.7B, FlexGen-SSD, GB moved a token", 20.3, slow.moved_gb)
            row("OPT-6.7B, FlexGen-SSD, J a token", 1.61, slow.joules_per_token)
    console.print(table, highlight=False)
    console.print(
        "  [dim]OPT-66B, FlexGen-SSD: our host reads a layer from the SSD and then sends it; with the long "
        "layers of OPT-66B the two overlap (0.107 if they did wholly), with those of OPT-6.7B they do not "
        "(1.09).[/]\n",
        highlight=False,
    )


def run_sensitivity(console: Console, out: list[dict]) -> None:
    """How far the result moves when a choice of ours moves, on the smallest and the largest device."""
    table = Table(
        title="Sensitivity: OPT-6.7B, tokens/s",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for n, name in enumerate(("choice", "ours", "instead", "S", "M", "L")):
        table.add_column(name, justify="left" if n == 0 else "right")
    points = {p.device[-1]: p for p in TOKENS[:3]}
    base = {d: p.run().tokens_per_s for d, p in points.items()}
    table.add_row("(as declared)", "", "", *(f"{v:.3g}" for v in base.values()))
    for name, values in CHOICES.items():
        for value in values:
            moved = {d: p.run({name: value}).tokens_per_s / base[d] - 1 for d, p in points.items()}
            table.add_row(name, _declared(name), f"{value:g}" if not isinstance(value, bool) else str(value),
                          *(f"{m:+.1%}" for m in moved.values()))  # fmt: skip
            out.append({"choice": name, "instead": value, **moved})
    for label, change in (
        ("lm_head counted", {"lm_head": True}),
        ("context 500", {"context": 500}),
        ("context 2000", {"context": 2000}),
    ):
        moved = {
            d: replace(p, options=replace(p.options, **change)).run().tokens_per_s / base[d] - 1
            for d, p in points.items()
        }
        table.add_row(label, "", "", *(f"{m:+.1%}" for m in moved.values()))
        out.append({"choice": label, **moved})
    console.print(table, highlight=False)
    console.print()


def _declared(name: str) -> str:
    from tileprobe.targets.cambricon.machine import _find_constant

    section, constant = _find_constant(name)
    return str(getattr(getattr(load_machine("cambricon:s"), section), constant))


def run_speed(console: Console, out: dict) -> bool:
    """One token of Llama2-70B on L on one core after warm-up; smaller models show that cost is linear."""
    from tileprobe.targets.cambricon.compile import compile_step
    from tileprobe.targets.cambricon.encode import encode
    from tileprobe.targets.cambricon.engine.launch import launch
    from tileprobe.targets.cambricon.engine.state import N_COMPUTED, N_STREAMED
    from tileprobe.targets.cambricon.pagemap import geometry_of

    machine = load_machine("cambricon:l")
    for name in ("llama2-7b", "llama2-13b", "llama2-70b"):
        module = compile_step(load_model(name, mha=True), machine, Options())
        program = encode(module)
        launch(program, machine, geometry_of(machine))
        started = time.perf_counter()
        run = launch(program, machine, geometry_of(machine))
        seconds = time.perf_counter() - started
        pages = int(run.state.stats[:, [N_STREAMED, N_COMPUTED]].sum())
        out[name] = {"pages": pages, "seconds": seconds}
        each = seconds / pages * 1e9
        console.print(
            f"{name} on L: {pages:,} page commands in {seconds:.2f} s ({each:.0f} ns a page)",
            highlight=False,
        )
    return out["llama2-70b"]["seconds"] < 3.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sensitivity", action="store_true", help="also the table of choices the paper leaves open"
    )
    args = parser.parse_args()
    console = Console()
    document: dict = {"figures": [], "sensitivity": [], "speed": {}}
    errors = []
    for title, points in (
        ("Decode, tokens/s (INT8, 1000 tokens of context)", TOKENS),
        ("Ablations of OPT-6.7B, tokens/s", ABLATIONS),
        ("Scaling of OPT-6.7B on S, tokens/s", SCALING),
    ):
        errors += run_points(title, points, console, document["figures"])
    run_points("Other figures of OPT-6.7B on S", OTHERS, console, document["figures"])
    run_hosts(console, document["figures"])
    mean = sum(errors) / len(errors)
    nine = sum(errors[: len(TOKENS)]) / len(TOKENS)
    document["mean_error"] = mean
    console.print(
        f"[bold]mean error of tokens/s: {mean:.1%} over {len(errors)} points[/] ({nine:.1%} over the nine of "
        f"the main table), largest {max(errors):.1%}\n", highlight=False,
    )  # fmt: skip
    if args.sensitivity:
        run_sensitivity(console, document["sensitivity"])
    fast = run_speed(console, document["speed"])
    write_json(RESULTS / "cambricon.json", document, make_folder=True)
    return 0 if mean < MEAN_LIMIT and fast else 1


if __name__ == "__main__":
    sys.exit(main())
