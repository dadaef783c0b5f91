"""What a probed kernel finds in its profile scratch: for each program and each stream of it an entry.

In come the layout, the sampling and where the record buffer lies; out goes the table that whoever launches puts into
the memory Triton passes along. A program without a block finds epoch 0 and records nothing, so programs are chosen at
run time; so are iterations. An entry is one read away from the program's start:

    block's address, epoch (0: no block), then for each loop of the stream: stride and phase, extent and count

The extent is how many iterations there are from the first kept one to the last, the count how many have a place. All
are cut to what 32 bits hold, so that the kernel need not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tileprobe.ir.layout import Layout
from tileprobe.ir.sampling import Sampling

BLOCK, EPOCH_WORD, FIRST_LOOP = 0, 1, 2
LOOP_WORDS = 2  # stride and phase in one, 32 bits each; extent and count in the other
NEVER = 2**31 - 1  # a phase behind every iteration
WORD = 8


def loops_of(layout: Layout, stream: int) -> list[int]:
    """The loops of a stream, in the order of their parameters in its entry."""
    return [loop.id for loop in layout.loops if loop.stream == stream]


def entry_words(layout: Layout, stream: int) -> int:
    return FIRST_LOOP + LOOP_WORDS * len(loops_of(layout, stream))


def table_words(layout: Layout) -> int:
    """What one CTA of a program has in its scratch."""
    return sum(entry_words(layout, stream.id) for stream in layout.streams)


def make_table(
    layout: Layout, sampling: Sampling, *, buffer: int, epoch: int, programs: int, blocks: int
) -> np.ndarray:
    """The scratch of all programs of a launch, (programs, CTAs, words). Each CTA finds the blocks of its instances."""
    ctas = max(stream.ctas for stream in layout.streams)
    table = np.zeros((programs, ctas, table_words(layout)), np.uint64)
    chosen = sampling.recorded(programs, blocks)
    at = buffer + np.arange(len(chosen), dtype=np.uint64) * np.uint64(layout.block_bytes)
    first = 0
    for stream in layout.streams:
        for cta in range(ctas):
            words = stream.base + cta * stream.in_a_cta * stream.words
            table[chosen, cta, first + BLOCK] = at + np.uint64(WORD * words)
        table[chosen, :, first + EPOCH_WORD] = epoch
        for n, loop in enumerate(loops_of(layout, stream.id)):
            word = first + FIRST_LOOP + LOOP_WORDS * n
            table[..., word : word + LOOP_WORDS] = _loop(layout, sampling, loop)
        first += entry_words(layout, stream.id)
    return table


def _loop(layout: Layout, sampling: Sampling, number: int) -> Sequence[np.uint64]:
    every, loop = sampling.loop(number), layout.loops[number]
    endless = loop.cursor or layout.circular
    count = every.count if endless else min(every.count, loop.capacity)
    phase = np.int64(every.phase if count else NEVER).astype(np.int32).view(np.uint32)
    extent = min(max(count - 1, 0) * every.stride, NEVER)
    kept = np.uint64(min(count, NEVER))
    return (
        np.uint64(min(every.stride, NEVER)) | np.uint64(phase) << np.uint64(32),
        np.uint64(extent) | kept << np.uint64(32),
    )
