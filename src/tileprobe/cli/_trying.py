"""What `whatif` and `advise` share: the program is run, and of each kernel's first launches a question is asked."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from collections.abc import Callable
from typing import Any

from tileprobe.cli._say import say
from tileprobe.errors import TileProbeError

Question = Callable[[Any, Any, Callable[[str], None]], Any]


def add_shared(parser: argparse.ArgumentParser, seconds: float, what_for: str) -> None:
    """Options of both. The program is the rest of the words: nothing may be added behind."""
    parser.add_argument("--kernel", default="*", metavar="PATTERN", help="kernels whose names match")
    parser.add_argument(
        "--target", default="cpu", metavar="NAME", help="cpu (the default), sim:a100, sim:h100, ..."
    )
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the CPU and of simulated GPUs")
    parser.add_argument("--device-map", metavar="A=B", help="cuda=cpu: a script for CUDA runs here")
    parser.add_argument(
        "--seconds", type=float, default=seconds, metavar="S", help=f"{what_for} (default: {seconds:g})"
    )
    parser.add_argument(
        "--most", type=int, default=4, metavar="N", help="so many kernels at most (default: 4)"
    )
    parser.add_argument("--json", metavar="FILE", help="write it as JSON; - is the standard output")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")


def tried(args: argparse.Namespace, question: Question) -> tuple[int, list[Any]]:
    """The exit code of the program, and the answers."""
    import tileprobe
    from tileprobe.cli._outputs import Terminal
    from tileprobe.cuda_map import check, device_map
    from tileprobe.files import check_writable
    from tileprobe.session import script
    from tileprobe.session.relaunching import Relaunch, relaunching
    from tileprobe.targets import catalog

    words = ["-m", *args.module] if args.module is not None else list(args.program)
    words = words[1:] if words[:1] == ["--"] else words
    if not args.seconds > 0:
        raise TileProbeError(f"--seconds takes a number above 0, not {args.seconds:g}")
    if args.most < 1:
        raise TileProbeError(f"--most takes a number of kernels, 1 or more, not {args.most}")
    if args.json and args.json != "-":
        check_writable(args.json)
        args.json = os.path.abspath(args.json)  # the program may go to another folder
    check(args.device_map)
    script.resolve(words)
    target, _ = catalog.find(args.target)
    simulated = hasattr(target, "scales")
    if not simulated and target.name != "cpu":
        raise TileProbeError(
            f"this can be asked on cpu and on simulated GPUs (sim:a100, sim:h100), not on {args.target}"
        )
    settings = {} if args.threads is None else {"threads": args.threads}
    settings |= {"timed": True, "check": False} if simulated else {}
    answers: list[Any] = []
    refused: list[str] = []  # kernels of which it is said why

    def progress(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def seen(launch: Relaunch) -> None:
        if len(answers) >= args.most or not fnmatch.fnmatch(launch.name, args.kernel) or 0 in launch.programs:
            return
        try:
            answers.append(question(launch, target, progress))
        except TileProbeError as error:
            refused.append(launch.name)
            say(str(error))
        except (
            Exception
        ) as error:  # the program's own launch, which comes next, says what is wrong with the kernel
            last = (str(error).strip() or type(error).__name__).splitlines()[-1]
            refused.append(launch.name)
            say(f"{launch.name} cannot be asked about: {type(error).__name__}: {last}")
        finally:
            progress("")

    args.terminal = Terminal(apart=args.json == "-")  # nothing but JSON is on the standard output
    try:
        with (
            tileprobe.use(args.target, **settings),
            device_map(args.device_map, args.target),
            relaunching(seen),
        ):
            code = script.run(words)
    except BaseException:
        args.terminal.close()
        raise
    if not answers and not refused:
        say("the program launched no Triton kernel that could be asked about")
    return code, answers


def written(args: argparse.Namespace, data: list[dict[str, Any]], show: Callable[[Any], None]) -> int:
    """As JSON where that was asked for, and else as tables."""
    from tileprobe.cli._outputs import json_to
    from tileprobe.files import write_json
    from tileprobe.views.terminal import make_console

    told = {"schema": 1, "target": args.target, "kernels": data}
    if args.json == "-":
        json_to(told, args.terminal)
    args.terminal.close()
    if args.json and args.json != "-":
        write_json(args.json, told)
    if args.json != "-" and data:
        show(make_console(sys.stdout))
    return 0 if data else 2
