"""Progress of a long run, on a terminal's standard error: what is compiled, how many launches there were."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

QUIET_S = 2.0  # a run that is over sooner needs no progress
EVERY_S = 0.5


class Progress:
    """One line that is written over; nothing at all when it would not be seen or has not been asked for."""

    def __init__(self, show: bool) -> None:
        self.show = show and sys.stderr is not None and sys.stderr.isatty()
        self.began = self.last = time.monotonic()
        self.launches = 0
        self.shown = False

    def launched(self, kernel: str) -> None:
        self.launches += 1
        if self.show:
            self._say(f"{self.launches:,} launches, now {kernel}")

    @contextlib.contextmanager
    def compiling(self, kernel: str) -> Iterator[None]:
        if self.show:
            self._say(f"{self.launches:,} launches, compiling {kernel} with probes")
        yield

    def say(self, text: str) -> None:
        """A step of the session's own work."""
        if self.show:
            self._say(text)

    def _say(self, text: str) -> None:
        now = time.monotonic()
        if now - self.began < QUIET_S or now - self.last < EVERY_S:
            return
        self.last, self.shown = now, True
        print(f"\r\033[Ktileprobe: {text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self.shown = False
