"""Runs chosen tests of a pytest suite on a target: in come names of tests, out goes how each ended.

Each test has a time limit; a process that dies costs the test it died in, and the rest goes on in another.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._plugin import tileprobe_suite as plugin

_ENDED = ("passed", "failed", "skipped", "died", "too long")
_PLUGIN = Path(plugin.__file__)
_AT_ONCE = 300  # tests in a process: what they leave behind in memory ends with it
_PYTEST = ("-m", "pytest", "-o", "addopts=", "-o", "log_cli=false", "-q", "-p", "no:cacheprovider")
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

_KEEP = (
    "how tests ended is appended to it, and what is in it is not run again: a run that stopped goes on there"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="sim:a100")
    parser.add_argument("--sample", type=int, default=200, help="how many tests; 0: all")
    parser.add_argument("--each", type=int, default=0, help="so many cases of each test function instead")
    parser.add_argument("--match", default="", help="only tests with this regular expression in their names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="of CPU time for each test")
    parser.add_argument("--kinds", type=int, default=30, help="how many kinds of failure are printed")
    parser.add_argument(
        "--part", type=_part, default=(1, 1), metavar="K/N", help="each Nth test, from the Kth on"
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help=_KEEP)
    parser.add_argument("--minutes", type=float, default=0.0, help="no test begins later; 0: no limit")


def _part(words: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", words)
    k, n = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= k <= n:
        raise argparse.ArgumentTypeError(f"{words}: not a part such as 3/20, the third of twenty")
    return k, n


def collected(
    folder: Path, suites: list[str], args: argparse.Namespace, broken: dict[str, Any] | None = None
) -> list[str]:
    """The tests that the options choose of those under `suites`, paths from `folder`. Files that cannot be read as
    tests go into `broken`, each as one test that failed."""
    command = [*_exec(args.target), *_PYTEST, "--collect-only", "--rootdir", ".", "-p", _PLUGIN.stem, *suites]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=_environment()
    )
    found = [line for line in done.stdout.splitlines() if line.startswith(tuple(suites)) and "::" in line]
    if broken is not None:
        broken |= _uncollected(done.stdout)
    if not found:
        raise SystemExit(f"no test was found: {(done.stdout + done.stderr)[-500:]}")
    return _drawn([name for name in found if re.search(args.match, name)], args)


def _uncollected(text: str) -> dict[str, Any]:
    """By pytest's words: each file has a part of its own, whose lines of the error begin with E."""
    parts = re.split(r"^_+ ERROR collecting (\S+) _+$", text, flags=re.MULTILINE)
    said = ("\n".join(re.findall(r"^E {1,3}(.*)", part, flags=re.MULTILINE)) for part in parts[2::2])
    return {
        file: {"ended": "failed", "when": "collect", "said": words[:4000]}
        for file, words in zip(parts[1::2], said)
    }


def _drawn(found: list[str], args: argparse.Namespace) -> list[str]:
    """In the order of the suite, which some tests of a file count on."""
    drawn = random.Random(args.seed).sample(found, len(found))
    kept = set(drawn[: args.sample or None])
    if args.each:
        seen: Counter[str] = Counter()
        kept = {name for name in drawn if _counted(seen, name) <= args.each}
    first, step = args.part
    return [name for name in found if name in kept][first - 1 :: step]


def _counted(seen: Counter[str], name: str) -> int:
    """The how manyth case of its function this is."""
    seen[name.partition("[")[0]] += 1
    return seen[name.partition("[")[0]]


def _exec(target: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "tileprobe", "exec", "--target", target, *options]


def _environment(**more: str) -> dict[str, str]:
    """A folder of the suite may be called like an installed package: nothing is imported from where it runs."""
    given = os.environ.get("PYTHONPATH")  # an empty entry would be where it runs
    path = os.pathsep.join([str(_PLUGIN.parent), *([given] if given else [])])
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": path, **more}


