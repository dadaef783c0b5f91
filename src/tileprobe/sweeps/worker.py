"""The process that runs points, `python -m tileprobe.sweeps.worker`: a line of JSON in, a line of JSON out.

It has nothing of its parent but two pipes. What points print goes to the standard error, not into the answers; when
the parent is gone it ends at once, in the middle of a point or not, with all that the point started.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, TextIO

from tileprobe.errors import TileProbeError, where
from tileprobe.sweeps.outcome import DONE, RAISED, REFUSED, UNFIT, Failed, Outcome, here
from tileprobe.sweeps.points import file_digest, package_digest


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the driver decides
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(
        target=_listen, args=(os.fdopen(os.dup(0), encoding="utf-8"), tasks), daemon=True
    ).start()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # a point that reads its input finds none, and takes no task away
    while True:
        outcome = perform(json.loads(tasks.get()))
        answers.write(json.dumps(outcome.to_json()) + "\n")
        answers.flush()


def _listen(pipe: TextIO, tasks: queue.SimpleQueue[str]) -> None:
    for line in pipe:
        tasks.put(line)
    if os.getpgrp() == os.getpid():  # with the processes that the point started
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def perform(task: dict[str, Any]) -> Outcome:
    """One point, in this process. Whatever it raises is told."""
    unfit = _unfit(task)
    if unfit:
        return Outcome(UNFIT, unfit, worker=here())
    begun = time.perf_counter()
    try:
        result = _function(task["call"])(task["settings"])
        json.dumps(result)
    except TileProbeError as error:
        kind, reason, result = REFUSED, str(error), None
    except Failed as error:
        kind, reason, result = RAISED, str(error), None
    except (Exception, SystemExit) as error:
        kind, reason, result = RAISED, where(error) if isinstance(error, Exception) else repr(error), None
    else:
        kind, reason = DONE, ""
    return Outcome(kind, reason, result, time.perf_counter() - begun, here())


def _unfit(task: dict[str, Any]) -> str:
    if task["package"] != package_digest():
        return (
            f"the worker {here()} has another version of TileProbe ({package_digest()[:8]}) than this one "
            f"({task['package'][:8]}): install the same on all machines, and start their workers again"
        )
    with contextlib.suppress(OSError):  # what is not there is missed below
        os.chdir(task["folder"])
    for path, digest in task["files"].items():
        try:
            found = file_digest(path)
        except TileProbeError as error:
            return f"on the worker {here()} {error}: workers read files by the path they have here"
        if found != digest:
            return f"on the worker {here()} {path} is another file than here, or it was changed since"
    return ""


def _function(call: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    module, _, name = call.partition(":")
    return getattr(import_module(module), name)


if __name__ == "__main__":
    sys.exit(main())
