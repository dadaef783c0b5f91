"""memory: what each load and store asks for and what moves for it, in which pattern, and what could be spared.

Figures are of a launch of the largest work of each kernel. Of a CPU they come from the IR and from addresses of a few
programs, of a simulated GPU from all accesses that were executed; the column `known` says which. *Moved* are whole
cache lines (sectors on GPUs, passes through the banks of shared memory) that each execution of an access touches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from tileprobe.ir.accesses import COUNTED, ELEMENTS, PREFIX, Access, accesses
from tileprobe.tools.plan import Plan
from tileprobe.tools.regions import Regions
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.tools.signatures import told_apart
from tileprobe.tools.words import size
from tileprobe.trace import Kernel, Launch, Trace

COLUMNS = [
    Column("place", "text", "line"),
    Column("what", "text", "access"),
    Column("asked_text", "amount", "asks for"),
    Column("moved_text", "amount", "moves"),
    Column("times", "number", "times"),
    Column("pattern", "text", "neighbours"),
    Column("how", "text", "known"),
    Column("masked", "percent", "masked"),
    Column("width", "count", "vector"),
    Column("alignment", "count", "aligned"),
    Column("footprint_text", "amount", "a program"),
    Column("reuse", "number", "reuse"),
    Column("conflicts", "number", "passes"),
]
_SHOWN = {
    **dict.fromkeys(("place", "what", "space", "how", "pattern", "file"), pl.String),
    **dict.fromkeys(("line", "number", "width", "alignment", "programs", "grid"), pl.Int64),
    **dict.fromkeys(("asked", "moved", "times", "masked", "stride", "beside", "footprint", "seen"), pl.Float64),
    **dict.fromkeys(("reuse", "conflicts", "iteration"), pl.Float64),
    **dict.fromkeys(("asked_text", "moved_text", "footprint_text"), pl.String),
}  # fmt: skip
WORTH = 0.02  # of all that moves: worth a sentence
WASTE, CONFLICTS, MASKED = 1.25, 1.25, 0.2  # times; times; share: from here on they are worth one
SAME = 0.9  # neighbours that are so far apart for the distance to be called the stride
NO_DATA = (
    "what loads and stores did to memory is not in this trace: it is looked at on the CPU and on simulated GPUs when a "
    "kernel is recorded with it (tileprobe run --tool memory)"
)


class Memory:
    name = "memory"

    def plan(self) -> Plan:
        return Regions().plan() | Plan(accesses=True)

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        for kernel in told_apart(trace.kernels):
            launch, found = largest(trace, kernel)
            if launch is None:
                continue
            frame = pl.DataFrame([_row(one) for one in found], schema=_SHOWN)
            columns = [column for column in COLUMNS if frame[column.name].count()]
            result.tables.append(Table(f"{kernel.name}: memory", frame, columns, kernel.id))
            result.findings += findings(kernel, found)
        if not result.tables:
            result.findings.append(Finding(NO_DATA, level="warning"))
        return result


def largest(trace: Trace, kernel: Kernel) -> tuple[Launch | None, list[Access]]:
    """The launch whose accesses are known and move most, and these, in the order of the kernel."""
    launch, found = told(trace, kernel)
    return launch, [one for one in found if one.space != ELEMENTS]


def told(trace: Trace, kernel: Kernel) -> tuple[Launch | None, list[Access]]:
    """That launch, with what is known of what it computes, too."""
    launches = {launch.id: launch for launch in trace.kernel_launches(kernel.id)}
    mine = pl.col("launch").is_in(list(launches)) & pl.col("name").str.starts_with(PREFIX)
    rows = trace.counters.filter(mine)
    best: tuple[Launch | None, list[Access]] = None, []
    for number, its in rows.group_by("launch", maintain_order=True):
        found = accesses(its.iter_rows(named=True))
        if best[0] is None or sum(map(moved, found)) > sum(map(moved, best[1])):
            best = launches[int(number[0])], found  # type: ignore[arg-type]
    return best


# -- figures of an access -----------------------------------------------------------------------------------------


def of_launch(one: Access, value: float | None) -> float:
    """A total of the programs that were looked at, scaled to all of the launch."""
    programs = one.get("programs") or 1.0
    return (value or 0.0) * (one.get("grid") or 1.0) / programs


def moved(one: Access) -> float:
    return of_launch(one, one.get("moved"))


def waste(one: Access) -> float | None:
    """How many times the bytes that are asked for move at the least. Where lines stay in a cache while a program runs,
    each moves once; a GPU's sectors are counted as each warp asks for them."""
    asked, there = one.asked, one.get("moved")
    if not asked or there is None:
        return None
    programs, program = one.get("programs"), one.get("program")
    if one.how != COUNTED and programs and program:
        there = min(there, program * programs)
    return there / asked


