"""What `--view` takes: a view and the file it writes."""

from __future__ import annotations

from typing import Any

from tileprobe.errors import TileProbeError


def view_and_file(text: str) -> tuple[Any, str]:
    """`html=page.html` or `my_view.py:Mine=out.txt`."""
    from tileprobe.views.load import load_view

    name, equals, path = text.partition("=")
    if not equals or not path:
        raise TileProbeError(f"--view takes NAME=FILE, such as speedscope=out.json, not {text!r}")
    return load_view(name), path
