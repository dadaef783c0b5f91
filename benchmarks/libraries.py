"""Libraries of Triton kernels, written for CUDA, under the map of devices: how many of their own tests pass on a
target, and whose fault the others are.

    python -m benchmarks.libraries NAME CHECKOUT [--each 8] [--match softmax] [--seed 0] [--target cpu]

CHECKOUT is a clone of the library's repository at the commit that `libraries.toml` pins; what it needs beside torch,
pytest and this package is named there (`install`). Of each test function so many cases are drawn by the seed. A failure
is ours unless an entry of `libraries.toml` says why it is not; it exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import _suite
from benchmarks._common import save

TABLE = Path(__file__).with_name("libraries.toml")
OURS = "ours"


def main(words: list[str] | None = None) -> int:
    table = tomllib.loads(TABLE.read_text())
    args = _arguments(words, table)
    if args.checkout is None:
        print("left out: it needs the name of a library and a clone of its repository")
        return 0
    library = table["library"][args.library]
    folder = args.checkout.resolve()
    if not folder.is_dir():
        sys.exit(f"{folder} is no folder: it takes a clone of {library['repository']}")
    commit = _commit(folder)
    if commit != library["commit"]:
        print(
            f"{folder} is at {commit or 'no commit'}, not at the pinned {library['commit']}", file=sys.stderr
        )
    args.each = args.each or library["each"]
    args.seconds = args.seconds or library.get("seconds", 60.0)
    broken: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="tileprobe-") as scratch:
        _set_out(folder, library, Path(scratch), args.gigabytes)
        chosen = _suite.collected(folder, library["tests"], args, broken)
        ends = {**broken, **_suite.run(folder, chosen, args.target, args.seconds)}
    because = [*library.get("because", []), *table["because"]]
    for test, end in ends.items():
        end["why"] = why(test, end, because)
    rows = _report(args, commit, ends)
    save(f"libraries-{args.library}", rows)
    return int(rows["summary"][0]["ours"] > 0)


def why(test: str, end: dict[str, Any], because: list[dict[str, str]]) -> str:
    """Whose fault a test is: empty where it passed or was skipped."""
    if end["ended"] in ("passed", "skipped"):
        return ""
    for entry in because:
        if re.search(entry.get("test", ""), test) and re.search(
            entry.get("said", ""), end.get("said", ""), re.S
        ):
            return entry["why"]
    return "too long" if end["ended"] == "too long" or _suite.kind(end) == "too long" else OURS


def _report(args: argparse.Namespace, commit: str, ends: dict[str, Any]) -> dict[str, Any]:
    reasons = Counter(end["why"] for end in ends.values() if end["why"])
    ended = Counter(end["ended"] for end in ends.values())
    ours, slow = reasons.pop(OURS, 0), reasons.pop("too long", 0)
    summary = {
        "library": args.library, "commit": commit, "target": args.target, "each": args.each, "seed": args.seed,
        "passed": ended["passed"], "ours": ours, "others": sum(reasons.values()), "too_long": slow,
        "skipped": ended["skipped"],
    }  # fmt: skip
    print(f"| {args.library} {commit[:10]} | passed | ours | not ours | over {args.seconds:g} s | skipped |")
    print("| --- | --- | --- | --- | --- | --- |")
    names = ("passed", "ours", "others", "too_long", "skipped")
    print(f"| {args.each} cases of each function | " + " | ".join(f"{summary[n]:,}" for n in names) + " |")
    for reason, times in reasons.most_common():
        print(f"{times:6,} x {reason}")
    bad = [(test, end) for test, end in sorted(ends.items()) if end["why"] in (OURS, "too long")]
    for test, end in bad[: args.kinds]:
        print(f"  {end['why']}: {test}: {_suite.kind(end)}")
    if len(bad) > args.kinds:
        print(f"  ... and {len(bad) - args.kinds} more, in the JSON")
    return {
        "summary": [summary],
        "reasons": [{"why": reason, "times": times} for reason, times in reasons.most_common()],
        "tests": [{"test": test, **end} for test, end in ends.items()],
    }


def _commit(folder: Path) -> str:
    words = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def _set_out(folder: Path, library: dict[str, Any], scratch: Path, gigabytes: float = 9.0) -> None:
    """The library is imported from its checkout. One that asks which version of itself is installed is told."""
    if "version" in library:
        name, version = library["version"]
        info = scratch / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    path = [*(str(folder / part) for part in library.get("path", ["."])), str(scratch)]
    os.environ["PYTHONPATH"] = os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")])
    os.environ.update(library.get("environment", {}))
    os.environ[_suite.plugin.BEFORE] = library.get("before", "")
    os.environ[_suite.plugin.GIGABYTES] = str(gigabytes)


def _arguments(words: list[str] | None, table: dict[str, Any]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=" ".join((__doc__ or "").split("\n\n")[0].split()))
    parser.add_argument("library", nargs="?", choices=list(table["library"]))
    parser.add_argument("checkout", type=Path, nargs="?", help="a clone of the library's repository")
    _suite.add_arguments(parser)
    parser.add_argument("--gigabytes", type=float, default=9.0, help="of memory that tests may take")
    parser.set_defaults(target="cpu", seconds=0.0, sample=0)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
