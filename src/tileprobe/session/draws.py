"""Random choices of a session, from its seed: the same seed draws the same.

Phases are drawn in rounds: all have their turn before one comes again, each time in another order.
"""

from __future__ import annotations

import random

_SHUFFLED = 256  # more phases than these have no rounds: they would hardly come to an end


class Draw(random.Random):
    """Random numbers that belong to one work of one session."""

    def __init__(self, seed: int | str = 0) -> None:
        super().__init__(seed)
        self._rounds: dict[tuple[object, int], list[int]] = {}

    def turn(self, what: object, phases: int) -> int:
        """A number below `phases`, for one of several things that have phases."""
        if phases < 2:
            return 0
        if phases > _SHUFFLED:
            return self.randrange(phases)
        left = self._rounds.setdefault((what, phases), [])
        if not left:
            left += range(phases)
        place = self.randrange(len(left))  # shuffled as it is drawn: most rounds do not come to their end
        left[place], left[-1] = left[-1], left[place]
        return left.pop()
