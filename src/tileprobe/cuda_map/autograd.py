"""Torch's thread for backward passes of a device, at the end of the process.

It drops the last Python objects of a pass after `backward()` has returned. A Python that ends meanwhile cannot let it
have the interpreter any more, and the thread takes the process down: "terminate called without an active exception",
status 134, in one of some forty scripts that end right behind a backward pass.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import time
from functools import lru_cache
from pathlib import Path

REST_S = 0.1  # what it still has to do takes microseconds, once it has a core
_NAME = "pt_autograd"


@lru_cache(maxsize=1)
def rest_at_exit() -> None:
    """From now on, once: before Python takes itself apart the thread gets the interpreter for a moment."""
    atexit.register(_rest)


def _rest() -> None:
    if any(name.startswith(_NAME) for name in _threads()):
        time.sleep(REST_S)


def _threads() -> list[str]:
    """Names of the threads of this process, where the system tells."""
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/self/task/{thread}/comm").read_text().strip())
    return found
