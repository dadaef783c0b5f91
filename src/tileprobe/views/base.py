"""A view is a small class: it writes a trace into a file of one format. Ours are one a file, beside this one."""

from __future__ import annotations

import os
from typing import Protocol, runtime_checkable

from tileprobe.trace import Trace


@runtime_checkable
class View(Protocol):
    """`name` is what `--to` and `--view` call it, `suffix` how its files end."""

    name: str
    suffix: str

    def write(self, trace: Trace, path: str | os.PathLike[str]) -> None: ...
