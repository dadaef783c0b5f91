"""Where each record of a program lies: shared by the lowering, which writes there, and the decoder.

Every program owns a block of 64-bit words, divided among its streams: things that run in order (the program
itself, or its warps and partitions). Each instance of a stream has a block of its own in there: a header, then
one place for each record, then the cursor's segment. The place of a record is affine in the iterations around
it, so it needs no tag and no counter. `allocate` turns the records of a kernel, in program order, into a
`Layout`; a `Layout` turns into JSON. A layout whose parts do not fit together is refused when it is made.

Two ways to tell a written word from an old one:
  64-bit clocks: the word is the clock, and not zero (whoever owns the buffer zeroes it before the launch);
  narrower clocks: the low half is the clock, the high half the launch's epoch.
A whole block counts as written when the epoch in its header is the launch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tileprobe.errors import UnsupportedError
from tileprobe.ir.layout_check import check_layout
from tileprobe.ir.rows import changed, with_tuples

# The header of a block, in words. One cache line, so that blocks of two programs never share one.
#   EPOCH                     of the launch that wrote the block
#   UNIT                      the part of the machine it ran on
#   PUSHED                    words pairs pushed to the cursor's segment, those that did not fit included
#   BEGIN                     the stream's own clock when it began, as wide as the machine has it
#   GLOBAL_BEGIN, GLOBAL_END  a clock that the whole machine shares, at both ends of the stream; 0: there is none
EPOCH, UNIT, PUSHED, BEGIN, GLOBAL_BEGIN, GLOBAL_END = range(6)
HEADER_WORDS = 8
LINE_WORDS = 8

# The tag of a cursor's record: slot in bits 0-30, bit 31 says "payload", iteration (signed) in the high half.
PAYLOAD_BIT = 1 << 31
CURSOR_WORDS = 2
TOTAL_WORDS = 2  # of a loop whose records lie there: iterations and runs


@dataclass(frozen=True)
class Stream:
    """Something that runs in order: a program, a warp, a warp group, a partition of a warp-specialised kernel.
    `instances` of it run in every program (the warps of a partition), each with a block of its own. Where several
    `ctas` run a program, each has as many of them, those of the first one first."""

    id: int
    name: str = ""  # "" for the whole program; "warp", "partition 1", "default"
    instances: int = 1
    base: int = 0  # of the first instance's block in the program's block, in words
    words: int = 0  # of one instance's block, header included
    cursor_base: int = 0  # in the instance's block
    cursor_capacity: int = 0  # records
    ctas: int = 1

    @property
    def in_a_cta(self) -> int:
        """Its instances in one CTA."""
        return self.instances // self.ctas


@dataclass(frozen=True)
class Loop:
    """A loop whose iterations have places. `trip_base` is where the trip count of each run is stored: in the
    low half of the word, the launch's epoch in the high half. Of a loop whose records go to the cursor's segment there
    are two such words for the whole stream: the iterations of all its runs, and the runs that had any."""

    id: int
    capacity: int  # iterations kept a run
    loops: tuple[int, ...] = ()  # the loops around it, outermost first
    trip_base: int = -1
    strides: tuple[int, ...] = ()  # of the trip count's place over `loops`
    stride: int = 0  # words from one kept iteration to the next
    cursor: bool = False  # its records go to the cursor's segment
    endless: bool = False  # how often a run goes round is not known before its end
    stream: int = 0
    window: int = 0  # kept iterations that are in shared memory at a time, if not all are (ir/windows.py)
    beyond: int = 0  # iterations that were peeled off its end: they count on from the last
    again: bool = (
        False  # it stands around its stream: an iteration is what was recorded since the stream was started
    )


@dataclass(frozen=True)
class Slot:
    """The place of one record: `base + sum(index * stride)` words into the block of its stream's instance, or
    the cursor's segment."""

    id: int
    loops: tuple[int, ...] = ()
    base: int = -1
    strides: tuple[int, ...] = ()
    payload: str = ""  # "i64" or "f64": a word with the value follows the clock
    cursor: bool = False
    stream: int = 0
    branch: bool = False  # of the cursor's: an iteration that is kept may pass it by

    def place(self, indices: Sequence[int]) -> int:
        return self.base + sum(i * s for i, s in zip(indices, self.strides, strict=True))


