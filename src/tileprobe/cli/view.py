"""Look at a trace: the report as a page in the browser, or a timeline in the terminal.

Examples:
  tileprobe view trace.parquet
  tileprobe view trace.parquet --out report.html --no-open --no-source
  tileprobe view trace.parquet --terminal --launch 2
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from tileprobe.cli import _traces

    _traces.add_arguments(parser)
    parser.add_argument("--out", metavar="FILE", help="where the page goes; beside the trace by default")
    parser.add_argument("--terminal", action="store_true", help="a timeline in text instead of a page")
    parser.add_argument("--no-open", action="store_true", help="write the page, open no browser")


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from tileprobe.cli import _traces
    from tileprobe.views.html import Html, write_html
    from tileprobe.views.load import file_for

    _traces.check_apart(args.file, [args.out])
    trace = _traces.read(args)
    if args.terminal:
        from tileprobe.views.terminal import make_console
        from tileprobe.views.terminal_timeline import print_timeline

        print_timeline(trace, make_console())
        return 0
    path = Path(args.out) if args.out else file_for(Html(), args.file[0])
    write_html(trace, path, source=not args.no_source)
    opened = not args.no_open and _open(path)
    print(f"{path}{'' if opened else ': open it in a browser'}")
    return 0


def _open(path) -> bool:
    """Whether a browser with a window was found: on a machine without a screen there is none to open."""
    import os
    import sys
    import webbrowser

    if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    return webbrowser.open(path.absolute().as_uri())
