"""The report in a terminal: a header, a tree with bars and the annotated source for each kernel.

In come a trace and the results of tools; out go lines on a Rich console, without colour when it is no
terminal, and with as many columns as its width holds.
"""

from __future__ import annotations

import io
import os
import sys
from typing import IO

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from tileprobe.tools.overhead import overhead
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.trace import Kernel, Losses, Trace
from tileprobe.views import text
from tileprobe.views.annotated import print_source

BAR = 12
STREAMS = 6  # named in the header
PLAIN_WIDTH = 120  # of a file or a pipe, where nobody says


def make_console(file: IO[str] | None = None, width: int | None = None) -> Console:
    file = sys.stdout if file is None else file
    terminal = file is not None and file.isatty()
    encoding = str(getattr(file, "encoding", None) or "utf-8").lower()
    if "utf" not in encoding and isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="replace")  # a report with question marks is better than none
    if width is None and not terminal and "COLUMNS" not in os.environ:
        width = PLAIN_WIDTH
    return Console(file=file, width=width, highlight=False, soft_wrap=False)


def print_report(trace: Trace, results: list[Result], console: Console) -> None:
    """Everything about one kernel together, then what is about none."""
    if not trace.kernels:
        console.print(Text("the trace holds no kernel", style="yellow"))
    for kernel in trace.kernels:
        mine = [(r, t) for r in results for t in r.tables if t.kernel == kernel.id]
        print_header(trace, kernel, console)
        if not any(table.frame.height for _, table in mine):
            console.print(Text("nothing was recorded: no program ran, or none was sampled\n", style="yellow"))
            continue
        for result, table in mine:
            _print(trace, result, table, console)
    for result in results:
        for table in result.tables:
            if table.kernel is None:
                _print(trace, result, table, console)
    print_findings([finding for result in results for finding in result.findings], console)


def _print(trace: Trace, result: Result, table: Table, console: Console) -> None:
    if result.tool == "source":
        print_source(table.frame, console)
    else:
        if result.tool != "regions":
            console.print(Text(table.title, style="bold"))
        print_table(table, console)
        if result.tool == "regions":
            streams = any(len(trace.stream_names(kernel.id)) > 1 for kernel in trace.kernels)
            what = "programs and their streams" if streams else "programs"
            console.print(Text(f"total and self are sums over all recorded {what}", style="dim"))
    console.print()


def print_header(trace: Trace, kernel: Kernel, console: Console) -> None:
    launches = trace.kernel_launches(kernel.id)
    probed = [launch for launch in launches if launch.probed]
    title = Text(kernel.name, style="bold")
    title.append(f"  on {kernel.target}", style="not bold")
    if kernel.file:
        title.append(f"  {kernel.file.rsplit('/', 1)[-1]}:{kernel.first_line}", style="dim not bold")
    console.print(title)
    parts = [f"{len(probed):,} launch{'es' if len(probed) != 1 else ''}"]
    grids = {launch.grid for launch in probed}
    parts += (
        [f"grid {text.grid(next(iter(grids)))}"]
        if len(grids) == 1
        else [f"{len(grids)} grids"]
        if grids
        else []
    )
    lengths = sorted(launch.duration_ns for launch in probed if launch.duration_ns)
    parts += [f"{text.duration(lengths[len(lengths) // 2])} each"] if lengths else []
    console.print(Text(" · ".join(parts)))
    console.print(_records(trace, kernel))
    for note in _notes(trace, kernel):
        console.print(Text(note, style="dim"))
    console.print()


def _notes(trace: Trace, kernel: Kernel) -> list[str]:
    """What a reader of the times must know: that a program is several streams, and how well clocks agree."""
    notes = []
    names = trace.stream_names(kernel.id)
    if len(names) > 1:
        shown = ", ".join(names[:STREAMS]) + (", ..." if len(names) > STREAMS else "")
        notes.append(f"{len(names)} streams a program: {shown}")
    error = trace.clock_error_ns
    if error is not None:
        notes.append(
            f"{len(trace.domains)} clock domains: times of different ones compare to ±{text.duration(error)}"
        )
    return notes


