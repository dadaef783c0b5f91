"""Triton's own language suite on a target: how much of it passes, and what the rest says, by kinds.

    python -m benchmarks.language CHECKOUT [--target sim:a100] [--sample 500] [--seed 0] [--against cpu]

CHECKOUT is a clone of Triton's repository at about the release that is installed. A sample is drawn from the tests of
`python/test/unit/language` by the seed, `--each N` takes up to so many cases of each test function instead. Each test
has a time limit; a process that dies costs the test it died in. With `--against`, what passes on that target (the same
tests) is what counts: the rate is how much of it passes here, and the run fails below `--floor`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import _language_plugin as plugin
from benchmarks._common import ROOT, save

SUITE = "test/unit/language"
FLOOR = 0.95  # of what the other target passes
_ENDED = ("passed", "failed", "skipped", "died", "too long")
_KINDS = (  # what a message is counted as: the first pattern that is found
    (r"does not know the instruction `(?:@!?\w+ )?([\w.]+)", r"unknown instruction \1"),
    (r"took longer than", "too long"),
    (r"clusters of \d+ programs", "clusters"),
    (r"kernel \w+, .*?: (deadlock)", r"\1"),
    (r"(\w*not finished after)", "endless loop"),
    (r"kernel \S+, .*?\(`(?:@!?\w+ )?([\w.]+).*?`\).*?: (.{0,40}?)(?:0x|;|\d|$)", r"fault of \1: \2"),
    (r"(OutOfResources|CompilationError|PTXASError)", r"\1"),
    (r"^AssertionError: Tensor-likes are not (close|equal)", r"values are not \1"),
    (r"^AssertionError:?\s*Not equal to tolerance", "values are not close"),
    (r"^AssertionError:?\s*Arrays are not equal", "values are not equal"),
    (r"^(\w+(?:Error|Exception|Fault|Cubin|Instruction)[^\n]{0,60})", r"\1"),
)  # fmt: skip


def main(words: list[str] | None = None) -> int:
    args = _arguments(words)
    if args.checkout is None:
        print("left out: it needs a clone of Triton's repository as its argument")
        return 0
    tests = args.checkout.resolve() / "python"
    if not (tests / SUITE).is_dir():
        print(f"{args.checkout}: there is no python/{SUITE} in it", file=sys.stderr)
        return 2
    chosen = _chosen(tests, args)
    ends = run(tests, chosen, args.target, args)
    wanted = set(chosen)
    if args.against:
        other = run(tests, chosen, args.against, args)
        wanted = {test for test, end in other.items() if end["ended"] == "passed"}
        print(f"{args.against}: {_said(other)}")
    print(f"{args.target}: {_said(ends)}")
    counted = [end for test, end in ends.items() if test in wanted and end["ended"] != "skipped"]
    passed = sum(end["ended"] == "passed" for end in counted)
    rate = passed / max(len(counted), 1)
    of = (
        f"of what {args.against} passes and is not skipped here" if args.against else "of what is not skipped"
    )
    print(f"{args.target} passes {passed:,} of {len(counted):,}, {100 * rate:.1f} % {of}")
    kinds = Counter(kind(end) for end in counted if end["ended"] != "passed")
    for what, times in kinds.most_common(args.kinds):
        print(f"{times:6,} x {what}")
    rows = {
        "summary": [{"target": args.target, "against": args.against, "rate": rate, "counted": len(counted)}],
        "kinds": [{"kind": what, "times": times} for what, times in kinds.most_common()],
        "tests": [{"test": test, **end} for test, end in ends.items()],
    }
    save(f"language-{args.target.replace(':', '-')}", rows)
    return int(bool(args.against) and rate < args.floor)


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, nargs="?", help="a clone of Triton's repository")
    parser.add_argument("--target", default="sim:a100")
    parser.add_argument("--against", default="", metavar="TARGET", help="count what passes there")
    parser.add_argument("--sample", type=int, default=200, help="how many tests; 0: all")
    parser.add_argument("--each", type=int, default=0, help="so many cases of each test function instead")
    parser.add_argument(
        "--match", default="", help="only tests whose names have this regular expression in them"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each test")
    parser.add_argument("--kinds", type=int, default=30, help="how many kinds of failure are printed")
    parser.add_argument("--floor", type=float, default=FLOOR)
    return parser.parse_args(words)


def _chosen(tests: Path, args: argparse.Namespace) -> list[str]:
    command = [
        *_exec(args.target),
        "-m",
        "pytest",
        "--co",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        ".",
        SUITE,
    ]
    done = subprocess.run(command, cwd=tests, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith(SUITE) and "::" in line]
    if not found:
        raise SystemExit(f"no test was found: {(done.stdout + done.stderr)[-500:]}")
    found = [name for name in found if re.search(args.match, name)]
    drawn = random.Random(args.seed).sample(found, len(found))
    if not args.each:
        return drawn[: args.sample or None]
    seen: Counter[str] = Counter()
    kept = []
    for name in drawn:
        function = name.partition("[")[0]
        seen[function] += 1
        if seen[function] <= args.each:
            kept.append(name)
    return kept


def _exec(target: str) -> list[str]:
    return [sys.executable, "-m", "tileprobe", "exec", "--target", target]


def run(tests: Path, chosen: list[str], target: str, args: argparse.Namespace) -> dict[str, Any]:
    """How each test ended, in as few processes as it takes."""
    ends: dict[str, Any] = {}
    while left := [test for test in chosen if test not in ends]:
        more = _process(tests, left, target, args.seconds)
        # Parameters of some tests depend on the machine: they are not there on another.
        ends |= more or {test: {"ended": "skipped", "said": f"is not there on {target}"} for test in left}
    return ends


def _process(tests: Path, chosen: list[str], target: str, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tileprobe-") as folder:
        names, results = Path(folder, "names"), Path(folder, "results")
        names.write_text("\n".join(chosen))
        results.touch()
        files = sorted({test.partition("::")[0] for test in chosen})
        command = [
            *_exec(target),
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            plugin.__name__,
            *files,
        ]
        environment = {
            **os.environ, plugin.CHOSEN: str(names), plugin.RESULTS: str(results), plugin.SECONDS: str(seconds),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }  # fmt: skip
        with open(Path(folder, "output"), "w+b") as output:
            running = subprocess.Popen(command, cwd=tests, env=environment, stdout=output, stderr=output)
            stopped = _watch(running, results, seconds)
        return _ends(results, "too long" if stopped else "died")


def _watch(running: subprocess.Popen[bytes], results: Path, seconds: float) -> bool:
    """Waits for a process; whether it had to be stopped, as nothing moved for long."""
    size, since = 0, time.monotonic()
    while running.poll() is None:
        time.sleep(0.5)
        if results.stat().st_size != size:
            size, since = results.stat().st_size, time.monotonic()
        elif time.monotonic() - since > 2 * seconds + 60:
            running.kill()
            running.wait()
            return True
    return False


def _ends(results: Path, unfinished: str) -> dict[str, Any]:
    ends: dict[str, Any] = {}
    last = ""
    for line in results.read_text().splitlines():
        entry = json.loads(line)
        last = entry.pop("test")
        if "ended" in entry and ends.get(last, {}).get("ended") in (None, "passed"):
            ends[last] = entry
    if last and last not in ends:
        ends[last] = {"ended": unfinished, "said": unfinished}
    return ends


def kind(end: dict[str, Any]) -> str:
    """What a failure is counted as."""
    said = end.get("said", "")
    for pattern, name in _KINDS:
        if found := re.search(pattern, said, re.DOTALL):
            return found.expand(name) if "\\" in name else name
    return said.strip().split("\n")[0][:80] or end["ended"]


def _said(ends: dict[str, Any]) -> str:
    counts = Counter(end["ended"] for end in ends.values())
    return ", ".join(f"{counts[name]:,} {name}" for name in _ENDED if counts[name])


if __name__ == "__main__":
    sys.exit(main())
