"""The report in a terminal: the kernels beside each other, then of each a header, a tree with bars and its source.

In come a trace and the results of tools; out go lines on a screen, without colour when it is no terminal, and with as
many columns as its width holds. What hardly matters is left out and counted, unless the report is to be full.
"""

from __future__ import annotations

import fnmatch

import polars as pl

from tileprobe.tools.kernels import COLUMNS as KERNELS
from tileprobe.tools.kernels import kernel_totals
from tileprobe.tools.result import Finding, Result, Table
from tileprobe.tools.signatures import labels
from tileprobe.tools.times import ALL, PROGRAMS, region_times
from tileprobe.trace import Kernel, Trace
from tileprobe.views import text
from tileprobe.views.annotated import NOTES, print_source
from tileprobe.views.header import print_header
from tileprobe.views.screen import Screen, make_console
from tileprobe.views.tables import print_table, that_matter, tree_names

__all__ = ["make_console", "print_findings", "print_report", "print_table", "tree_names"]

SHOWN = 8  # kernels of which more than a row is shown
LITTLE = 0.01  # of the time: a kernel or function with less is only counted
FULL = "--full shows all"


def print_report(trace: Trace, results: list[Result], screen: Screen, full: bool = False) -> None:
    """Everything about one kernel together, the longest first, then what is about none."""
    with text.units_of(trace):
        _print_all(trace, results, screen, full)


def _print_all(trace: Trace, results: list[Result], screen: Screen, full: bool) -> None:
    if not trace.kernels:
        screen.say("the trace holds no kernel", "yellow")
        print_findings([finding for result in results for finding in result.findings], screen)
        _print_remarks(trace, screen, {finding.text for result in results for finding in result.findings})
        return
    times = region_times(trace)
    totals = kernel_totals(trace, times)
    chosen = totals if full else totals.filter((pl.col("share") >= LITTLE) | (pl.len() <= SHOWN)).head(SHOWN)
    if totals.height > 1:
        _print_kernels(totals, chosen, screen, full)
    kernels = {kernel.id: kernel for kernel in trace.kernels}
    for number in chosen["kernel"]:
        print_header(trace, kernels[number], screen, times)
        _print_kernel(trace, kernels[number], results, screen, full)
    for result in results:
        for table in result.tables:
            if table.kernel is None:
                _print(trace, result, table, screen, full)
    rest = [finding for result in results for finding in result.findings if finding.kernel not in kernels]
    print_findings(rest, screen)
    said = {finding.text for result in results for finding in result.findings}
    _print_remarks(trace, screen, said)


def _print_kernels(totals: pl.DataFrame, chosen: pl.DataFrame, screen: Screen, full: bool) -> None:
    """All kernels of which more is shown, and the longest of the others."""
    rows = totals if full else totals.head(max(chosen.height, 2 * SHOWN))
    print_table(Table("", rows, KERNELS), screen)
    left = totals.height - rows.height
    if left:
        share = float(totals["share"][rows.height :].sum())
        screen.say(
            f"+ {text.several(left, 'more kernel')}, {_part(share)}: {FULL}",
            "dim",
        )
    if rows.height > chosen.height:
        share = float(totals["share"][chosen.height :].sum())
        hidden = totals.height - chosen.height
        said = f"{text.several(hidden, 'kernel')} with {_part(share)}"
        screen.say(f"the rest is about the first {chosen.height}; {said}: {FULL}, --kernel NAME one", "dim")
    screen.say(
        f"total is the {text.counted()} of all launches; figures below are sums over programs, which run side by side",
        "dim",
    )
    screen.print()


def _part(share: float) -> str:
    return f"{text.percent(share)} of the {text.counted()}"


def _print_kernel(trace: Trace, kernel: Kernel, results: list[Result], screen: Screen, full: bool) -> None:
    mine = [(r, t) for r in results for t in r.tables if t.kernel == kernel.id]
    findings = [finding for r in results for finding in r.findings if finding.kernel == kernel.id]
    if findings:
        print_findings([_without_name(trace, kernel, finding) for finding in findings], screen)
        screen.print()
    if not any(table.frame.height for _, table in mine):
        _print_nothing(trace, kernel, results, screen)
        return
    sources = [table for result, table in mine if result.tool == "source"]
    for result, table in mine:
        if result.tool != "source":
            _print(trace, result, table, screen, full)
    if sources:
        _print_sources(sources, screen, full)


def _print_nothing(trace: Trace, kernel: Kernel, results: list[Result], screen: Screen) -> None:
    """Nothing was recorded; or there are records, and these tools find nothing in them."""
    recorded = any(launch.losses.kept for launch in trace.kernel_launches(kernel.id))
    if not recorded:
        screen.say("nothing was recorded: no program ran, or none was sampled", "yellow")
    elif results:
        screen.say(
            f"{' and '.join(result.tool for result in results)}: nothing to show of this kernel", "dim"
        )
    screen.print()


