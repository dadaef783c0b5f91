"""Record buffers become rows: one for each stream instance that was written, in execution order, clocks widened.

In come the words of one or more launches with their `Layout` and `Sampling`; out go `Rows`, one of them for
each stream of the layout. Addresses within a row grow in execution order: circular loops are turned so that
their oldest kept iteration comes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import BEGIN, EPOCH, GLOBAL_BEGIN, UNIT, Layout, Loop, Slot, Stream, places
from tileprobe.ir.machine import Clock, GlobalTimer
from tileprobe.ir.sampling import Sampling
from tileprobe.trace.timer import in_their_turns

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass
class Rows:
    """The blocks of one stream that were written: one row a stream instance of a program of a launch."""

    layout: Layout
    stream: Stream
    sampling: Sampling
    words: np.ndarray  # (rows, words of the stream's block)
    clocks: np.ndarray  # the same shape, ticks of 64 bits; negative where nothing was written
    launch: np.ndarray  # place of the launch in the caller's list
    program: np.ndarray
    instance: np.ndarray  # number among all the stream instances of a program
    unit: np.ndarray
    epoch: np.ndarray
    bits: int  # of its clock that a record holds
    delays: np.ndarray | None = None  # as `clocks`: ticks that the probes before and at a record took
    # Records of iterations that are not kept are passed, and take time; so does what lies between iterations.
    passed: bool = False
    taken: np.ndarray | None = None  # as `clocks`: ticks that the operating system took before a record
    probes: np.ndarray | None = None  # as `delays`, by dose: before any of it was given back
    _trips: dict[int, np.ndarray] = field(default_factory=dict)
    _slots: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.words)

    def view(self, source: np.ndarray, base: int, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
        """All the places of a record as one array (rows, *iterations), without a copy."""
        return strided(source, base, shape, strides, writeable=False)

    def slot(self, slot: Slot, offset: int = 0, source: np.ndarray | None = None) -> np.ndarray:
        source = self.clocks if source is None else source
        return self.view(source, slot.base + offset, self.layout.shape(slot), slot.strides)

    @property
    def slot_words(self) -> np.ndarray:
        """For each word of the stream's block the slot whose clock it holds, or -1."""
        if self._slots is None:
            self._slots = slot_words(self.layout, self.stream)
        return self._slots

    @property
    def recorded_words(self) -> np.ndarray:
        """Which words hold the clock of a record."""
        return (self.clocks >= 0) & (self.slot_words >= 0)

    def first_clock(self) -> np.ndarray:
        """The first record with a place of each row; 0 where there is none."""
        written = self.recorded_words
        latest = np.iinfo(np.int64).max
        first = np.where(written, self.clocks, latest).min(axis=1, initial=latest)
        return np.where(written.any(axis=1), first, 0)

    def own_time(self) -> np.ndarray:
        """The clocks without what probes and the operating system took, counted from each row's first record."""
        time = (self.clocks - self.first_clock()[:, None]).astype(np.float64)
        for part in (self.delays, self.taken):
            if part is not None:
                time -= part
        return time

    def trips(self, loop: int) -> np.ndarray:
        """Trip counts of a loop over (rows, *outer iterations); 0 where it was not entered."""
        if loop not in self._trips:
            self._trips[loop] = _trips(self.layout, self.layout.loops[loop], self.words, self.epoch)
        return self._trips[loop]

    def total(self, loop: int) -> np.ndarray:
        """Of each row: iterations of a loop of the cursor's, in all its runs; 0 where it did not come to their end."""
        return self._total(loop, 0)

    def runs(self, loop: int) -> np.ndarray:
        """Of each row: the runs of a loop of the cursor's that had an iteration."""
        return self._total(loop, 1)

    def _total(self, loop: int, word: int) -> np.ndarray:
        at = self.layout.loops[loop].trip_base
        return np.zeros(len(self), np.int64) if at < 0 else _counts(self.words[:, at + word], self.epoch)

    def whole_trips(self, loop: int) -> np.ndarray:
        """The same with the iterations that were peeled off the loop's end."""
        return self.trips(loop) + self.layout.loops[loop].beyond

    def first(self, loop: int) -> np.ndarray | int:
        """The iteration that lies at the loop's first place: a number, or over (rows, *outer iterations)."""
        every = self.sampling.loop(loop)
        if self.layout.circular:
            gone = np.maximum(every.selected(self.trips(loop)) - self.layout.loops[loop].capacity, 0)
            return every.first(self.trips(loop)) + gone * every.stride
        return every.phase if every.phase >= 0 else every.first(self.trips(loop))

    def span(self, loop: int) -> int:
        """More than the iterations of a loop differ: a factor that keeps numbers of nested iterations apart."""
        every = self.sampling.loop(loop)
        if self.layout.circular or every.phase < 0:
            return int(self.trips(loop).max(initial=0)) + 1
        return self.layout.loops[loop].capacity * every.stride