_BEHIND = -(1 << 20)


def behind(number: int) -> int:
    """`ahead` for the copy of an iteration that was peeled off a loop's end: 0 is the first of them."""
    return _BEHIND + number


def from_end(ahead: int) -> int:
    """What a negative `ahead` adds to the trip count."""
    return ahead if ahead > _BEHIND // 2 else ahead - _BEHIND


@dataclass(frozen=True)
class Span:
    """An interval between two records; two spans may share one (a stop that is the next one's start).

    Each end has a logical iteration: the loop's own plus `ahead` (software pipelining); for a copy peeled off
    loop L (`*_peeled` = L) it is `ahead` itself, counted from the end of L's run when negative (`behind`: the
    iterations that were peeled off the end). Start and stop
    belong together where their logical iterations are equal and the outer iterations are, too. So an in-loop
    issue with start_ahead=2 meets the wait with stop_ahead=0 two iterations later; the prologue copies
    (start_peeled=L, start_ahead=0 and 1) meet that wait in iterations 0 and 1. The ends may lie in two streams
    (producer and consumer); a stream with one instance meets all instances of the other.
    """

    region: int
    start: int  # slot
    stop: int  # slot
    kind: str = "region"  # region, async, wait, mark, value
    start_ahead: int = 0
    start_peeled: int = -1  # loop
    stop_ahead: int = 0
    stop_peeled: int = -1  # loop


