"""What a launch shows that speaks for an experiment, or for an edit: the findings of tools, with their lines.

Comes in: a launch that can be run again. Goes out: sentences that say why something is worth a try, and what is left
for the user to change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tileprobe.session.relaunching import Relaunch
from tileprobe.session.session import Session
from tileprobe.tools.load import load_tool
from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Finding
from tileprobe.trace import Region, Trace

TOOLS = ("critical-path", "overlap", "programs")
_MUCH = 0.1  # of the launch


@dataclass(frozen=True)
class Evidence:
    """Sentences, empty where there is nothing to say; `edits` are findings as data: tool, evidence (a sentence), region
    and line that it is about, None where it is about no single one, and the numbers behind it."""

    waits: str = ""  # the path stands still for memory
    tail: str = ""  # half of the units or fewer work
    alone: str = ""  # one kind of work is exposed
    edits: list[dict[str, Any]] = field(default_factory=list)


def evidence_of(launch: Relaunch) -> Evidence:
    tools = [load_tool(name) for name in TOOLS]
    plan = Plan(loops=True, iterations=True, kinds=("all",), min_cost=1000.0)
    with Session(tools=tools, plan=plan, programs="all", alternate=False) as session:
        for _ in range(2):
            launch.run()
            launch.restore()
    texts = {"waits": "", "tail": "", "alone": ""}
    edits: list[dict[str, Any]] = []
    for result in (tool.read(session.trace) for tool in tools):
        for finding in result.findings:
            data = finding.data
            held = data.get("held_up")
            if held and held["share"] > _MUCH:
                texts["waits"] = (
                    f"{100 * held['share']:.0f} % of the launch is waited at {held['name']} for {held['whom']}"
                )
            if "tail" in data and isinstance(data["tail"], dict) and data["tail"]["share"] > _MUCH:
                share = 100 * data["tail"]["share"]
                texts["tail"] = f"for {share:.0f} % of the launch half of the units or fewer still work"
            if data.get("exposed") and data.get("share", 0) > _MUCH:
                texts["alone"] = f"{data['exposed']} is exposed for {100 * data['share']:.0f} % of the time"
            if finding.level == "info":
                edits.append(_edit(session.trace, result.tool, finding))
    return Evidence(**texts, edits=edits)


def _edit(trace: Trace, tool: str, finding: Finding) -> dict[str, Any]:
    """The line is where it is waited, or where the region begins that takes the time."""
    held = finding.data.get("held_up") or {}
    names = (held.get("name"), finding.data.get("region"), finding.data.get("exposed"))
    region = next((r for name in names if name for r in trace.regions if _is_called(r, name)), None)
    where = None if region is None or not region.first_line else f"{region.file}:{region.first_line}"
    return {
        "tool": tool,
        "evidence": finding.text,
        "region": None if region is None else region.name,
        "line": where,
        "numbers": finding.data,
    }


def _is_called(region: Region, name: str) -> bool:
    """A name may say in front which of the program's streams it is about."""
    return isinstance(name, str) and (name == region.name or name.endswith(f": {region.name}"))
