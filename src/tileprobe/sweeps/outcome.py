"""What came of a task, as a worker tells it: plain data that goes over pipes and networks."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any

DONE = "done"
REFUSED = "refused"  # a mistake in the settings: another attempt would say the same
RAISED = "raised"
DIED = "died"  # the process did, with the point in it
LATE = "late"  # it took longer than allowed
UNFIT = "unfit"  # the worker can run no point of this sweep: another version, a file that it does not have
KINDS = (DONE, REFUSED, RAISED, DIED, LATE, UNFIT)


class Failed(Exception):
    """Raised by a point that has words of its own for what went wrong."""


@dataclass(frozen=True)
class Outcome:
    kind: str
    reason: str = ""
    result: dict[str, Any] | None = None
    seconds: float = 0.0
    worker: str = ""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    @staticmethod
    def of(said: dict[str, Any]) -> Outcome:
        return Outcome(**said)


def here() -> str:
    """This process, as others may look for it."""
    return f"{socket.gethostname()}:{os.getpid()}"
