"""What the benchmarks share: timing two sides in turns, a table with floors, results as JSON.

Both sides of a comparison run alternately in one process, so that a slow phase of the machine hits both. The
best of many runs is compared (what the code can do); medians are kept beside it (what it did).
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAUSE_S = 0.02  # longer than idle threads spin
RUNS_A_TURN = 5


@dataclass
class Row:
    """One line of the table. Times are seconds; `floor` is the least ratio, `limit_s` the longest time."""

    work: str
    ours_s: float
    other_s: float | None = None
    other: str = ""
    floor: float | None = None
    limit_s: float | None = None
    rate: str = ""  # what ours amounts to, in the work's own unit
    medians_s: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the other side we are."""
        return None if self.other_s is None else self.other_s / self.ours_s

    @property
    def ok(self) -> bool:
        fast_enough = self.floor is None or (self.ratio is not None and self.ratio >= self.floor)
        return fast_enough and (self.limit_s is None or self.ours_s <= self.limit_s)


def once(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def alternate(sides: list[Callable[[], Any]], seconds: float = 2.5, least: int = 5) -> list[list[float]]:
    """The times of each side, run in turns for about `seconds` in all.

    A turn is a pause, a run that is not counted and a few that are: threads of the side before spin for a while
    after their work (OpenMP's do, ours do) and would take a core from this one.
    """
    times: list[list[float]] = [[] for _ in sides]
    end = time.perf_counter() + seconds
    while len(times[0]) < least or time.perf_counter() < end:
        for own, run in zip(times, sides):
            time.sleep(PAUSE_S if len(sides) > 1 else 0)
            run()
            own.extend(once(run) for _ in range(RUNS_A_TURN))
    return times


def compare(
    work: str,
    ours: Callable[[], Any],
    other: Callable[[], Any],
    name: str,
    floor: float,
    rate: Callable[[float], str],
) -> Row:
    mine, theirs = alternate([ours, other])
    medians = [statistics.median(mine), statistics.median(theirs)]
    return Row(work, min(mine), min(theirs), name, floor, None, rate(min(mine)), medians)


def gflops(flops: float) -> Callable[[float], str]:
    return lambda s: f"{flops / s / 1e9:.1f} GFLOP/s"


def gbytes(count: float) -> Callable[[float], str]:
    return lambda s: f"{count / s / 1e9:.1f} GB/s"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def show(title: str, rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in ("work", "ours", "", "other", "", "ratio", "floor", "ok"):
        table.add_column(column, justify="left" if column in ("work", "") else "right")
    for row in rows:
        floor = f"{row.floor:g}x" if row.floor is not None else ""
        floor = f"<= {duration(row.limit_s)}" if row.limit_s is not None else floor
        ratio = f"{row.ratio:.2f}x" if row.ratio is not None else ""
        judged = row.floor is not None or row.limit_s is not None
        ok = ("yes" if row.ok else "[red]no[/red]") if judged else ""
        table.add_row(
            row.work, duration(row.ours_s), row.rate, duration(row.other_s), row.other, ratio, floor, ok
        )
    Console(width=max(120, Console().width)).print(table)


def machine() -> dict[str, Any]:
    """`core` is LLVM's name for it (znver4): virtual machines call very different ones by one name."""
    from llvmlite import binding

    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    return {
        "cpu": model,
        "core": binding.get_host_cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def save(name: str, sections: dict[str, Any]) -> Path:
    """Writes the results, whole or not at all."""
    from tileprobe.files import write_json

    RESULTS.mkdir(parents=True, exist_ok=True)
    rows = {
        title: [{**asdict(r), "ratio": r.ratio, "ok": r.ok} if isinstance(r, Row) else r for r in part]
        for title, part in sections.items()
    }
    path = RESULTS / f"{name}.json"
    write_json(path, {"machine": machine(), "time": time.strftime("%FT%T%z"), **rows})
    return path


def in_process(module: str, *arguments: str, **environment: str) -> Any:
    """Runs `python -m module arguments` by itself and reads the JSON on its last line."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
