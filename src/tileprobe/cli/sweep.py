"""Run a script with every combination of some settings, and compare the time of its kernels.

A setting is in the script's environment, and takes the place of {NAME} in its arguments. Settings named like options of
`tileprobe run` (target, threads, timed, cold, clock, numerics, ...) are these options.

Examples:
  tileprobe sweep --set BLOCK=64,128,256 script.py --block {BLOCK}
  tileprobe sweep --set BLOCK=64,128 --set target=sim:a100,sim:h100 --timed script.py
  tileprobe sweep --set N=1024,4096 --set clock=nominal,sustained --target sim:a100 --timed --out clocks script.py {N}
  tileprobe sweep --set BLOCK=64,128 --target sim:h100 --timed --on dask://10.0.0.5:8786 script.py
"""

from __future__ import annotations

import argparse
from typing import Any

from tileprobe.cli._settings import add_check, add_timed
from tileprobe.sweeps.options import add_arguments as add_sweep_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tileprobe sweep --set NAME=A,B,... [options] script.py [args]"
    what = parser.add_argument_group("the sweep")
    what.add_argument(
        "--set", action="append", required=True, metavar="NAME=A,B,...", help="a setting; repeat for more"
    )
    what.add_argument(
        "--plot", metavar="COLUMN", help="what the plot NAME.png shows (default: the time in all kernels)"
    )
    where = parser.add_argument_group("where kernels run, as in `tileprobe run`")
    where.add_argument(
        "--target", metavar="NAME", help="cpu, sim:a100, sim:h100 ... (default: as `tileprobe run`)"
    )
    where.add_argument("--threads", type=int, metavar="N", help="threads of the CPU and of simulated GPUs")
    add_check(where)
    add_timed(where)
    add_sweep_options(parser)
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the script and its arguments")


def run(args: argparse.Namespace) -> int:
    import math
    from pathlib import Path

    from tileprobe.sweeps.points import Work, file_digest, grid, package_digest, parse_axes
    from tileprobe.sweeps.run import running
    from tileprobe.sweeps.script import columns
    from tileprobe.sweeps.table import frame_of, print_table, say_failed, write_table

    axes = parse_axes(args.set, "--set", lambda name, text: text, "BLOCK=64,128")
    words = _words(args, axes)
    options = _options(args, axes)
    if _simulated(options, axes):
        if "threads" not in axes:
            options.setdefault("threads", 1)  # a point has a core, and its cycles are the same on one
    elif args.on == "local" and not args.jobs:
        args.jobs = 1  # launches that are measured would take the cores from each other
    script = words[0]
    work = Work("tileprobe.sweeps.script:run_point", package_digest(), {script: file_digest(script)})
    settings = ({"script": words, "options": options, "set": each} for each in grid({}, axes))
    with running("sweep", args, work, "tileprobe sweep") as sweep:
        sweep.run(settings, math.prod(map(len, axes.values())))
        frame = frame_of(sweep.entries(), columns)
    path = write_table(frame, Path(f"{args.out}.parquet"))
    print_table(frame, list(axes), _shown(frame))
    failed = say_failed(frame, list(axes))
    print(f"\n{path}: {frame.height:,} points{_picture(args, frame, list(axes))}")
    return 1 if failed == frame.height else 0


def _words(args: argparse.Namespace, axes: dict[str, list[Any]]) -> list[str]:
    """The script and its arguments; settings that nothing mentions are named."""
    import re
    from pathlib import Path

    from tileprobe.cli._say import say
    from tileprobe.errors import TileProbeError
    from tileprobe.sweeps.script import FLAGS, VALUES

    words = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not words or words[0].startswith("-"):
        raise TileProbeError("say which script: tileprobe sweep --set BLOCK=64,128 script.py")
    if not Path(words[0]).is_file():
        raise TileProbeError(f"there is no script {words[0]}")
    text = Path(words[0]).read_text(errors="replace")
    own = [name for name in axes if name not in (*VALUES, *FLAGS)]
    for name in own:
        if not re.fullmatch(r"[^\W\d]\w*", name):
            raise TileProbeError(f"--set {name}: a setting has the name of a variable: letters, digits and _")
        if not any("{" + name + "}" in word for word in words[1:]) and name not in text:
            say(
                f"{name} is neither in the arguments, as {{{name}}}, nor in {words[0]}: does anything read it?"
            )
    known = {"{" + name + "}" for name in own}
    for place in re.findall(r"\{[^\W\d]\w*\}", " ".join(words[1:])):
        if place not in known:
            raise TileProbeError(f"{place} is among the arguments, but there is no --set {place[1:-1]}=...")
    return words


def _options(args: argparse.Namespace, axes: dict[str, list[Any]]) -> dict[str, Any]:
    """Options of `tileprobe run` that all points share; each combination has to make sense."""
    from itertools import product

    from tileprobe.cli._settings import settings
    from tileprobe.errors import TileProbeError
    from tileprobe.sweeps.script import FLAGS, VALUES, option_words

    names = [name for name in (*VALUES, *FLAGS) if getattr(args, name, None)]
    found = {name: getattr(args, name) for name in names}
    if getattr(args, "verify", False) or args.values_only or args.check is False:
        raise TileProbeError("--verify, --values-only and --no-check are for single runs: tileprobe run")
    twice = [name for name in axes if name in found]
    if twice:
        raise TileProbeError(f"{twice[0]} is given twice: as --set {twice[0]}=... and as --{twice[0]}")
    ours = {name: axes[name] for name in axes if name in (*VALUES, *FLAGS)}
    for values in product(*ours.values()):
        one = found | dict(zip(ours, values))
        option_words(one)
        flags = {name: one.get(name) in (True, "true") for name in FLAGS}
        _check({"target": "cpu", "threads": None} | one | flags, settings)
    return found


def _check(one: dict[str, Any], settings: Any) -> None:
    """As `tileprobe run` would, before anything runs."""
    from tileprobe.errors import TileProbeError
    from tileprobe.targets.catalog import find

    if one["threads"] is not None and not str(one["threads"]).isdecimal():
        raise TileProbeError(f"threads must be a number, found {one['threads']!r}")
    for name, known in (
        ("clock", ("nominal", "sustained")),
        ("numerics", ("hardware", "fast")),
        ("probes", ("none", "free", "real")),
    ):
        if one.get(name) not in (None, *known):
            raise TileProbeError(f"{name} must be {', '.join(known)}, found {one[name]!r}")
    find(one["target"])
    settings(argparse.Namespace(**one | {"check": None}))


def _simulated(options: dict[str, Any], axes: dict[str, list[Any]]) -> bool:
    targets = axes.get("target", [options.get("target", "")])
    return all(str(target).startswith("sim") for target in targets)


def _shown(frame: Any) -> list[str]:
    """Columns of figures: the whole, and what each kernel took."""
    kept = ("kernels_us", "instructions")
    return [name for name in frame.columns if name in kept or name.endswith((" us", " cycles"))]


def _picture(args: argparse.Namespace, frame: Any, axes: list[str]) -> str:
    from pathlib import Path

    from tileprobe.sweeps.plot import plot_sweep

    column = args.plot or ("kernels_us" if "kernels_us" in frame.columns else "instructions")
    if args.plot is None and column not in frame.columns:
        return ""
    label = {"kernels_us": "time in kernels (us)"}.get(column, column)
    picture = plot_sweep(frame, axes, column, Path(f"{args.out}.png"), label, Path(args.program[0]).name)
    return f"; plot in {picture}" if picture else "; no plot: pip install matplotlib"
