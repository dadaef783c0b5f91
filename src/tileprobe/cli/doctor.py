"""Say what works on this machine, and run a kernel to be sure.

Exits with 0 if Triton kernels run here on the CPU, with 1 if something is in the way of that; such a row says
what to do about it. A missing GPU or torch is no fault.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileprobe.targets.base import Finding, Target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    from tileprobe.targets.catalog import available

    findings = [finding for target in available() for finding in target.examine()]
    findings += _targets(available())
    if args.json:
        import json

        print(json.dumps([f.__dict__ for f in findings], indent=2))
    else:
        _show(findings)
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


def _show(findings) -> None:
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
        console.print(
            f"[bold red]{faults} thing{'s' if faults > 1 else ''} to mend[/] before kernels run here."
        )
    else:
        console.print("[green]Triton kernels run on this machine.[/]")
