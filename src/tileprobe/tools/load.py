"""Tools by name: ours, those that installed packages offer as `tileprobe.tools` entry points, and files.

In comes what a user wrote after `--tool`; out goes a tool, or an error that lists what there is. A tool of the user's
that raises takes nothing else with it: `plan_of` and `read` say where it went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tileprobe.errors import TileProbeError, where
from tileprobe.plugins import class_named, classes
from tileprobe.tools.base import Tool
from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Finding, Result
from tileprobe.trace import Trace

GROUP = "tileprobe.tools"
BUILT_IN = {
    "regions": "tileprobe.tools.regions:Regions",
    "source": "tileprobe.tools.source:Source",
    "iterations": "tileprobe.tools.iterations:Iterations",
    "programs": "tileprobe.tools.programs:Programs",
    "units": "tileprobe.tools.units:Units",
    "overlap": "tileprobe.tools.overlap:Overlap",
    "critical-path": "tileprobe.tools.critical_path:CriticalPath",
    "memory": "tileprobe.tools.memory:Memory",
    "parallelism": "tileprobe.tools.parallelism:Parallelism",
    "pipeline": "tileprobe.tools.pipeline:Pipeline",
    "roofline": "tileprobe.tools.roofline:RooflineTool",
}
DEFAULT = ("regions", "source")


def available() -> dict[str, Callable[[], type]]:
    """Every tool that can be named: name -> what imports its class."""
    return classes(BUILT_IN, GROUP)


def load_tool(text: str) -> Tool:
    """The tool called `text`, or the class of `file.py:Class`."""
    kind = class_named(text, "tool", BUILT_IN, GROUP)
    try:
        tool = kind()
    except Exception as error:
        raise TileProbeError(f"the tool {text} cannot be made without arguments: {where(error)}") from error
    return checked(tool, text)


def checked(tool: Any, name: str = "") -> Tool:
    """The tool, if it is one."""
    if not isinstance(tool, Tool) or not isinstance(tool.name, str):
        raise TileProbeError(f"{name or repr(tool)} is no tool: it needs a name, plan() and read(trace)")
    return tool


def plan_of(tool: Tool) -> Plan:
    """What the tool wants probed."""
    try:
        plan = tool.plan()
    except Exception as error:
        raise TileProbeError(f"the tool {tool.name!r} failed in plan(): {where(error)}") from error
    if not isinstance(plan, Plan):
        raise TileProbeError(f"plan() of the tool {tool.name!r} gave no Plan but {plan!r}")
    return plan


def read(tool: Tool, trace: Trace) -> Result:
    """What the tool makes of the trace; of a user's tool that fails, a warning that says so."""
    if type(tool).__module__.startswith("tileprobe."):
        return tool.read(trace)
    try:
        result = tool.read(trace)
        what = "" if isinstance(result, Result) else f"gave no Result but {result!r}"
    except Exception as error:
        result, what = None, f"failed: {where(error)}"
    if isinstance(result, Result) and not what:
        return result
    said = Finding(f"the tool {tool.name!r} {what}", level="warning", data={"failed": tool.name})
    return Result(tool.name, findings=[said])


def failed(results: Iterable[Result]) -> bool:
    """Whether one of the tools did."""
    return any("failed" in finding.data for result in results for finding in result.findings)
