"""Points for tests: what they are told to do, and a log of who did it."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tileprobe.errors import TileProbeError


def square(settings):
    time.sleep(settings.get("sleep", 0.0))
    if "log" in settings:
        with open(settings["log"], "a") as log:
            log.write(f"{settings['x']} {os.getpid()}\n")
    return {"y": settings["x"] ** 2}


def misbehave(settings):
    what = settings["do"]
    if what == "refuse":
        raise TileProbeError("no such thing")
    if what == "raise":
        raise ValueError("two")
    if what == "die":
        print("last words", flush=True)
        os.kill(os.getpid(), 9)
    if what == "exit":
        sys.exit(3)
    if what == "hang":  # with a child of its own
        child = subprocess.Popen(["sleep", "1000"])
        Path(settings["log"]).write_text(str(child.pid))
        time.sleep(1000)
    if what == "object":
        return {"y": object()}
    if what == "chat":
        print("x" * 100_000)
        os.write(1, b'{"kind": "done"}\n')
        return {"y": sys.stdin.read()}
    if what == "once":  # dies at the first attempt
        seen = Path(settings["log"])
        if not seen.exists():
            seen.touch()
            os._exit(7)
    return {"y": what}
