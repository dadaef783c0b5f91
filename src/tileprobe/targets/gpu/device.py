"""What a session asks of a GPU's driver beside launches, which are Triton's: memory, copies, events.

Addresses and streams are numbers, as Triton hands them on. A machine that is simulated keeps this protocol over memory
of the host; `driver_library.py` keeps it over NVIDIA's and AMD's drivers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Properties:
    """Of one GPU. `clock_hz` is the rate at which its multiprocessors may run at most."""

    name: str
    multiprocessors: int
    clock_hz: float


class Device(Protocol):
    """The GPU on which the calling thread launches. What takes a stream happens in order with what was put there
    before."""

    def number(self) -> int:
        """Which of the machine's GPUs it is: memory belongs to one of them. Asked before anything else on a thread."""
        ...

    def properties(self) -> Properties: ...

    def allocate(self, size: int) -> int:
        """The address of so many bytes, aligned to 256. Raises MemoryError when there is not enough."""
        ...

    def free(self, address: int) -> None: ...

    def zero(self, address: int, size: int, stream: int) -> None: ...

    def write(self, address: int, words: np.ndarray, stream: int) -> None:
        """Copies there; `words` stay as they are until the stream is waited for."""
        ...

    def read(self, address: int, words: np.ndarray, stream: int) -> None:
        """Copies from there, and waits for it."""
        ...

    def record(self, stream: int) -> Any:
        """An event: the moment at which the stream gets here."""
        ...

    def elapsed_ns(self, first: Any, last: Any) -> float:
        """Between two events that have happened; they are used up."""
        ...

    def synchronise(self, stream: int) -> None:
        """Waits until everything in the stream is done."""
        ...

    def capturing(self, stream: int) -> bool:
        """Whether launches go into a graph instead of being run."""
        ...
