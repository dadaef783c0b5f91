"""Triton's tutorials on a target, unmodified, their benchmarks left out: which of them come to right results.

    python -m benchmarks.tutorials CHECKOUT [--target sim:a100] [--match 0] [--minutes 10]

CHECKOUT is a clone of Triton's repository. Each runs in a process of its own. A tutorial that checks itself by raising
decides by that; one that only prints has failed when it prints that results differ. Of attention, whose script has no
check outside of its tests, a small one of these runs. Persistent products (8,192 x 8,192, which each of some 24
configurations of up to six kernels computes once to be tuned) run with their own option for a smaller depth; `--whole`
runs them as they are, which takes eight times as long.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks._common import save

_TESTS = {
    "06-fused-attention.py": ["-k", "test_op and 128 and 64 and fwd", "--maxfail=1"]
}  # what runs of one
_PERSISTENT = "09-persistent-matmul.py"
_BAD = ("❌", "Traceback")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, nargs="?", help="a clone of Triton's repository")
    parser.add_argument("--target", default="sim:a100")
    parser.add_argument("--match", default="", help="only tutorials whose names contain this")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each")
    parser.add_argument("--whole", action="store_true", help="persistent products with their whole depth")
    args = parser.parse_args(words)
    if args.checkout is None:
        print("left out: it needs a clone of Triton's repository as its argument")
        return 0
    scripts = sorted((args.checkout / "python" / "tutorials").glob("[0-9]*.py"))
    if not scripts:
        print(f"{args.checkout}: there are no tutorials in it", file=sys.stderr)
        return 2
    chosen = [path for path in scripts if args.match in path.name]
    rows = [run(path, options, args) for path in chosen for options in _options(path, args)]
    good = sum(row["ended"] == "passed" for row in rows)
    print(f"{args.target}: {good} of {len(rows)} tutorials")
    save(f"tutorials-{args.target.replace(':', '-')}", {"tutorials": rows})
    return int(good < len(rows))


def _options(path: Path, args: argparse.Namespace) -> list[list[str]]:
    """Of each run of a tutorial, its own options."""
    if path.name != _PERSISTENT:
        return [[]]
    depth = [] if args.whole else ["-K", "64"]
    return (
        [depth, [*depth, "--prec", "fp8"]] if args.target.startswith("sim:h100") else [depth]
    )  # as it says itself


def run(path: Path, options: list[str], args: argparse.Namespace) -> dict[str, str]:
    command = [
        sys.executable,
        "-m",
        "tileprobe",
        "exec",
        "--target",
        args.target,
        "-m",
        "benchmarks._tutorial",
    ]
    tests = _TESTS.get(path.name)
    command += ["--pytest", str(path.resolve()), *tests] if tests else [str(path.resolve()), *options]
    begun = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 * args.minutes, check=False)
        text = done.stdout + done.stderr
        bad = done.returncode or any(mark in done.stdout for mark in _BAD)
        ended, said = ("failed" if bad else "passed"), (text.strip().splitlines() or [""])[-1]
    except subprocess.TimeoutExpired:
        ended, said = "too long", f"more than {args.minutes:g} minutes"
    name = " ".join([path.name, *options])
    print(f"{name:44}{ended:10}{time.monotonic() - begun:7.0f} s  {said[:140]}", flush=True)
    return {"tutorial": name, "ended": ended, "said": said}


if __name__ == "__main__":
    sys.exit(main())
