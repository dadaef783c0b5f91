"""What commands say to a target beside its name: threads, whether kernels are checked while they run, how a simulated
GPU adds."""

from __future__ import annotations

import argparse
from typing import Any

from tileprobe.errors import TileProbeError


def add_check(parser: Any) -> None:
    parser.add_argument(
        "--check",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="look for faults in kernels as they run: on simulated GPUs races, missing waits and fences, memory"
        " never written (most of it is on anyway; --no-check is faster), on cpu accesses outside of tensors",
    )
    parser.add_argument(
        "--numerics",
        choices=("hardware", "fast"),
        help="of simulated GPUs: tensor cores add as the hardware's do (the default), or in plain single precision,"
        " which is faster",
    )
    parser.add_argument(
        "--step-limit",
        type=int,
        metavar="N",
        help="of simulated GPUs: instructions of a program's warps after which it is taken for endless (500,000,000)",
    )


def add_timed(parser: Any) -> None:
    parser.add_argument(
        "--timed",
        action="store_true",
        help="on simulated GPUs: run launches on a chip of multiprocessors, cycle by cycle, so that figures are"
        " times instead of instructions (docs/simgpu-time.md)",
    )
    parser.add_argument(
        "--values-only",
        action="store_true",
        help="on simulated GPUs: values and no time, which is usual without --timed",
    )
    caches = parser.add_mutually_exclusive_group()
    caches.add_argument(
        "--cold",
        action="store_true",
        help="with --timed: every launch finds empty caches, as if it were the first",
    )
    caches.add_argument(
        "--warm",
        action="store_true",
        help="with --timed: launches find in L2 what those before them left, which is usual",
    )
    parser.add_argument(
        "--probes",
        choices=("none", "free", "real"),
        help="with --timed: none, loops and lines of the plain machine code, exactly (the default); probes that take no"
        " time, for scopes, values and asynchronous pairs; or the time that they would take on a GPU",
    )
    parser.add_argument(
        "--waves",
        type=int,
        metavar="N",
        help="with --timed: so many waves of programs take time, the others are executed for their values; figures are"
        " estimates then",
    )
    parser.add_argument(
        "--sms",
        type=int,
        metavar="N",
        help="with --timed: so many multiprocessors are simulated, with their share of L2 and DRAM; likewise estimates",
    )
    parser.add_argument(
        "--clock",
        choices=("nominal", "sustained"),
        help="with --timed: the nominal clock (the default), or the one that power leaves it with tensor cores"
        " at work",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="as --timed --probes real, and each recorded launch also runs without probes and with free ones: what"
        " probes cost and how far each region's time is off, exactly",
    )


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of `tileprobe.use`."""
    found: dict[str, Any] = {} if args.threads is None else {"threads": args.threads}
    if getattr(args, "numerics", None) is not None:
        if args.target.partition(":")[0] != "sim":
            raise TileProbeError(
                f"--numerics is about simulated GPUs (sim:a100, sim:h100), not {args.target}"
            )
        found["fast_sums"] = args.numerics == "fast"
    if getattr(args, "step_limit", None) is not None:
        if args.target.partition(":")[0] != "sim" or args.step_limit < 1:
            raise TileProbeError("--step-limit is a number from 1 for simulated GPUs (sim:a100, sim:h100)")
        found["step_limit"] = args.step_limit
    if getattr(args, "timed", False):
        if args.target.partition(":")[0] != "sim":
            raise TileProbeError("--timed is for the simulated GPUs: --target sim:a100 or sim:h100")
        found["timed"] = True
    found |= _caches(args)
    for name in ("probes", "clock", "verify", "waves", "sms"):
        if (given := getattr(args, name, None)) is None or given is False:
            continue
        if args.target.partition(":")[0] != "sim" or not (args.verify or args.timed):
            raise TileProbeError(
                f"--{name} is for simulated GPUs with time: --target sim:a100 --timed --{name}"
            )
        found[name] = getattr(args, name)
    check = getattr(args, "check", None)
    if check is None:
        return found
    if args.target.partition(":")[0] == "cpu":
        return found | {"check_bounds": check}
    return found | {"check": "all" if check else False}


def _caches(args: argparse.Namespace) -> dict[str, Any]:
    """How launches that are timed find their caches."""
    timed = getattr(args, "timed", False) or getattr(args, "verify", False)
    if getattr(args, "values_only", False):
        if timed or args.target.partition(":")[0] != "sim":
            raise TileProbeError(
                "--values-only is for simulated GPUs, and without --timed: --target sim:a100"
            )
        return {"timed": False}
    for name in ("cold", "warm"):
        if getattr(args, name, False):
            if not timed or args.target.partition(":")[0] != "sim":
                raise TileProbeError(
                    f"--{name} is about the caches of timed launches: --target sim:a100 --timed --{name}"
                )
            return {"cold": name == "cold"}
    return {}
