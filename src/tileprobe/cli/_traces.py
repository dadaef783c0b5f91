"""The trace that a command was asked to show: read, merged, filtered, and without source where that is wanted."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tileprobe.errors import TileProbeError

if TYPE_CHECKING:
    from tileprobe.trace import Trace

SHOWN = 8  # launches that a message names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="+", help="a trace; several are merged")
    parser.add_argument(
        "--kernel", metavar="PATTERN", help="only kernels whose names match, such as '*attn*'"
    )
    parser.add_argument("--launch", metavar="N", type=int, action="append", help="only this launch")
    parser.add_argument(
        "--no-source", action="store_true", help="leave source, IR and folder names out, to mail it"
    )


def check_apart(
    read: Iterable[str],
    written: Iterable[str | os.PathLike[str] | None],
    what: str = "the trace that is read",
) -> None:
    """What is read is never what is written: a trace would be gone before it was shown, a script for good."""
    for path in written:
        for other in read:
            if path and path != "-" and os.path.exists(path) and os.path.exists(other):
                if os.path.samefile(path, other) and os.path.isfile(other):
                    raise TileProbeError(f"{os.fspath(path)} is {what}: write to another file")


def read(args: argparse.Namespace) -> Trace:
    from tileprobe.trace import Trace
    from tileprobe.views.without_source import without_source

    traces = [Trace.open(path) for path in args.file]
    trace = traces[0] if len(traces) == 1 else Trace.merge(*traces)
    if args.kernel is not None:
        names = [kernel.name for kernel in trace.kernels]
        trace = trace.filter(kernel=args.kernel)
        trace.meta = {**trace.meta, "kernels": [args.kernel]}
        if not trace.kernels:
            raise TileProbeError(
                f"no kernel matches {args.kernel!r}; the trace has {', '.join(names) or 'none'}"
            )
    if args.launch:
        known = {launch.id for launch in trace.launches}
        missing = sorted(set(args.launch) - known)
        if missing:
            raise TileProbeError(f"the trace has no launch {missing[0]}; it has {len(known)}, from 0 on")
        recorded = [launch.id for launch in trace.launches if launch.probed]
        if not set(args.launch) & set(recorded):
            shown = ", ".join(map(str, recorded[:SHOWN])) + (", ..." if len(recorded) > SHOWN else "")
            one = "launch" if len(args.launch) == 1 else "launches"
            asked = " and ".join(map(str, args.launch))
            raise TileProbeError(f"nothing was recorded of {one} {asked}; recorded are {shown or 'none'}")
        trace = _with_launches(trace.filter(launches=args.launch))
    return without_source(trace) if args.no_source else trace


def _with_launches(trace: Trace) -> Trace:
    """Without kernels of which there is no launch: nobody asked for them."""
    mine = {launch.kernel for launch in trace.launches}
    kernels = [kernel for kernel in trace.kernels if kernel.id in mine]
    regions = [region for region in trace.regions if region.kernel in mine]
    meta = {**trace.meta, "kernels": [kernel.name for kernel in kernels]}
    return replace(trace, kernels=kernels, regions=regions, meta=meta)