def slot_words(layout: Layout, stream: Stream) -> np.ndarray:
    """For each word of a stream's block the slot whose clock it holds, or -1."""
    slots = np.full(stream.words, -1)
    for slot in layout.fixed_slots(stream.id):
        slots[places(slot.base, layout.shape(slot), slot.strides)] = slot.id
    return slots


def strided(
    source: np.ndarray, base: int, shape: Sequence[int], strides: Sequence[int], writeable: bool = True
) -> np.ndarray:
    size = source.itemsize
    return np.lib.stride_tricks.as_strided(
        source[:, base:],
        (len(source), *shape),
        (source.strides[0], *(size * stride for stride in strides)),
        writeable=writeable,
    )


def read_rows(
    buffers: np.ndarray,
    layout: Layout,
    *,
    epochs: Sequence[int],
    programs: int | Sequence[int],
    sampling: Sampling | None = None,
    clock: Clock | None = None,
    timer: GlobalTimer | None = None,
) -> tuple[list[Rows], list[int]]:
    """The written blocks of all launches, for each stream, and the sizes of the launches' grids. A `clock` that
    is narrow in the machine itself needs the shared `timer` to bring the streams of a unit to one count."""
    words = _words(buffers, layout)
    sizes = [programs] * len(words) if isinstance(programs, int) else list(programs)
    if not len(words) == len(epochs) == len(sizes):
        counts = f"{len(words)} buffers, {len(epochs)} epochs, {len(sizes)} grids"
        raise TileProbeError(f"decoding needs one of each for every launch, got {counts}")
    chosen = sampling or Sampling()
    picked = [_pick(words, stream, chosen, epochs, sizes) for stream in layout.streams]
    if clock is not None and timer is not None and clock.bits < 64 and timer.tells_turns(clock):
        _count_on(picked, clock, timer)
    bits = stored_bits(layout, clock)
    rows = [_rows(part, layout, stream, chosen, bits) for part, stream in zip(picked, layout.streams)]
    return rows, sizes


def _words(buffers: np.ndarray, layout: Layout) -> np.ndarray:
    words = np.asarray(buffers)
    words = words.view(np.uint64) if words.dtype.itemsize == 8 else words
    if words.dtype != np.uint64 or words.shape[-1] % layout.block_words:
        raise TileProbeError(
            f"a record buffer of {words.dtype} {words.shape} has no blocks of {layout.block_words} words"
        )
    if words.ndim < 3:
        return words.reshape(1, -1, layout.block_words)
    return words


@dataclass
class _Picked:
    """The blocks of a stream that were written, and whose they are."""

    words: np.ndarray
    launch: np.ndarray
    program: np.ndarray
    instance: np.ndarray
    epoch: np.ndarray


def _pick(
    words: np.ndarray, stream: Stream, sampling: Sampling, epochs: Sequence[int], sizes: Sequence[int]
) -> _Picked:
    end = stream.base + stream.instances * stream.words
    shape = (*words.shape[:2], stream.instances, stream.words)
    mine = words[:, :, stream.base : end].reshape(shape)
    launch, block, program, instance = [], [], [], []
    for n, size in enumerate(sizes):
        chosen = sampling.recorded(size, words.shape[1])
        at, which = np.nonzero(mine[n, : len(chosen), :, EPOCH] == np.uint64(epochs[n]))
        block.append(at)
        instance.append(which)
        launch.append(np.full(len(at), n))
        program.append(chosen[at])
    where = tuple(np.concatenate(part) for part in (launch, block, instance))
    everything = len(where[0]) == math.prod(shape[:3])
    picked = mine.reshape(-1, stream.words) if everything else mine[where]
    epoch = np.asarray(epochs, np.uint64)[where[0]]
    return _Picked(picked, where[0], np.concatenate(program), where[2], epoch)


def _count_on(picked: list[_Picked], clock: Clock, timer: GlobalTimer) -> None:
    """Gives the streams of each unit first clocks that count on from one another."""
    begin, shared, unit = (
        np.concatenate([part.words[:, word] for part in picked]).astype(np.int64)
        for word in (BEGIN, GLOBAL_BEGIN, UNIT)
    )
    begin = in_their_turns(begin, shared, unit, clock, timer)
    done = 0
    for part in picked:
        part.words = part.words.copy()
        part.words[:, BEGIN] = begin[done : done + len(part.words)]
        done += len(part.words)


