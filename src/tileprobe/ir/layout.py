"""Where each record of a program lies: shared by the lowering, which writes there, and the decoder.

Every program owns a block of 64-bit words: a header, then one place for each record, then the cursor's
segment. The place of a record is affine in the iterations around it, so it needs no tag and no counter.
`allocate` turns the records of a kernel, in program order, into a `Layout`; a `Layout` turns into JSON.

Two ways to tell a written word from an old one:
  64-bit clocks: the word is the clock, and counts as written when it is not before the launch began;
  32-bit clocks: the low half is the clock, the high half the launch's epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.ir.rows import changed, with_tuples

# The header of a block, in words. One cache line, so that blocks of two programs never share one.
EPOCH, UNIT, PUSHED, BEGIN = 0, 1, 2, 3
HEADER_WORDS = 8
LINE_WORDS = 8

# The tag of a cursor's record: slot in bits 0-30, bit 31 says "payload", iteration (signed) in the high half.
PAYLOAD_BIT = 1 << 31
CURSOR_WORDS = 2


@dataclass(frozen=True)
class Loop:
    """A loop whose iterations have places. `trip_base` is where the trip count of each run is stored: in the
    low half of the word, the launch's epoch in the high half."""

    id: int
    capacity: int  # iterations kept a run
    loops: tuple[int, ...] = ()  # the loops around it, outermost first
    trip_base: int = -1
    strides: tuple[int, ...] = ()  # of the trip count's place over `loops`
    stride: int = 0  # words from one kept iteration to the next
    cursor: bool = False  # its records go to the cursor's segment


@dataclass(frozen=True)
class Slot:
    """The place of one record: `base + sum(index * stride)` words into the block, or the cursor's segment."""

    id: int
    loops: tuple[int, ...] = ()
    base: int = -1
    strides: tuple[int, ...] = ()
    payload: str = ""  # "i64" or "f64": a word with the value follows the clock
    cursor: bool = False

    def place(self, indices: Sequence[int]) -> int:
        return self.base + sum(i * s for i, s in zip(indices, self.strides, strict=True))


@dataclass(frozen=True)
class Span:
    """An interval made of two records; two spans may share one (a stop that is the next one's start).

    The logical iteration is the loop's plus `distance` (operations moved by software pipelining); `shift` is
    how many iterations later the stop is written (an issue and its wait). A copy peeled off a loop names the
    loop in `peeled_from` and its logical iteration in `distance`, counted from the end when negative.
    """

    region: int
    start: int
    stop: int
    kind: str = "region"
    shift: int = 0
    distance: int = 0
    peeled_from: int = -1


@dataclass(frozen=True)
class Layout:
    """The whole block. `loops` and `slots` are indexed by their ids."""

    block_words: int
    loops: tuple[Loop, ...] = ()
    slots: tuple[Slot, ...] = ()
    spans: tuple[Span, ...] = ()
    clock_bits: int = 64
    cursor_base: int = 0
    cursor_capacity: int = 0  # records
    copies: int = 1  # how often each record is written (dose calibration); the last one counts

    @property
    def block_bytes(self) -> int:
        return 8 * self.block_words

    def shape(self, slot: Slot) -> tuple[int, ...]:
        return tuple(self.loops[loop].capacity for loop in slot.loops)

    def clock_words(self) -> np.ndarray:
        """Which words of a block hold clocks with a fixed place."""
        mask = np.zeros(self.block_words, bool)
        for slot in self.slots:
            if not slot.cursor:
                mask[places(slot.base, self.shape(slot), slot.strides)] = True
        return mask

    def to_json(self) -> dict[str, Any]:
        """What differs from the defaults."""
        whole = changed(self)
        for key in ("loops", "slots", "spans"):
            whole[key] = [changed(row) for row in getattr(self, key)]
        return whole

    @staticmethod
    def from_json(data: dict[str, Any]) -> Layout:
        parts: dict[str, Any] = dict(data)
        for key, kind in (("loops", Loop), ("slots", Slot), ("spans", Span)):
            parts[key] = tuple(kind(**with_tuples(row)) for row in data[key])
        return Layout(**parts)


def places(base: int, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """The words at which a record lies, over all its indices, flat and in execution order."""
    words = np.array([base])
    for count, stride in zip(shape, strides, strict=True):
        words = (words[:, None] + np.arange(count) * stride).ravel()
    return words


@dataclass(frozen=True)
class Stamp:
    """A record to be placed."""

    slot: int
    payload: str = ""


@dataclass(frozen=True)
class Body:
    """A loop to be placed, with what one iteration records. `counted` is false for `while` and the like."""

    loop: int
    capacity: int
    items: tuple[Stamp | Body, ...] = ()
    counted: bool = True


def allocate(
    items: Sequence[Stamp | Body],
    *,
    spans: Sequence[Span] = (),
    clock_bits: int = 64,
    cursor_capacity: int = 0,
    all_cursor: bool = False,
    copies: int = 1,
) -> Layout:
    """Places `items`, which are in program order, so that the records of one iteration are neighbours and
    addresses grow in execution order. `all_cursor` is for kernels with unstructured control flow."""
    if clock_bits not in (32, 64):
        raise TileProbeError(f"a record's clock has 32 or 64 bits, not {clock_bits}")
    allocator = _Allocator()
    end = allocator.frame(items, HEADER_WORDS, (), (), all_cursor)
    needs_cursor = any(slot.cursor for slot in allocator.slots.values())
    capacity = cursor_capacity if needs_cursor else 0
    words = end + CURSOR_WORDS * capacity
    return Layout(
        block_words=-(-words // LINE_WORDS) * LINE_WORDS,
        loops=tuple(allocator.loops[n] for n in range(len(allocator.loops))),
        slots=tuple(allocator.slots[n] for n in range(len(allocator.slots))),
        spans=tuple(spans),
        clock_bits=clock_bits,
        cursor_base=end,
        cursor_capacity=capacity,
        copies=copies,
    )


class _Allocator:
    def __init__(self) -> None:
        self.loops: dict[int, Loop] = {}
        self.slots: dict[int, Slot] = {}

    def frame(
        self,
        items: Sequence[Stamp | Body],
        base: int,
        loops: tuple[int, ...],
        strides: tuple[int, ...],
        cursor: bool,
    ) -> int:
        """Places `items` from `base` on and returns the first free word after them."""
        for item in items:
            if isinstance(item, Body):
                base = self._body(item, base, loops, strides, cursor)
            elif cursor:
                self.slots[item.slot] = Slot(item.slot, loops, payload=item.payload, cursor=True)
            else:
                self.slots[item.slot] = Slot(item.slot, loops, base, strides, item.payload)
                base += 2 if item.payload else 1
        return base

    def _body(
        self, body: Body, base: int, loops: tuple[int, ...], strides: tuple[int, ...], cursor: bool
    ) -> int:
        inner = (*loops, body.loop)
        if cursor or not body.counted:
            self.loops[body.loop] = Loop(body.loop, body.capacity, loops, cursor=True)
            self.frame(body.items, base, inner, strides, True)
            return base
        first = base + 1  # the trip count comes first
        # A frame's size does not depend on its stride: measure it with a throw-away allocator.
        stride = _Allocator().frame(body.items, 0, inner, (*strides, 0), False)
        self.loops[body.loop] = Loop(body.loop, body.capacity, loops, base, strides, stride)
        self.frame(body.items, first, inner, (*strides, stride), False)
        return first + stride * body.capacity
