"""Compare two traces region by region, and say which differences are within the noise.

Example:
  tileprobe compare before.parquet after.parquet
"""

from __future__ import annotations

import argparse

RUNS = (
    "noise is what launches of one run differ by; two runs of the same code can differ by more (where memory lies, "
    "how fast the cores are clocked): record both again before you trust a small change"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", help="the trace to start from")
    parser.add_argument("b", help="the trace to hold against it")
    parser.add_argument("--kernel", metavar="PATTERN", help="only kernels whose names match")
    parser.add_argument("--html", metavar="FILE", help="write the comparison as a page, by region and line")
    parser.add_argument(
        "--json", metavar="FILE", help="write the comparison as JSON; - is the standard output"
    )


def run(args: argparse.Namespace) -> int:
    import json

    from tileprobe.cli import _traces
    from tileprobe.files import write_json
    from tileprobe.tools.compare import compare
    from tileprobe.trace import Trace
    from tileprobe.views import text
    from tileprobe.views.terminal import make_console, print_findings, print_table

    _traces.check_apart([args.a, args.b], [args.html, args.json])
    a, b = (Trace.open(path).filter(kernel=args.kernel or "*") for path in (args.a, args.b))
    result = compare(a, b)
    if args.html:
        from tileprobe.views.html.comparison import write_comparison

        write_comparison(a, b, args.html, (args.a, args.b))
    if args.json == "-":
        print(json.dumps(result.to_json(), indent=1))  # ASCII: any terminal and any locale takes it
        return 0
    if args.json:
        write_json(args.json, result.to_json())
    screen = make_console()
    screen.say(f"A {args.a}", "dim")
    screen.say(f"B {args.b}", "dim")
    screen.print()
    with text.units_of(b):
        for table in result.tables:
            counted = "instructions" if text.counts(b) else "time"
            screen.say(
                f"{table.title}, {counted} in a program, {table.frame['figure'][0]} of the launches", "bold"
            )
            print_table(table, screen)
            screen.print()
    print_findings(result.findings, screen)
    if result.tables:
        screen.say(RUNS, "dim")
    return 0