def stored_bits(layout: Layout, clock: Clock | None) -> int:
    """How many bits of its clock a record holds: a machine's counter may have fewer than the layout has room for."""
    return layout.clock_bits if clock is None else min(layout.clock_bits, clock.bits)


def _rows(picked: _Picked, layout: Layout, stream: Stream, sampling: Sampling, bits: int) -> Rows:
    """Brings the words into execution order and widens their clocks."""
    words, epoch = picked.words, picked.epoch
    if layout.circular:
        words = _turned(words, layout, stream, sampling, epoch)
    return Rows(
        layout,
        stream,
        sampling,
        words,
        _wide(words) if bits == 64 else _unwrapped(words, layout, stream, epoch, bits),
        picked.launch,
        picked.program,
        picked.instance + layout.first_instance(stream.id),
        words[:, UNIT].astype(np.int64),
        epoch,
        bits,
    )


def _trips(layout: Layout, loop: Loop, words: np.ndarray, epoch: np.ndarray) -> np.ndarray:
    shape = layout.trip_shape(loop)
    stored = strided(words, loop.trip_base, shape, loop.strides, writeable=False)
    return _counts(stored, epoch.reshape(-1, *[1] * len(shape)))


def _counts(stored: np.ndarray, epoch: np.ndarray) -> np.ndarray:
    return np.where((stored >> _HALF) == epoch, stored & _LOW, 0).astype(np.int64)


def frames(source: np.ndarray, layout: Layout, loop: Loop) -> np.ndarray:
    """A loop's iterations, (rows, *outer iterations, iterations, words of one): they lie behind the trip count."""
    shape = (*layout.trip_shape(loop), loop.capacity, loop.stride)
    return strided(source, loop.trip_base + 1, shape, (*loop.strides, loop.stride, 1))


def fixed_loops(layout: Layout, stream: int) -> list[Loop]:
    """The loops of a stream whose iterations have places, outer ones first."""
    mine = [loop for loop in layout.loops if loop.stream == stream and not loop.cursor]
    return sorted(mine, key=lambda loop: len(loop.loops))


def _turned(
    words: np.ndarray, layout: Layout, stream: Stream, sampling: Sampling, epoch: np.ndarray
) -> np.ndarray:
    """Circular loops with the oldest kept iteration first. Places behind a run's last iteration may hold what
    an earlier run left there: they become zero."""
    words = words.copy()
    for loop in fixed_loops(layout, stream.id):
        chosen = sampling.loop(loop.id).selected(_trips(layout, loop, words, epoch))
        place = np.arange(loop.capacity)
        first = np.where(chosen > loop.capacity, chosen % loop.capacity, 0)
        order = (place + first[..., None]) % loop.capacity
        held = frames(words, layout, loop)
        turned = np.take_along_axis(held, order[..., None], axis=-2)
        held[...] = np.where((place < chosen[..., None])[..., None], turned, np.uint64(0))
    return words


def _wide(words: np.ndarray) -> np.ndarray:
    """64-bit clocks: zero where nothing was written, which becomes negative here."""
    clocks = words.astype(np.int64)
    np.copyto(clocks, -1, where=words == 0)
    return clocks


def _unwrapped(words: np.ndarray, layout: Layout, stream: Stream, epoch: np.ndarray, bits: int) -> np.ndarray:
    """Narrow clocks, under the epoch or alone in a whole word. Addresses grow in execution order, so a clock is
    unwrapped by walking along them from the wide clock in the header: right while two kept neighbours are less than
    one turn of the clock apart."""
    clock = layout.clock_words()[stream.base : stream.base + stream.words]
    there = words != 0 if layout.clock_bits == 64 else (words >> _HALF) == epoch[:, None]
    written = there & clock
    row, _ = np.nonzero(written)
    clocks = np.full(words.shape, -1, np.int64)
    clocks[written] = walk(words[written], row, words[:, BEGIN], bits)
    return clocks


def walk(words: np.ndarray, row: np.ndarray, begin: np.ndarray, bits: int) -> np.ndarray:
    """Unwraps clocks, the lowest `bits` of words that are in execution order within each row (rows ascending)."""
    low, begin = (words & words.dtype.type((1 << bits) - 1)).astype(np.int64), begin.astype(np.int64)
    if not len(row):
        return low
    first = np.r_[True, row[1:] != row[:-1]]
    before = np.where(first, begin[row], np.r_[0, low[:-1]])
    total = np.cumsum((low - before) & ((1 << bits) - 1))
    counts = np.bincount(row, minlength=len(begin))
    starts = np.cumsum(counts) - counts
    padded = np.r_[0, total]
    return begin[row] + total - padded[starts[row]]
