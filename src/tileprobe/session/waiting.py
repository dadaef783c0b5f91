"""What launches of a kernel usually look like, and which of them had to wait for a processor.

In come the recorded launches of a kernel, each with the time that its threads waited, where that is known; out goes
what decoding needs to take interruptions out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from tileprobe.session.recorded import Recorded
from tileprobe.session.tally import work_of
from tileprobe.trace.blocks import Rows
from tileprobe.trace.cursor import Pushed
from tileprobe.trace.interrupted import LEAST_NS, Interruptions, Usual, usual_gaps

REFERENCES = 16  # launches of a work from which is learnt what is usual: those that waited least
ENOUGH = 4  # launches of a work, below which all of its kernel say what is usual
UNDISTURBED = 0.002  # of a launch's time: so little waiting leaves its gaps as they are

Reader = Callable[[Sequence[Recorded]], list[tuple[Rows, Pushed]]]


class Waiting:
    """The interruptions of one kernel's launches. `read` gives the rows of launches with their cursors."""

    def __init__(self, runs: Sequence[Recorded], hz: float, read: Reader) -> None:
        self.ticks = hz / 1e9
        self._read = read
        self._runs = [run for run in runs if run.words is not None]
        self._usual: dict[Hashable, Usual] = {}
        self._works: dict[Hashable, list[Recorded]] = {}
        for run in self._runs:
            self._works.setdefault(work_of(run), []).append(run)
        known = [run.waited_ns for run in self._runs if run.waited_ns is not None]
        self.any = any(waited >= LEAST_NS for waited in known)

    def of(self, runs: Sequence[Recorded]) -> Interruptions | None:
        """For launches that are decoded together; None when none of them is known to have waited."""
        if not self.any:
            return None
        waited = [None if run.waited_ns is None else run.waited_ns * self.ticks for run in runs]
        return Interruptions([self._of(run) for run in runs], waited, LEAST_NS * self.ticks)

    def _of(self, run: Recorded) -> Usual:
        mine = self._works.get(work_of(run), [])
        key = work_of(run) if len(mine) >= ENOUGH else None
        if key not in self._usual:
            self._usual[key] = self._learnt(mine if key is not None else self._runs)
        return self._usual[key]

    def _learnt(self, runs: list[Recorded]) -> Usual:
        known = [run for run in runs if run.waited_ns is not None] or runs
        quiet = sorted(known, key=_share_waited)[:REFERENCES]
        still = [run for run in quiet if _share_waited(run) <= UNDISTURBED]
        undisturbed = len(still) >= ENOUGH
        chosen = still if undisturbed else quiet
        assert chosen[0].layout is not None
        slots = len(chosen[0].layout.slots)
        return usual_gaps(self._read(chosen), slots, LEAST_NS * self.ticks, undisturbed)


def _share_waited(run: Recorded) -> float:
    return (run.waited_ns or 0) / max(run.duration_ns, 1)
