"""What commands say to a target beside its name: threads, and whether kernels are checked while they run."""

from __future__ import annotations

import argparse
from typing import Any


def add_check(parser: Any) -> None:
    parser.add_argument(
        "--check",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="look for faults in kernels as they run: on sim:a100 and sim:h100 races, missing waits and fences, memory"
        " never written (most of it is on anyway; --no-check is faster), on cpu accesses outside of tensors",
    )


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of `tileprobe.use`."""
    found = {} if args.threads is None else {"threads": args.threads}
    check = getattr(args, "check", None)
    if check is None:
        return found
    if args.target.partition(":")[0] == "cpu":
        return found | {"check_bounds": check}
    return found | {"check": "all" if check else False}
