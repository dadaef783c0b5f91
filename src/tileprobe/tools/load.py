"""Tools by name: ours, those that installed packages offer as `tileprobe.tools` entry points, and files.

In comes what a user wrote after `--tool`; out goes a tool, or an error that lists what there is.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points

from tileprobe.errors import TileProbeError
from tileprobe.plugins import class_in
from tileprobe.tools.base import Tool

GROUP = "tileprobe.tools"
BUILT_IN = {
    "regions": "tileprobe.tools.regions:Regions",
    "source": "tileprobe.tools.source:Source",
    "iterations": "tileprobe.tools.iterations:Iterations",
    "programs": "tileprobe.tools.programs:Programs",
    "units": "tileprobe.tools.units:Units",
}
DEFAULT = ("regions", "source")


def available() -> dict[str, Callable[[], type]]:
    """Every tool that can be named: name -> what imports its class."""
    found: dict[str, Callable[[], type]] = {name: _importer(place) for name, place in BUILT_IN.items()}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, point.load)
    return found


def load_tool(text: str) -> Tool:
    """The tool called `text`, or the class of `file.py:Class`."""
    if ".py:" in text:
        kind = class_in(*text.rsplit(":", 1), what="tool")
    else:
        known = available()
        if text not in known:
            raise TileProbeError(
                f"there is no tool {text!r}; there are {', '.join(sorted(known))}, or file.py:Class"
            )
        kind = known[text]()
    try:
        tool = kind()
    except TypeError as error:
        raise TileProbeError(f"the tool {text} cannot be made without arguments: {error}") from error
    if not isinstance(tool, Tool):
        raise TileProbeError(f"{text} is no tool: it needs a name, plan() and read(trace)")
    return tool


def _importer(place: str) -> Callable[[], type]:
    module, name = place.split(":")
    return lambda: getattr(import_module(module), name)
