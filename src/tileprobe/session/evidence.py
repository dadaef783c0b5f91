"""What a launch shows that speaks for an experiment, or for an edit: what tools found, as numbers with their places.

Comes in: a launch that can be run again. Goes out: facts, each a share of the launch with where it is from, which say
why something is worth a try; and all that tools found, which is left for the user to change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tileprobe.session.relaunching import Relaunch
from tileprobe.session.session import Session
from tileprobe.tools.load import load_tool
from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Finding, Result
from tileprobe.trace import Region, Trace

TOOLS = ("critical-path", "overlap", "programs", "pipeline", "memory")
WAITS, TAIL, ALONE = "waits", "tail", "exposed"
LAUNCHES = 8  # that are looked at, where they are not alike
LOADS = 3  # that are told
_MUCH = 0.1  # of the launch


@dataclass(frozen=True)
class Fact:
    """`share` of the launch, with half its 95 % interval (None where it is exact, or not known); `cause`: WAITS (the
    path stands still for memory), TAIL (half of the units or fewer work), ALONE (one kind of work is exposed)."""

    cause: str
    share: float
    error: float | None
    tool: str
    region: str | None
    line: str | None
    text: str


@dataclass(frozen=True)
class Evidence:
    """Facts by their cause. `edits` are all findings as data: tool, cause, evidence (a sentence), region and line that
    it is about, None where it is about no single one, and the numbers behind it. `talks`: programs use atomics."""

    facts: dict[str, Fact] = field(default_factory=dict)
    edits: list[dict[str, Any]] = field(default_factory=list)
    talks: bool = False
    editable: bool = (
        True  # it has Triton's IR, over which passes do what an edit would; kernels in Gluon have none
    )
    loads: tuple[int, ...] = ()  # lines of the kernel's own file that read memory, those that move most first


def evidence_of(launch: Relaunch, exact: bool) -> Evidence:
    tools = [load_tool(name) for name in TOOLS]
    plan = Plan(loops=True, iterations=True, kinds=("all",), min_cost=1000.0, accesses=True)
    kernel: Any = None
    with Session(tools=tools, plan=plan, programs="all", alternate=not exact) as session:
        for _ in range(1 if exact else LAUNCHES):
            kernel = launch.run()
            launch.restore()
    results = [tool.read(session.trace) for tool in tools]
    facts: dict[str, Fact] = {}
    edits: list[dict[str, Any]] = []
    for result in results:
        for finding in result.findings:
            edit = _edit(session.trace, result.tool, finding)
            fact = _fact(finding, edit)
            if fact is not None:
                facts.setdefault(fact.cause, fact)
            if finding.level == "info":
                edits.append(edit)
    asm = getattr(kernel, "asm", {})
    talks = "tt.atomic" in str(asm.get("ttir", ""))
    return Evidence(facts, edits, talks, "ttir" in asm, _loads(results, session.trace))


def _loads(results: list[Result], trace: Trace) -> tuple[int, ...]:
    own = {kernel.file for kernel in trace.kernels}
    moved: dict[int, float] = {}
    for table in (table for result in results if result.tool == "memory" for table in result.tables):
        for row in table.frame.iter_rows(named=True):
            if (
                row["what"].startswith("load")
                and row["space"] != "shared"
                and row["file"] in own
                and row["line"]
            ):
                moved[row["line"]] = moved.get(row["line"], 0.0) + (row["moved"] or 0.0)
    return tuple(sorted(moved, key=lambda line: -moved[line])[:LOADS])


def _fact(finding: Finding, edit: dict[str, Any]) -> Fact | None:
    """What is large enough to be worth a try."""
    data, where = finding.data, (edit["tool"], edit["region"], edit["line"])
    held, tail = data.get("held_up"), data.get("tail")
    if held and held["share"] > _MUCH:
        text = f"{100 * held['share']:.0f} % of the launch is waited at {held['name']} for {held['whom']}"
        return Fact(WAITS, held["share"], None, *where, text)
    if isinstance(tail, dict) and tail["share"] > _MUCH:
        text = f"for {100 * tail['share']:.0f} % of the launch half of the units or fewer still work"
        return Fact(TAIL, tail["share"], tail.get("error"), *where, text)
    if data.get("exposed") and data.get("share", 0) > _MUCH:
        text = f"{data['exposed']} is exposed for {100 * data['share']:.0f} % of the time"
        return Fact(ALONE, data["share"], data.get("error"), *where, text)
    return None


def cause_of(data: dict[str, Any]) -> str:
    """In a word, for a program: the tool's own word where it has one."""
    if data.get("cause"):
        return str(data["cause"])
    if data.get("held_up"):
        return WAITS
    for name, cause in (("tail", TAIL), ("exposed", ALONE), ("still", "standing still"), ("limit", "limit")):
        if data.get(name):
            return cause
    return "slow program" if "worst_ns" in data else "path" if "region" in data else "other"


def _edit(trace: Trace, tool: str, finding: Finding) -> dict[str, Any]:
    """The line is the tool's own, or where it is waited, or where the region begins that takes the time."""
    data = finding.data
    held = data.get("held_up") or {}
    names = (held.get("name"), data.get("region"), data.get("exposed"))
    region = next((r for name in names if name for r in trace.regions if _is_called(r, name)), None)
    where = None if region is None or not region.first_line else f"{region.file}:{region.first_line}"
    if where is None and data.get("file") and data.get("line"):
        where = f"{data['file']}:{data['line']}"
    return {
        "tool": tool,
        "cause": cause_of(data),
        "evidence": finding.text,
        "region": None if region is None else region.name,
        "line": where,
        "numbers": data,
    }


def _is_called(region: Region, name: str) -> bool:
    """A name may say in front which of the program's streams it is about."""
    return isinstance(name, str) and (name == region.name or name.endswith(f": {region.name}"))
