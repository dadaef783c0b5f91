"""Which words of a block a launch may have written, known from what its programs say of their loops.

Most loops run less often than there is room for. Looking at every word of a buffer for what is there would take longer
than many a launch, so the trip counts are read instead: in come the blocks of a launch, out go the words that are worth
keeping, and how often each loop ran.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.ir.layout import CURSOR_WORDS, PAYLOAD_BIT, PUSHED, TOTAL_WORDS, Layout, Loop, Stream
from tileprobe.ir.sampling import Sampling
from tileprobe.trace.blocks import fixed_loops, frames, strided

_LOW = 0xFFFFFFFF
_PARTS = 8  # so many pieces are copied one by one; more are picked word by word
_PIECE = 1 << 19  # words: 4 MiB, from where on NumPy asks for large pages
_LARGE = _PIECE // 8  # words that have memory of their own
_NEXT_TO_NONE = 0.05  # of a loop's iterations
_KNOWN = 256  # different counts of iterations that are remembered


class _Memory:
    """Memory for what is kept, a large piece at a time: the system gives a large piece as few large pages, where the
    many small ones of an array for each launch would take longer than copying into them."""

    def __init__(self) -> None:
        self._piece, self._done, self._address = np.empty(0, np.uint64), 0, 0
        self._lock = threading.Lock()

    def room(self, shape: tuple[int, int]) -> tuple[np.ndarray, int]:
        """An array for so many blocks and words, and its address."""
        words = shape[0] * shape[1]
        if words > _LARGE:
            large = np.empty(shape, np.uint64)
            return large, large.ctypes.data
        with self._lock:
            if self._done + words > len(self._piece):
                self._piece, self._done = np.empty(_PIECE, np.uint64), 0
                self._address = self._piece.ctypes.data
            first, self._done = self._done, self._done + words
            return np.ndarray(shape, np.uint64, self._piece, 8 * first), self._address + 8 * first

    def forked(self) -> None:
        """In a forked child: a thread that does not exist there may have held the lock."""
        self._lock = threading.Lock()


memory = _Memory()
os.register_at_fork(after_in_child=memory.forked)


@dataclass(frozen=True)
class Used:
    """Words of a block, and the same as a few slices that may have words in them that are not used."""

    words: np.ndarray
    parts: tuple[slice, ...]
    whole: bool  # the slices have no other words

    def copied(self, blocks: np.ndarray) -> np.ndarray:
        kept, _ = memory.room((len(blocks), len(self.words)))
        if not self.whole:
            return np.take(blocks, self.words, axis=1, out=kept, mode="clip")
        if len(self.parts) == 1:
            kept[...] = blocks[:, self.parts[0]]
            return kept
        return np.concatenate([blocks[:, part] for part in self.parts], axis=1, out=kept)


class Places:
    """The words of a layout's blocks."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.loops = [loop for stream in layout.streams for loop in fixed_loops(layout, stream.id)]
        self.cursors = [stream for stream in layout.streams if stream.cursor_capacity]
        self.inner = any(slot.loops for slot in layout.slots)  # whether there are records in loops
        self._known: dict[tuple[int, ...], Used] = {}

    def trips(self, blocks: np.ndarray, loop: Loop) -> np.ndarray:
        """The words with a loop's trip counts: those of a launch share the high half, unless the loop was not
        entered and they are zero."""
        stream = self.layout.streams[loop.stream]
        if not loop.loops and stream.instances == 1:
            return blocks[:, stream.base + loop.trip_base]
        shape = (stream.instances, *self.layout.trip_shape(loop))
        return strided(blocks, stream.base + loop.trip_base, shape, (stream.words, *loop.strides), False)

    def moves(self, memory: Any, most: Sequence[int], used: Used) -> Any:
        """What a target needs to take the words of the next launches at once, if their loops run as often; None where
        it cannot, or where cursors say what was written."""
        make = getattr(memory, "moves", None)
        if make is None or self.cursors:
            return None
        numbers = np.arange(self.layout.block_words)[None, :]
        places = [self.trips(numbers, loop).ravel().tolist() for loop in self.loops]
        return make(self.layout.block_words, list(zip(places, most)), used.words)

    def most(self, blocks: np.ndarray) -> list[int]:
        """The largest trip count of each loop."""
        return [int(self.trips(blocks, loop).max()) & _LOW for loop in self.loops]

    def least(self, blocks: np.ndarray, loop: Loop) -> int:
        """How often a run of a loop goes round at the least, but for runs that have next to none of its iterations."""
        counts = (self.trips(blocks, loop) & np.uint64(_LOW)).astype(np.int64).ravel()
        return _least(counts, counts)

    def pushed_least(self, blocks: np.ndarray, loop: Loop) -> int:
        """The same of a loop whose records go to the cursor's segment, from the mean run of each stream."""
        total, runs = self._totals(blocks, loop)
        return _least(total // np.maximum(runs, 1), total)

    def _totals(self, blocks: np.ndarray, loop: Loop) -> np.ndarray:
        """Iterations and runs of a loop of the cursor's, in each stream."""
        stream = self.layout.streams[loop.stream]
        shape, steps = (stream.instances, TOTAL_WORDS), (stream.words, 1)
        words = strided(blocks, stream.base + loop.trip_base, shape, steps, False)
        return (words & np.uint64(_LOW)).astype(np.int64).reshape(-1, TOTAL_WORDS).T

    def ends(self, blocks: np.ndarray) -> tuple[tuple[int, int], ...]:
        """Of loops whose end is not known before, and that a stream runs once: the fewest iterations they had."""
        mine = [loop for loop in self.layout.loops if loop.endless and not loop.loops]
        counted = [(loop.id, self._totals(blocks, loop)[0]) for loop in mine]
        return tuple((loop, int(total[total > 0].min())) for loop, total in counted if total.any())

    def overfull(self, blocks: np.ndarray, sampling: Sampling) -> list[tuple[int, int, int, int]]:
        """Of loops whose records go to the cursor's segment: those that filled it, as (loop, room, most) in records,
        and those of which iterations are left out; with their shortest runs. Of several that filled it, it is the one
        that ran longest as far as there was room."""
        found = {}
        for stream in self.cursors:
            heads = strided(blocks, stream.base + PUSHED, (stream.instances,), (stream.words,), False)
            pushed, room = int(heads.max()), stream.cursor_capacity
            full = self._longest(blocks, stream, sampling) if pushed > room else None
            for loop in self.layout.pushed_loops(stream.id):
                stride, least = sampling.loop(loop.id).stride, self.pushed_least(blocks, loop)
                if loop.id == full or (stride > 1 and least):
                    found[loop.id] = (loop.id, room, pushed * stride if loop.id == full else 1, max(least, 1))
        return list(found.values())

    def _longest(self, blocks: np.ndarray, stream: Stream, sampling: Sampling) -> int | None:
        """The loop of the most recorded iterations in the instance that recorded most."""
        heads = strided(blocks, stream.base + PUSHED, (stream.instances,), (stream.words,), False)
        block, instance = np.unravel_index(int(heads.argmax()), heads.shape)
        first = stream.base + int(instance) * stream.words + stream.cursor_base
        tags = blocks[block, first : first + CURSOR_WORDS * stream.cursor_capacity : CURSOR_WORDS]
        slots = (tags & np.uint64(PAYLOAD_BIT - 1)).astype(np.int64)
        numbers = (tags >> np.uint64(32)).astype(np.uint32).view(np.int32)
        ran: list[tuple[float, int]] = []
        for slot in np.unique(slots).tolist():
            loops = self.layout.slots[slot].loops
            if not loops or not self.layout.loops[loops[-1]].cursor:
                continue
            length = float(numbers[slots == slot].max() + 1) / sampling.loop(loops[-1]).stride
            ran.append((length, -loops[-1]))
        return -max(ran)[1] if ran else None

    def used(self, blocks: np.ndarray, most: Sequence[int], sampling: Sampling) -> Used:
        """The words that programs of this launch may have written."""
        counts = [
            min(sampling.loop(loop.id).selected(trips), loop.capacity)
            for loop, trips in zip(self.loops, most)
        ]
        for stream in self.cursors:
            heads = strided(blocks, stream.base + PUSHED, (stream.instances,), (stream.words,), False)
            counts.append(min(int(heads.max()), stream.cursor_capacity))
        key = tuple(counts)
        if key not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = self._make(key)
        return self._known[key]

    def _make(self, counts: tuple[int, ...]) -> Used:
        mask = np.zeros(self.layout.block_words, bool)
        for stream in self.layout.streams:
            one = np.zeros((1, stream.words), bool)
            one[0, : stream.cursor_base or stream.words] = True
            for loop, count in zip(self.loops, counts):
                if loop.stream == stream.id:
                    frames(one, self.layout, loop)[..., count:, :] = False
            if stream in self.cursors:
                pushed = counts[len(self.loops) + self.cursors.index(stream)]
                one[0, stream.cursor_base : stream.cursor_base + CURSOR_WORDS * pushed] = True
            end = stream.base + stream.instances * stream.words
            mask[stream.base : end] = np.tile(one[0], stream.instances)
        words = np.flatnonzero(mask)
        parts = _slices(words)
        return Used(words, parts, sum(part.stop - part.start for part in parts) == len(words))


def _least(lengths: np.ndarray, iterations: np.ndarray) -> int:
    """The length of runs than which shorter ones have next to none of all iterations; 0 where there are none."""
    order = np.argsort(lengths, kind="stable")
    before = np.cumsum(iterations[order])
    if not before.size or not before[-1]:
        return 0
    return int(lengths[order][np.searchsorted(before, _NEXT_TO_NONE * before[-1], side="right")])


def _slices(words: np.ndarray) -> tuple[slice, ...]:
    """The words as slices: across the smaller gaps where there would be many."""
    if not len(words):
        return ()
    gaps = np.diff(words)
    cuts = np.sort(np.argsort(gaps, kind="stable")[-(_PARTS - 1) :])
    cuts = cuts[gaps[cuts] > 1]
    first, last = np.r_[words[0], words[cuts + 1]], np.r_[words[cuts], words[-1]]
    return tuple(slice(int(a), int(b) + 1) for a, b in zip(first, last))
