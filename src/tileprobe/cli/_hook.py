"""In a child process of `tileprobe run`: waits, at no cost, until there is something to record.

In comes the folder that the environment names; out goes, with the first launch, a session of this process whose trace
goes to that folder. A process that launches nothing has imported nothing of ours but this file.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

FOLDER = "TILEPROBE_RUN"  # the variable that tells children where their traces go
OPTIONS = "TILEPROBE_RUN_OPTIONS"  # and the options of the run, as JSON
MAPPED = "TILEPROBE_RUN_MAP"  # set where scripts for CUDA are mapped: torch is prepared when it is imported


def watch() -> None:
    """Called when Python starts."""
    if os.environ.get(FOLDER):
        calls: dict[str, Callable[[], None]] = {
            "triton": wait_for_a_launch,
            "tileprobe.session.session": begin,
        }
        if os.environ.get(MAPPED):
            calls["torch"] = _map
        sys.meta_path.insert(0, _AfterImport(calls))


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once a module has been imported."""

    def __init__(self, calls: dict[str, Callable[[], None]]) -> None:
        self.calls = calls

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        call = self.calls.pop(fullname, None)
        if call is None:
            return None
        spec = importlib.util.find_spec(fullname)  # the others find it; we are asked again and know nothing
        if spec is not None and spec.loader is not None:
            _then(spec.loader, call)
        return spec


def _then(loader: Any, call: Callable[[], None]) -> None:
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        execute(module)
        guarded(call)

    loader.exec_module = exec_module


def guarded(call: Callable[[], None]) -> None:
    """The user's process goes on, whatever becomes of profiling it."""
    try:
        call()
    except Exception as error:
        print(f"tileprobe: process {os.getpid()} is not profiled: {error}", file=sys.stderr)


def wait_for_a_launch() -> None:
    from tileprobe.targets.base import launches

    if launches.observer is None:
        launches.observer = _first_launch


def _first_launch(*launch: Any) -> Any:
    from tileprobe.targets.base import launches

    guarded(begin)
    if launches.observer is _first_launch:
        launches.observer = None
    return None if launches.observer is None else launches.observer(*launch)


def begin() -> None:
    """Starts the session of this process."""
    from tileprobe.cli import _children
    from tileprobe.targets.base import launches

    if launches.observer is _first_launch:
        launches.observer = None
    _children.begin(os.environ[FOLDER])


def _map() -> None:
    from tileprobe.cli import _children

    _children.map_devices()