def masked(one: Access) -> float | None:
    lanes, active = one.get("lanes"), one.get("active")
    return 1.0 - active / lanes if lanes and active is not None else None


def conflicts(one: Access) -> float | None:
    """Passes through the banks of shared memory for each that is needed."""
    passes, least = one.get("passes"), one.get("least")
    return passes / least if passes and least else None


def reuse(one: Access) -> float | None:
    """How often each line is touched, by one program."""
    programs, program, there = one.get("programs"), one.get("program"), one.get("moved")
    return there / (programs * program) if programs and program and there else None


def stride(one: Access) -> float | None:
    """In elements, where most neighbours are as far apart."""
    step, regular, wide = one.get("stride"), one.get("regular"), one.get("size")
    return step / wide if step is not None and wide and (regular or 0.0) >= SAME else None


def pattern(one: Access) -> str:
    """How neighbours lie, in a word or two."""
    step = stride(one)
    if one.get("stride") is None:
        return "one element"
    if step is None:
        return f"{100 * (one.get('beside') or 0.0):.0f} % side by side"
    other = f"lanes {one.get('stride'):g} B apart" if one.how == COUNTED else f"stride {step:g}"
    return {0.0: "the same", 1.0: "side by side"}.get(step, other)


def _row(one: Access) -> dict[str, Any]:
    asked, there = of_launch(one, one.asked), moved(one)
    times, program = waste(one), one.get("program")
    executed, grid = one.get("times"), one.get("grid") or 1
    return {
        "place": place(one),
        "file": one.file,
        "line": one.line,
        "number": one.number,
        "what": one.what + ("" if one.space == "memory" else f" {one.space}"),
        "space": one.space,
        "how": one.how,
        "pattern": pattern(one),
        "asked": asked,
        "moved": there,
        "times": times,
        "masked": masked(one),
        "stride": one.get("stride"),
        "beside": one.get("beside"),
        "width": _whole(one.get("width")),
        "alignment": _whole(one.get("alignment")),
        "programs": _whole(one.get("programs")),
        "grid": int(grid),
        "footprint": program,
        "seen": one.get("sample"),
        "iteration": (one.get("moved") or 0.0) / executed if executed else None,
        "reuse": reuse(one),
        "conflicts": conflicts(one),
        "asked_text": size(asked) if executed or not one.get("programs") else "never run",
        "moved_text": size(there),
        "footprint_text": "" if program is None else size(program),
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def place(one: Access) -> str:
    return f"{one.file.rsplit('/', 1)[-1]}:{one.line}" if one.line else "?"


# -- findings -----------------------------------------------------------------------------------------------------


def findings(kernel: Kernel, found: list[Access]) -> list[Finding]:
    """What is worth a sentence, the most bytes first."""
    whole = {
        space: sum(moved(one) for one in found if one.space == space) for space in {x.space for x in found}
    }
    said: list[Finding] = []
    for one in sorted(found, key=moved, reverse=True):
        if moved(one) >= WORTH * whole[one.space]:
            said += [
                Finding(f"{kernel.name}: {text}", data=_data(one) | data, kernel=kernel.id)
                for text, data in _sentences(one)
            ]
    return said


def _sentences(one: Access) -> Iterator[tuple[str, dict[str, Any]]]:
    where, times, off = f"line {one.line} ({one.what})", waste(one), masked(one)
    clash = conflicts(one)
    if clash is not None and clash >= CONFLICTS:
        yield (
            f"{where} goes through shared memory {clash:.3g} times for each that is needed: bank conflicts",
            {"cause": "bank conflicts", "size": clash},
        )
    elif one.space != "shared" and times is not None and times >= WASTE:
        yield (
            f"{where} moves {times:.3g} times the bytes it asks for: {_why(one)}",
            {"cause": "stride" if stride(one) not in (None, 1.0) else "scattered", "size": times},
        )
    if off is not None and off >= MASKED:
        yield f"{100 * off:.0f} % of {where} is masked off", {"cause": "masked off", "size": off}


def _why(one: Access) -> str:
    step = stride(one)
    if step == 1.0:
        return f"lines are used in part, {100 * (masked(one) or 0.0):.0f} % of it is masked off"
    if step is not None:
        apart = f"{abs(one.get('stride') or 0):g} bytes apart"
        return f"lanes are {apart}" if one.how == COUNTED else f"stride {step:g}, neighbours are {apart}"
    if one.get("stride") is None:
        return "single elements, each from a line of its own"
    return f"{100 * (one.get('beside') or 0.0):.0f} % of its neighbours lie side by side"


def _data(one: Access) -> dict[str, Any]:
    return {
        "line": one.line,
        "file": one.file,
        "access": one.what,
        "space": one.space,
        "stride": stride(one),
        "asked": of_launch(one, one.asked),
        "moved": moved(one),
        "known": one.how,
        "programs": one.get("programs"),
    }
