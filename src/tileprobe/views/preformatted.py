"""The report for a notebook: what a terminal shows, as HTML, with its colours."""

from __future__ import annotations

import io

from tileprobe.tools.result import Result
from tileprobe.trace import Trace
from tileprobe.views.screen import Screen
from tileprobe.views.terminal import print_report

WIDTH = 116
_STYLE = (
    "white-space:pre;overflow-x:auto;line-height:1.2;font-family:Menlo,'DejaVu Sans Mono',consolas,monospace"
)


def report_html(trace: Trace, results: list[Result], full: bool = False) -> str:
    """One `<pre>`, everything in it escaped."""
    screen = Screen(
        io.StringIO(), WIDTH, record=True, force_terminal=True, force_jupyter=False, color_system="truecolor"
    )
    print_report(trace, results, screen, full)
    return screen.export_html(inline_styles=True, code_format=f'<pre style="{_STYLE}">{{code}}</pre>')
