"""select: marks what is to be measured, by level, kind of operation, source line or user scope.

In comes any IR with a `Structure`; out goes the same IR whose chosen ops carry `probe.select`. Nothing is
inserted yet: passes of the user's may add or remove marks before `instrument` acts on them.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import attr_value
from tileprobe.ir.parts import Frame
from tileprobe.ir.registry import structure
from tileprobe.ir.scopes import scopes_in
from tileprobe.ir.structure import Structure

MARK = "probe.select"  # kernel, loop, iteration, stage, issue, wait
SCOPES = "probe.scopes"  # names of the user scopes an op lies in, outermost first


@dataclass(frozen=True)
class _Scope:
    name: str
    first: int
    last: int
    file: str | None = None  # None: given by hand, of any file

    def holds(self, place: Frame) -> bool:
        return self.file in (None, place[0]) and self.first <= place[1] <= self.last


@dataclass(frozen=True)
class SelectPass(ModulePass):
    """Marks what is to be measured.

    `kinds=all` takes every stage, `kinds=dot,load` those that do one of these, `kinds=none` no stage.
    `lines=31-44,50` keeps loops and stages on those lines; `scopes="softmax@31-44"` adds user scopes to those
    that `written_scopes` finds in the kernel's source files."""

    name = "select"

    structure: str = "scf"
    function: str = "*"
    kernel: bool = True
    loops: bool = True
    iterations: bool = True
    kinds: tuple[str, ...] = ("all",)
    lines: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    written_scopes: bool = True
    min_cost: float = 0.0
    asynchronous: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        how = structure(self.structure)
        ranges = [_range(text) for text in self.lines]
        scopes = [_scope(text) for text in self.scopes]
        for kernel in how.kernels(op):
            symbol = str(attr_value(kernel, "sym_name") or "")
            if not fnmatch.fnmatchcase(symbol, self.function):
                continue
            if self.kernel:
                _mark(kernel, "kernel")
            named = [*scopes, *(_written_scopes(kernel, how) if self.written_scopes else ())]
            for inner in _outside_stages(kernel, how):
                self._select(inner, how, ranges)
                _mark_scopes(inner, how, named)
            _mark_bare_scopes(kernel, how, named)

    def _select(self, op: Operation, how: Structure, ranges: list[tuple[int, int]]) -> None:
        if ranges and not _touches(op, how, ranges):
            return
        if how.loop(op) is not None:
            if self.loops:
                _mark(op, "loop")
            if self.iterations:
                _mark(op, "iteration")
        if self.asynchronous and how.issues(op):
            _mark(op, "issue")
        if self.asynchronous and how.waits(op):
            _mark(op, "wait")
        kinds = how.kinds(op)
        wanted = "all" in self.kinds or any(kind in self.kinds for kind in kinds)
        cost = how.cost(op)
        if kinds and wanted and (cost is None or cost >= self.min_cost):
            _mark(op, "stage")


def marks(op: Operation) -> list[str]:
    return attr_value(op, MARK) or []


def _mark(op: Operation, what: str) -> None:
    op.attributes[MARK] = ArrayAttr([StringAttr(word) for word in (*marks(op), what)])


def _outside_stages(op: Operation, how: Structure) -> list[Operation]:
    """Every op below `op`, in program order, but none inside of a stage."""
    found: list[Operation] = []
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                found.append(inner)
                if not how.kinds(inner):
                    found += _outside_stages(inner, how)
    return found


def _written_scopes(kernel: Operation, how: Structure) -> list[_Scope]:
    """The user's scopes in the files that the kernel's stages come from."""
    files = {lines.file for op in kernel.walk() if (lines := how.lines(op)) is not None}
    files |= {file for op in kernel.walk() for file, _ in how.frames(op)}
    return [_Scope(s.name, s.first, s.last, file) for file in sorted(files) for s in scopes_in(file)]


def _mark_scopes(op: Operation, how: Structure, scopes: list[_Scope]) -> None:
    """A stage lies in a scope when most of what it costs does: one fused across the border counts once. The scope
    may be in a function that the kernel calls, or around the call."""
    if not scopes or not (how.kinds(op) or how.loop(op)):
        return
    costs = _places(op, how)
    whole = sum(costs.values())
    inside = [
        (scope.first - scope.last, scope.name)
        for scope in scopes
        if 2 * sum(cost for frames, cost in costs.items() if any(map(scope.holds, frames))) > whole
    ]
    if inside:
        op.attributes[SCOPES] = ArrayAttr([StringAttr(name) for _, name in sorted(inside)])


def _mark_bare_scopes(kernel: Operation, how: Structure, scopes: list[_Scope]) -> None:
    """A scope in which no stage lies has its arithmetic, where that is an op of its own."""
    known = {name for op in kernel.walk() for name in attr_value(op, SCOPES) or ()}
    bare = [scope for scope in scopes if scope.name not in known]
    for op in kernel.walk() if bare else ():
        if how.is_arithmetic(op) and (frames := how.frames(op)):
            inside = [scope for scope in bare if any(map(scope.holds, frames))]
            names = [scope.name for scope in sorted(inside, key=lambda one: (one.first - one.last, one.name))]
            if names:
                already = attr_value(op, SCOPES) or []
                op.attributes[SCOPES] = ArrayAttr([StringAttr(name) for name in (*already, *names)])


def _places(op: Operation, how: Structure) -> dict[tuple[Frame, ...], float]:
    """Where an op's time goes: by cost where that is known, else evenly over its lines."""
    found: dict[tuple[Frame, ...], float] = {}
    for (_, frames), cost in how.costs(op).items() if how.kinds(op) else ():
        found[frames] = found.get(frames, 0.0) + cost
    if found:
        return found
    if how.loop(op) is not None and (frames := how.frames(op)):
        return {frames: 1.0}
    lines = how.lines(op)
    return {} if lines is None else {((lines.file, number),): 1.0 for number in lines.numbers}


def _touches(op: Operation, how: Structure, ranges: list[tuple[int, int]]) -> bool:
    lines = how.lines(op)
    numbers = {line for frames in _places(op, how) for _, line in frames} | (
        set(lines.numbers) if lines else set()
    )
    return any(first <= n <= last for n in numbers for first, last in ranges)


def _range(text: str) -> tuple[int, int]:
    first, _, last = str(text).partition("-")
    if not first.isdigit() or not (last or first).isdigit():
        raise TileProbeError(f"{text!r} is no line or range of lines; write 34 or 31-44")
    return int(first), int(last or first)


def _scope(text: str) -> _Scope:
    name, at, lines = text.rpartition("@")
    if not at:
        raise TileProbeError(f"{text!r} is no scope; write name@first-last")
    return _Scope(name, *_range(lines))
