"""Records become intervals here, and intervals a Trace with its file: decoding, replay.

`Trace` and its parts are all a target, a tool or a view needs of this package. They are imported when they are
asked for, since data frames take their time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tileprobe.trace.model import (
        COLUMNS,
        COUNTERS,
        EDGES,
        KINDS,
        Clock,
        Domain,
        Kernel,
        Launch,
        Losses,
        Region,
        Unit,
        Work,
    )
    from tileprobe.trace.trace import Trace

__all__ = [
    "COLUMNS",
    "COUNTERS",
    "EDGES",
    "KINDS",
    "Clock",
    "Domain",
    "Kernel",
    "Launch",
    "Losses",
    "Region",
    "Trace",
    "Unit",
    "Work",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tileprobe.trace' has no attribute {name!r}")
    return getattr(
        import_module("tileprobe.trace.trace" if name == "Trace" else "tileprobe.trace.model"), name
    )
