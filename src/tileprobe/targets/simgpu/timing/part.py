"""A launch of which a part is timed: some waves of programs, or the programs of a few multiprocessors.

In comes what a user asked for (`--waves`, `--sms`) and a launch; out goes which programs are timed, on how much of the
chip, and afterwards what the whole launch would take by them. All other programs are executed for their values alone. A
wave is what the machine holds at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

ENDS = np.dtype([("begin", np.int64), ("end", np.int64), ("slot", np.int64)])


@dataclass(frozen=True)
class Part:
    """Of a launch: `take` of each `of` programs that follow one another are timed, `timed` in all of `programs`."""

    programs: int
    timed: int
    multiprocessors: int  # that run them
    all_multiprocessors: int  # that would have programs of this launch
    slots: int  # programs on a multiprocessor at a time

    @classmethod
    def of_launch(cls, programs: int, multiprocessors: int, resident: int, waves: int, sms: int) -> Part:
        busy = min(multiprocessors, programs)
        some = min(sms, busy) if sms else busy
        mine = programs // busy * some + min(programs % busy, some)
        slots = min(resident, -(-programs // busy))
        timed = min(mine, waves * some * slots) if waves else mine
        return cls(programs, timed, some, busy, slots)

    @property
    def whole(self) -> bool:
        return self.timed == self.programs

    @property
    def share(self) -> float:
        """Of L2 and DRAM."""
        return self.multiprocessors / self.all_multiprocessors

    @property
    def factor(self) -> float:
        """So many programs does each that is timed stand for."""
        return self.programs / max(self.timed, 1)

    @property
    def stride(self) -> tuple[int, int]:
        """As the engine has it: programs are dealt to multiprocessors in turn, and those of a few are every so many."""
        few = self.multiprocessors < self.all_multiprocessors
        return (self.multiprocessors, self.all_multiprocessors) if few else (1, 1)

    def others(self) -> Iterator[tuple[int, int]]:
        """Those that are not timed: first and end of each row."""
        take, of = self.stride
        rows, left = divmod(self.timed, take)
        for row in range(rows if take < of else 0):
            yield row * of + take, min(row * of + of, self.programs)
        rest = rows * of + left
        if rest < self.programs:
            yield rest, self.programs

    def cycles(self, ends: np.ndarray, interval: float = 0.0) -> int:
        """When the last program would end, by those that were timed. Multiprocessors that are not simulated are taken
        for like those that are; programs that follow take as long as those of the last wave behind which others came,
        one after another in the same order, each as soon as there is room for it. `interval`: cycles between two
        programs that are dealt out."""
        if not len(ends):
            return 0
        take, of = self.stride
        mine = self.programs // of * take + min(self.programs % of, take)
        wave = self.multiprocessors * self.slots
        free: dict[int, int] = {}
        for slot, end in zip(ends["slot"].tolist(), ends["end"].tolist()):
            free[slot] = max(free.get(slot, 0), end)
        if mine <= self.timed:
            return max(free.values())
        lasted = ends["end"] - ends["begin"]
        last = (self.timed - 1) // wave  # the number of the last wave
        first = (last - 1 if last > 1 else last) * wave
        pattern = lasted[first : first + wave].tolist()
        places = list(free.values())
        heapq.heapify(places)
        dealt = float(ends["begin"].max())
        for n in range(mine - self.timed):
            dealt = max(dealt + interval, heapq.heappop(places))
            heapq.heappush(places, int(dealt) + pattern[n % len(pattern)])
        return max(places)

    def said(self) -> str:
        """What a report is to say of it; nothing where all was timed."""
        if self.whole:
            return ""
        few = self.multiprocessors < self.all_multiprocessors
        where = (
            f" on {self.multiprocessors} of {self.all_multiprocessors} multiprocessors with their share of L2 and DRAM"
            if few
            else ""
        )
        return (
            f"an estimate: {self.timed:,} of {self.programs:,} programs were timed{where}, the others executed for "
            "their values; cycles and counters are of all, by those (how far off: python -m benchmarks.simgpu_parts)"
        )
