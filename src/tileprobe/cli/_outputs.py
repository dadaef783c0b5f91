"""What a run leaves behind: the report on the terminal, the trace, the JSON, the timeline.

Each is written on its own: one that cannot be written is said so, and the others are still there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tileprobe.errors import TileProbeError

if TYPE_CHECKING:
    from tileprobe.profiling import Profile


def check(*paths: str | None) -> None:
    """Says before a long run that its results would have nowhere to go."""
    for path in paths:
        if path is None or path == "-":
            continue
        folder = Path(path).absolute().parent
        if not folder.is_dir():
            raise TileProbeError(f"cannot write {path}: there is no folder {folder}")
        if not os.access(folder, os.W_OK):
            raise TileProbeError(f"cannot write {path}: the folder {folder} is read-only")
        if Path(path).is_dir():
            raise TileProbeError(f"cannot write {path}: it is a folder")


def write(session: Profile, args: argparse.Namespace) -> bool:
    """Writes everything that was asked for; returns whether something could not be."""
    trace = session.trace
    steps: list[Callable[[], None]] = []
    if args.trace:
        steps.append(lambda: trace.save(args.trace))
    if args.chrome:
        steps.append(lambda: _chrome(trace, args.chrome))
    if args.json and args.json != "-":
        steps.append(lambda: _json(session, args.json))
    if args.json == "-":
        steps.append(lambda: print(json.dumps(session.to_json(), indent=1, ensure_ascii=False)))
    elif not args.quiet:
        steps.append(lambda: _report(session))
    failures = [_failed(step) for step in steps]  # every step is tried
    return any(failures)


def _failed(step: Callable[[], None]) -> bool:
    try:
        step()
    except TileProbeError as error:
        print(f"tileprobe: {error}", file=sys.stderr)
        return True
    return False


def _chrome(trace, path: str) -> None:
    from tileprobe.views.chrome import write_chrome

    write_chrome(trace, path)


def _json(session: Profile, path: str) -> None:
    from tileprobe.files import write_json

    write_json(path, session.to_json())


def _report(session: Profile) -> None:
    if not session.seen:
        print("tileprobe: the program launched no Triton kernel on this target", file=sys.stderr)
        return
    session.report()
