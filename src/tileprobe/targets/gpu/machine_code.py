"""Machine code as every GPU has it, and what it says about records: are they all there, what do they cost, does what is
measured stand between its clocks?

In comes `Code`, read from a cubin or from AMD's assembly, and what the lowering put in (`Probed`); out go numbers.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import multimode

from tileprobe.targets.gpu.compile import Site
from tileprobe.targets.gpu.machine_ops import (
    OPCODES,
    RECORD_OPCODES,
    SHARED_OPCODES,
    SYNCHRONISING,
    works_for,
)
from tileprobe.targets.gpu.passes.record_to_ttgir import (
    FLUSH_FILE,
    OTHER_FILE,
    RECORD_FILE,
    SHARED_RECORD_FILE,
)

OUR_FILES = (RECORD_FILE, OTHER_FILE, SHARED_RECORD_FILE, FLUSH_FILE)
_IN_SHARED = (SHARED_RECORD_FILE, FLUSH_FILE)
_RECORDS = (RECORD_FILE, SHARED_RECORD_FILE)
_CLOCKS = ("SR_CLOCKLO", "s_memtime", "HW_REG_SHADER_CYCLES", "s_getreg_b32")
# Padding, and hints to the scheduler of RDNA which do nothing themselves.
_NOTHING = ("NOP", "s_nop", "s_code_end", "s_delay_alu", "s_clause")
# RDNA does two things by one instruction: two moves, or a move beside something else.
_DUAL_MOVE = "v_dual_mov_b32"
_WITH_MOVE = f" :: {_DUAL_MOVE} "
_FROM_ELSEWHERE = re.compile(r"v\S+, (?:v|0$)|s\S+, s")


@dataclass(frozen=True)
class Instruction:
    address: int
    opcode: str
    operands: str = ""
    predicate: str = ""
    file: str = ""
    line: int = 0
    block: int = 0  # basic blocks are numbered in the order of addresses

    @property
    def copies(self) -> bool:
        """Whether it is one of AMD's copies that no record is made of: clocks and addresses go from scalar to vector
        registers, zeros stand in for what a mask leaves out."""
        if not self.opcode.startswith(("v_mov", "s_mov", _DUAL_MOVE)) or self._beside_others:
            return False
        return all(_FROM_ELSEWHERE.match(half) for half in self.operands.split(_WITH_MOVE))

    @property
    def _beside_others(self) -> bool:
        """Whether RDNA moves something by half an instruction whose other half is arithmetic: that takes none."""
        return self.opcode == _DUAL_MOVE and " :: " in self.operands.replace(_WITH_MOVE, "")

    @property
    def ours(self) -> bool:
        """Whether records brought it. Compilers give lines to neighbours, so what a record cannot need is not."""
        if self.copies or self._beside_others:
            return False
        if self.file in _IN_SHARED and self.opcode.startswith(SHARED_OPCODES):
            return True
        return self.file in OUR_FILES and self.opcode.startswith(RECORD_OPCODES)

    @property
    def slot(self) -> int:
        """The slot of the record that this is a part of, or -1."""
        return self.line - 1 if self.file in _RECORDS and self.ours else -1

    @property
    def reads_clock(self) -> bool:
        return any(clock in f"{self.opcode} {self.operands}" for clock in _CLOCKS)


@dataclass(frozen=True)
class Code:
    """A kernel's machine code: instructions by address, registers a thread, bytes of local memory that registers are
    spilled to, shared memory that is declared statically."""

    instructions: tuple[Instruction, ...]
    registers: int
    spill_bytes: int
    static_shared_bytes: int = 0
    more: dict[str, int] = field(default_factory=dict)
    following: tuple[
        tuple[int, ...], ...
    ] = ()  # of each instruction, those that may come next; (): by address

    @cached_property
    def coming(self) -> list[list[int]]:
        """Of each instruction, those that may come before it."""
        found: list[list[int]] = [[] for _ in self.instructions]
        for n, several in enumerate(self.following):
            for after in several:
                found[after].append(n)
        return found

    @property
    def work(self) -> list[Instruction]:
        """All but padding behind the end."""
        return [op for op in self.instructions if not op.opcode.startswith(_NOTHING)]

    @property
    def own(self) -> list[Instruction]:
        return [op for op in self.work if op.ours]


@dataclass(frozen=True)
class Placed:
    """How many instructions of an op stand between the records around it, of how many it should have."""

    site: Site
    inside: float
    expected: float

    @property
    def moved(self) -> float:
        """The share that the compiler moved out."""
        return max(0.0, 1.0 - self.inside / self.expected) if self.expected else 0.0


def lost_records(code: Code, records: Sequence[int]) -> list[int]:
    """The slots of records that the compiler took out: `records` has each as often as it was written."""
    there = Counter(op.slot for op in code.instructions if op.slot >= 0 and op.reads_clock)
    return sorted(slot for slot, count in Counter(records).items() if there[slot] < count)


def record_cost(code: Code) -> dict[int, int]:
    """For each slot how many instructions its record takes; that of the dearest copy counts where code was copied."""
    clocks = Counter(op.slot for op in code.own if op.slot >= 0 and op.reads_clock)
    whole = Counter(op.slot for op in code.own if op.slot >= 0)
    return {slot: -(-whole[slot] // clocks[slot]) for slot in whole if clocks[slot]}


def a_record_in_a_loop(code: Code, looped: Container[int]) -> float | None:
    """How many instructions a record takes on average, of the slots in loops, copies included that it needs."""
    from tileprobe.targets.gpu.copies import copies_of_records

    costs = [cost for slot, cost in record_cost(code).items() if slot in looped]
    return (sum(costs) + copies_of_records(code)) / len(costs) if costs else None


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
        if site.before >= 0:
            sorts[OPCODES[site.op]].append(site)
    loose = {(site.file, site.line) for site in sites if site.before < 0}
    return [found for opcodes, same in sorts.items() for found in _placed(code, opcodes, same, clocks, loose)]


def _placed(
    code: Code,
    opcodes: tuple[str, ...],
    sites: list[Site],
    clocks: dict[int, list[int]],
    loose: set[tuple[str, int]],
) -> list[Placed]:
    here = [n for n, op in enumerate(code.instructions) if works_for(op.opcode, opcodes) and _works(op)]
    windows = {(s.before, s.after): _windows(code, clocks[s.before], clocks[s.after]) for s in sites}
    beside = Counter((site.before, site.after) for site in sites)
    inside = {ends: sum(any(n in span for span in spans) for n in here) for ends, spans in windows.items()}
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
    spans = [span for several in windows.values() for span in several]
    stray = [n for n in here if not any(n in span for span in spans)]
    missed = sum(each.expected - each.inside for each in found)
    elsewhere = len(stray) + _more_than_usual([(site.kind, an_op[site.before, site.after]) for site in sites])
    if missed > elsewhere:  # what is nowhere was not moved: it never runs, and compilers know it
        there = elsewhere / missed
        found = [replace(one, expected=one.inside + (one.expected - one.inside) * there) for one in found]
    if sites[0].op not in SYNCHRONISING:
        # An op that has fewer than its like misses those; of the rest nobody knows whose they are.
        lines = {(site.file, site.line) for site in sites} - loose
        left = sum((code.instructions[n].file, code.instructions[n].line) in lines for n in stray) - missed
        share = max(0.0, left) / sum(times[site.before, site.after] for site in sites)
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