@dataclass(frozen=True)
class Layout:
    """The whole block of a program. `streams`, `loops` and `slots` are indexed by their ids."""

    block_words: int
    streams: tuple[Stream, ...] = ()  # none given: one, the whole program
    loops: tuple[Loop, ...] = ()
    slots: tuple[Slot, ...] = ()
    spans: tuple[Span, ...] = ()
    clock_bits: int = 64  # 64, or up to 32
    granularity: str = "program"  # program, warp, warp_group
    buffer: str = "global"  # private, shared, global: where records are collected
    # exact: the first iterations that fit; circular: the last; flush: exact, copied out as the buffer fills
    strategy: str = "exact"
    copies: int = 1  # how often each record is written (dose calibration); the last one counts

    def __post_init__(self) -> None:
        if not self.streams:
            object.__setattr__(self, "streams", (Stream(0, words=self.block_words),))
        check_layout(self)

    @property
    def block_bytes(self) -> int:
        return 8 * self.block_words

    @property
    def circular(self) -> bool:
        return self.strategy == "circular"

    def shape(self, slot: Slot) -> tuple[int, ...]:
        return tuple(self.loops[loop].capacity for loop in slot.loops)

    def trip_shape(self, loop: Loop) -> tuple[int, ...]:
        return tuple(self.loops[outer].capacity for outer in loop.loops)

    def fixed_slots(self, stream: int) -> list[Slot]:
        """The slots of a stream that have places of their own."""
        return [slot for slot in self.slots if slot.stream == stream and not slot.cursor]

    def clock_words(self, cursor: bool = False) -> np.ndarray:
        """Which words of a block hold clocks with a fixed place, and with `cursor` those of its segment."""
        mask = np.zeros(self.block_words, bool)
        for stream in self.streams:
            one = np.zeros(stream.words, bool)
            for slot in self.fixed_slots(stream.id):
                one[places(slot.base, self.shape(slot), slot.strides)] = True
            if cursor:
                end = stream.cursor_base + CURSOR_WORDS * stream.cursor_capacity
                one[stream.cursor_base + 1 : end : CURSOR_WORDS] = True
            mask[stream.base : stream.base + stream.instances * stream.words] = np.tile(one, stream.instances)
        return mask

    def pushed_loops(self, stream: int) -> list[Loop]:
        """The loops of a stream whose records go to the cursor's segment."""
        return [loop for loop in self.loops if loop.stream == stream and loop.cursor]

    def started_again(self, stream: int) -> Loop | None:
        """The loop that stands around a stream, if it is started in one."""
        return next((loop for loop in self.loops if loop.stream == stream and loop.again), None)

    def first_instance(self, stream: int) -> int:
        """The number of a stream's first instance among all instances of a program."""
        return sum(other.instances for other in self.streams[:stream])

    def stream_name(self, number: int) -> str:
        """What the instance with this number is called: "partition 1 / warp 3"; "" for a whole program."""
        for stream in self.streams:
            if number < stream.instances:
                break
            number -= stream.instances
        else:
            raise IndexError(f"a program of this layout has no stream instance {number}")
        if stream.instances == 1:
            return stream.name
        part = {"warp": "warp", "warp_group": "warp group"}.get(self.granularity, "instance")
        cta, number = divmod(number, stream.in_a_cta)
        parts = [] if stream.name in ("", part) else [stream.name]
        parts += [f"CTA {cta}"] if stream.ctas > 1 else []
        parts += [f"{part} {number}"] if stream.in_a_cta > 1 else []
        return " / ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """What differs from the defaults."""
        whole = changed(self)
        for key in _TABLES:
            whole[key] = [changed(row) for row in getattr(self, key)]
        return whole

    @staticmethod
    def from_json(data: dict[str, Any]) -> Layout:
        parts: dict[str, Any] = dict(data)
        for key, kind in _TABLES.items():
            parts[key] = tuple(kind(**with_tuples(row)) for row in data.get(key, ()))
        return Layout(**parts)


_TABLES: dict[str, Any] = {"streams": Stream, "loops": Loop, "slots": Slot, "spans": Span}


@dataclass(frozen=True)
class Capabilities:
    """What a target's records can be; anything else is refused, never ignored."""

    granularities: tuple[str, ...] = ("program",)
    buffers: tuple[str, ...] = ("global",)
    strategies: tuple[str, ...] = ("exact",)
    clock_bits: tuple[int, ...] = (64,)
    streams: int = 1  # the most that a layout may have

    def check(self, layout: Layout, target: str) -> None:
        """Raises an `UnsupportedError` that names what is asked for and what is possible."""
        wanted = (
            ("granularity", layout.granularity, self.granularities),
            ("buffer", layout.buffer, self.buffers),
            ("strategy", layout.strategy, self.strategies),
            ("clock_bits", layout.clock_bits, self.clock_bits),
        )
        for what, value, possible in wanted:
            if value not in possible:
                choices = ", ".join(str(choice) for choice in possible)
                raise UnsupportedError(f"records of {target} cannot have {what} {value}; possible: {choices}")
        if len(layout.streams) > self.streams:
            raise UnsupportedError(
                f"records of {target} can have at most {self.streams} streams, these have {len(layout.streams)}"
            )


