"""One observed launch: the buffer its programs record into, and what is left of it afterwards.

A `Watch` goes along with a launch: it owns the parameter block and the buffer while the kernel runs. What it
leaves is a `Recorded`: the words that were written, or the intervals of a machine that knows them exactly, with all
that decoding needs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.ir.layout import Layout
from tileprobe.ir.sampling import Sampling
from tileprobe.targets.base import Exact, Kernel, Variant

_epochs = itertools.count(1)
_EPOCH_BITS = 31  # an epoch shares a word with a trip count


@dataclass
class Recorded:
    """A launch that is over. Without probes there are no words and no intervals, only a duration."""

    grid: tuple[int, ...]
    start_ns: int = 0
    duration_ns: int = 0
    layout: Layout | None = None
    sampling: Sampling | None = None
    words: np.ndarray | None = None  # (blocks, words); of the words only those in `used`
    used: np.ndarray | None = None
    epoch: int = 0
    dose: int = 0  # how often each record was written; 0 without probes
    exact: tuple[Exact, ...] = ()
    work: Hashable = None  # what it repeats: the same for launches of one work; None: told by the grid
    waited_ns: int | None = None  # what the operating system took from its programs; None where not known
    session_ns: int = 0  # time that the session itself took for it, in Python

    @property
    def programs(self) -> int:
        return int(np.prod(self.grid))

    @property
    def probed(self) -> bool:
        return self.words is not None or bool(self.exact)

    @property
    def nbytes(self) -> int:
        """What keeping it takes."""
        columns = [np.asarray(column) for part in self.exact for column in part.columns.values()]
        return sum(c.nbytes for c in columns) + (0 if self.words is None else self.words.nbytes)

    def kept(self) -> int:
        """How many records there are."""
        if self.words is None or self.layout is None:
            return 0
        return int(np.count_nonzero(self.words[:, self.layout.clock_words(cursor=True)[self.used]]))

    def full_words(self) -> np.ndarray:
        """The blocks as the kernel wrote them, with zeros where it did not."""
        assert self.words is not None
        assert self.layout is not None
        blocks = np.zeros((len(self.words), self.layout.block_words), np.uint64)
        blocks[:, self.used] = self.words
        return blocks


class Watch:
    """Handed to the launcher: what to run, where its parameters are, and when it starts and stops."""

    def __init__(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        done: Callable[[Recorded], None],
        variant: Variant | None = None,
        sampling: Sampling | None = None,
        *,
        dose: int = 0,
        plain: int = 0,
        room: int = 0,
    ) -> None:
        """`plain` is the address of the kernel without records, where programs go that are left out; `room` is how
        many exact intervals are kept."""
        layout = None if variant is None else variant.layout
        self.variant, self.sampling, self.parameters, self.room = variant, sampling, 0, room
        self.recorded = Recorded(grid, layout=layout, sampling=sampling, dose=dose)
        self._done = done
        self._buffer: Any = None
        if layout is not None and sampling is not None:
            self._open(kernel, layout, sampling, plain)

    def _open(self, kernel: Kernel, layout: Layout, sampling: Sampling, plain: int) -> None:
        memory, recorded = kernel.target.memory, self.recorded
        blocks = max(1, sampling.wanted(recorded.programs))
        recorded.epoch = next(_epochs) & ((1 << _EPOCH_BITS) - 1)
        self._buffer = memory.take(blocks, layout.block_words)
        table = sampling.program_map(recorded.programs, blocks)
        self._table = None if table is None else memory.put(table)
        words = sampling.parameters(
            layout,
            buffer=self._buffer.address,
            epoch=recorded.epoch,
            programs=recorded.programs,
            blocks=blocks,
            program_map=0 if self._table is None else self._table.address,
            plain=plain,
        )
        self._parameters = memory.put(words)
        self.parameters = self._parameters.address

    def start(self) -> None:
        self.recorded.start_ns = time.perf_counter_ns()

    def exact(self, parts: Sequence[Exact]) -> None:
        self.recorded.exact = tuple(parts)

    def abort(self) -> None:
        if self._buffer is not None:
            self._buffer.give_back()

    def stop(self) -> None:
        recorded = self.recorded
        recorded.duration_ns = time.perf_counter_ns() - recorded.start_ns
        if self._buffer is not None:
            blocks = self._buffer.read()
            recorded.used = used_words(blocks)
            recorded.words = blocks[:, recorded.used]
            self._buffer.give_back(recorded.used)
        self._done(recorded)


def used_words(blocks: np.ndarray) -> np.ndarray:
    """The words of a block that hold something in any of the blocks: most loops run less often than there is
    room for, and a session keeps the records of many launches."""
    return np.flatnonzero(np.bitwise_or.reduce(blocks, axis=0))
