"""Do the parts of a layout fit together? What cannot be decoded is refused here, before anything is recorded.

In comes a `Layout`; nothing goes out, or a `TileProbeError` that names the part and what is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tileprobe.errors import TileProbeError

if TYPE_CHECKING:
    from tileprobe.ir.layout import Layout, Loop, Slot, Span, Stream

GRANULARITIES = ("program", "warp", "warp_group")
BUFFERS = ("private", "shared", "global")
STRATEGIES = ("exact", "circular", "flush")
PAYLOADS = ("", "i64", "f64")
SPANS = ("region", "async", "wait", "mark", "value")


def check_clock_bits(bits: int | str) -> None:
    number = int(bits) if str(bits).isdecimal() and len(str(bits)) < 4 else -1
    if number != 64 and not 1 <= number <= 32:
        raise TileProbeError(f"a record's clock has 64 bits or up to 32, not clock_bits={str(bits)[:20]}")


def check_shared_words(words: int | str) -> None:
    number = int(words) if str(words).isdecimal() and len(str(words)) < 6 else 0
    if not number:
        raise TileProbeError(f"shared_words is a number of 64-bit words, such as 2048, not {str(words)[:20]}")


def check_layout(layout: Layout) -> None:
    for what, value, known in (
        ("granularity", layout.granularity, GRANULARITIES),
        ("buffer", layout.buffer, BUFFERS),
        ("strategy", layout.strategy, STRATEGIES),
    ):
        if value not in known:
            raise TileProbeError(f"records have no {what} {value!r}; it is one of {', '.join(known)}")
    check_clock_bits(layout.clock_bits)
    if layout.copies < 1:
        raise TileProbeError(f"a record is written at least once, not {layout.copies} times")
    _streams(layout)
    _nesting(layout)
    for span in layout.spans:
        _span(layout, span)
    for stream in layout.streams:
        _places(layout, stream)


def _streams(layout: Layout) -> None:
    end = 0
    for number, stream in enumerate(layout.streams):
        if stream.id != number or min(stream.instances - 1, stream.words, stream.base - end) < 0:
            raise TileProbeError(f"streams are numbered from 0 and lie one after another, got {stream}")
        end = stream.base + stream.instances * stream.words
    if end > layout.block_words:
        raise TileProbeError(f"streams of {end} words do not fit a block of {layout.block_words}")


def _nesting(layout: Layout) -> None:
    """Loops and slots belong to one stream, with the loops around them."""
    for kind, rows in (("loop", layout.loops), ("slot", layout.slots)):
        for number, row in enumerate(rows):
            around = [layout.loops[loop] for loop in row.loops if 0 <= loop < len(layout.loops)]
            whole = row.id == number and len(around) == len(row.loops)
            nested = all(outer.loops == row.loops[:depth] for depth, outer in enumerate(around))
            alike = 0 <= row.stream < len(layout.streams) and all(o.stream == row.stream for o in around)
            if not (whole and nested and alike):
                raise TileProbeError(
                    f"{kind} {number} does not lie in the loops and the stream it names: {row}"
                )


def _places(layout: Layout, stream: Stream) -> None:
    """Everything has its place in the stream's block, behind the header, and no two things have the same one."""
    from tileprobe.ir.layout import CURSOR_WORDS, HEADER_WORDS, TOTAL_WORDS

    loops = [loop for loop in layout.loops if loop.stream == stream.id]
    slots = [slot for slot in layout.slots if slot.stream == stream.id]
    if (loops or slots) and stream.words < HEADER_WORDS:
        raise TileProbeError(f"a stream's block begins with a header of {HEADER_WORDS} words: {stream}")
    taken = np.arange(max(stream.words, 0)) < HEADER_WORDS
    segment = np.array([stream.cursor_base]) if stream.cursor_capacity else np.zeros(0, int)
    _take(taken, segment, CURSOR_WORDS * stream.cursor_capacity, f"the cursor's segment of {stream}")
    for loop in loops:
        if loop.capacity < 1:
            raise TileProbeError(f"a loop needs room for at least one iteration: {loop}")
        if loop.window and (layout.strategy != "flush" or not 0 < loop.window <= loop.capacity):
            raise TileProbeError(f"a window has some of the iterations that are kept and are flushed: {loop}")
        if not loop.cursor:
            _take(taken, _words(layout, loop, loop.trip_base), 1, f"the trip count of {loop}")
        elif loop.trip_base != -1:  # nobody counted its iterations in earlier versions
            _take(taken, np.array([loop.trip_base]), TOTAL_WORDS, f"the count of all iterations of {loop}")
    for slot in slots:
        if slot.payload not in PAYLOADS:
            raise TileProbeError(f"a payload is i64 or f64, not {slot.payload!r}: {slot}")
        if slot.cursor and not stream.cursor_capacity:
            raise TileProbeError(f"the cursor's segment has no room for {slot}: it needs a cursor_capacity")
        if not slot.cursor:
            _take(taken, _words(layout, slot, slot.base), 2 if slot.payload else 1, str(slot))


