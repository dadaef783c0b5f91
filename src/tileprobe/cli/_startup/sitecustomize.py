"""Run by Python at the start of each child process of `tileprobe run`: lets its launches be recorded, too.

It imports nothing heavy. A `sitecustomize` that the environment has of its own runs first, as it would without us,
and this folder leaves `sys.path` again; grandchildren find it through PYTHONPATH, which stays.
"""

from __future__ import annotations

import importlib
import os
import sys


def _run_the_other() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if ours is not None:
            sys.modules.setdefault("sitecustomize", ours)


try:
    _run_the_other()
finally:
    try:
        from tileprobe.cli._hook import watch
    except ImportError:  # a Python without TileProbe: there is nothing to profile
        pass
    else:
        watch()
