"""`python -m benchmarks [names] [options]`: run benchmarks one after another, each in a process of its own. Options,
from the first one that begins with a dash on, are those of each that is named.

Each prints its table and writes benchmarks/results/NAME.json. Exits with 1 if one of them fell below a floor.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# What is measured first is what the README names.
ORDER = [
    "cpu",
    "launch",
    "overhead",
    "accuracy",
    "trace",
    "views",
    "cambricon",
    "cambricon_functional",
    "vmath",
    "dot",
    "dot_transpose",
    "truth",
]
QUICK = {"vmath": ["--quick"]}


def main(words: list[str]) -> int:
    first = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    names, options = words[:first], words[first:]
    if options and not names:
        print(f"{' '.join(options)}: options are those of benchmarks that are named", file=sys.stderr)
        return 2
    known = {path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_")}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(
            f"no benchmark named {', '.join(unknown)}; there are {', '.join(sorted(known))}", file=sys.stderr
        )
        return 2
    failed = []
    for name in names or [*(n for n in ORDER if n in known), *sorted(known - set(ORDER))]:
        print(f"\n== {name} ==", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", *(options or QUICK.get(name, []))]
        if subprocess.run(command, cwd=HERE.parent).returncode:
            failed.append(name)
    if failed:
        print(f"\nbelow a floor or failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
