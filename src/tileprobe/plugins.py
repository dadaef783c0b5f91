"""What others bring: targets, found by their entry points (group `tileprobe.targets`), tools and views by name, and
classes in a user's file.

A package adds a target, with all that belongs to it, without a change here. Targets are loaded when they are first
asked for; one that cannot be loaded is left out and remembered in `broken`, so that it takes nothing else with it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError

GROUP = "tileprobe.targets"
broken: dict[str, Exception] = {}  # entry points that could not be loaded, and why
_added: dict[str, Any] = {}  # targets that were named by a file


@lru_cache(maxsize=1)
def installed() -> dict[str, Any]:
    """The targets of installed packages by their names."""
    found: dict[str, Any] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            target = point.load()()
        except Exception as error:
            broken[point.name] = error
            continue
        found.setdefault(target.name, target)
    return found


def targets() -> dict[str, Any]:
    """Every target by its name; what it can do is `tileprobe.targets.base.Target`."""
    return {**installed(), **_added}


def add_target(target: Any) -> None:
    """Makes a target known that no entry point names."""
    _added[target.name] = target


def classes(built_in: Mapping[str, str], group: str) -> dict[str, Callable[[], type]]:
    """Every class that can be named: name -> what imports it. Ours are given as `module:Class`; installed packages
    offer theirs as entry points."""
    found: dict[str, Callable[[], type]] = {name: _importer(place) for name, place in built_in.items()}
    for point in entry_points(group=group):
        found.setdefault(point.name, point.load)
    return found


def class_named(text: str, what: str, built_in: Mapping[str, str], group: str) -> type:
    """The class called `text`, or that of `file.py:Class`. Those of other packages are looked for last: that takes
    longer than the rest of a command's start."""
    if ".py:" in text:
        return class_in(*text.rsplit(":", 1), what=what)
    if text in built_in:
        return _importer(built_in[text])()
    known = classes(built_in, group)
    if text not in known:
        raise TileProbeError(
            f"there is no {what} {text!r}; there are {', '.join(sorted(known))}, or file.py:Class"
        )
    return known[text]()


def _importer(place: str) -> Callable[[], type]:
    module, name = place.split(":")
    return lambda: getattr(import_module(module), name)


def class_in(file: str, name: str, what: str) -> type:
    """The class `name` of a Python file, which holds a `what` ("target", "tool") of the user's."""
    path = Path(file)
    if not path.is_file():
        raise TileProbeError(f"there is no file {file} to load a {what} from")
    spec = importlib.util.spec_from_file_location(f"tileprobe_{what}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass whose annotations are text looks its module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise TileProbeError(f"{file} cannot be loaded: {type(error).__name__}: {error}") from error
    kind = getattr(module, name, None)
    if not isinstance(kind, type):
        raise TileProbeError(f"{file} has no class {name}")
    return kind
