"""Views by name: ours, those that installed packages offer as `tileprobe.views` entry points, and files.

In comes what a user wrote after `--to` or `--view`; out goes a view, or an error that lists what there is.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from tileprobe.errors import TileProbeError
from tileprobe.plugins import class_in
from tileprobe.views.base import View

GROUP = "tileprobe.views"
BUILT_IN = {
    "html": "tileprobe.views.html:Html",
    "chrome": "tileprobe.views.chrome:Chrome",
    "perfetto": "tileprobe.views.perfetto:Perfetto",
    "hatchet": "tileprobe.views.hatchet:Hatchet",
    "speedscope": "tileprobe.views.speedscope:Speedscope",
    "collapsed": "tileprobe.views.collapsed:Collapsed",
    "csv": "tileprobe.views.csv_table:Csv",
}


def available() -> dict[str, Callable[[], type]]:
    """Every view that can be named: name -> what imports its class."""
    found: dict[str, Callable[[], type]] = {name: _importer(place) for name, place in BUILT_IN.items()}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, point.load)
    return found


def load_view(text: str) -> View:
    """The view called `text`, or the class of `file.py:Class`."""
    if ".py:" in text:
        kind = class_in(*text.rsplit(":", 1), what="view")
    else:
        known = available()
        if text not in known:
            raise TileProbeError(
                f"there is no view {text!r}; there are {', '.join(sorted(known))}, or file.py:Class"
            )
        kind = known[text]()
    try:
        view = kind()
    except TypeError as error:
        raise TileProbeError(f"the view {text} cannot be made without arguments: {error}") from error
    if not isinstance(view, View):
        raise TileProbeError(f"{text} is no view: it needs a name, a suffix and write(trace, path)")
    return view


def file_for(view: View, trace_file: str) -> Path:
    """Where a view of a trace goes when nobody says: beside the trace, under its name."""
    path = Path(trace_file)
    named = path.with_name(path.stem + view.suffix)
    return named if named != path else path.with_name(f"{path.stem}.{view.name}{view.suffix}")


def _importer(place: str) -> Callable[[], type]:
    module, name = place.split(":")
    return lambda: getattr(import_module(module), name)
