"""Record buffers become columns of intervals.

In come the words that the programs of one or more launches wrote, with the `Layout` they were written by and
the `Sampling` in force; out go the columns of a Trace and what was kept, sampled away and lost. All of it is
array arithmetic: a span is a strided view of the buffer, and decoding it is a mask and a reshape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import BEGIN, EPOCH, UNIT, Layout, Slot, Span
from tileprobe.ir.sampling import Sampling
from tileprobe.trace import cursor
from tileprobe.trace.losses import count_losses
from tileprobe.trace.model import KINDS, Losses
from tileprobe.trace.replay import Calibration, delays, push_delays

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass
class Decoded:
    """Columns as `Trace.build` takes them (ids of units and regions are the buffer's own), and the losses of
    each launch in the order they were given."""

    columns: dict[str, np.ndarray]
    losses: list[Losses]


@dataclass
class Rows:
    """The blocks that were written: one row a program of a launch, with clocks made 64 bits wide."""

    layout: Layout
    sampling: Sampling
    words: np.ndarray  # (rows, block words)
    clocks: np.ndarray  # the same shape, ticks; negative where nothing was written
    launch: np.ndarray  # place of the launch in the caller's list
    program: np.ndarray
    unit: np.ndarray
    epoch: np.ndarray
    delays: np.ndarray | None = None  # as `clocks`: ticks that the probes before and at a record took

    def view(self, source: np.ndarray, base: int, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
        """All the places of a record as one array (rows, *iterations), without a copy."""
        size = source.itemsize
        return np.lib.stride_tricks.as_strided(
            source[:, base:],
            (len(source), *shape),
            (source.strides[0], *(size * stride for stride in strides)),
            writeable=False,
        )

    def slot(self, slot: Slot, offset: int = 0, source: np.ndarray | None = None) -> np.ndarray:
        source = self.clocks if source is None else source
        return self.view(source, slot.base + offset, self.layout.shape(slot), slot.strides)

    def trips(self, loop: int) -> np.ndarray:
        """Trip counts of a loop over (rows, *outer iterations); 0 where it was not entered."""
        this = self.layout.loops[loop]
        shape = [self.layout.loops[outer].capacity for outer in this.loops]
        words = self.view(self.words, this.trip_base, shape, this.strides)
        epoch = self.epoch.reshape(-1, *[1] * len(shape))
        return np.where((words >> _HALF) == epoch, words & _LOW, 0).astype(np.int64)


def decode(
    buffers: np.ndarray,
    layout: Layout,
    *,
    epochs: Sequence[int],
    programs: int | Sequence[int],
    sampling: Sampling | None = None,
    launches: Sequence[int] | None = None,
    calibration: Calibration | None = None,
) -> Decoded:
    """Decodes the buffers of launches of one kernel. A calibration adds columns of corrected ticks.

    `buffers` is (launches, blocks, words) or, for one launch, (blocks, words) or flat, of 64-bit words;
    `epochs` gives each launch's epoch, `programs` the size of its grid;
    `launches` the ids for the `launch` column (0, 1, ... if not given).
    """
    rows, sizes, blocks = read_rows(buffers, layout, epochs=epochs, programs=programs, sampling=sampling)
    pushed = cursor.read(rows)
    if calibration is not None:
        rows.delays = delays(rows, calibration)
        pushed.delay = push_delays(pushed, calibration, layout)
    parts = [_affine(rows, span) for span in layout.spans if not layout.slots[span.start].cursor]
    parts += [cursor.pair(rows, pushed, span) for span in layout.spans if layout.slots[span.start].cursor]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}
    if launches is not None and columns:
        columns["launch"] = np.asarray(launches, np.uint32)[columns["launch"]]
    return Decoded(columns, count_losses(rows, pushed, sizes, blocks))


def read_rows(
    buffers: np.ndarray,
    layout: Layout,
    *,
    epochs: Sequence[int],
    programs: int | Sequence[int],
    sampling: Sampling | None = None,
) -> tuple[Rows, list[int], int]:
    """The written blocks of all launches, the sizes of their grids, and the blocks a buffer has."""
    words = _words(buffers, layout)
    sizes = [programs] * len(words) if isinstance(programs, int) else list(programs)
    if not len(words) == len(epochs) == len(sizes):
        counts = f"{len(words)} buffers, {len(epochs)} epochs, {len(sizes)} grids"
        raise TileProbeError(f"decoding needs one of each for every launch, got {counts}")
    return _rows(words, layout, sampling or Sampling(), epochs, sizes), sizes, words.shape[1]


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


def _rows(
    words: np.ndarray,
    layout: Layout,
    sampling: Sampling,
    epochs: Sequence[int],
    sizes: Sequence[int],
) -> Rows:
    """Picks the blocks that this launch wrote and widens their clocks."""
    launch, block, program = [], [], []
    for n, size in enumerate(sizes):
        chosen = sampling.recorded(size, words.shape[1])
        mine = words[n, : len(chosen), EPOCH] == np.uint64(epochs[n])
        block.append(np.flatnonzero(mine))
        launch.append(np.full(len(block[-1]), n))
        program.append(chosen[block[-1]])
    at_launch, at_block = np.concatenate(launch), np.concatenate(block)
    everything = len(at_block) == words.shape[0] * words.shape[1]
    picked = words.reshape(-1, layout.block_words) if everything else words[at_launch, at_block]
    epoch = np.asarray(epochs, np.uint64)[at_launch]
    clocks = _wide(picked) if layout.clock_bits == 64 else _unwrap(picked, layout, epoch)
    unit = picked[:, UNIT].astype(np.int64)
    return Rows(layout, sampling, picked, clocks, at_launch, np.concatenate(program), unit, epoch)


def _wide(words: np.ndarray) -> np.ndarray:
    """64-bit clocks: zero where nothing was written, which becomes negative here."""
    clocks = words.astype(np.int64)
    np.copyto(clocks, -1, where=words == 0)
    return clocks


def _unwrap(words: np.ndarray, layout: Layout, epoch: np.ndarray) -> np.ndarray:
    """32-bit clocks. Addresses grow in execution order, so the clock is unwrapped by walking along them from
    the 64-bit clock in the header: right while two kept neighbours are less than 2^32 ticks apart."""
    written = ((words >> _HALF) == epoch[:, None]) & layout.clock_words()
    row, _ = np.nonzero(written)
    low = (words[written] & _LOW).astype(np.int64)
    begin = words[:, BEGIN].astype(np.int64)
    clocks = np.full(words.shape, -1, np.int64)
    clocks[written] = walk(low, row, begin)
    return clocks


def walk(low: np.ndarray, row: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Unwraps 32-bit clocks that are in execution order within each row (rows ascending)."""
    first = np.r_[True, row[1:] != row[:-1]] if len(row) else np.zeros(0, bool)
    before = np.where(first, begin[row], np.r_[0, low[:-1]]) if len(row) else low
    total = np.cumsum((low - before) & 0xFFFFFFFF)
    counts = np.bincount(row, minlength=len(begin))
    starts = np.cumsum(counts) - counts
    padded = np.r_[0, total]
    return begin[row] + total - padded[starts[row]]


def _affine(rows: Rows, span: Span) -> dict[str, np.ndarray]:
    """The intervals of a span whose records have fixed places."""
    layout, first = rows.layout, rows.layout.slots[span.start]
    start, stop = rows.slot(first), rows.slot(layout.slots[span.stop])
    shift = span.start_ahead - span.stop_ahead
    if shift:
        start, stop = _shifted(rows, span, start, stop)
    written = (start >= 0) & (stop >= 0)
    pick = _Pick(start.shape, None if written.all() else np.flatnonzero(written))
    iteration, outer = _iterations(rows, span, first, pick)
    value = np.full(pick.size, np.nan)
    if first.payload:
        raw = pick(rows.slot(first, 1, rows.words))
        value = raw.view(np.float64 if first.payload == "f64" else np.int64).astype(np.float64)
    columns = columns_of(rows, span, pick.axis(0), pick(start), pick(stop), iteration, outer, value)
    if rows.delays is not None:
        early, late = (rows.slot(layout.slots[slot], 0, rows.delays) for slot in (span.start, span.stop))
        if shift:
            early, late = _shifted(rows, span, early, late)
        columns["start_corrected"] = columns["start"] - pick(early)
        columns["stop_corrected"] = columns["stop"] - pick(late)
    return columns


class _Pick:
    """The written places of a span, flat. Mostly all of them are, and then nothing has to be looked up."""

    def __init__(self, shape: tuple[int, ...], flat: np.ndarray | None) -> None:
        self.shape, self.flat = shape, flat
        self.size = int(np.prod(shape)) if flat is None else len(flat)

    def __call__(self, view: np.ndarray) -> np.ndarray:
        whole = np.ascontiguousarray(view).reshape(-1)
        return whole if self.flat is None else whole[self.flat]

    def axis(self, axis: int) -> np.ndarray:
        """The index along one axis."""
        shape = [1] * len(self.shape)
        shape[axis] = -1
        numbers = np.arange(self.shape[axis], dtype=np.int32).reshape(shape)
        return self(np.broadcast_to(numbers, self.shape))


def columns_of(
    rows: Rows,
    span: Span,
    row: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    iteration: np.ndarray,
    outer: np.ndarray,
    value: np.ndarray,
) -> dict[str, np.ndarray]:
    return {
        "launch": rows.launch.astype(np.uint32)[row],
        "program": rows.program.astype(np.uint32)[row],
        "unit": rows.unit.astype(np.uint32)[row],
        "region": np.full(len(row), span.region, np.uint32),
        "kind": np.full(len(row), KINDS.index(span.kind), np.uint8),
        "iteration": iteration.astype(np.int32, copy=False),
        "outer": outer,
        "start": start,
        "stop": stop,
        "value": value,
    }


def _shifted(rows: Rows, span: Span, start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lines up an issue with the wait that is `shift` iterations later."""
    stride = rows.sampling.loop(rows.layout.slots[span.start].loops[-1]).stride
    places, rest = divmod(span.start_ahead - span.stop_ahead, stride)
    if rest or places >= start.shape[-1]:
        return start[..., :0], stop[..., :0]  # sampling kept the one or the other, never both
    return start[..., : start.shape[-1] - places], stop[..., places:]


def _iterations(rows: Rows, span: Span, slot: Slot, pick: _Pick) -> tuple[np.ndarray, np.ndarray]:
    """Logical iteration and outer iterations of the picked places."""
    outer = np.zeros(pick.size, np.int64)
    if span.start_peeled >= 0:
        if span.start_ahead >= 0:
            return np.full(pick.size, span.start_ahead, np.int32), outer
        return pick(rows.trips(span.start_peeled)) + span.start_ahead, outer
    iteration = np.full(pick.size, -1, np.int32)
    for depth, loop in enumerate(slot.loops):
        every = rows.sampling.loop(loop)
        first: np.ndarray | int = every.phase
        if every.phase < 0:
            shape = (*pick.shape[: depth + 1], *[1] * (len(pick.shape) - depth - 1))
            first = pick(np.broadcast_to(every.first(rows.trips(loop)).reshape(shape), pick.shape))
        iteration = pick.axis(depth + 1) * every.stride + first
        if depth + 1 < len(slot.loops):
            outer = outer * (rows.layout.loops[loop].capacity * every.stride) + iteration
    return iteration + (span.start_ahead if slot.loops else 0), outer
