"""In a child process of `tileprobe run`: waits, at no cost, until there is something to record. In one of `tileprobe
exec`: gives it the target and the map of devices.

In comes the folder that the environment names; out goes, with the first launch, a session of this process whose trace
goes to that folder. A process that launches nothing has imported nothing of ours but this file and `imports`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from tileprobe.imports import AfterImport

FOLDER = "TILEPROBE_RUN"  # the variable that tells children where their traces go
OPTIONS = "TILEPROBE_RUN_OPTIONS"  # and the options of the run, as JSON
MAPPED = "TILEPROBE_RUN_MAP"  # set where scripts for CUDA are mapped: torch is prepared when it is imported
EXEC = "TILEPROBE_EXEC"  # for children of `tileprobe exec`: what to use, as JSON


def watch() -> None:
    """Called when Python starts."""
    if os.environ.get(EXEC):
        calls = {
            name: partial(guarded, partial(_use, name), "runs without the target of tileprobe exec")
            for name in ("triton", "torch")
        }
        AfterImport(calls).watch()
    if os.environ.get(FOLDER):
        calls: dict[str, Callable[[], None]] = {
            "triton": wait_for_a_launch,
            "tileprobe.session.session": begin,
        }
        if os.environ.get(MAPPED):
            calls["torch"] = _map
        AfterImport({name: partial(guarded, call) for name, call in calls.items()}).watch()


def guarded(call: Callable[[], None], says: str = "is not profiled") -> None:
    """The user's process goes on, whatever becomes of profiling it."""
    try:
        call()
    except Exception as error:
        print(f"tileprobe: process {os.getpid()} {says}: {error}", file=sys.stderr)


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


def _use(imported: str) -> None:
    import json

    import tileprobe

    asked = json.loads(os.environ[EXEC])
    mapped = asked["cuda"] and imported == "torch"
    tileprobe.use(asked["target"], cuda=mapped, **asked["settings"])


def _map() -> None:
    from tileprobe.cli import _children

    _children.map_devices()