def run(
    folder: Path, chosen: list[str], target: str, seconds: float, *options: str, kept: Kept | None = None
) -> dict[str, Any]:
    """How each test ended, in as few processes as it takes. `options` are those of `tileprobe exec`. Tests that `kept`
    has no time for are not in it."""
    kept = kept or Kept()
    ends = kept.before(chosen, " ".join([target, *options]))
    begun = time.monotonic()
    while (left := [test for test in chosen if test not in ends]) and not kept.over():
        minutes = (time.monotonic() - begun) / 60
        print(f"{len(ends):,} of {len(chosen):,} tests, {minutes:.0f} min", file=sys.stderr, flush=True)
        some = left[:_AT_ONCE]
        more = _process(folder, some, _exec(target, *options), seconds, kept.until)
        # Parameters of some tests depend on the machine: they are not there on another.
        if not more and not kept.over():
            more = {test: {"ended": "skipped", "said": f"is not there on {target}"} for test in some}
        ends |= kept.add(more, " ".join([target, *options]))
    return ends


@dataclass
class Kept:
    """What a run that is done in pieces carries from one to the next: a file of ends, and when a piece is over."""

    file: Path | None = None
    until: float = math.inf  # seconds as `time.time` counts them

    @classmethod
    def asked(cls, args: argparse.Namespace) -> Kept:
        return cls(args.keep, time.time() + 60 * args.minutes if args.minutes else math.inf)

    def over(self) -> bool:
        return time.time() > self.until

    def before(self, chosen: list[str], where: str) -> dict[str, Any]:
        """How those of the tests ended that have run there."""
        if self.file is None or not self.file.exists():
            return {}
        entries = [json.loads(line) for line in self.file.read_text().splitlines()]
        wanted = set(chosen)
        return {e.pop("test"): e for e in entries if e.pop("where") == where and e["test"] in wanted}

    def add(self, ends: dict[str, Any], where: str) -> dict[str, Any]:
        if self.file is not None:
            with open(
                self.file, "a"
            ) as file:  # one write: parts that run beside each other may share the file
                file.write(
                    "".join(json.dumps({"where": where, "test": t, **end}) + "\n" for t, end in ends.items())
                )
        return ends


def _process(
    tests: Path, chosen: list[str], python: list[str], seconds: float, until: float = math.inf
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tileprobe-") as folder:
        names, results = Path(folder, "names"), Path(folder, "results")
        names.write_text("\n".join(chosen))
        results.touch()
        files = sorted({test.partition("::")[0] for test in chosen})
        command = [*python, *_PYTEST, "--rootdir", ".", "-p", _PLUGIN.stem, *files]
        told = {plugin.CHOSEN: str(names), plugin.RESULTS: str(results), plugin.SECONDS: str(seconds)}
        told[plugin.UNTIL] = str(until)
        with open(Path(folder, "output"), "w+b") as output:
            running = subprocess.Popen(
                command, cwd=tests, env=_environment(**told), stdout=output, stderr=output
            )
            stopped = _watch(running, results, seconds)
            output.seek(max(output.tell() - 600, 0))
            last = output.read().decode(errors="replace")
        return _ends(results, "too long" if stopped else "died", last)


def _watch(running: subprocess.Popen[bytes], results: Path, seconds: float) -> bool:
    """Waits for a process; whether it had to be stopped, as nothing moved for long."""
    size, since = 0, time.monotonic()
    while running.poll() is None:
        time.sleep(0.5)
        if results.stat().st_size != size:
            size, since = results.stat().st_size, time.monotonic()
        elif time.monotonic() - since > 5 * seconds + 60:
            running.kill()
            running.wait()
            return True
    return False


def _ends(results: Path, unfinished: str, last_words: str) -> dict[str, Any]:
    ends: dict[str, Any] = {}
    last = ""
    for line in results.read_text().splitlines():
        entry = json.loads(line)
        last = entry.pop("test")
        if "ended" in entry and ends.get(last, {}).get("ended") in (None, "passed"):
            ends[last] = entry
    if last and last not in ends:
        ends[last] = {"ended": unfinished, "said": f"{unfinished}: {last_words}"}
    return ends


def kind(end: dict[str, Any]) -> str:
    """What a failure is counted as."""
    said = end.get("said", "")
    for pattern, name in _KINDS:
        if found := re.search(pattern, said, re.DOTALL):
            return found.expand(name) if "\\" in name else name
    return said.strip().split("\n")[0][:80] or end["ended"]


def counts(ends: dict[str, Any]) -> str:
    found = Counter(end["ended"] for end in ends.values())
    return ", ".join(f"{found[name]:,} {name}" for name in _ENDED if found[name])
