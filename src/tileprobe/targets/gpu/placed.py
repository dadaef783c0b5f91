"""Does what is measured stand between its clocks? Read from the machine code of a kernel with records.

In come `Code` and the ops that leave instructions of their own, each with the records around it (`Site`); out goes, for
each, how much of it stands between its records, of how much there should be.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from statistics import multimode

from tileprobe.targets.gpu.compile import Site
from tileprobe.targets.gpu.machine_code import Code, Instruction
from tileprobe.targets.gpu.machine_ops import EXCHANGES, OPCODES, SYNCHRONISING, weight, works_for


@dataclass(frozen=True)
class Placed:
    """How much of an op stands between the records around it, of how much there should be: instructions, or bytes that
    they access."""

    site: Site
    inside: float
    expected: float

    @property
    def moved(self) -> float:
        """The share that the compiler moved out."""
        return max(0.0, 1.0 - self.inside / self.expected) if self.expected else 0.0


def placed(code: Code, sites: Sequence[Site]) -> list[Placed]:
    """For each op that is measured how many of its instructions stand where they should.

    Source lines of machine code are approximate, so an op is known by what it does and on what: ops of the same kind
    on the same types take the same instructions, and each should have as many between its records as the one that
    has most. Instructions of that sort on the ops' lines that stand between no records are missing, too, unless an op
    of the line has no records around it: copies that fill a pipeline before its loop.
    """
    clocks: dict[int, list[int]] = defaultdict(list)
    for n, op in enumerate(code.instructions):
        if op.slot >= 0 and op.reads_clock:
            clocks[op.slot].append(n)
    sorts: dict[tuple[str, ...], list[Site]] = defaultdict(list)
    for site in sites:
        if site.before >= 0 and site.op in OPCODES:
            sorts[OPCODES[site.op]].append(site)
    loose = {(site.file, site.line) for site in sites if site.before < 0}
    others = [
        span
        for site in sites
        if site.before >= 0 and site.op in EXCHANGES
        for span in _windows(code, clocks[site.before], clocks[site.after])
    ]
    return [
        found
        for opcodes, same in sorts.items()
        for found in _placed(code, opcodes, same, clocks, loose, others)
    ]


def _placed(
    code: Code,
    opcodes: tuple[str, ...],
    sites: list[Site],
    clocks: dict[int, list[int]],
    loose: set[tuple[str, int]],
    others: list[Container[int]],
) -> list[Placed]:
    """Those of one sort. What stands in `others` may be an op's that has records of its own."""
    weights = [weight(op.opcode) for op in code.instructions]
    here = [n for n, op in enumerate(code.instructions) if works_for(op.opcode, opcodes) and _works(op)]
    windows = {(s.before, s.after): _windows(code, clocks[s.before], clocks[s.after]) for s in sites}
    beside = Counter((site.before, site.after) for site in sites)
    inside = {
        ends: sum(weights[n] for n in here if any(n in span for span in spans))
        for ends, spans in windows.items()
    }
    times = {ends: max(1, len(spans)) for ends, spans in windows.items()}
    an_op = {ends: inside[ends] / (beside[ends] * times[ends]) for ends in windows}
    most: dict[str, float] = defaultdict(float)
    for site in sites:
        most[site.kind] = max(most[site.kind], an_op[site.before, site.after])
    found = []
    for site in sites:
        ends = site.before, site.after
        had = inside[ends] / beside[ends]
        found.append(Placed(site, had, max(most[site.kind] * times[ends], had)))
    spans = [*others, *(span for several in windows.values() for span in several)]
    stray = [n for n in here if not any(n in span for span in spans)]
    missed = sum(each.expected - each.inside for each in found)
    elsewhere = sum(weights[n] for n in stray) + _more_than_usual(
        [(site.kind, an_op[site.before, site.after]) for site in sites]
    )
    if missed > elsewhere:  # what is nowhere was not moved: it never runs, and compilers know it
        there = elsewhere / missed
        found = [replace(one, expected=one.inside + (one.expected - one.inside) * there) for one in found]
    if sites[0].op not in SYNCHRONISING:
        # An op that has fewer than its like misses those; of the rest nobody knows whose they are.
        lines = {(site.file, site.line) for site in sites} - loose
        left = sum(
            weights[n] for n in stray if (code.instructions[n].file, code.instructions[n].line) in lines
        )
        share = max(0.0, left - missed) / sum(times[site.before, site.after] for site in sites)
        found = [
            replace(each, expected=each.expected + share * times[each.site.before, each.site.after])
            for each in found
        ]
    return [each for each in found if each.expected]


def _more_than_usual(counts: list[tuple[str, float]]) -> float:
    """By how much ops, each with its kind, have more instructions than most of their kind: what may be another's."""
    several: dict[str, list[float]] = defaultdict(list)
    for kind, count in counts:
        several[kind].append(count)
    return sum(max(0.0, one - min(multimode(each))) for each in several.values() for one in each)


def _works(op: Instruction) -> bool:
    return not op.ours and op.predicate != "@!PT"  # the latter never runs: padding for the hardware


def _windows(code: Code, before: list[int], after: list[int]) -> list[Container[int]]:
    """The instructions from each reading of the first clock to the next of the second. Where it is known what may
    follow what, that is what is run between the two, wherever it lies."""
    if code.following:
        return [span for first in before for last in after if (span := _between(code, first, last))]
    ends = [(first, min((n for n in after if n > first), default=None)) for first in before]
    return [range(first + 1, last) for first, last in ends if last is not None]


def _between(code: Code, first: int, last: int) -> set[int]:
    """What can be run after the first clock and before the last, with no other clock on the way."""
    return _reached(code, first, code.following) & _reached(code, last, code.coming)


def _reached(code: Code, start: int, steps: Sequence[Sequence[int]]) -> set[int]:
    seen: set[int] = set()
    left = list(steps[start])
    while left:
        n = left.pop()
        op = code.instructions[n]
        if n not in seen and not (op.slot >= 0 and op.reads_clock):
            seen.add(n)
            left += steps[n]
    return seen
