"""Views by name: ours, those that installed packages offer as `tileprobe.views` entry points, and files.

In comes what a user wrote after `--to` or `--view`; out goes a view, or an error that lists what there is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tileprobe.errors import TileProbeError, where
from tileprobe.plugins import class_named, classes
from tileprobe.trace import Trace
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
    return classes(BUILT_IN, GROUP)


def load_view(text: str) -> View:
    """The view called `text`, or the class of `file.py:Class`."""
    kind = class_named(text, "view", BUILT_IN, GROUP)
    try:
        view = kind()
    except Exception as error:
        raise TileProbeError(f"the view {text} cannot be made without arguments: {where(error)}") from error
    if not isinstance(view, View):
        raise TileProbeError(f"{text} is no view: it needs a name, a suffix and write(trace, path)")
    return view


def write(view: View, trace: Trace, path: str | Path) -> None:
    """Writes the view; one of the user's that fails is said to have failed, and by which line."""
    if type(view).__module__.startswith("tileprobe."):
        return view.write(trace, path)
    try:
        view.write(trace, path)
    except (TileProbeError, BrokenPipeError):
        raise
    except Exception as error:
        raise TileProbeError(
            f"the view {view.name!r} failed: {where(error)}; {path} may not be whole"
        ) from error


def file_for(view: View, trace_file: str) -> Path:
    """Where a view of a trace goes when nobody says: beside the trace, under its name."""
    path = Path(trace_file)
    named = path.with_name(path.stem + view.suffix)
    return named if named != path else path.with_name(f"{path.stem}.{view.name}{view.suffix}")
