"""One observed launch: the buffer its programs record into, and what is left of it afterwards.

A `Watch` goes along with a launch: it owns the parameter block and the buffer while the kernel runs. What launches with
the same sampling have in common is made once (`Ready`). What a watch leaves is a `Recorded`: the words that were
written, or the intervals of a machine that knows them exactly, with all that decoding needs.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.ir.layout import Layout
from tileprobe.ir.sampling import BUFFER, LAUNCH_EPOCH, Sampling
from tileprobe.session.places import Places, Used
from tileprobe.targets.base import Exact, Kernel, Memory, Variant

_epochs = itertools.count(1)
_EPOCH_MASK = (1 << 31) - 1  # an epoch shares a word with a trip count
_OBJECT_BYTES = 512  # of a launch, whatever it recorded


@dataclass(slots=True)
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
    trips: tuple[
        tuple[int, int, int, int], ...
    ] = ()  # of loops beyond their room: loop, room, most, least trips

    @property
    def programs(self) -> int:
        return math.prod(self.grid)

    @property
    def probed(self) -> bool:
        return self.words is not None or bool(self.exact)

    @property
    def nbytes(self) -> int:
        """What keeping it takes."""
        size = _OBJECT_BYTES if self.words is None else _OBJECT_BYTES + self.words.nbytes
        for part in self.exact:
            size += sum(np.asarray(column).nbytes for column in part.columns.values())
        return size

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


class Ready:
    """Sampling and parameters of launches that are recorded alike; all but the buffer and the epoch."""

    def __init__(self, memory: Memory, places: Places, sampling: Sampling, programs: int, plain: int) -> None:
        """`plain` is the address of the kernel without records, where programs go that are left out."""
        self.memory, self.places, self.sampling = memory, places, sampling
        self._spare: list[Any] = []  # parameters of launches that are over, where the host may write to them
        self.blocks = max(1, sampling.wanted(programs))
        table = sampling.program_map(programs, self.blocks)
        self.table = None if table is None else memory.put(table)
        self.words = sampling.parameters(
            places.layout,
            buffer=0,
            epoch=0,
            programs=programs,
            blocks=self.blocks,
            program_map=0 if self.table is None else self.table.address,
            plain=plain,
        )

    def parameters(self, buffer: int, epoch: int) -> Any:
        """Those of one launch; `over` takes them back."""
        held = self._spare.pop() if self._spare else None
        words = self.words.copy() if held is None else held.words
        words[BUFFER], words[LAUNCH_EPOCH] = buffer, epoch
        return self.memory.put(words) if held is None else held

    def over(self, held: Any) -> None:
        if getattr(held, "words", None) is not None:
            self._spare.append(held)


class Watch:
    """Handed to the launcher: what to run, where its parameters are, and when it starts and stops."""

    def __init__(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        done: Callable[[Recorded | None], None],
        variant: Variant | None = None,
        sampling: Sampling | None = None,
        *,
        dose: int = 0,
        plain: int = 0,
        room: int = 0,
        ready: Ready | None = None,
        began_ns: int = 0,
    ) -> None:
        """`done` gets what was recorded, or None if the launch did not come to its end. `plain` is the address of the
        kernel without records; `room` is how many exact intervals are kept; `began_ns` is when the session was asked,
        if its own time counts."""
        layout = None if variant is None else variant.layout
        if ready is None and layout is not None and sampling is not None:
            memory, programs = kernel.target.memory, math.prod(grid)
            ready = Ready(memory, Places(layout), sampling, programs, plain)
        self.variant, self.sampling, self.parameters, self.room = variant, sampling, 0, room
        self.recorded = Recorded(grid, layout=layout, sampling=sampling, dose=dose)
        self._done, self._ready = done, ready
        self._buffer: Any = None
        self._ended = False
        if ready is not None:
            self._open(ready)
        if began_ns:
            self.recorded.session_ns = time.perf_counter_ns() - began_ns
        self._timed = bool(began_ns)

    def _open(self, ready: Ready) -> None:
        self.sampling = self.recorded.sampling = ready.sampling
        self.recorded.epoch = next(_epochs) & _EPOCH_MASK
        self._buffer = ready.memory.take(ready.blocks, ready.places.layout.block_words)
        self._parameters = ready.parameters(self._buffer.address, self.recorded.epoch)
        self.parameters = self._parameters.address

    def start(self) -> None:
        self.recorded.start_ns = time.perf_counter_ns()

    def ended(
        self, taken_ns: int | None = None, duration_ns: int | None = None, began_ns: int | None = None
    ) -> None:
        recorded = self.recorded
        if duration_ns is not None:
            recorded.duration_ns = max(0, duration_ns)
        elif recorded.start_ns:
            recorded.duration_ns = time.perf_counter_ns() - recorded.start_ns
        if began_ns is not None:
            recorded.start_ns = began_ns
        recorded.waited_ns, self._ended = taken_ns, True

    def exact(self, parts: Sequence[Exact]) -> None:
        self.recorded.exact = tuple(parts)

    def abort(self) -> None:
        if self._ready is not None:
            self._buffer.give_back()
            self._ready.over(self._parameters)
        self._done(None)

    def stop(self) -> None:
        if not self._ended:
            self.ended()
        began = time.perf_counter_ns()
        if self._ready is not None:
            used = self._read(self._ready)
            self._buffer.give_back(used.parts)
            self._ready.over(self._parameters)
        self._done(self.recorded)
        if self._timed:
            self.recorded.session_ns += time.perf_counter_ns() - began

    def _read(self, ready: Ready) -> Used:
        """Keeps what was recorded."""
        blocks, places, recorded = self._buffer.read(), ready.places, self.recorded
        most = places.most(blocks)
        used = places.used(blocks, most, ready.sampling)
        recorded.words, recorded.used = used.copied(blocks), used.words
        if most:
            recorded.trips = tuple(
                (loop.id, loop.capacity, trips, places.least(blocks, loop))
                for loop, trips in zip(places.loops, most)
                if trips > loop.capacity or (trips and ready.sampling.loop(loop.id).stride > 1)
            )
        if places.cursors:
            recorded.trips += tuple(places.overfull(blocks, ready.sampling))
        return used
