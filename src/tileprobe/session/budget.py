"""The room for a session's records: how much is left, and what goes when it is used up.

A session must not fill the memory of the program it looks at. When its room is used up, the work with most records lets
go of a random half of them and keeps half as many of those to come: what is left is a random choice from the whole run
and not its beginning. A part is held back for kernels that are seen for the first time then.
"""

from __future__ import annotations

from tileprobe.session.recorded import Recorded
from tileprobe.session.works import Work

_HELD_BACK = 8  # a part in so many is for kernels seen for the first time when the rest is used up
_LAUNCH = 4  # one launch takes a part in so many of what is there at most


class Budget:
    def __init__(self, launch_mb: float, total_mb: float) -> None:
        self.megabytes = total_mb
        self.total = int(total_mb * 2**20)
        self.launch = int(launch_mb * 2**20)
        self.shared = self.total - self.total // _HELD_BACK
        self.used = 0
        self._kernels: set[int] = set()  # those that have records

    def blocks(self, work: Work, block_bytes: int) -> int:
        """Of how many programs the next launch may keep records. What is kept of a block is mostly much less than
        there is room for in it: launches before tell how much."""
        most = self.launch // block_bytes
        if id(work.kernel) not in self._kernels:
            return min(most, max(self.total - self.used, 0) // _LAUNCH // block_bytes)
        return min(most, self.total // _LAUNCH // (work.block_bytes or block_bytes))

    def has_room(self, work: Work) -> bool:
        return self.used < (self.shared if id(work.kernel) in self._kernels else self.total)

    def add(self, work: Work, recorded: Recorded) -> None:
        """A launch was kept. When `used` reaches `shared`, room is to be made."""
        self.used += recorded.nbytes
        if recorded.probed:
            self._kernels.add(id(work.kernel))

    def make_room(self, works: list[Work]) -> None:
        """Until a quarter is free, or every work is down to one launch."""
        while self.used > self.shared * 3 // 4:
            largest_first = sorted(works, key=lambda work: work.nbytes, reverse=True)
            freed = next(filter(None, (work.halve() for work in largest_first)), 0)
            if not freed:
                return
            self.used -= freed
