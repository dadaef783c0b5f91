"""A whole sweep or search as a command runs it: file, executor, progress and interruptions around the driver."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.driver import Driver, Rules, Standing
from tileprobe.sweeps.executors import open_executor
from tileprobe.sweeps.ledger import Ledger
from tileprobe.sweeps.points import Work
from tileprobe.sweeps.progress import progress, words


@dataclass
class Running:
    """What a command has in its hands while points run."""

    driver: Driver
    ledger: Ledger
    wanted: dict[str, None] = field(default_factory=dict)  # digests, in their order

    def run(self, settings: Iterable[dict[str, Any]], count: int) -> list[str]:
        """Brings points to an end, and gives their digests."""
        found = self.driver.run(settings, count)
        self.wanted |= dict.fromkeys(found)
        return found

    def entries(self, wanted: Iterable[str] | None = None) -> Iterator[dict[str, Any]]:
        """What came of points, in their order."""
        yield from map(self.ledger.__getitem__, self.wanted if wanted is None else wanted)


@contextlib.contextmanager
def running(
    name: str, args: argparse.Namespace, work: Work, kind: str, settled: tuple[str, ...] | None = None
) -> Iterator[Running]:
    """Opens what a sweep needs, and says on the way out what is there when it did not come to its end."""
    rules = Rules(args.retries, args.point_seconds)
    if settled is not None:
        rules.settled = settled
    if args.jobs < 0:
        raise TileProbeError(f"--jobs must be zero (all cores) or more, found {args.jobs}")
    path = Path(f"{args.out}.jsonl")
    with contextlib.closing(Ledger(path, kind, args.restart)) as ledger:
        if ledger.torn:
            _note(f"{path}: a last line of {ledger.torn} bytes was torn and is cut off; its point runs again")
        with (
            contextlib.redirect_stdout(sys.stderr),  # Ray prints what it has to say of workers that died
            contextlib.closing(open_executor(args.on, args.jobs)) as executor,
            progress(name) as tell,
        ):
            driver = Driver(work, ledger, executor, rules, tell)
            found = Running(driver, ledger)
            try:
                yield found
            except BaseException as error:
                _unfinished(error, driver.standing, path)
                raise
        unused = len(ledger.places) - len(found.wanted)
        if unused > 0:
            _note(
                f"{path} has {unused:,} more results, which are not of these points: of other settings, of files that"
                " changed since, or of another version. They stay there, and are not in the table"
            )


def _unfinished(error: BaseException, standing: Standing, path: Path) -> None:
    if isinstance(error, KeyboardInterrupt | TileProbeError):
        _note(f"stopped at {words(standing)}. Results are in {path}; the same command goes on from there")


def _note(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"tileprobe: {text}", file=sys.stderr, flush=True)
