"""Records that are collected in shared memory: which words of a stream's block are there, and where.

In comes a `Layout`; shared memory holds the words behind the header, one after another. With the strategy `flush` an
outermost loop keeps `window` iterations there: when they are full they are copied to their places in the block and the
next ones begin anew. The cursor's segment then has its place in the block alone. Out go words of shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import HEADER_WORDS, Layout, Loop


@dataclass(frozen=True)
class Piece:
    """Neighbouring words of shared memory that are neighbours in the block as well."""

    shared: int
    block: int
    words: int


def windowed(layout: Layout, stream: int) -> list[Loop]:
    """The loops of a stream of which only some iterations are in shared memory at a time, in order."""
    return [loop for loop in layout.loops if loop.stream == stream and loop.window]


def shared_word(layout: Layout, stream: int, word: int) -> int:
    """Where a word of the block lies in shared memory; of a loop's iterations: of the first in its window."""
    before = [
        loop for loop in windowed(layout, stream) if loop.trip_base + loop.stride * loop.capacity < word
    ]
    return word - HEADER_WORDS - sum((loop.capacity - loop.window) * loop.stride for loop in before)


def shared_words(layout: Layout, stream: int) -> int:
    """What one instance of a stream takes of shared memory."""
    return shared_word(layout, stream, _end(layout, stream))


def pieces(layout: Layout, stream: int) -> Iterator[Piece]:
    """What is copied where a stream ends; iterations in windows are not, that is done where their loop ends."""
    at = HEADER_WORDS
    for loop in windowed(layout, stream):
        first = loop.trip_base + 1
        yield Piece(shared_word(layout, stream, at), at, first - at)
        at = first + loop.stride * loop.capacity
    if _end(layout, stream) > at:
        yield Piece(shared_word(layout, stream, at), at, _end(layout, stream) - at)


def with_windows(layout: Layout, most_words: int) -> Layout:
    """The same layout with windows so large that all streams of a program take at most so many words."""
    while (taken := _taken(layout)) > most_words:
        rooms = {loop.id: loop.window or loop.capacity for loop in layout.loops if _may_flush(loop)}
        largest = max(rooms, key=lambda n: (rooms[n] > 1) * rooms[n] * _pace(layout, n), default=-1)
        if largest < 0 or rooms[largest] == 1:
            raise TileProbeError(
                f"one program's records need {8 * taken} bytes of shared memory even when every iteration is flushed, "
                f"and may take {8 * most_words}: select fewer regions, or allow more (shared_words)"
            )
        loops = list(layout.loops)
        loops[largest] = replace(loops[largest], window=rooms[largest] // 2)
        layout = replace(layout, loops=tuple(loops))
    return layout


def _may_flush(loop: Loop) -> bool:
    return not loop.loops and not loop.cursor and not loop.again and loop.stride > 0


def _pace(layout: Layout, loop: int) -> int:
    """Words that one iteration takes in a program's shared memory, of which each CTA has its own."""
    return layout.loops[loop].stride * layout.streams[layout.loops[loop].stream].in_a_cta


def _end(layout: Layout, stream: int) -> int:
    held = layout.streams[stream]
    return held.cursor_base if layout.strategy == "flush" else held.words


def _taken(layout: Layout) -> int:
    return sum(stream.in_a_cta * shared_words(layout, stream.id) for stream in layout.streams)
