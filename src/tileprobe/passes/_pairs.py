"""Which record of an issue belongs to which record of a wait, and what is left alone.

In come the ends of one asynchronous operation, each with its slot and its logical iteration; out go one span a
pair of issue and wait, one for each wait by itself, and a sentence for each end that has no other one.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Span


@dataclass(frozen=True)
class End:
    """A record at one end of a span. Its logical iteration is the loop's plus `ahead`, or `ahead` itself when
    it was peeled off loop `peeled`; `loops` are those over which logical iterations count, outermost first.
    Ends in the same `block` run one after another, whenever one of them does."""

    slot: int
    loops: tuple[int, ...] = ()
    ahead: int = 0
    peeled: int = -1
    stream: int = 0
    block: Block | None = None

    def beside(self, other: End) -> bool:
        """Whether both are told apart by the same loops, so that they can belong together."""
        if self.stream != other.stream:
            return len(self.loops) == len(other.loops)
        return self.loops == other.loops

    def meets(self, other: End) -> bool:
        """Whether there can be a logical iteration that both have."""
        if not self.beside(other):
            return False
        if self.peeled < 0 and other.peeled < 0:
            return True
        if self.peeled >= 0 and other.peeled >= 0:
            return self.ahead == other.ahead or (self.ahead < 0) != (other.ahead < 0)
        single, looped = (self, other) if self.peeled >= 0 else (other, self)
        return single.ahead < 0 or single.ahead >= looped.ahead


@dataclass(frozen=True)
class Wait:
    """The records before and after a wait."""

    start: End
    stop: End


def span_between(region: int, start: End, stop: End, kind: str = "region") -> Span:
    return Span(region, start.slot, stop.slot, kind, start.ahead, start.peeled, stop.ahead, stop.peeled)


def pair(region: int, name: str, issues: list[End], waits: list[Wait]) -> tuple[list[Span], list[str]]:
    """The spans of an asynchronous operation called `name`, and what is to be said of lonely ends."""
    stops = _first([wait.stop for wait in waits])
    _refuse_crossed(name, issues, [wait.stop for wait in waits])
    made = [
        span_between(region, issue, stop, "async") for stop in stops for issue in issues if issue.meets(stop)
    ]
    made += [span_between(region, wait.start, wait.stop, "wait") for wait in waits]
    notes = [f"{name} is awaited, but nothing issues it"] if not issues else []
    for issue in issues:
        if not any(issue.meets(wait.stop) for wait in waits):
            which = "" if issue.peeled < 0 else f" for iteration {issue.ahead}, before its loop,"
            notes.append(f"{name} is issued{which} and never awaited")
    return list(dict.fromkeys(made)), list(dict.fromkeys(notes))


def _refuse_crossed(name: str, issues: list[End], stops: list[End]) -> None:
    for issue in issues if stops else ():
        if not any(issue.beside(stop) for stop in stops):
            raise TileProbeError(
                f"{name} is issued in {_nest(issue)} and awaited in {_nest(stops[0])}: such ends never meet; "
                "what was peeled off a loop has to say so"
            )


def _nest(end: End) -> str:
    return f"loop {' / '.join(str(loop) for loop in end.loops)}" if end.loops else "no loop"


def _first(stops: list[End]) -> list[End]:
    """Without those waits that find the operation awaited already, by another one in the same block: in a loop
    the one with the largest `ahead` comes first in each logical iteration, if waits before the loop did the
    rest; elsewhere the first in the text does."""
    found: list[End] = []
    for stop in stops:
        rivals = [other for other in stops if other.block is stop.block and other.beside(stop)]
        if stop.peeled < 0:
            rivals = [other for other in rivals if other.peeled < 0]
            leader = max(rivals, key=lambda end: end.ahead)  # the first of equal ones
            early = {other.ahead for other in stops if other.peeled >= 0 and other.beside(stop)}
            needed = leader is stop or not early.issuperset(range(stop.ahead, leader.ahead))
        else:
            needed = stop is next(r for r in rivals if (r.peeled, r.ahead) == (stop.peeled, stop.ahead))
        found += [stop] if needed else []
    return found