def _without_name(trace: Trace, kernel: Kernel, finding: Finding) -> Finding:
    """Under the kernel's own head its name need not be said again."""
    name = labels(trace.kernels)[kernel.id]
    said = finding.text.removeprefix(f"{name}: ").removeprefix(f"{name}, ")
    return Finding(said, finding.level, finding.data, finding.kernel)


def _print(trace: Trace, result: Result, table: Table, screen: Screen, full: bool) -> None:
    if result.tool != "regions":
        name = labels(trace.kernels).get(table.kernel, "") if table.kernel is not None else ""
        screen.say(table.title.removeprefix(f"{name}: "), "bold")
        print_table(table, screen)
        screen.print()
        return
    rows = table.frame if full else that_matter(table.frame)
    print_table(Table(table.title, rows, table.columns, table.kernel), screen)
    _print_left_out(table.frame, rows, screen)
    streams = any(len(trace.stream_names(kernel.id)) > 1 for kernel in trace.kernels)
    said = f"total and self are sums over all {'programs and their streams' if streams else 'programs'}"
    part = float(table.frame["recorded"].min() or 0.0)  # type: ignore[arg-type]
    if part < 0.995:
        whole = float(table.frame.filter(pl.col("depth") == 0)["recorded"].min() or part)  # type: ignore[arg-type]
        least = f", of some rows {text.percent(part)}" if part < 0.9 * whole else ""
        said += f" of all launches; {_part(whole)} was recorded{least}"
    if bool(table.frame["estimate"].any()):
        said += "; ~ is scaled up from a part of the programs or iterations"
    if table.frame["moved"].count():
        said += "; moved is the share of a region's instructions that the compiler put outside of its records"
    basis = set(table.frame["basis"].drop_nulls())
    if ALL in basis:
        probes = any(kernel.id == table.kernel and kernel.layout is not None for kernel in trace.kernels)
        also = ", with what probes add" if probes else ""
        said += f"; exact{also}: all that ran was recorded, on a simulated machine"
    elif table.frame["high_ns"].count():
        from_programs = ", from the programs of one launch" if PROGRAMS in basis else ""
        said += f"; ± is a 95 % interval of this run{from_programs}; another may differ by more"
    screen.say(said, "dim")
    screen.print()


def _print_left_out(frame: pl.DataFrame, rows: pl.DataFrame, screen: Screen) -> None:
    left = frame.height - _stages(rows)
    if left > 0:
        whole = float(frame.filter(pl.col("depth") == 0)["total_ns"].sum()) or 1.0
        own = float(frame["self_ns"].sum()) - float(rows["self_ns"].sum())
        said = f"+ {text.several(left, 'more region')}, {_part(max(0.0, own) / whole)}: {FULL}"
        screen.say(said, "dim")


def _stages(rows: pl.DataFrame) -> int:
    """Regions that are in the rows; copies of one are a row."""
    return int(rows["copies"].sum()) if "copies" in rows.columns else rows.height


def _print_sources(tables: list[Table], screen: Screen, full: bool) -> None:
    """The kernel, then the functions it calls."""
    used: set[str] = set()
    for n, table in enumerate(tables):
        if n and not full and float(table.frame["share"].max() or 0.0) < LITTLE:  # type: ignore[arg-type]
            continue
        if n:
            screen.print()
            screen.say(table.title, "bold")
        used |= print_source(table.frame, screen, full)
    for mark in sorted(used & set(NOTES)):
        screen.say(NOTES[mark], "dim")
    screen.print()


def _print_remarks(trace: Trace, screen: Screen, known: set[str]) -> None:
    """What the session could not do, as far as no tool said it."""
    problems = trace.meta.get("problems", {})
    notes = trace.meta.get("notes", [])
    said = [*notes, *(problems.values() if isinstance(problems, dict) else problems), *_unseen(trace)]
    for remark in [one for one in dict.fromkeys(str(remark) for remark in said) if one not in known]:
        screen.say(f"! {remark}", "yellow")


def _unseen(trace: Trace) -> list[str]:
    """Kernels that ran and were wanted, and of which there is nothing."""
    seen, patterns = trace.meta.get("kernels_seen", {}), trace.meta.get("kernels", ["*"])
    if not isinstance(seen, dict) or not isinstance(patterns, list):
        return []
    known = {kernel.name for kernel in trace.kernels}
    wanted = [name for name in seen if any(fnmatch.fnmatchcase(name, str(p)) for p in patterns)]
    return [
        f"{name}: {text.several(seen[name], 'launch', 'launches')}, none recorded"
        for name in wanted
        if name not in known
    ]


def print_findings(findings: list[Finding], screen: Screen) -> None:
    for finding in findings:
        warning = finding.level == "warning"
        mark = screen.words("! " if warning else "• ", "yellow" if warning else "cyan")
        mark.append_text(screen.words(finding.text, "default"))
        screen.print(mark)
