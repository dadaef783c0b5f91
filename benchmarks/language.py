"""Triton's own language suite on a target: how much of it passes, and what the rest says, by kinds.

    python -m benchmarks.language CHECKOUT [--target sim:a100] [--sample 500] [--seed 0] [--against cpu]

CHECKOUT is a clone of Triton's repository at about the release that is installed. A sample is drawn from the tests of
`python/test/unit/language` by the seed, `--each N` takes up to so many cases of each test function instead. With
`--against`, what passes on that target (the same tests) is what counts: the rate is how much of it passes here, and the
run fails below `--floor`.

Thousands of tests take an hour: `--keep FILE --minutes 5`, given again and again, goes on where it stopped,
`--part 3/20` takes a share of the tests, and the command without both runs what is left and counts all of it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import _suite
from benchmarks._common import save

SUITE = "test/unit/language"  # Gluon's own tests: test/gluon/test_core.py
FLOOR = 0.95  # of what the other target passes


def main(words: list[str] | None = None) -> int:
    args = _arguments(words)
    if args.checkout is None:
        print("left out: it needs a clone of Triton's repository as its argument")
        return 0
    tests = args.checkout.resolve() / "python"
    if not (tests / args.suite).exists():
        print(f"{args.checkout}: there is no python/{args.suite} in it", file=sys.stderr)
        return 2
    chosen = _suite.collected(tests, [args.suite], args)
    kept = _suite.Kept.asked(args)
    wanted = set(chosen)
    other: dict[str, Any] = {}
    if args.against:
        other = _suite.run(tests, chosen, args.against, args.seconds, kept=kept)
        wanted = {test for test, end in other.items() if end["ended"] == "passed"}
        print(f"{args.against}: {_suite.counts(other)}")
    ends = _suite.run(tests, chosen, args.target, args.seconds, kept=kept)
    if left := len(chosen) - min(len(ends), len(other) if args.against else len(ends)):
        print(f"{left:,} of {len(chosen):,} tests are left for another run", file=sys.stderr)
    print(f"{args.target}: {_suite.counts(ends)}")
    counted = [end for test, end in ends.items() if test in wanted and end["ended"] != "skipped"]
    passed = sum(end["ended"] == "passed" for end in counted)
    rate = passed / max(len(counted), 1)
    of = (
        f"of what {args.against} passes and is not skipped here" if args.against else "of what is not skipped"
    )
    print(f"{args.target} passes {passed:,} of {len(counted):,}, {100 * rate:.1f} % {of}")
    kinds = Counter(_suite.kind(end) for end in counted if end["ended"] != "passed")
    for what, times in kinds.most_common(args.kinds):
        print(f"{times:6,} x {what}")
    rows = {
        "summary": [{"target": args.target, "against": args.against, "rate": rate, "counted": len(counted)}],
        "kinds": [{"kind": what, "times": times} for what, times in kinds.most_common()],
        "tests": [{"test": test, "counted": test in wanted, **end} for test, end in ends.items()],
    }
    name = "language" if args.suite == SUITE else Path(args.suite).stem
    save(f"{name}-{args.target.replace(':', '-')}", rows)
    return int(bool(args.against) and rate < args.floor)


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, nargs="?", help="a clone of Triton's repository")
    _suite.add_arguments(parser)
    parser.add_argument("--suite", default=SUITE, help="another folder or file of tests in its `python`")
    parser.add_argument("--against", default="", metavar="TARGET", help="count what passes there")
    parser.add_argument("--floor", type=float, default=FLOOR)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