def places(base: int, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """The words at which a record lies, over all its indices, flat; in execution order unless circular."""
    words = np.array([base])
    for count, stride in zip(shape, strides, strict=True):
        words = (words[:, None] + np.arange(count) * stride).ravel()
    return words


@dataclass(frozen=True)
class Stamp:
    """A record to be placed. `branch`: it may be passed by in an iteration that is kept."""

    slot: int
    payload: str = ""
    branch: bool = False


@dataclass(frozen=True)
class Body:
    """A loop to be placed, with what one iteration records. `counted` is false for `while` and the like;
    `branch` says that it may not be reached in an iteration of the loop around it."""

    loop: int
    capacity: int
    items: tuple[Stamp | Body, ...] = ()
    counted: bool = True
    branch: bool = False
    beyond: int = 0
    again: bool = False  # the stream itself, started in a loop of another one


@dataclass(frozen=True)
class StreamItems:
    """What one stream records, in program order. `all_cursor` is for unstructured control flow."""

    items: Sequence[Stamp | Body]
    name: str = ""
    instances: int = 1
    all_cursor: bool = False
    ctas: int = 1


def allocate(
    streams: Sequence[StreamItems] | Sequence[Stamp | Body],
    *,
    spans: Sequence[Span] = (),
    clock_bits: int = 64,
    cursor_capacity: int = 0,
    all_cursor: bool = False,
    copies: int = 1,
    granularity: str = "program",
    buffer: str = "global",
    strategy: str = "exact",
) -> Layout:
    """Places what each stream records, so that the records of one iteration are neighbours and addresses grow
    in execution order (within a run of a circular loop from its oldest iteration on). Plain items are those of
    the only stream. `cursor_capacity` is that of each stream which needs a cursor."""
    parts = [part for part in streams if isinstance(part, StreamItems)]
    if not parts:
        items = [item for item in streams if not isinstance(item, StreamItems)]
        parts = [StreamItems(items, all_cursor=all_cursor)]
    allocator = _Allocator(strategy == "circular")
    made: list[Stream] = []
    base = 0
    for number, part in enumerate(parts):
        allocator.stream = number
        end = allocator.totals(allocator.frame(part.items, HEADER_WORDS, (), (), part.all_cursor))
        mine = [slot for slot in allocator.slots.values() if slot.stream == number]
        capacity = cursor_capacity if any(slot.cursor for slot in mine) else 0
        words = -(-(end + CURSOR_WORDS * capacity) // LINE_WORDS) * LINE_WORDS
        made.append(Stream(number, part.name, part.instances, base, words, end, capacity, part.ctas))
        base += part.instances * words
    return Layout(
        block_words=base,
        streams=tuple(made),
        loops=tuple(allocator.loops[n] for n in range(len(allocator.loops))),
        slots=tuple(allocator.slots[n] for n in range(len(allocator.slots))),
        spans=tuple(spans),
        clock_bits=clock_bits,
        granularity=granularity,
        buffer=buffer,
        strategy=strategy,
        copies=copies,
    )


class _Allocator:
    """Ids are global over the streams, places begin anew in each.

    In a circular loop a place is written again and again. What stands in a branch would leave an old record
    behind when it is passed by, so such records go to the cursor's segment, where a tag says what they are."""

    def __init__(self, circular: bool) -> None:
        self.circular = circular
        self.stream = 0
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
            pushed = cursor or (self.circular and item.branch and bool(loops))
            if isinstance(item, Body):
                base = self._body(item, base, loops, strides, pushed)
            elif pushed:
                self.slots[item.slot] = Slot(
                    item.slot,
                    loops,
                    payload=item.payload,
                    cursor=True,
                    stream=self.stream,
                    branch=item.branch,
                )
            else:
                self.slots[item.slot] = Slot(
                    item.slot, loops, base, strides, item.payload, stream=self.stream
                )
                base += 2 if item.payload else 1
        return base

    def totals(self, base: int) -> int:
        """Places for how often loops ran whose iterations have none, once a stream, behind all frames."""
        for number, loop in self.loops.items():
            if loop.cursor and loop.stream == self.stream:
                self.loops[number] = replace(loop, trip_base=base)
                base += TOTAL_WORDS
        return base

    def _body(
        self, body: Body, base: int, loops: tuple[int, ...], strides: tuple[int, ...], cursor: bool
    ) -> int:
        inner = (*loops, body.loop)
        if cursor or not body.counted:
            self.loops[body.loop] = Loop(
                body.loop, body.capacity, loops, cursor=True, endless=not body.counted, stream=self.stream
            )
            self.frame(body.items, base, inner, strides, True)
            return base
        first = base + 1  # the trip count comes first
        # A frame's size does not depend on its stride: measure it with a throw-away allocator.
        stride = _Allocator(self.circular).frame(body.items, 0, inner, (*strides, 0), False)
        self.loops[body.loop] = Loop(
            body.loop,
            body.capacity,
            loops,
            base,
            strides,
            stride,
            stream=self.stream,
            beyond=body.beyond,
            again=body.again,
        )
        self.frame(body.items, first, inner, (*strides, stride), False)
        return first + stride * body.capacity
