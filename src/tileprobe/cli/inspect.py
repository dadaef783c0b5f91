"""Show a kernel's IR at each level, before and after probing; for GPUs what its machine code takes.

Levels are the target's. Of the CPU: ttir (Triton's), tile (scheduled), probe (what is measured), record (how), llir
(LLVM), asm. The program is run with probes to see its kernels; a trace has them all, too.
For a GPU that need not be there (cuda:90) the program is run, but its launches are only compiled: registers, spills,
occupancy, instructions by unit and line, with and without probes and with Proton.
On a simulated GPU --sass runs the program with time, and lists the machine code of its kernels: how often each
instruction was issued, what its warps waited for, its control codes, its source line.

Examples:
  tileprobe inspect --target sim:h100 --sass script.py
  tileprobe inspect --target cuda:90 script.py --json
  tileprobe inspect --target hip:gfx942 --dense --records granularity=warp script.py
  tileprobe inspect script.py
  tileprobe inspect --level tile --level record --kernel '*attn*' script.py
  tileprobe inspect --level asm trace.parquet
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tileprobe.cli._records import add_records, records_of

if TYPE_CHECKING:
    from tileprobe.targets.base import Target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tileprobe inspect [options] trace.parquet | script.py [args] | -m module [args]"
    parser.add_argument(
        "--level",
        action="append",
        metavar="NAME",
        help="a level, or several; default: those nearest to the probes",
    )
    parser.add_argument("--kernel", default="*", metavar="PATTERN", help="kernels whose names match")
    parser.add_argument("--dense", action="store_true", help="probe every stage, however short")
    add_records(parser)
    parser.add_argument("--target", default="cpu", metavar="NAME", help="the target to run on (%(default)s)")
    parser.add_argument(
        "--device-map",
        metavar="A=B",
        help="cuda=cpu: a script written for CUDA runs here; none: it does not, which is usual for the CPU only",
    )
    parser.add_argument("--json", action="store_true", help="of a GPU: the evidence as JSON")
    parser.add_argument(
        "--sass",
        action="store_true",
        help="on simulated GPUs: run with time, and list the machine code with issues, stalls and source lines",
    )
    parser.add_argument(
        "--cold",
        action="store_true",
        help="with --sass: every launch finds empty caches, as if it were the first",
    )
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="a trace, or the program and its arguments")


def run(args: argparse.Namespace) -> int:
    from tileprobe.errors import TileProbeError
    from tileprobe.session.session import matches
    from tileprobe.targets.catalog import find
    from tileprobe.tools.signatures import told_apart
    from tileprobe.views.screen import make_console

    words = ["-m", *args.module] if args.module is not None else list(args.program)
    words = words[1:] if words[:1] == ["--"] else words
    if "--json" in words:  # behind the program as well; its own option of that name is not passed on
        words.remove("--json")
        args.json = True
    if not words:
        raise TileProbeError("nothing to inspect; give a trace or a program")
    target, machine = find(args.target)
    if args.sass:
        return _machine_code(words, args, target, machine)
    if args.cold:
        raise TileProbeError(
            "--cold is about timed launches: tileprobe inspect --target sim:h100 --sass --cold script.py"
        )
    static = getattr(target, "static", None)
    if static is not None and not words[0].endswith(".parquet"):
        return _evidence(words, args, target, static(machine))
    if args.json:
        raise TileProbeError("--json is for GPUs: --target cuda:90")
    code, trace = (0, _opened(words[0])) if words[0].endswith(".parquet") else _traced(words, args)
    kernels = [kernel for kernel in trace.kernels if matches(kernel.name, (args.kernel,))]
    if not kernels:
        names = ", ".join(sorted({kernel.name for kernel in trace.kernels})) or "none"
        raise TileProbeError(f"no kernel matches {args.kernel!r}; there are: {names}")
    screen = make_console()
    for kernel in told_apart(kernels):
        target, _ = find(kernel.target)
        for level in _levels(target, args.level):
            screen.verbatim(f"// {kernel.name}: {level}")
            screen.verbatim(target.text(level, kernel.ir) or "(not kept)")
    return code


def _evidence(words: list[str], args: argparse.Namespace, target: Target, static: Any) -> int:
    """Runs the program with launches that only compile, and prints what is known of its kernels."""
    import contextlib
    import json
    import sys

    from tileprobe.cuda_map import check, device_map
    from tileprobe.errors import TileProbeError
    from tileprobe.session import script
    from tileprobe.session.session import WORTHWHILE, Session, matches

    if args.level:
        raise TileProbeError(
            f"--level shows the IR of kernels that ran, and for {args.target} they are only compiled: take a simulated "
            "GPU (--target sim:h100), or a trace"
        )
    check(args.device_map)
    asked = Session(min_cost=0.0 if args.dense else WORTHWHILE, records=records_of(args))
    with (
        static,
        contextlib.redirect_stdout(sys.stderr),
        device_map(args.device_map, args.target, static=True),
    ):
        code = script.run(words)
    if code:
        print(f"the program ended with {code}: its kernels were compiled, not run", file=sys.stderr)
    pipeline = asked.plan.pipeline(target.structure, records={**target.records, **asked.records})
    kernels = static.kernels(pipeline, lambda name: matches(name, (args.kernel,)))
    if not kernels:
        raise TileProbeError(f"the program launched no kernel that matches {args.kernel!r}")
    print(json.dumps({"kernels": kernels}, indent=1) if args.json else static.text(kernels))
    return 0


def _machine_code(words: list[str], args: argparse.Namespace, target: Any, machine: str) -> int:
    """Runs the program with time on a simulated GPU, and prints what each instruction of its kernels took."""
    import contextlib
    import json
    import sys

    from tileprobe.cuda_map import check, device_map
    from tileprobe.errors import TileProbeError
    from tileprobe.session import script
    from tileprobe.session.session import matches
    from tileprobe.views.sass_listing import print_kernel
    from tileprobe.views.screen import make_console

    timed_launches = getattr(target, "timed_launches", None)
    if timed_launches is None or words[0].endswith(".parquet") or args.level or args.dense or args.records:
        raise TileProbeError(
            "--sass runs a program on a simulated GPU: tileprobe inspect --target sim:h100 --sass script.py"
        )
    check(args.device_map)
    script.resolve(words)
    noted = timed_launches(machine, cold=args.cold)
    with noted, contextlib.redirect_stdout(sys.stderr), device_map(args.device_map, args.target):
        code = script.run(words)
    kernels = noted.kernels(lambda name: matches(name, (args.kernel,)))
    if not kernels:
        names = ", ".join(noted.names()) or "none"
        raise TileProbeError(f"no kernel that was launched matches {args.kernel!r}; there are: {names}")
    if args.json:
        print(json.dumps({"kernels": kernels}, indent=1))
        return code
    screen = make_console()
    for kernel in kernels:
        print_kernel(kernel, screen)
    return code


def _levels(target: Target, wanted: list[str] | None) -> list[str]:
    from tileprobe.errors import TileProbeError

    known = [level.name for level in target.levels]
    unknown = [name for name in wanted or () if name not in known]
    if unknown:
        raise TileProbeError(
            f"the target {target.name!r} has no level {unknown[0]!r}; its levels are {', '.join(known)}"
        )
    return wanted or [level.name for level in target.levels if level.shown]


def _opened(path: str):
    from tileprobe.trace import Trace

    return Trace.open(path)


def _traced(words: list[str], args: argparse.Namespace):
    """The exit code of the program and the trace of its kernels' first launches."""
    import tileprobe
    from tileprobe.cuda_map import check, device_map
    from tileprobe.errors import TileProbeError
    from tileprobe.session import script
    from tileprobe.session.session import WORTHWHILE, Session

    check(args.device_map)
    tileprobe.use(args.target)
    cost = 0.0 if args.dense else WORTHWHILE
    session = Session(take=1, min_cost=cost, records=records_of(args), progress=True)
    with device_map(args.device_map, args.target):
        try:
            session.__enter__()
            code = script.run(words)
        finally:
            session.__exit__(TileProbeError, None, None)
    if not session.trace.kernels and session.problems:
        raise TileProbeError("; ".join(session.problems.values()))
    return code, session.trace
