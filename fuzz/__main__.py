"""`python -m fuzz --count N --seed S`: random kernels on the CPU target against Triton's interpreter."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fuzz.campaign import Outcome, campaign
from fuzz.case import case_of
from fuzz.generate import generate
from fuzz.process import ISAS


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="how many kernels (500)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument(
        "--one", type=int, metavar="SEED", help="print and run the kernel of one seed, shrunk"
    )
    parser.add_argument("--jobs", type=int, default=1, help="kernels at a time (1)")
    parser.add_argument("--isa", default="native,sse2,wide", help=f"of {', '.join(ISAS)} (all)")
    parser.add_argument("--shrink", action="store_true", help="shrink what fails")
    parser.add_argument("--seconds", type=float, default=20.0, help="time limit of a kernel (20)")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="where scripts go (out/fuzz)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    args = parser.parse_args(words)
    args.isa = tuple(args.isa.split(","))
    unknown = [isa for isa in args.isa if isa not in ISAS]
    if unknown:
        parser.error(f"no vector width named {', '.join(unknown)}; there are {', '.join(ISAS)}")
    return args


def _progress(outcome: Outcome, total: int) -> None:
    """A line that rewrites itself on a terminal, and one per hundred kernels elsewhere."""
    rate = outcome.kernels / max(outcome.seconds, 1e-9)
    line = f"{outcome.kernels}/{total} kernels, {rate:.1f}/s, {len(outcome.findings)} findings"
    if sys.stderr.isatty():
        print(f"\r{line}", end="", file=sys.stderr, flush=True)
    elif outcome.kernels % 100 == 0:
        print(line, file=sys.stderr, flush=True)


def main(words: list[str] | None = None) -> int:
    args = _arguments(words)
    seeds = range(args.seed, args.seed + args.count)
    if args.one is not None:
        seeds = range(args.one, args.one + 1)
        print(case_of(generate(args.one)).source)
    outcome = campaign(
        seeds,
        args.isa,
        jobs=args.jobs,
        seconds=args.seconds,
        shrinking=args.shrink or args.one is not None,
        folder=args.out,
        progress=_progress,
    )
    if sys.stderr.isatty():
        print(file=sys.stderr)
    for finding in outcome.findings:
        print(f"\n== {finding.kind}, seed {finding.seed}, {finding.isa}: {finding.words}\n{finding.script}")
        if finding.blame:
            print(finding.blame)
        if args.shrink or args.one is not None:
            print(finding.source)
    print(outcome.table())
    if args.json:
        outcome.save(args.json)
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
