"""What the lowering means by what it emits: which value of the source each read, write and access stands for.

Kept beside the scheduled IR, not in it, and read by the verifier alone: it follows the stages, sees which value each
buffer really holds by then, and compares.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue


@dataclass(frozen=True)
class Carried:
    """A tile that goes round a loop in `buffer`: its first value, its name inside, what follows it, its name behind."""

    buffer: SSAValue
    first: SSAValue
    inside: SSAValue
    next: SSAValue
    behind: SSAValue | None


@dataclass(frozen=True)
class Merged:
    """A tile that one of several regions or jumps leaves in `buffer`: its name there, and its name behind."""

    buffer: SSAValue
    given: SSAValue
    becomes: SSAValue


@dataclass
class Notes:
    """Notes on one function. Values are those of the TTIR function that was lowered."""

    holds: dict[Operation, SSAValue] = field(default_factory=dict)  # a read or write of a buffer -> the tile
    stages: dict[Operation, list[SSAValue]] = field(
        default_factory=dict
    )  # a stage -> the tile of each operand
    accesses: dict[Operation, Operation] = field(default_factory=dict)  # a load, store, ... -> its original
    in_place: set[Operation] = field(default_factory=set)  # loads evaluated at the point of their own nest
    loops: dict[Operation, list[Carried]] = field(default_factory=dict)
    merges: dict[Block, list[Merged]] = field(default_factory=dict)  # end of a block -> what it leaves
    arguments: dict[SSAValue, SSAValue] = field(default_factory=dict)  # buffer of an argument -> the tile
