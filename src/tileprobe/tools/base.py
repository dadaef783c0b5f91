"""A tool is a small class: `plan()` says what it wants probed, `read(trace)` what it makes of the trace."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Result
from tileprobe.trace import Trace


@runtime_checkable
class Tool(Protocol):
    """`name` is what `--tool` calls it."""

    name: str

    def plan(self) -> Plan: ...

    def read(self, trace: Trace) -> Result: ...
