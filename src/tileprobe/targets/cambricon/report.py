"""The report of a run in the terminal: findings and tables of a `Result`, rendered with Rich."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tileprobe.targets.cambricon.assumptions import SECOND_HAND, spelled
from tileprobe.targets.cambricon.baselines import Baseline
from tileprobe.targets.cambricon.compile import Options, mode_of
from tileprobe.targets.cambricon.limits import bottleneck, roofline
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import NPU_ONLY
from tileprobe.targets.cambricon.result import Result
from tileprobe.targets.cambricon.what_if import Faster


def print_report(
    result: Result,
    machine: Machine,
    others: list[Baseline] | None = None,
    changes: list[Faster] | None = None,
    console: Console | None = None,
) -> None:
    console = console or Console()
    _head(console, result, machine)
    _operators(console, result)
    _units(console, result)
    _findings(console, result, machine)
    _assumed(console, result)
    if changes:
        _what_if(console, changes)
    if others:
        _baselines(console, result, others)


def _table(*columns: str, title: str = "") -> Table:
    table = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for n, column in enumerate(columns):
        table.add_column(column, justify="left" if n == 0 else "right", header_style="dim", overflow="fold")
    return table


def _mode(options: Options) -> str:
    none = options.prefill_split and options.mode == NPU_ONLY
    return mode_of(options) + (": cores would make this prompt slower, not faster" if none else "")


def _head(console: Console, r: Result, machine: Machine) -> None:
    o, flash = r.options, machine.flash
    step = f"prefill of {r.tokens} tokens" if o.prefill else f"decode at a context of {o.context}"
    if o.batch > 1:
        step += f", {o.batch} sequences"
    if o.verify > 1:
        step += f", {o.verify} tokens verified a pass, {o.acceptance:.0%} accepted"
    console.print(
        f"\n[bold]{r.model}[/] on [bold]{r.device}[/]: {step}, {o.weights}, {_mode(o)}", highlight=False
    )
    console.print(
        f"[dim]{flash.channels} channels x {flash.chips_per_channel} chips x {flash.dies_per_chip} dies, "
        f"{machine.flash.channels * machine.cores_per_channel} cores "
        f"({machine.core_area_mm2:.1f} mm2 in 65 nm), tR {flash.read_us:g} us, "
        f"{flash.channel_gb_per_s:g} GB/s a channel[/]\n",
        highlight=False,
    )
    table = _table("", "", "")
    table.show_header = False
    table.columns[2].justify = "left"
    table.add_row(
        "[bold]tokens/s[/]",
        f"[bold green]{r.tokens_per_s:.3g}[/]",
        f"{r.latency_ms / r.produced:.2f} ms a token",
    )
    table.add_row(
        "channel use", f"{r.channel_use:.1%}", f"{r.channel_gb / r.produced:.3f} GB over the channels a token"
    )
    table.add_row("energy", f"{r.joules_per_token:.3f} J", "a token: " + _parts(r))
    shapes = sorted({f"{h}x{w}" for h, w in r.tiles.values()})
    table.add_row("alpha", f"{r.alpha:.3f}", f"of the pages computed in flash; tile {', '.join(shapes)}")
    table.add_row(
        "page commands", f"{r.page_commands:,}",
        f"= pages of the {'model' if o.lm_head else 'layers (--lm-head adds the output)'}: "
        f"{r.read_compute_commands:,} read-compute + {r.page_reads:,} page reads in {r.slices:,} slices",
    )  # fmt: skip
    console.print(table, highlight=False)
    if r.experts is not None:
        e = r.experts
        console.print(
            f"[dim]experts: a step meets {e['met_per_step']:g} of all layers, {e['from_flash_per_step']:g} of them "
            f"({e['from_flash_gb_per_step']:.3f} GB) from flash; {e['hit_rate']:.1%} of those met in {e['tokens']:g} "
            f"tokens were in DRAM, which has room for {e['cached_experts']:g}; they met {e['distinct_per_layer']:.1f} "
            f"of {e['per_layer']:g} a layer[/]",
            highlight=False,
        )
    if r.kv is not None and r.kv["flash_tokens"]:
        k = r.kv
        console.print(
            f"[dim]keys and values: {k['dram_gb']:.2f} GB in DRAM, {k['flash_gb']:.2f} GB in flash "
            f"({k['flash_tokens']:,.0f} tokens a layer at most); a token reads {k['pages_read']:,.0f} pages of them "
            "and writes "
            f"{k['pages_written']:.2f} (write amplification {k['write_amplification']:.2f}); the free flash is worn "
            f"after {k['tokens_until_worn']:.2g} tokens[/]",
            highlight=False,
        )
    if r.packages is not None:
        k = r.packages
        busy = f"; with a sequence in each of them {k['all_busy_tokens_per_s']:.3g} tokens/s"
        busy = busy if k["split"] == "pipeline" else ""
        console.print(
            f"[dim]{k['count']} packages, split {k['split']}: {k['sent_mb'] / r.produced:.3f} MB a token over the "
            f"links between them, {k['link_ms']:.2f} ms of a step{busy}[/]",
            highlight=False,
        )
    if r.aging is not None:
        _aging(console, r.aging, r.page_commands)
    for name, count in r.missing.items():
        console.print(f"[yellow]{name}: {count:,} weights have no command, or several[/]", highlight=False)


def _aging(console: Console, a: dict[str, float], pages: int) -> None:
    policy = [f"after {a['reclaim_reads']:,.0f} reads"] if a["reclaim_reads"] else []
    policy += [f"after {a['refresh_days']:.3g} days"] if a["refresh_days"] else []
    life = f"{a['life_days']:,.1f} days" if a["life_days"] < 1000 else f"{a['life_days'] / 365.25:,.3g} years"
    console.print(
        f"[dim]age: {a['cycles']:,.0f} cycles, {a['days']:.3g} days at {a['celsius']:g} C, {a['reads']:,.0f} reads; "
        f"{a['bit_error_rate']:.2g} of the bits are read wrong (wear {a['by_wear']:.1g}, retention "
        f"{a['by_retention']:.1g}, reads {a['by_disturb']:.1g}); {a['retries']:,.0f} retries "
        f"({a['retries_per_page']:.2g} a page), {a['rewrites']:,.0f} pages rewritten "
        f"({' or '.join(policy) or 'never'}), {a['erases']:,.0f} blocks erased: planes busy {a['planes_busy']:.1%} "
        f"with it[/]",
        highlight=False,
    )
    if a["cycles"] > a["endurance_cycles"]:
        console.print(
            f"[yellow]blocks are made for {a['endurance_cycles']:,.0f} cycles: error rates beyond are not known[/]",
            highlight=False,
        )
    if a["wears"]:
        console.print(
            f"[dim]life: blocks are worn after {life} of {a['tokens_a_day']:,.0f} tokens, when rewriting is spread "
            "over the whole flash[/]",
            highlight=False,
        )
    if a["lost"]:
        console.print(
            f"[yellow]{a['lost']:,.0f} of {pages:,} pages cannot be corrected after the last retry: rewrite them more "
            "often (reclaim=auto,refresh=auto) or use a stronger code[/]",
            highlight=False,
        )


def _parts(r: Result) -> str:
    parts = sorted(r.energy_j.items(), key=lambda item: -item[1])
    total = sum(r.energy_j.values())
    return ", ".join(
        f"{name.replace('_', ' ')} {value / total:.0%}" for name, value in parts if value / total >= 0.005
    )


def _operators(console: Console, r: Result) -> None:
    table = _table("operator", "unit", "runs", "ms", "share", "pages", title="\nTime by operator")
    small, rest = 0.0, 0
    for op in sorted(r.operators, key=lambda op: -op.time_ms):
        if op.share < 0.001:
            small, rest = small + op.time_ms, rest + 1
            continue
        table.add_row(
            op.name,
            op.unit,
            str(op.count),
            f"{op.time_ms:.2f}",
            f"{op.share:.1%}",
            f"{op.pages:,}" if op.pages else "",
        )
    if rest:
        table.add_row(f"{rest} others", "npu", "", f"{small:.2f}", f"{small / r.latency_ms:.1%}", "")
    console.print(table, highlight=False)


def _units(console: Console, r: Result) -> None:
    table = _table("unit", "count", "busy", "", title="\nTime by unit")
    for name, unit in r.units.items():
        parts = dict(unit.parts or {})
        wait = parts.pop("wait_us", None)
        text = ", ".join(f"{part} {share:.1%}" for part, share in parts.items() if share >= 0.0005)
        if wait is not None:
            text += f"; a read-compute transfer waits {wait:.2f} us"
        table.add_row(name.replace("_", " "), str(unit.count), f"{unit.busy:.1%}", f"[dim]{text}[/]")
    table.columns[3].justify = "left"
    console.print(table, highlight=False)


def _findings(console: Console, r: Result, machine: Machine) -> None:
    roof = roofline(r, machine)
    what, helps = bottleneck(r, machine)
    console.print(
        f"\n[bold]Roofline[/]  {roof.ops_per_weight_byte:g} operations a weight byte, "
        f"{roof.ops_per_channel_byte:.1f} a channel "
        f"byte; flash {roof.flash_gb_per_s:.1f} + channels {roof.channel_gb_per_s:.1f} GB/s give a roof of "
        f"{roof.roof_gops:.1f} GOP/s, reached {roof.reached_gops:.1f} ({roof.reached:.0%})",
        highlight=False,
    )
    console.print(f"[bold]Limit[/]     {what}", highlight=False)
    console.print(f"[bold]Helps[/]     {helps}", highlight=False)
    if r.options.prefill:
        return
    console.print(
        f"[bold]Check[/]     the paper's closed form, which knows no whole requests, spare areas or waiting, gives "
        f"{r.closed_form_ms:.2f} ms; the engine {r.latency_ms:.2f} ms ({r.latency_ms / r.closed_form_ms - 1:+.1%})",
        highlight=False,
    )


def _assumed(console: Console, r: Result) -> None:
    """Constants without a source of their own, and what of the model's configuration is not counted."""
    print_assumed({name: [entry] for name, entry in r.assumed.items()}, r.notes, console)


