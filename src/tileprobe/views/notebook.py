"""What a notebook shows of a trace, a result or a table: the page in a frame that can reach nothing, and plain tables.

In comes an object, out goes HTML, by the object's own `_repr_html_`: every front end of notebooks knows that name.
"""

from __future__ import annotations

import html

from tileprobe.tools.result import Result, Table
from tileprobe.trace import Trace

INTERVALS = 20_000  # of the small timeline: a notebook is saved with what it shows
HEIGHT = 640


def trace_html(trace: Trace, title: str = "a TileProbe report") -> str:
    """The page without IR, in a frame of its own. The sandbox lets it draw, and nothing else: no reach into the
    notebook, no windows, no network."""
    from tileprobe.views.html import page

    content = html.escape(page(trace, ir=False, limit=INTERVALS))
    style = f"width:100%;height:{HEIGHT}px;border:1px solid #8884;border-radius:8px"
    return f'<iframe sandbox="allow-scripts" title="{html.escape(title)}" style="{style}" srcdoc="{content}"></iframe>'


def with_text(frame: str, text: str) -> str:
    """The frame, and below it the report as text, for viewers of notebooks that show no frames."""
    return f"{frame}<details><summary>the report as text</summary>{text}</details>"


def result_html(result: Result) -> str:
    from tileprobe.views.preformatted import tables_html

    return tables_html(result.tables, result.findings)


def table_html(table: Table) -> str:
    from tileprobe.views.preformatted import tables_html

    return tables_html([table], [])


def html_of(shown: Trace | Result | Table) -> str:
    if isinstance(shown, Trace):
        return trace_html(shown)
    return result_html(shown) if isinstance(shown, Result) else table_html(shown)