def _records(trace: Trace, kernel: Kernel) -> Text:
    losses = sum((launch.losses for launch in trace.kernel_launches(kernel.id)), Losses())
    what = "records" if kernel.layout is not None else "intervals, exact"
    line = Text(f"{losses.kept:,} {what}", style="dim")
    if losses.sampled_out:
        line.append(f", {losses.sampled_out:,} left out by sampling")
    if losses.lost:
        line.append(f", {losses.lost:,} lost for lack of room", style="not dim bold yellow")
    cost = overhead(trace, kernel)
    if cost.measured_percent is not None:
        line.append(f" · probes cost {cost.measured_percent:.1f} % (measured)")
    elif cost.estimated_percent is not None:
        line.append(f" · probes cost about {cost.estimated_percent:.1f} % (estimated)")
    if cost.record_cost_ns is not None:
        line.append(f", {cost.record_cost_ns:.1f} ns a record")
    return line


def print_table(table: Table, console: Console) -> None:
    """The columns that fit, from the left."""
    cells = [_cells(table, column, console) for column in table.columns]
    widths = [max([len(c.title), *(cell.cell_len for cell in col)]) for c, col in zip(table.columns, cells)]
    longest = max(16, console.width * 2 // 5)
    widths[0] = min(widths[0], longest)
    shown = len(widths)
    while shown > 2 and sum(widths[:shown]) + 2 * (shown - 1) > console.width:
        shown -= 1
    out = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for column, width in list(zip(table.columns, widths))[:shown]:
        right = column.form in ("ns", "count", "number", "change", "noise")
        out.add_column(
            column.title, justify="right" if right else "left", no_wrap=True, width=width, overflow="ellipsis"
        )
    for row in zip(*cells[:shown]):
        out.add_row(*row)
    console.print(out)


def _cells(table: Table, column: Column, console: Console) -> list[Text]:
    values = table.frame[column.name].to_list()
    if column.form == "tree":
        return tree_names(values, table.frame["depth"].to_list())
    if column.form == "share":
        return [_share(value, console) for value in values]
    if column.form == "ns":
        return [Text(text.duration(value)) for value in values]
    if column.form == "count":
        return [Text(text.count(value)) for value in values]
    if column.form == "change":
        return [
            Text(f"{100 * value:+.1f} %", style=_change_style(v))
            for value, v in zip(values, table.frame["verdict"])
        ]
    if column.form == "noise":
        return [Text("" if value is None else f"±{100 * value:.1f} %", style="dim") for value in values]
    if column.form == "number":
        return [Text("" if value is None else f"{value:.3g}") for value in values]
    return [Text("" if value is None else str(value)) for value in values]


def _change_style(verdict: str) -> str:
    return {"slower": "red", "faster": "green"}.get(verdict, "dim")


def _share(share: float, console: Console) -> Text:
    plain = console.options.ascii_only
    cell = Text(f"{text.percent(share):>6} ")
    cell.append(f"{text.bar(share, BAR, plain):<{BAR}}", style=heat(share))
    return cell


def heat(share: float) -> str:
    return "red" if share >= 0.3 else "yellow" if share >= 0.1 else "green"


def tree_names(names: list[str], depths: list[int]) -> list[Text]:
    """Names with the branches of their tree before them."""
    cells = []
    for n, (name, depth) in enumerate(zip(names, depths)):
        rails = ""
        for level in range(1, depth):
            rails += "│ " if _continues(depths, n, level) else "  "
        branch = "" if depth == 0 else "├╴" if _continues(depths, n, depth) else "└╴"
        cell = Text(rails + branch, style="dim")
        cell.append(name, style="not dim")
        cells.append(cell)
    return cells


def _continues(depths: list[int], n: int, level: int) -> bool:
    """Whether a later row hangs at `level` from the same branch."""
    for depth in depths[n + 1 :]:
        if depth < level:
            return False
        if depth == level:
            return True
    return False


def print_findings(findings: list[Finding], console: Console) -> None:
    for finding in findings:
        warning = finding.level == "warning"
        mark = Text("! " if warning else "• ", style="yellow" if warning else "cyan")
        mark.append(finding.text, style="default")
        console.print(mark, soft_wrap=False)
