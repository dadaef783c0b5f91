"""`python -m fuzz.inputs --count N --seed S`: damaged trace files, damaged IR and senseless options."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from fuzz.inputs.campaign import Found, Outcome, campaign, shares
from fuzz.inputs.trying import KINDS, attempts, command


def _progress(outcome: Outcome) -> None:
    """A line that rewrites itself on a terminal, and one per thousand cases elsewhere."""
    line = f"{outcome.cases} cases, {outcome.cases / max(outcome.seconds, 1e-9):.0f}/s, {len(outcome.found)} found"
    if sys.stderr.isatty():
        print(f"\r{line}", end="", file=sys.stderr, flush=True)
    elif outcome.cases % 1000 < 20:
        print(line, file=sys.stderr, flush=True)


def _show(found: Found) -> None:
    print(f"\n== {found.what}, --kind {found.kind} --one {found.seed}\n{found.words}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.inputs", description=__doc__)
    parser.add_argument("--count", type=int, default=3000, help="how many cases in all (3000)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of each kind (0)")
    parser.add_argument("--kind", choices=tuple(KINDS), help="one kind of input only")
    parser.add_argument(
        "--one", type=int, metavar="SEED", help="one case of a kind: its command, what it says"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of a case (60)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    args = parser.parse_args()
    if args.one is not None:
        kind = args.kind or next(iter(KINDS))
        print("tileprobe", *map(repr, command(kind, args.one)))
        print(*attempts(kind, range(args.one, args.one + 1))[0])
        return 0
    kinds = (
        {args.kind: range(args.seed, args.seed + args.count)} if args.kind else shares(args.count, args.seed)
    )
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # ends it like Ctrl-C: with what there is so far
    outcome = campaign(kinds, seconds=args.seconds, progress=_progress, found=_show)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(outcome.table())
    if args.json:
        outcome.save(args.json)
    return 1 if outcome.found else 0


if __name__ == "__main__":
    sys.exit(main())
