"""Say what works on this machine, and run a kernel to be sure.

Exits with 0 if Triton kernels run here on the CPU, with 1 if something is in the way of that; such a row says
what to do about it. A missing GPU or torch is no fault.
With --roofs this machine's rates are measured: multiply-adds by type, bytes copied by level of cache.
With --gpu kernels are profiled on the GPU of this machine, and what could not be tested without one is reported:
whether records arrive and results are the same, the cost of a record, clocks, overhead. `--gpu --json` is a report to
send.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileprobe.targets.base import Finding, Target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpu",
        nargs="?",
        const="",
        metavar="TARGET",
        help="check probes on this machine's GPU, or on a target that is named (sim:a100)",
    )
    parser.add_argument(
        "--roofs",
        action="store_true",
        help="measure what a core can compute and move at most, with the spread",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    from tileprobe.targets.catalog import available

    if args.gpu is not None:
        return _gpu(args)
    if args.roofs:
        return _roofs(args)
    findings = [finding for target in available() for finding in target.examine()]
    findings += _targets(available())
    if args.json:
        import json

        print(json.dumps([f.__dict__ for f in findings], indent=2))
    else:
        _show(findings)
    return 1 if any(f.state == "bad" for f in findings) else 0


def _roofs(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from tileprobe.targets.catalog import available

    found = {t.name: t.roof_table() for t in available() if hasattr(t, "roof_table")}  # type: ignore[attr-defined]
    if args.json:
        import json

        print(json.dumps({name: [asdict(roof) for roof in roofs] for name, roofs in found.items()}, indent=2))
        return 0
    for name, roofs in found.items():
        print(
            f"{name}: one core that works alone; of many tries the quickest, and how much longer the middle one took"
        )
        for roof in roofs:
            unit = "Gop/s" if roof.unit == "operations" else "GB/s"
            print(f"  {roof.name:<18} {roof.per_s / 1e9:10,.1f} {unit:<6} +{100 * roof.spread:.1f} %")
    return 0


def _gpu(args: argparse.Namespace) -> int:
    from tileprobe.cli._gpu_checks import run_checks

    findings, figures = run_checks(args.gpu)
    if args.json:
        import json

        print(json.dumps({"findings": [f.__dict__ for f in findings], "figures": figures}, indent=2))
    else:
        good = "Probes work here." if any("kernels" in held for held in figures) else ""
        _show(findings, good, "before probes can be trusted here")
    return 1 if any(f.state == "bad" for f in findings) else 0


def _targets(known: list[Target]) -> list[Finding]:
    """A row for each target, and for each that is installed and broken."""
    from tileprobe.plugins import broken
    from tileprobe.targets.base import Finding

    rows = []
    for target in known:
        machines = "".join(f", {target.name}:{machine}" for machine in target.machines())
        rows.append(Finding("target", "good", f"{target.name}{machines}: {target.about}"))
    for name, error in broken.items():
        text = f"{name} cannot be loaded: {type(error).__name__}: {error}"
        rows.append(Finding("target", "bad", text, "Reinstall or remove the package that brings it."))
    return rows


def _show(
    findings: list[Finding],
    good: str = "Triton kernels run on this machine.",
    until: str = "before kernels run here",
) -> None:
    from rich.console import Console
    from rich.table import Table

    marks = {"good": "[green]ok[/]", "note": "[dim]-[/]", "bad": "[bold red]no[/]"}
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right")
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for finding in findings:
        text = finding.text if not finding.remedy else f"{finding.text}\n[yellow]{finding.remedy}[/]"
        table.add_row(marks[finding.state], finding.name, text)
    console = Console()
    console.print(table)
    faults = sum(f.state == "bad" for f in findings)
    console.print()
    if faults:
        console.print(f"[bold red]{faults} thing{'s' if faults > 1 else ''} to mend[/] {until}.")
    elif good:
        console.print(f"[green]{good}[/]")
