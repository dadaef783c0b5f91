"""Show a kernel's IR at each level, before and after probing.

Levels: ttir (Triton's), tile (scheduled), probe (what is measured), record (how), llir (LLVM), asm.
The program is run with probes to see its kernels; a trace has them all, too.

Examples:
  tileprobe inspect script.py
  tileprobe inspect --level tile --level record --kernel '*attn*' script.py
  tileprobe inspect --level asm trace.parquet
"""

from __future__ import annotations

import argparse

LEVELS = ("ttir", "tile", "probe", "record", "llir", "asm")
DEFAULT = ("tile", "probe", "record")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tileprobe inspect [options] trace.parquet | script.py [args] | -m module [args]"
    parser.add_argument("--level", action="append", choices=LEVELS, help=f"default: {', '.join(DEFAULT)}")
    parser.add_argument("--kernel", default="*", metavar="PATTERN", help="kernels whose names match")
    parser.add_argument("--dense", action="store_true", help="probe every stage, however short")
    parser.add_argument("--device-map", metavar="A=B", help="cuda=cpu: a script written for CUDA runs here")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="a trace, or the program and its arguments")


def run(args: argparse.Namespace) -> int:
    from tileprobe.errors import TileProbeError
    from tileprobe.session.profile import matches

    words = ["-m", *args.module] if args.module is not None else list(args.program)
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        raise TileProbeError("nothing to inspect; give a trace or a program")
    code, trace = (0, _opened(words[0])) if words[0].endswith(".parquet") else _traced(words, args)
    kernels = [kernel for kernel in trace.kernels if matches(kernel.name, (args.kernel,))]
    if not kernels:
        names = ", ".join(sorted({kernel.name for kernel in trace.kernels})) or "none"
        raise TileProbeError(f"no kernel matches {args.kernel!r}; there are: {names}")
    for kernel in kernels:
        for level in args.level or DEFAULT:
            print(f"// {kernel.name}: {level}")
            print(_text(kernel.ir, level))
    return code


def _opened(path: str):
    from tileprobe.trace import Trace

    return Trace.open(path)


def _traced(words: list[str], args: argparse.Namespace):
    """The exit code of the program and the trace of its kernels' first launches."""
    import tileprobe
    from tileprobe.errors import TileProbeError
    from tileprobe.session import script
    from tileprobe.session.device_map import device_map
    from tileprobe.session.profile import WORTHWHILE, Session

    tileprobe.use("cpu")
    session = Session(take=1, min_cost=0.0 if args.dense else WORTHWHILE, progress=True)
    with device_map(args.device_map):
        try:
            session.__enter__()
            code = script.run(words)
        finally:
            session.__exit__(TileProbeError, None, None)
    return code, session.trace


def _text(levels: dict[str, str], level: str) -> str:
    if level != "asm":
        return levels.get(level, "(not kept)")
    if "llir" not in levels:
        return "(not kept)"
    from tileprobe.targets.cpu.loader import assembly

    return assembly(levels["llir"])
