"""Show a trace: where the time goes inside each kernel, with its source.

Examples:
  tileprobe report trace.parquet
  tileprobe report trace.parquet --tool programs --tool iterations
  tileprobe report trace.parquet --tool overlap --json overlap.json
  tileprobe report trace.parquet --tool my_tool.py:Slowest
  tileprobe report trace.parquet --json report.json --chrome timeline.json --html report.html
"""

from __future__ import annotations

import argparse

from tileprobe.cli._views import add_arguments as add_arguments_of_views


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from tileprobe.cli import _traces

    _traces.add_arguments(parser)
    parser.add_argument(
        "--tool",
        action="append",
        metavar="NAME",
        help="regions, source, iterations, programs, units, roofline, overlap, critical-path, "
        "memory, pipeline, parallelism, or file.py:Class",
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON; - is the standard output")
    parser.add_argument("--chrome", metavar="FILE", help="write a timeline that ui.perfetto.dev opens")
    add_arguments_of_views(parser)


def run(args: argparse.Namespace) -> int:
    import json

    from tileprobe.cli import _traces
    from tileprobe.cli._views import view_and_file, write_view
    from tileprobe.files import write_json
    from tileprobe.tools.load import DEFAULT, failed, load_tool, read
    from tileprobe.views.json_report import trace_to_json
    from tileprobe.views.terminal import make_console, print_report

    tools = [load_tool(name) for name in args.tool or DEFAULT]
    views = [view_and_file(text) for text in args.view or ()]
    _traces.check_apart(args.file, [args.chrome, args.html, args.json, *(path for _, path in views)])
    trace = _traces.read(args)
    if args.chrome:
        from tileprobe.views.chrome import write_chrome

        write_chrome(trace, args.chrome)
    if args.html:
        from tileprobe.views.html import write_html

        write_html(trace, args.html, source=not args.no_source)
    for view, path in views:
        write_view(view, trace, path)
    results = [read(tool, trace) for tool in tools]
    if args.json == "-":
        told = trace_to_json(trace, results)
        print(json.dumps(told, indent=1))  # ASCII: any terminal and any locale takes it
        return 2 if failed(results) else 0
    if args.json:
        write_json(args.json, trace_to_json(trace, results))
    print_report(trace, results, make_console(), args.full)
    return 2 if failed(results) else 0