def _words(layout: Layout, row: Loop | Slot, base: int) -> np.ndarray:
    """Where a record or a trip count lies, over all iterations of the loops around it."""
    around = [layout.loops[loop] for loop in row.loops]
    if len(row.strides) != len(around) or any(loop.cursor for loop in around):
        raise TileProbeError(
            f"a fixed place needs a stride for each loop, and loops with fixed places: {row}"
        )
    words = np.array([base])
    for loop, stride in zip(around, row.strides):
        words = (words[:, None] + np.arange(loop.capacity) * stride).ravel()
    return words


def _take(taken: np.ndarray, first: np.ndarray, count: int, what: str) -> None:
    """Marks `count` words from each of `first` on."""
    words = (first[:, None] + np.arange(count)).ravel()
    if count < 0 or (len(words) and not 0 <= words.min() <= words.max() < len(taken)):
        raise TileProbeError(f"a block of {len(taken)} words has no room for {what}")
    if taken[words].any() or len(np.unique(words)) != len(words):
        raise TileProbeError(f"something else lies where {what} does")
    taken[words] = True


def _span(layout: Layout, span: Span) -> None:
    if span.kind not in SPANS or span.region < 0:
        raise TileProbeError(f"a span has a region and one of the kinds {', '.join(SPANS)}: {span}")
    if not all(0 <= slot < len(layout.slots) for slot in (span.start, span.stop)):
        raise TileProbeError(f"{_name(span)} names a slot that is not there: {span}")
    start, stop = layout.slots[span.start], layout.slots[span.stop]
    first = _logical(layout, span, start, span.start_ahead, span.start_peeled)
    last = _logical(layout, span, stop, span.stop_ahead, span.stop_peeled)
    if start.cursor != stop.cursor:
        raise TileProbeError(f"{_name(span)} has one end in the cursor's segment and one with a fixed place")
    if start.stream == stop.stream:
        if first != last:
            raise TileProbeError(
                f"{_name(span)} starts in loops {_loops(first)} and stops in {_loops(last)}: such ends never meet"
            )
        return
    if start.cursor:
        raise TileProbeError(
            f"{_name(span)} lies in two streams, and the cursor's segment has no places to join"
        )
    if len(first) != len(last):
        raise TileProbeError(
            f"{_name(span)} starts {len(first)} loops deep in one stream and stops {len(last)} deep in another"
        )
    instances = sorted(layout.streams[slot.stream].instances for slot in (start, stop))
    if instances[0] != 1 and instances[0] != instances[1]:
        raise TileProbeError(
            f"{_name(span)} joins streams of {instances[0]} and {instances[1]} instances: which meets which?"
        )


def _logical(layout: Layout, span: Span, slot: Slot, ahead: int, peeled: int) -> tuple[int, ...]:
    """The loops over whose iterations an end is told apart."""
    if peeled < 0:
        if ahead and not slot.loops:
            raise TileProbeError(f"{_name(span)} is {ahead} iterations ahead at slot {slot.id}, of no loop")
        return slot.loops
    if peeled >= len(layout.loops):
        raise TileProbeError(f"{_name(span)} is peeled off loop {peeled}, which is not there")
    loop = layout.loops[peeled]
    if loop.loops != slot.loops or loop.stream != slot.stream:
        raise TileProbeError(
            f"{_name(span)} is peeled off loop {peeled}, but slot {slot.id} does not stand beside that loop"
        )
    if ahead < 0 and loop.cursor:
        raise TileProbeError(
            f"{_name(span)} counts from the end of loop {peeled}, whose trip count is not stored (it is a "
            "`while` loop or lies in one)"
        )
    return (*loop.loops, peeled)


def _name(span: Span) -> str:
    return f"the {span.kind} span of region {span.region}"


def _loops(loops: tuple[int, ...]) -> str:
    return "no loop" if not loops else " / ".join(str(loop) for loop in loops)
