"""source: the kernel's source, with the time that each line took, and that of the functions it calls.

A stage fused from several lines is one measurement; what each line has of it is estimated from what its operations
cost. What has no probe of its own is spread over its lines in the same way; a loop's own time is at the loop's line.
Time in a function that the kernel calls is at the function's own lines, and at the line of the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

from tileprobe.ir.functions import Function
from tileprobe.ir.parts import Frame
from tileprobe.tools.plan import Plan
from tileprobe.tools.regions import region_times, region_tree, whole_ns
from tileprobe.tools.result import Column, Result, Table
from tileprobe.tools.signatures import told_apart
from tileprobe.tools.times import Times
from tileprobe.trace import Kernel, Region, Trace

COLUMNS = [
    Column("ns", "ns", "time"),
    Column("share", "share", ""),
    Column("line", "count", "line"),
    Column("text", "source", ""),
]

SCHEMA = {
    "line": pl.Int64,
    "text": pl.String,
    "ns": pl.Float64,  # here and in what is called here
    "share": pl.Float64,
    "estimate": pl.Boolean,
    "called_ns": pl.Float64,  # of it, in functions that are called here
}
RANGES = ("partition", "kernel", "loop", "iteration", "scope")
UNKNOWN = "(in a function that it calls)"
NOTHING = 1e-6  # of the whole: what rounding leaves of a region whose parts are all measured


class Source:
    name = "source"

    def plan(self) -> Plan:
        return Plan(kinds=("all",))

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        times = region_times(trace)
        for kernel in told_apart(trace.kernels):
            spent = _spent(trace, kernel, times) if kernel.source else None
            if spent is None or not (spent.own or spent.called):
                continue
            result.tables.append(Table(kernel.name, _kernel_frame(kernel, spent), COLUMNS, kernel.id))
            for function, frame in _function_frames(kernel, spent):
                place = f"{function.file.rsplit('/', 1)[-1]}:{function.first_line}"
                result.tables.append(Table(f"{function.name}  {place}", frame, COLUMNS, kernel.id))
        return result


@dataclass
class _Spent:
    """Nanoseconds by place: at a line itself, and in what is called there."""

    whole: float
    own: dict[Frame, float] = field(default_factory=dict)
    called: dict[Frame, float] = field(default_factory=dict)
    estimated: set[Frame] = field(default_factory=set)

    def add(self, frames: tuple[Frame, ...], ns: float, estimate: bool) -> None:
        self.own[frames[0]] = self.own.get(frames[0], 0.0) + ns
        for frame in dict.fromkeys(frames[1:]):
            self.called[frame] = self.called.get(frame, 0.0) + ns
        if estimate:
            self.estimated.update(frames)

    def frame(self, file: str, text: dict[int, str]) -> pl.DataFrame:
        """A row for each line of a text."""
        places = [(file, line) for line in text]
        known = [place in self.own or place in self.called for place in places]
        ns = [self.own.get(place, 0.0) + self.called.get(place, 0.0) for place in places]
        return pl.DataFrame(
            {
                "line": list(text),
                "text": list(text.values()),
                "ns": [value if there else None for value, there in zip(ns, known)],
                "share": [value / self.whole if self.whole else 0.0 for value in ns],
                "estimate": [place in self.estimated for place in places],
                "called_ns": [self.called.get(place, 0.0) for place in places],
            },
            schema=SCHEMA,
        )


def line_times(trace: Trace, kernel: Kernel, times: Times | None = None) -> pl.DataFrame:
    """One row a line of the kernel's source: number, text, nanoseconds with those of what is called there, share,
    whether it is an estimate, and the nanoseconds in what is called there."""
    return _kernel_frame(kernel, _spent(trace, kernel, times))


def function_times(
    trace: Trace, kernel: Kernel, times: Times | None = None
) -> list[tuple[Function, pl.DataFrame]]:
    """The same for each function that the kernel calls, the most expensive first."""
    return _function_frames(kernel, _spent(trace, kernel, times))


def _kernel_frame(kernel: Kernel, spent: _Spent) -> pl.DataFrame:
    text = _text(kernel.first_line or 1, kernel.source)
    for file, line in sorted({*spent.own, *spent.called}):
        if file == kernel.file and not any((file, line) in function for function in kernel.functions):
            text.setdefault(line, UNKNOWN)
    return spent.frame(kernel.file, text)


def _function_frames(kernel: Kernel, spent: _Spent) -> list[tuple[Function, pl.DataFrame]]:
    found = [
        (function, spent.frame(function.file, _text(function.first_line, function.text)))
        for function in (*kernel.functions, *_unknown(kernel, spent))
    ]
    own = [sum(ns for place, ns in spent.own.items() if place in function) for function, _ in found]
    order = sorted(range(len(found)), key=lambda n: -own[n])
    return [found[n] for n in order if found[n][1]["ns"].count()]


def _unknown(kernel: Kernel, spent: _Spent) -> Iterator[Function]:
    """Lines of other files that the trace has no text of."""
    for file, line in sorted({*spent.own, *spent.called}):
        if file != kernel.file and not any((file, line) in function for function in kernel.functions):
            yield Function("?", file, line, "(its source is not in the trace)")


def _spent(trace: Trace, kernel: Kernel, times: Times | None) -> _Spent:
    tree = region_tree(trace, kernel, times)
    spent = _Spent(whole_ns(tree))
    regions = {region.id: region for region in trace.regions}
    text = _text(kernel.first_line or 1, kernel.source)
    for row in tree.iter_rows(named=True):
        if row["region"] is None or not row["self_ns"] or row["self_ns"] <= NOTHING * spent.whole:
            continue
        region = regions[row["region"]]
        shares = _shares(kernel, region, text)
        for frames, share in shares.items():
            spent.add(frames, share * row["self_ns"], len(shares) > 1 or bool(row["estimate"]))
    return spent


def _shares(kernel: Kernel, region: Region, text: dict[int, str]) -> dict[tuple[Frame, ...], float]:
    """Where a region's own time goes, in shares."""
    found: dict[tuple[Frame, ...], float] = {}
    for part in region.parts:
        if part.frames:
            found[part.frames] = found.get(part.frames, 0.0) + part.share
    if found:
        whole = sum(found.values())
        return {frames: share / whole for frames, share in found.items()}
    file = region.file or kernel.file
    if region.kind == "kernel":
        return {((kernel.file, _definition(text)),): 1.0} if text else {}
    if region.kind in RANGES:
        return {((file, region.first_line),): 1.0} if region.first_line else {}
    code = [n for n in region.all_lines if file != kernel.file or _is_code(text.get(n, "?"))]
    return {((file, n),): 1.0 / len(code) for n in code}


def _text(first: int, source: str) -> dict[int, str]:
    return {first + n: line for n, line in enumerate(source.splitlines())}


def _definition(text: dict[int, str]) -> int:
    """The line with `def`, behind the decorators."""
    return next(
        (n for n, line in text.items() if line.lstrip().startswith(("def ", "async def "))), min(text)
    )


def _is_code(line: str) -> bool:
    text = line.strip()
    return bool(text) and not text.startswith("#")
