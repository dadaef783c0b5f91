"""Many cases of each kind in a process of their own, and what became of them.

A process that dies or does not answer is started anew; the case that did it is then found by itself.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fuzz.inputs.trying import KINDS
from fuzz.process import Worker
from tileprobe.files import write_json

GOOD = ("fine", "refused")
BAD = ("traceback", "crash", "hang")
BATCH = 20  # cases asked for at once


@dataclass(frozen=True)
class Found:
    kind: str
    seed: int
    what: str
    words: str


@dataclass
class Outcome:
    counts: dict[str, dict[str, int]] = field(
        default_factory=dict
    )  # kind of input -> what became of it -> cases
    found: list[Found] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        return sum(sum(row.values()) for row in self.counts.values())

    def table(self) -> str:
        names = (*GOOD, *BAD)
        lines = [
            f"{self.cases} cases in {self.seconds:.0f} s",
            "  " + " ".join(f"{n:>10}" for n in ("input", *names)),
        ]
        for kind, row in self.counts.items():
            lines.append("  " + " ".join(f"{text!s:>10}" for text in (kind, *(row.get(n, 0) for n in names))))
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        write_json(path, {**asdict(self), "cases": self.cases}, make_folder=True)


def campaign(
    kinds: dict[str, range],
    *,
    seconds: float = 60.0,
    progress: Callable[[Outcome], None] = lambda outcome: None,
    found: Callable[[Found], None] = lambda found: None,
) -> Outcome:
    """Runs the seeds of each kind; `seconds` is how long a case may take."""
    outcome, start = Outcome({kind: {} for kind in kinds}), time.monotonic()
    place = tempfile.TemporaryDirectory(
        prefix="tileprobe-fuzz-"
    )  # a worker that is stopped cleans nothing up
    workers = {kind: Worker("inputs", {"TMPDIR": place.name}, seconds) for kind in kinds}
    try:
        for kind, batch in _in_turns(kinds):
            row = outcome.counts[kind]
            for seed, (what, words) in zip(batch, _tried(workers[kind], kind, batch)):
                row[what] = row.get(what, 0) + 1
                if what in BAD:
                    outcome.found.append(Found(kind, seed, what, words))
                    found(outcome.found[-1])
            outcome.seconds = time.monotonic() - start
            progress(outcome)
    except KeyboardInterrupt:  # what there is so far
        pass
    finally:
        for worker in workers.values():
            worker.stop()
        place.cleanup()
    return outcome


def _in_turns(kinds: dict[str, range]) -> Iterator[tuple[str, range]]:
    """Batches of each kind, one after another: a campaign that is cut short has some of all."""
    for start in range(0, max(map(len, kinds.values()), default=0), BATCH):
        for kind, seeds in kinds.items():
            batch = seeds[start : start + BATCH]
            if len(batch):
                yield kind, batch


def _tried(worker: Worker, kind: str, seeds: range) -> list[tuple[str, str]]:
    """What became of each seed; one by one where all at once did not come back."""
    answer, found = worker.ask("try", kind, seeds)
    if answer == "ok":
        return found
    if len(seeds) == 1:
        what = {"timeout": "hang", "crash": "crash"}.get(answer, "traceback")
        return [(what, str(found))]
    return [result for seed in seeds for result in _tried(worker, kind, range(seed, seed + 1))]


def shares(count: int, seed: int) -> dict[str, range]:
    """So many cases, evenly over the kinds."""
    each, rest = divmod(count, len(KINDS))
    return {kind: range(seed, seed + each + (n < rest)) for n, kind in enumerate(KINDS)}
