"""On a worker of a cluster: a point runs in a process beside it, as it would on this machine.

So a point that hangs can be killed and one that crashes costs the cluster no worker; points of several threads do not
share an interpreter; and scripts have a process to themselves. A worker keeps its processes from point to point.
"""

from __future__ import annotations

import threading
from typing import Any

from tileprobe.sweeps.process import Process

_idle: list[Process] = []
_lock = threading.Lock()


def perform(tasks: list[str], seconds: float | None) -> list[dict[str, Any]]:
    """Runs tasks one after the other and tells their outcomes, as plain data. Each may take so many seconds."""
    with _lock:
        process = _idle.pop() if _idle else Process()
    found = []
    try:
        for task in tasks:
            process.start(task, seconds)
            found.append(process.wait().to_json())
        return found
    except BaseException:
        process.close()
        raise
    finally:
        with _lock:
            _idle.append(process)
