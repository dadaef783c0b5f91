"""The options by which `run` and `report` write views, and what `--view` takes: a view and the file it writes."""

from __future__ import annotations

import argparse
from typing import Any

from tileprobe.errors import TileProbeError


def add_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--full", action="store_true", help="every kernel, region and line, however short")
    parser.add_argument("--html", metavar="FILE", help="write the report as a page that needs nothing else")
    parser.add_argument(
        "--view", action="append", metavar="NAME=FILE",
        help="write it with this view (perfetto, speedscope, ...), or file.py:Class=FILE",
    )  # fmt: skip


def write_view(view: Any, trace: Any, path: str) -> None:
    from tileprobe.views.load import write

    write(view, trace, path)


def view_and_file(text: str) -> tuple[Any, str]:
    """`html=page.html` or `my_view.py:Mine=out.txt`."""
    from tileprobe.views.load import load_view

    name, equals, path = text.partition("=")
    if not equals or not path:
        raise TileProbeError(f"--view takes NAME=FILE, such as speedscope=out.json, not {text!r}")
    return load_view(name), path
