"""What is known of a stream and of an iteration while records become GPU IR (`record_to_ttgir`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue

from tileprobe.ir.record import ClockOp, OpenOp, SlotOp, StoreOp
from tileprobe.targets.gpu.carried import Sampling
from tileprobe.targets.gpu.emit import Threads
from tileprobe.targets.gpu.isa import Frame
from tileprobe.targets.gpu.shared_buffer import SharedBuffer

_POSTPONED = 6  # records at a stream's start that are stored later


@dataclass
class Stream:
    """A stream while it is lowered."""

    number: int
    threads: Threads
    block: Frame  # the instance's block
    by: SSAValue  # i1: whether a thread speaks for an instance that is recorded
    epoch: SSAValue  # i32
    sampling: dict[int, Sampling]
    home: Frame  # where records with places are put: the block, or shared memory first
    pushed: Frame  # and those of the cursor
    shared: SharedBuffer | None = None
    before: SSAValue | None = None  # i32 of a thread: how often it was started before

    def word(self, word: int) -> int:
        """The word from `home` on for one of the block."""
        return word if self.shared is None else self.shared.word(word)


@dataclass(frozen=True)
class Read:
    """A clock that was read, for a word of the stream's block, and the location of its record."""

    ticks: SSAValue
    word: int
    where: LocationAttr


@dataclass
class Opened:
    """A stream whose entry of the table is on its way."""

    number: int
    threads: Threads
    part: int  # threads of an instance
    entry: SSAValue
    words: list[SSAValue]
    loops: dict[int, list[SSAValue]]
    begun: list[SSAValue] = field(default_factory=list)  # clocks of its start
    due: Operation | None = None  # before which it has to be there
    postponed: list[Read] = field(default_factory=list)


@dataclass
class Kept:
    """An iteration: whether it is recorded, i1 of a thread and for `push` (None: always), and where."""

    by: SSAValue
    frame: Frame
    hit: SSAValue | None
    number: SSAValue | None = None  # i64, or -1


def due(opened: OpenOp) -> Operation:
    """Up to where a stream's first records are only read: the first op that others lie in or that needs the block, or a
    few records further on, as each holds two registers."""
    op: Operation = opened
    slots = 0
    while slots <= _POSTPONED:
        after = op.next_op
        if after is None:
            return op
        plain = not after.name.startswith("record.") or isinstance(after, (SlotOp, ClockOp))
        plain = plain or (isinstance(after, StoreOp) and after.payload is None)
        if after.regions or not plain:
            return after
        op, slots = after, slots + isinstance(after, SlotOp)
    return op
