"""Machine code as every GPU has it, and what it says about records: are they all there, what do they cost?

In comes `Code`, read from a cubin or from AMD's assembly, and what the lowering put in (`Probed`); out go numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tileprobe.targets.gpu.idle import gone_with_their_loops
from tileprobe.targets.gpu.lowering import (
    FLUSH_FILE,
    OTHER_FILE,
    RECORD_FILE,
    SHARED_RECORD_FILE,
)
from tileprobe.targets.gpu.machine_ops import (
    RECORD_OPCODES,
    SHARED_OPCODES,
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


def lost_records(code: Code, records: Sequence[int], idle: Sequence[frozenset[int]] = ()) -> list[int]:
    """The slots of records that the compiler took out: `records` has each as often as it was written. What went with a
    loop that never runs (`idle` has the records of each) is not lost."""
    there = Counter(op.slot for op in code.instructions if op.slot >= 0 and op.reads_clock)
    gone = gone_with_their_loops(idle, there)
    return sorted(
        slot for slot, count in Counter(records).items() if there[slot] < count and slot not in gone
    )


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
