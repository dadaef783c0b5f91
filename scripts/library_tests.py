"""A library's own tests for its Triton kernels, under the map of devices: how many pass, and what the others say.

    python scripts/library_tests.py CHECKOUT [--tests tests] [--path src] [--match 'test_*norm*'] [-- -k add]

Each file of tests runs in a process of its own, so that one that crashes or never ends costs itself alone. The
checkout's commit is printed with the counts; what follows `--` goes to pytest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--tests", default="tests", help="folder of the tests")
    parser.add_argument("--path", default=".", help="folder that the library is imported from")
    parser.add_argument("--match", default="test_*.py", help="files of tests")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each file")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:cut])
    args.pytest = words[cut + 1 :]
    checkout = args.checkout.resolve()
    commit = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    total: Counter[str] = Counter()
    for file in sorted((checkout / args.tests).rglob(args.match)):
        counts, messages = run(checkout, file, args)
        total += counts
        print(f"{file.relative_to(checkout)}: {said(counts)}", flush=True)
        for message, times in messages.most_common(8):
            print(f"    {times} x {message}", flush=True)
    print(f"{checkout.name} at {commit.stdout.strip() or 'no commit'}: {said(total)}")


def said(counts: Counter[str]) -> str:
    return ", ".join(
        f"{counts[kind]} {kind}" for kind in ("passed", "failed", "skipped", "stopped") if counts[kind]
    )


def run(checkout: Path, file: Path, args: argparse.Namespace) -> tuple[Counter[str], Counter[str]]:
    """How the tests of a file ended, and the first lines of what failed."""
    report = Path(os.environ.get("TMPDIR", "/tmp")) / f"library-tests-{os.getpid()}.xml"
    report.unlink(missing_ok=True)
    path = os.pathsep.join([str(checkout / args.path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "tileprobe", "exec", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--junitxml={report}", str(file), *args.pytest]
    try:
        done = subprocess.run(
            command,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=args.minutes * 60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Counter(stopped=1), Counter(["took too long"])
    if not report.exists():
        return Counter(stopped=1), Counter([last_line(done.stderr or done.stdout)])
    return read(report)


def read(report: Path) -> tuple[Counter[str], Counter[str]]:
    counts: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        bad = [*case.findall("failure"), *case.findall("error")]
        kind = "failed" if bad else "skipped" if case.find("skipped") is not None else "passed"
        counts[kind] += 1
        for item in bad[:1]:
            messages[(item.get("message") or "").strip().split("\n")[0][:200]] += 1
    return counts, messages


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "ended without a word"


if __name__ == "__main__":
    main()
