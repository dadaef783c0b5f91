"""Show a trace: where the time goes inside each kernel, with its source.

Examples:
  tileprobe report trace.parquet
  tileprobe report trace.parquet --tool programs --tool iterations
  tileprobe report trace.parquet --tool my_tool.py:Slowest
  tileprobe report trace.parquet --json report.json --chrome timeline.json
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="+", help="a trace; several are merged")
    parser.add_argument(
        "--tool",
        action="append",
        metavar="NAME",
        help="regions, source, iterations, programs, units, or file.py:Class",
    )
    parser.add_argument(
        "--kernel", metavar="PATTERN", help="only kernels whose names match, such as '*attn*'"
    )
    parser.add_argument("--full", action="store_true", help="every kernel, region and line, however short")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON; - is the standard output")
    parser.add_argument("--chrome", metavar="FILE", help="write a timeline that ui.perfetto.dev opens")


def run(args: argparse.Namespace) -> int:
    import json

    from tileprobe.errors import TileProbeError
    from tileprobe.files import write_json
    from tileprobe.tools.load import DEFAULT, failed, load_tool, read
    from tileprobe.trace import Trace
    from tileprobe.views.json_report import trace_to_json
    from tileprobe.views.terminal import make_console, print_report

    tools = [load_tool(name) for name in args.tool or DEFAULT]
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
    if args.chrome:
        from tileprobe.views.chrome import write_chrome

        write_chrome(trace, args.chrome)
    if args.json == "-":
        print(json.dumps(trace_to_json(trace), indent=1))  # ASCII: any terminal and any locale takes it
        return 0
    if args.json:
        write_json(args.json, trace_to_json(trace))
    results = [read(tool, trace) for tool in tools]
    print_report(trace, results, make_console(), args.full)
    return 2 if failed(results) else 0
