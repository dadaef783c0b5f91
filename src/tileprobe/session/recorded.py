"""One observed launch: the buffer its programs record into, and what is left of it afterwards.

A `Watch` goes along with a launch: it owns the parameter block and the buffer while the kernel runs. What launches with
the same sampling have in common is made once (`Ready`). What a watch leaves is a `Recorded`: the words that were
written, or the intervals of a machine that knows them exactly, with all that decoding needs.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np

from tileprobe.ir.layout import Layout
from tileprobe.ir.sampling import PLAIN, PROGRAM_STRIDE, Every, Sampling
from tileprobe.session.places import Places, Used
from tileprobe.session.places import memory as kept_in
from tileprobe.targets.base import Exact, Kernel, Memory, Variant, Verified

_epochs = itertools.count(1)
_EPOCH_MASK = (1 << 31) - 1  # an epoch shares a word with a trip count
# buffer and epoch; of programs stride, phase, limit and map; the plain kernel: as in ir/sampling.py
_PARAMETERS = Struct(f"={PLAIN + 1}q")
_OBJECT_BYTES = 512  # of a launch, whatever it recorded
_NOTHING = Used(np.zeros(0, np.int64), (), whole=True)


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
    light: bool = False  # no iteration of a loop was recorded, to learn what records there cost
    exact: tuple[Exact, ...] = ()
    work: Hashable = None  # what it repeats: the same for launches of one work; None: told by the grid
    waited_ns: int | None = None  # what the operating system took from its programs; None where not known
    ran_ns: int | None = None  # for how long its programs ran, all threads together; None where not known
    session_ns: int = 0  # time that the session itself took for it, in Python
    trips: tuple[
        tuple[int, int, int, int], ...
    ] = ()  # of loops beyond their room: loop, room, most, least trips
    ends: tuple[tuple[int, int], ...] = ()  # of `while` loops in no other loop: loop, fewest iterations
    counters: Mapping[str, Any] | None = None  # what its loads and stores did to memory, where that was asked
    notes: tuple[str, ...] = ()  # and what is to be said of that
    verified: Verified | None = None  # the truth beside it, where a simulated machine told it

    @property
    def programs(self) -> int:
        return math.prod(self.grid)

    @property
    def probed(self) -> bool:
        return self.words is not None or bool(self.exact)

    @property
    def calibrates(self) -> bool:
        """Whether it only tells what a record costs."""
        return self.dose > 1 or self.light

    @property
    def nbytes(self) -> int:
        """What keeping it takes."""
        size = _OBJECT_BYTES if self.words is None else _OBJECT_BYTES + self.words.nbytes
        if self.verified is not None:
            size += self.verified.words.nbytes
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


class Alike:
    """What launches have in common that record the same iterations, of whichever programs."""

    __slots__ = ("moves", "spare")

    def __init__(self) -> None:
        self.moves: tuple[Used, Any] = (
            _NOTHING,
            None,
        )  # what the launch before left, and how to take it at once
        self.spare: list[Any] = []  # parameters of launches that are over, where the host may write to them


class Ready:
    """Sampling and parameters of launches that are recorded alike; all but the buffer and the epoch."""

    def __init__(self, memory: Memory, places: Places, sampling: Sampling, programs: int, plain: int) -> None:
        """`plain` is the address of the kernel without records, where programs go that are left out."""
        self.memory, self.places, self.sampling, self.programs = memory, places, sampling, programs
        self.alike = Alike()
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
        self._head: tuple[int, ...] = tuple(self.words[PROGRAM_STRIDE : PLAIN + 1].tolist())

    @property
    def turns(self) -> int:
        """How many programs it may begin with that are drawn; 1 where they are not drawn in turns."""
        return 1 if self.sampling.chosen is not None else self.sampling.programs.stride

    def turned(self, phase: int) -> Ready:
        """The same from another program on, without making everything again."""
        made = Ready.__new__(Ready)
        made.memory, made.places, made.programs = self.memory, self.places, self.programs
        made.alike, made.table, made.words = self.alike, None, self.words
        stride, _, _, table, plain = self._head
        made.blocks = -(-(self.programs - phase) // stride)
        made.sampling = Sampling(Every(stride, phase), self.sampling.loops)
        made._head = stride, phase, made.blocks, table, plain
        return made

    def parameters(self, buffer: int, epoch: int) -> Any:
        """Those of one launch; `over` takes them back."""
        try:
            held = self.alike.spare.pop()
        except IndexError:
            words: Any = self.words.copy()
            _PARAMETERS.pack_into(words, 0, buffer, epoch, *self._head)
            return self.memory.put(words)
        _PARAMETERS.pack_into(held.words, 0, buffer, epoch, *self._head)
        return held

    def over(self, held: Any) -> None:
        if getattr(held, "words", None) is not None:
            self.alike.spare.append(held)


class Watch:
    """Handed to the launcher: what to run, where its parameters are, and when it starts and stops.

    It is made and read around every launch, so that little of it is in functions of its own: each call costs a part of
    a microsecond, and some of them several (docs/overhead.md)."""

    __slots__ = (
        *("_buffer", "_done", "_ended", "_parameters", "_ready", "_timed"),
        *("accesses", "parameters", "recorded", "room", "sampling", "units", "variant"),
    )

    def __init__(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        done: Callable[[Recorded | None], None],
        variant: Variant | None = None,
        sampling: Sampling | None = None,
        *,
        dose: int = 0,
        light: bool = False,
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
        self.accesses = self.units = False
        self.recorded = recorded = Recorded(grid, layout=layout, sampling=sampling, dose=dose, light=light)
        self._done, self._ready, self._ended, self._timed = done, ready, False, bool(began_ns)
        if ready is not None:
            self.sampling = recorded.sampling = ready.sampling
            recorded.epoch = next(_epochs) & _EPOCH_MASK
            self._buffer = ready.memory.take(ready.blocks, ready.places.layout.block_words)
            self._parameters = ready.parameters(self._buffer.address, recorded.epoch)
            self.parameters = self._parameters.address
        if began_ns:
            recorded.session_ns = time.perf_counter_ns() - began_ns

    def start(self) -> None:
        self.recorded.start_ns = time.perf_counter_ns()

    def ended(
        self,
        taken_ns: int | None = None,
        duration_ns: int | None = None,
        began_ns: int | None = None,
        ran_ns: int | None = None,
    ) -> None:
        recorded = self.recorded
        if duration_ns is not None:
            recorded.duration_ns = max(0, duration_ns)
        elif recorded.start_ns:
            recorded.duration_ns = time.perf_counter_ns() - recorded.start_ns
        if began_ns is not None:
            recorded.start_ns = began_ns
        recorded.waited_ns, recorded.ran_ns, self._ended = taken_ns, ran_ns, True

    def exact(self, parts: Sequence[Exact]) -> None:
        self.recorded.exact = tuple(parts)

    def touched(self, counters: Mapping[str, Any], notes: Sequence[str] = ()) -> None:
        self.recorded.counters, self.recorded.notes = counters, tuple(notes)

    def verified(self, truth: Verified) -> None:
        self.recorded.verified = truth

    def abort(self) -> None:
        if self._ready is not None:
            self._buffer.give_back()
            self._ready.over(self._parameters)
        self._done(None)

    def stop(self) -> None:
        if not self._ended:
            self.ended()
        began = time.perf_counter_ns()
        ready, recorded = self._ready, self.recorded
        if ready is not None:
            buffer: Any = self._buffer
            used, moves = ready.alike.moves
            if moves is not None:  # as much as of the launch before, mostly
                kept, out = kept_in.room((buffer.shape[0], len(used.words)))
                if buffer.move(moves, out):
                    recorded.words, recorded.used = kept, used.words
            if recorded.words is None:
                buffer.give_back(self._read(ready).parts)
            ready.over(self._parameters)
        self._done(recorded)
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
            recorded.ends = places.ends(blocks)
        if not recorded.trips:  # nothing to be learnt from the next launch, if its loops run as often
            ready.alike.moves = used, places.moves(ready.memory, most, used)
        return used
