"""The CPU target of this checkout against that of another one, in turns: what a change of the compiler cost.

`git worktree add ../before COMMIT; python -m benchmarks.against ../before`. Each side runs its own compiler on its own
example kernels, in a process of its own, a quarter of a second at a time. Without an argument it compares this checkout
with itself, which shows how far two equal sides are apart on this machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._common import ROOT, Row, save, show

TURNS = 10
WORKER = Path(__file__).with_name("_against_process.py")


class Side:
    """One checkout, waiting for works to time."""

    def __init__(self, folder: Path, cache: str):
        path = os.pathsep.join(map(str, (folder / "src", folder)))
        env = {**os.environ, "PYTHONPATH": path, "TRITON_CACHE_DIR": cache, "TRITON_DEFAULT_BACKEND": "cpu"}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(WORKER)],
            cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.works: list[str] = json.loads(self.answer())

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the side {self.process.args} ended early")
        return line

    def time(self, work: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(work + "\n")
        self.process.stdin.flush()
        return float(self.answer())


def main(words: list[str]) -> int:
    other = Path(words[0]).resolve() if words else ROOT
    if not (other / "src" / "tileprobe").is_dir():
        print(f"{other} is no checkout of TileProbe", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        ours, theirs = Side(ROOT, here), Side(other, there)
        times: dict[str, tuple[list[float], list[float]]] = {work: ([], []) for work in ours.works}
        for turn in range(TURNS):
            for work, (own, rest) in times.items():
                for side, held in ((ours, own), (theirs, rest))[:: 1 if turn % 2 else -1]:
                    held.append(side.time(work))
        for side in (ours, theirs):
            side.process.kill()
    name = other.name if words else "itself"
    rows = [
        Row(work, min(own), min(rest), name, medians_s=[statistics.median(own), statistics.median(rest)])
        for work, (own, rest) in times.items()
    ]
    show(f"cpu: this checkout against {name}", rows)
    save("against", {"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
