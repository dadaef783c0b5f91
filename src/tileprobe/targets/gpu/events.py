"""What happens while a kernel's scalar part is run: events, the places they name, and barriers in shared memory.

A barrier is completed when as many arrivals came as it was made for, and then begins anew. Completions are counted:
a wait awaits one of them, by its parity as the machine does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileprobe.ir.accessors import attr_value, op_name

BARRIER_WAIT = "ttng.wait_barrier"
EXPECT = "ttng.barrier_expect"
TMA_LOADS = ("ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather")
ARRIVALS = ("ttng.arrive_barrier", "ttng.tc_gen5_commit", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled")


@dataclass(frozen=True)
class Place:
    """Shared or tensor memory: the allocation it comes from, and the index into its first dimension."""

    root: Operation | SSAValue
    index: int | None = None


@dataclass(eq=False)
class Event:
    """An op that ran. `loops` are those around it, outermost first, with the iteration each was in."""

    op: Operation
    stream: int
    loops: tuple[tuple[Operation, int], ...]
    values: tuple[Any, ...] = ()  # of its operands
    finished: Operation | None = None  # the loop that its stream ended last, beside it
    # Barriers, and which completion of each it takes part in or awaits.
    numbers: tuple[tuple[Place, int], ...] = ()

    @property
    def iteration(self) -> int:
        return self.loops[-1][1] if self.loops else -1

    @property
    def loop(self) -> Operation | None:
        return self.loops[-1][0] if self.loops else None


@dataclass
class _Barrier:
    made_for: int = 1
    came: int = 0
    completed: int = 0
    expected: dict[int, int] = field(default_factory=dict)  # stream -> the completion it announced copies for


class Barriers:
    """The barriers of a program, by their places."""

    def __init__(self) -> None:
        self.held: dict[Place, _Barrier] = {}
        self.waited: dict[tuple[int, Place], int] = {}

    def init(self, place: Any, count: int) -> None:
        """Numbers of completions go on, so that none is taken for one before."""
        if isinstance(place, Place):
            before = self.held.get(place)
            self.held[place] = _Barrier(
                count, completed=0 if before is None else before.completed // 2 * 2 + 2
            )

    def arrive(self, event: Event) -> None:
        """Notes of a copy or an arrival which completion it is part of."""
        name = op_name(event.op)
        if name == EXPECT or name in ARRIVALS:
            count = int(attr_value(event.op, "count") or 1) if name == "ttng.arrive_barrier" else 1
            event.numbers = tuple((place, self._arrived(place, count)) for place in barriers_of(event))
            for place, number in event.numbers:
                self._at(place).expected[event.stream] = number
        elif name in TMA_LOADS:
            event.numbers = tuple(
                (place, self._at(place).expected.get(event.stream, 0)) for place in barriers_of(event)
            )

    def passes(self, event: Event) -> bool:
        """Whether a wait is over, and for which completion; a parity that is not known takes one after another."""
        place, parity = event.values[0], event.values[1]
        if not isinstance(place, Place):
            return True
        barrier = self._at(place)
        if isinstance(parity, int):
            if barrier.completed & 1 == parity & 1:
                return False
            number = barrier.completed - 1
        else:
            number = self.waited.get((event.stream, place), -1) + 1
            if number >= barrier.completed:
                return False
        self.waited[event.stream, place] = number
        event.numbers = ((place, number),)
        return True

    def _at(self, place: Place) -> _Barrier:
        return self.held.setdefault(place, _Barrier())

    def _arrived(self, place: Place, count: int) -> int:
        barrier = self._at(place)
        number = barrier.completed
        barrier.came += count
        if barrier.came >= barrier.made_for:
            barrier.completed, barrier.came = number + 1, 0
        return number


def barriers_of(event: Event) -> list[Place]:
    """The barriers among an op's operands: memory that holds 64-bit integers."""
    return [
        value
        for value, operand in zip(event.values, event.op.operands)
        if isinstance(value, Place) and "xi64" in str(operand.type)
    ]
