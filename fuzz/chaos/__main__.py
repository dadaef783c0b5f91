"""`python -m fuzz.chaos --rounds N --seed S`: every scenario so many times; a table, and JSON."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from fuzz.chaos.scenarios import SCENARIOS
from fuzz.chaos.trial import trial
from tileprobe.files import write_json


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="trials of each scenario (3)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--only", choices=tuple(SCENARIOS), help="one scenario")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    args = parser.parse_args()
    names = [args.only] if args.only else list(SCENARIOS)
    rows = [_row(name, range(args.seed, args.seed + args.rounds)) for name in names]
    print(f"{'what':<16} {'trials':>6} {'wrong':>6} {'seconds':>8}")
    for row in rows:
        print(f"{row['what']:<16} {row['trials']:>6} {len(row['wrong']):>6} {row['seconds']:>8.1f}")
    for row in rows:
        for seed, texts in row["wrong"].items():
            print(f"\n== {row['what']}, --seed {seed}", *texts, sep="\n")
    if args.json:
        write_json(args.json, rows, make_folder=True)
    return 1 if any(row["wrong"] for row in rows) else 0


def _row(name: str, seeds: range) -> dict:
    start, wrong = time.monotonic(), {}
    for seed in seeds:
        with trial(f"{name}/{seed}") as one:
            SCENARIOS[name](one)
        if one.wrong:
            wrong[seed] = one.wrong
    seconds = time.monotonic() - start
    print(f"{name}: {len(seeds)} trials, {len(wrong)} wrong", file=sys.stderr, flush=True)
    return {"what": name, "trials": len(seeds), "wrong": wrong, "seconds": round(seconds, 1)}


if __name__ == "__main__":
    sys.exit(main())
