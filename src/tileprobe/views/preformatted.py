"""What a terminal shows, as HTML, with its colours: the report, and tables."""

from __future__ import annotations

import io

from tileprobe.tools.result import Finding, Result, Table
from tileprobe.trace import Trace
from tileprobe.views.screen import Screen
from tileprobe.views.tables import print_table
from tileprobe.views.terminal import print_findings, print_report

WIDTH = 116
_STYLE = (
    "white-space:pre;overflow-x:auto;line-height:1.2;font-family:Menlo,'DejaVu Sans Mono',consolas,monospace"
)


def tables_html(tables: list[Table], findings: list[Finding]) -> str:
    """Tables with their titles, then what is to be said, in one `<pre>`, everything in it escaped."""
    screen = _screen()
    for table in tables:
        screen.say(table.title, "bold")
        print_table(table, screen)
    print_findings(findings, screen)
    return _exported(screen)


def report_html(trace: Trace, results: list[Result], full: bool = False) -> str:
    """One `<pre>`, everything in it escaped."""
    screen = _screen()
    print_report(trace, results, screen, full)
    return _exported(screen)


def _screen() -> Screen:
    return Screen(
        io.StringIO(), WIDTH, record=True, force_terminal=True, force_jupyter=False, color_system="truecolor"
    )


def _exported(screen: Screen) -> str:
    return screen.export_html(inline_styles=True, code_format=f'<pre style="{_STYLE}">{{code}}</pre>')
