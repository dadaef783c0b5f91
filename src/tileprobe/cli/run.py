"""Profile every Triton kernel that a program launches, with no edit to it.

Examples:
  tileprobe run train.py --epochs 1
  tileprobe run --kernel '*attn*' --take 10 --trace attn.parquet script.py
  tileprobe run --device-map cuda=cpu --json - script.py
  tileprobe run --target sim:a100 --check script.py
  tileprobe run -m package.module
  tileprobe run -- pytest tests/test_kernels.py
"""

from __future__ import annotations

import argparse

from tileprobe.cli._records import add_records, records_of
from tileprobe.cli._settings import add_check, add_timed, settings
from tileprobe.cli._views import add_arguments as add_arguments_of_views


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tileprobe run [options] script.py [args] | -m module [args] | -- command [args]"
    what = parser.add_argument_group("what to look at")
    what.add_argument(
        "--kernel", action="append", metavar="PATTERN", help="kernels whose names match, such as '*attn*'"
    )
    what.add_argument(
        "--skip", type=int, default=0, metavar="N", help="leave out each kernel's first launches"
    )
    what.add_argument("--take", type=int, metavar="N", help="then look at so many launches")
    what.add_argument(
        "--tool",
        action="append",
        metavar="NAME",
        help="regions, source, iterations, programs, units, roofline, overlap, critical-path, "
        "memory, pipeline, parallelism, or file.py:Class",
    )
    what.add_argument("--lines", action="append", metavar="A-B", help="only loops and stages on these lines")
    what.add_argument("--dense", action="store_true", help="probe every stage, however short")
    how = parser.add_argument_group("how much to record")
    how.add_argument(
        "--programs", default="auto", metavar="WHICH", help="auto, all, 1%%, random:16, or 0,5,9"
    )
    how.add_argument("--iterations", default="all", metavar="WHICH", help="all, every:4, first:8, last:8")
    how.add_argument("--capacity", type=int, default=256, metavar="N", help="iterations of a loop with room")
    how.add_argument("--budget-mb", type=float, default=64.0, metavar="MB", help="room for all records")
    add_records(how)
    how.add_argument(
        "--seed", type=int, default=0, metavar="N", help="what is drawn at random follows from it"
    )
    how.add_argument(
        "--no-alternate", action="store_true", help="probe every launch; the overhead is then only estimated"
    )
    where = parser.add_argument_group("where to run")
    where.add_argument(
        "--target",
        metavar="NAME",
        help="cpu, another that `doctor` lists, or file.py:Class (default: the GPU that Triton finds, else cpu)",
    )
    where.add_argument("--threads", type=int, metavar="N", help="threads of the CPU and of simulated GPUs")
    where.add_argument(
        "--device-map", metavar="A=B", help="cuda=cpu: a script for CUDA runs here; none: leave torch alone"
    )
    add_check(where)
    add_timed(where)
    out = parser.add_argument_group("what to keep")
    out.add_argument("--trace", metavar="FILE", help="save the trace (Parquet); tileprobe report reads it")
    out.add_argument("--json", metavar="FILE", help="write the figures as JSON; - is the standard output")
    out.add_argument("--chrome", metavar="FILE", help="write a timeline that ui.perfetto.dev opens")
    add_arguments_of_views(out)
    out.add_argument("--no-source", action="store_true", help="no source in --html and --view, to mail them")
    out.add_argument("--quiet", action="store_true", help="print no report")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")


def run(args: argparse.Namespace) -> int:
    import signal

    import tileprobe
    from tileprobe.cli import _ending
    from tileprobe.cli import _outputs as outputs
    from tileprobe.cli._running import Running
    from tileprobe.cli._traces import check_apart
    from tileprobe.cuda_map import check, device_map
    from tileprobe.profiling import Profile
    from tileprobe.session import script
    from tileprobe.targets.catalog import DEFAULT, default_target

    words = ["-m", *args.module] if args.module is not None else list(args.program)
    words = words[1:] if words[:1] == ["--"] else words
    if args.target is None:
        chosen = args.device_map is not None or args.threads is not None  # both are the CPU's
        args.target = DEFAULT if chosen else default_target()
    check(args.device_map)
    outputs.check(args)
    files = [args.trace, args.json, args.chrome, args.html, *(path for _, path in args.views)]
    check_apart([word for word in words if word.endswith(".py")], files, "a script that is run")
    script.resolve(words)
    session = Profile(**session_options(args), progress=True)
    with tileprobe.use(args.target, **settings(args)), device_map(args.device_map, args.target):
        running, code = Running(session, args), 1
        try:
            code = script.run(words)
        finally:  # whatever comes through: what was recorded is written
            code = running.finish(code)
        if code is script.INTERRUPTED:  # a shell that sees a mere number goes on with its loop
            _ending.die(signal.SIGINT)
        return code


def session_options(args: argparse.Namespace) -> dict:
    """What `Session` takes, from the options of a command."""
    from dataclasses import replace
    from functools import reduce
    from operator import or_

    from tileprobe.session.session import WORTHWHILE
    from tileprobe.tools.load import DEFAULT, load_tool, plan_of

    tools = [load_tool(name) for name in args.tool or DEFAULT]
    plan = reduce(or_, map(plan_of, tools))
    plan = replace(
        plan, lines=tuple(map(_lines, args.lines or ())), min_cost=0.0 if args.dense else WORTHWHILE
    )
    return {
        "kernels": tuple(args.kernel or ("*",)),
        "tools": tools,
        "plan": plan,
        "skip": args.skip,
        "take": args.take,
        "programs": args.programs,
        "iterations": args.iterations,
        "capacity": args.capacity,
        "alternate": not args.no_alternate,
        "total_mb": args.budget_mb,
        "seed": args.seed,
        "records": records_of(args),
    }


def _lines(text: str) -> str:
    """A line or a range of lines, as written."""
    from tileprobe.errors import TileProbeError

    first, _, last = text.partition("-")
    right = first.isdecimal() and (last or first).isdecimal() and 0 < int(first) <= int(last or first)
    if not right or text.endswith("-") or len(text) > 20:
        raise TileProbeError(f"--lines takes a line or a range such as 34 or 31-44, not {text!r}")
    return text