def print_assumed(
    assumed: Mapping[str, Sequence[Mapping[str, Any]]], notes: Iterable[str], console: Console | None = None
) -> None:
    """Of one run or of several, whose devices may have several values of a constant."""
    console = console or Console()
    second = {name for name, entries in assumed.items() if any(SECOND_HAND in e["source"] for e in entries)}
    for label, names in (("Assumed", assumed.keys() - second), ("2nd hand", second)):
        found = [
            f"{spelled(name)} {' or '.join(dict.fromkeys(_number(e['value']) for e in entries))}"
            for name, entries in assumed.items()
            if name in names
        ]
        if found:
            console.print(f"[bold]{label:<9}[/] [dim]{', '.join(found)}[/]", highlight=False)
    for note in notes:
        console.print(f"[bold]Note     [/] [dim]{note}[/]", highlight=False)


def _number(value: float) -> str:
    return str(value).lower() if isinstance(value, int) else f"{value:g}"


def _what_if(console: Console, changes: list[Faster]) -> None:
    table = _table(
        "what if", "a step takes", "of its time gone", "tokens/s", title="\nWhat would help, simulated"
    )
    for row in changes:
        if row.gain is None:
            table.add_row(row.what, f"cannot run: {row.why}", "", "")
        else:
            table.add_row(row.what, f"{row.latency_ms:.4g} ms", f"{row.gain:.1%}", f"{row.tokens_per_s:.3g}")
    console.print(table, highlight=False)


def _baselines(console: Console, r: Result, others: list[Baseline]) -> None:
    table = _table("beside it", "tokens/s", "this is", "GB moved", "J a token", title="\nBaselines")
    for other in others:
        table.add_row(
            other.name, f"{other.tokens_per_s:.3g}", f"{r.tokens_per_s / other.tokens_per_s:.1f}x",
            f"{other.moved_gb:.1f}", f"{other.joules_per_token:.2f}",
        )  # fmt: skip
    console.print(table, highlight=False)
