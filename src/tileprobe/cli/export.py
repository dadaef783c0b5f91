"""Write a trace for other people's tools: Perfetto, Hatchet, speedscope, flame graphs, Chrome, spreadsheets.

Examples:
  tileprobe export trace.parquet --to perfetto                # trace.pftrace, for ui.perfetto.dev
  tileprobe export trace.parquet --to hatchet --out t.hatchet # for proton-viewer
  tileprobe export trace.parquet --to collapsed --out - | flamegraph.pl > flame.svg
  tileprobe export trace.parquet --to chrome --into torch.json --out both.json
  tileprobe export trace.parquet --to my_view.py:Mine
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from tileprobe.cli import _traces

    _traces.add_arguments(parser)
    parser.add_argument(
        "--to",
        required=True,
        metavar="FORMAT",
        help="perfetto, hatchet, speedscope, collapsed, chrome, csv, html, or file.py:Class",
    )
    parser.add_argument(
        "--into", metavar="FILE", help="with --to chrome: add it to this trace of torch.profiler (.json, .gz)"
    )
    parser.add_argument("--out", metavar="FILE", help="- is the standard output; beside the trace by default")


def run(args: argparse.Namespace) -> int:
    from tileprobe.cli import _traces
    from tileprobe.errors import TileProbeError
    from tileprobe.views.load import file_for, load_view, write
    from tileprobe.views.torch_trace import write_merged

    view = load_view(args.to)
    path = "/dev/stdout" if args.out == "-" else args.out or file_for(view, args.file[0])
    _traces.check_apart(args.file, [path])
    trace = _traces.read(args)
    if args.into:
        if args.to != "chrome":
            raise TileProbeError("--into adds to a trace of torch.profiler, which is of --to chrome")
        write_merged(trace, args.into, path)
    else:
        write(view, trace, path)
    if args.out != "-":
        print(path)
    return 0
