"""How far a sweep is, on the standard error: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from tileprobe.sweeps.driver import Standing

_EVERY_S = 10.0


def words(standing: Standing) -> str:
    """`1,200 of 10,000 points, 31/s, about 4 min left, 2 failed`."""
    parts = [f"{standing.there + standing.ended:,} of {standing.total:,} points"]
    speed, left = standing.per_s, standing.left_s
    if speed is not None and left:
        parts += [
            f"{speed:.3g}/s" if speed >= 1 else f"{1 / speed:.3g} s each",
            f"about {duration(left)} left",
        ]
    if standing.failed:
        parts.append(f"{standing.failed:,} failed")
    if standing.retried:
        parts.append(f"{standing.retried:,} tried again")
    if not standing.workers:
        parts.append("waiting for workers")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextlib.contextmanager
def progress(name: str) -> Iterator[Callable[[Standing], None]]:
    """What is to be called with every change."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console, name)
        return
    columns = (TextColumn(name), BarColumn(bar_width=24), TextColumn("{task.fields[words]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None, words="")

        def tell(standing: Standing) -> None:
            done = standing.there + standing.ended
            bar.update(task, completed=done, total=standing.total, words=words(standing))

        yield tell


def _lines(console: Console, name: str) -> Callable[[Standing], None]:
    last = time.monotonic()

    def tell(standing: Standing) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY_S:
            last = time.monotonic()
            console.print(f"{name}: {words(standing)}", highlight=False, soft_wrap=True)

    return tell
