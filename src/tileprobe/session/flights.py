"""A launch under way: which sessions look at it, as whose it is recorded, and who gets what it leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tileprobe.session.recorded import Recorded
from tileprobe.session.works import LEFT_OUT, PLAIN, Work, records
from tileprobe.targets.base import Variant

if TYPE_CHECKING:
    from tileprobe.session.session import Session


class Looking(NamedTuple):
    """A session that looks at a launch, its work, and the dose that was drawn for it."""

    session: Session
    work: Work
    dose: int


class Flight:
    def __init__(self, landed: Callable[[Flight, Recorded | None], None], looking: list[Looking]) -> None:
        self.looking, self._landed = looking, landed
        self.thread = threading.get_ident()
        self.leader: Looking | None = None  # as whose it is recorded; None: it runs without probes
        self.variant: Variant | None = None  # the kernel with each record written once

    def __call__(self, recorded: Recorded | None) -> None:
        """The launch is over; None: it did not come to its end."""
        self._landed(self, recorded)

    def concerns(self, session: Session) -> bool:
        return any(one.session is session for one in self.looking)

    def led_by(self, leader: Looking) -> None:
        self.leader = leader
        leader.work.began(leader.dose)

    def sharing(self) -> list[tuple[Session, Work]]:
        """Those whose launch it is: who drew the same, or asks for the same as the one it was recorded for."""
        if self.leader is not None and len(self.looking) == 1:
            return [(self.leader.session, self.leader.work)]
        looking = [one for one in self.looking if one.dose != LEFT_OUT]
        if self.leader is None:
            return [(one.session, one.work) for one in looking if one.dose == PLAIN or self.variant]
        asked = self.leader.session.choices
        return [(one.session, one.work) for one in looking if one.session.choices == asked]

    def borrowing(self) -> list[tuple[Session, Work]]:
        """Those who have nothing of this work, and would have recorded it otherwise."""
        if self.leader is None or len(self.looking) == 1:
            return []
        asked = self.leader.session.choices
        others = [one for one in self.looking if records(one.dose) and one.session.choices != asked]
        return [(one.session, one.work) for one in others if not one.work.recorded]


class Alone:
    """A launch that one session looks at, while no other is on: as most are."""

    __slots__ = ("_landed", "session", "thread", "variant", "work")

    def __init__(
        self,
        landed: Callable[[Alone, Recorded | None], None],
        session: Session,
        work: Work,
        variant: Variant | None = None,
    ) -> None:
        self._landed, self.session, self.work, self.variant = landed, session, work, variant
        self.thread = threading.get_ident()

    def __call__(self, recorded: Recorded | None) -> None:
        self._landed(self, recorded)

    def concerns(self, session: Session) -> bool:
        return session is self.session
