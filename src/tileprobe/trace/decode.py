"""Record buffers become columns of intervals and of edges.

In come the words that the programs of one or more launches wrote, with the `Layout` they were written by and
the `Sampling` in force; out go the columns of a Trace and what was kept, sampled away, lost or is in doubt. All
of it is array arithmetic: a span is a strided view of the buffer, and decoding it is a mask and a reshape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tileprobe.ir.layout import Layout, Slot, Span, from_end
from tileprobe.ir.machine import Clock, GlobalTimer
from tileprobe.ir.regions import Region
from tileprobe.ir.sampling import Sampling
from tileprobe.trace import cursor
from tileprobe.trace.blocks import Rows, read_rows
from tileprobe.trace.cursor import Pushed
from tileprobe.trace.cursor_weights import cursor_weights
from tileprobe.trace.domains import check_wraps
from tileprobe.trace.ends import meet
from tileprobe.trace.hidden import give_back
from tileprobe.trace.interrupted import Interruptions
from tileprobe.trace.losses import count_losses, standing_programs
from tileprobe.trace.model import KINDS, Losses
from tileprobe.trace.order import Residual, keep_order
from tileprobe.trace.replay import Calibration, delay_records
from tileprobe.trace.timer import Problem
from tileprobe.trace.unseen_loops import Ran
from tileprobe.trace.weights import Weight, loop_weights

__all__ = ["Decoded", "decode", "read_rows"]

Columns = dict[str, np.ndarray]


@dataclass
class Decoded:
    """Columns as `Trace.build` takes them (ids of units and regions are the buffer's own), the losses of each
    launch in the order they were given, edges from issues to the ends of their waits, and what is in doubt. `weight`,
    `fit`, `taken` and `probes` (ticks) say what an interval stands for and what is not its own."""

    columns: Columns
    losses: list[Losses]
    edges: Columns = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    residual: Residual = field(
        default_factory=Residual
    )  # what of the correction was more than there was to correct
    ran: list[Ran] = field(default_factory=list)  # of loops of the cursor's, by the ids of the launches


@dataclass
class _Ends:
    """Pairs of records that make intervals, in flat arrays."""

    start_rows: Rows
    stop_rows: Rows
    start_row: np.ndarray
    stop_row: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    iteration: np.ndarray
    outer: np.ndarray
    value: np.ndarray
    delays: tuple[np.ndarray, np.ndarray] | None
    weight: np.ndarray  # executions that it stands for in its stream instance
    fit: np.ndarray
    taken: np.ndarray  # ticks
    probes: np.ndarray  # ticks


def decode(
    buffers: np.ndarray,
    layout: Layout,
    *,
    epochs: Sequence[int],
    programs: int | Sequence[int],
    sampling: Sampling | None = None,
    launches: Sequence[int] | None = None,
    calibration: Calibration | None = None,
    clock: Clock | None = None,
    timer: GlobalTimer | None = None,
    regions: Sequence[Region] = (),
    interruptions: Interruptions | None = None,
    passed: bool = False,
) -> Decoded:
    """Decodes the buffers of launches of one kernel. A calibration adds columns of corrected ticks.

    `buffers` is (launches, blocks, words) or, for one launch, (blocks, words) or flat, of 64-bit words;
    `epochs` gives each launch's epoch, `programs` the size of its grid; `launches` the ids for the `launch`
    column (0, 1, ... if not given). With the rate of the `clock` and a `timer` that the whole machine shares,
    turns of narrow clocks that left no trace are found, and counters that are narrow in the machine itself count
    on from stream to stream. The kernel's `regions` say which spans are loops that nobody counts the iterations of;
    `interruptions` what is usual, and how long the launches are known to have waited. Where records of iterations that
    are not kept are `passed`, these and what lies between iterations take time of a loop's.
    """
    streams, sizes = read_rows(
        buffers, layout, epochs=epochs, programs=programs, sampling=sampling, clock=clock, timer=timer
    )
    for rows in streams:
        rows.passed = passed
    pushed = [cursor.read(rows) for rows in streams]
    residual = Residual()
    if calibration is not None:
        for rows, segment in zip(streams, pushed):
            delay_records(rows, segment, calibration)
            rows.probes, segment.probes = _copied(rows.delays), _copied(segment.delay)
            residual += keep_order(rows, segment)
            give_back(rows, segment, calibration)
    if interruptions is not None:
        for rows, segment in zip(streams, pushed):
            interruptions.take_out(rows, segment)
    weighed = [_weigh(rows, segment, regions) for rows, segment in zip(streams, pushed)]
    pieces, edges = [], []
    for span in layout.spans:
        ends = _ends(layout, weighed, span)
        pieces.append(_columns(ends, span))
        if span.kind == "async":
            edges.append(_edges(ends, span))
    ids = np.arange(len(sizes)) if launches is None else np.asarray(launches)
    problems = check_wraps(streams, pushed, clock, timer, ids) if clock and timer else []
    losses = count_losses(streams, pushed, [part.segment.count for part in weighed], sizes)
    standing = standing_programs(streams, sizes)
    for piece in pieces:
        piece["weight"] *= standing[piece["launch"]]
    ran = [
        replace(one, launch=int(ids[one.launch]), total=one.total * standing[one.launch])
        for part in weighed
        for one in part.ran
    ]
    return Decoded(_joined(pieces, ids), losses, _joined(edges, ids), problems, residual, ran)


def _copied(delays: np.ndarray | None) -> np.ndarray | None:
    return None if delays is None else delays.copy()


def _joined(pieces: list[Columns], ids: np.ndarray) -> Columns:
    if not pieces:
        return {}
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    columns["launch"] = ids.astype(np.uint32)[columns["launch"]]
    return columns


@dataclass
class _Weighed:
    """The rows of a stream with the records of its cursor, and what they stand for."""

    rows: Rows
    pushed: Pushed
    loops: dict[int, Weight]
    segment: Weight  # of each record of the cursor
    ran: list[Ran]  # its loops, by the place of the launch in the caller's list


def _weigh(rows: Rows, pushed: Pushed, regions: Sequence[Region]) -> _Weighed:
    loops = loop_weights(rows)
    return _Weighed(rows, pushed, loops, *cursor_weights(rows, pushed, loops, regions))


def _ends(layout: Layout, streams: list[_Weighed], span: Span) -> _Ends:
    start, stop = layout.slots[span.start], layout.slots[span.stop]
    if start.cursor:
        return _pushed(streams[start.stream], span)
    alike = (span.start_ahead, span.start_peeled) == (span.stop_ahead, span.stop_peeled)
    before_loop = span.kind == "async" and span.start_peeled >= 0  # which may not run at all
    if start.stream == stop.stream and alike and not before_loop:
        return _beside(streams[start.stream], span)
    return _apart(streams[start.stream], streams[stop.stream].rows, span)


def _beside(stream: _Weighed, span: Span) -> _Ends:
    """Both ends in the same iteration: their places are two views of the same shape."""
    rows = stream.rows
    first, last = (rows.layout.slots[slot] for slot in (span.start, span.stop))
    start, stop = rows.slot(first), rows.slot(last)
    written = (start >= 0) & (stop >= 0)
    pick = _Pick(start.shape, None if written.all() else np.flatnonzero(written))
    iteration, outer = _iterations(rows, span, first, pick)
    value = np.full(pick.size, np.nan)
    if first.payload:
        value = _as_float(pick(rows.slot(first, 1, rows.words)), first)
    delays = None
    if rows.delays is not None:
        early, late = (rows.slot(slot, 0, rows.delays) for slot in (first, last))
        delays = pick(early), pick(late)
    weight, fit = np.ones(pick.size), np.ones(pick.size)
    for loop in first.loops:
        weight *= pick.outer(stream.loops[loop].count)
        fit *= pick.outer(stream.loops[loop].fit)
    taken = np.zeros(pick.size)
    if rows.taken is not None:
        taken = pick(rows.slot(last, 0, rows.taken) - rows.slot(first, 0, rows.taken))
    probes = np.zeros(pick.size)
    if rows.probes is not None:
        probes = pick(rows.slot(last, 0, rows.probes) - rows.slot(first, 0, rows.probes))
    row, begin, end = pick.axis(0), pick(start), pick(stop)
    return _Ends(
        rows, rows, row, row, begin, end, iteration, outer, value, delays, weight, fit, taken, probes
    )


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

    def outer(self, table: np.ndarray | int) -> np.ndarray | int:
        """A table over (rows, *outer iterations), for the places within."""
        if not isinstance(table, np.ndarray):
            return table
        whole = table.reshape(*table.shape, *[1] * (len(self.shape) - table.ndim))
        return self(np.broadcast_to(whole, self.shape))


def _iterations(rows: Rows, span: Span, slot: Slot, pick: _Pick) -> tuple[np.ndarray, np.ndarray]:
    """Logical iteration and outer iterations of the picked places."""
    outer = np.zeros(pick.size, np.int64)
    iteration = np.full(pick.size, -1, np.int32)
    peeled = span.start_peeled >= 0
    for depth, loop in enumerate(slot.loops):
        iteration = pick.axis(depth + 1) * rows.sampling.loop(loop).stride + pick.outer(rows.first(loop))
        if peeled or depth + 1 < len(slot.loops):
            outer = outer * rows.span(loop) + iteration
    if not peeled and slot.loops and span.start_ahead:
        return _known(iteration + span.start_ahead, pick.outer(rows.whole_trips(slot.loops[-1]))), outer
    if not peeled:
        return iteration, outer
    loop = span.start_peeled
    if span.start_ahead >= 0:
        return _known(np.full(pick.size, span.start_ahead), pick(rows.whole_trips(loop))), outer
    return np.maximum(pick(rows.trips(loop)) + from_end(span.start_ahead), -1), outer


def _known(iteration: np.ndarray, trips: np.ndarray | int) -> np.ndarray:
    """Logical iterations; none (-1) where the loop has no such one: a wait before anything was issued, or for what was
    masked off behind the last iteration."""
    return np.where((iteration >= 0) & (iteration < trips), iteration, -1).astype(np.int32)


def _apart(stream: _Weighed, stop_rows: Rows, span: Span) -> _Ends:
    """Ends in different iterations, one of them peeled off a loop, or in two streams."""
    start_rows = stream.rows
    met = meet(start_rows, stop_rows, span)
    slot = start_rows.layout.slots[span.start]
    at, to = (met.start_row, met.start_word), (met.stop_row, met.stop_word)
    value = np.full(len(met.start_row), np.nan)
    if slot.payload:
        value = _as_float(start_rows.words[met.start_row, met.start_word + 1], slot)
    delays = None
    if start_rows.delays is not None and stop_rows.delays is not None:
        delays = start_rows.delays[at], stop_rows.delays[to]
    start, stop = start_rows.clocks[at], stop_rows.clocks[to]
    weight, fit = np.ones(len(at[0])), np.ones(len(at[0]))
    for depth, loop in enumerate(slot.loops):
        run = (met.start_row, *met.places[:depth])
        innermost = depth == len(slot.loops) - 1
        weight *= _across(stream, stop_rows, span, run) if innermost else stream.loops[loop].count[run]
        fit *= stream.loops[loop].fit[run]
    taken = np.zeros(len(at[0]))
    if start_rows is stop_rows and start_rows.taken is not None:
        taken = start_rows.taken[to] - start_rows.taken[at]
    return _Ends(
        *(start_rows, stop_rows, at[0], to[0], start, stop, met.iteration, met.outer, value, delays),
        weight=weight,
        fit=fit,
        taken=taken,
        probes=np.zeros(len(at[0])) if delays is None else delays[1] - delays[0],
    )


def _across(stream: _Weighed, stop_rows: Rows, span: Span, run: tuple[np.ndarray, ...]) -> np.ndarray:
    """What each pair in a run of the innermost loop stands for. With ends in different iterations there are fewer pairs
    than iterations, and fewer still have both ends among those that were recorded."""
    start_rows, slots = stream.rows, stop_rows.layout.slots
    loop = slots[span.start].loops[-1]
    trips = start_rows.trips(loop)
    inside = start_rows is stop_rows and slots[span.stop].loops == slots[span.start].loops
    if not inside or max(span.start_peeled, span.stop_peeled) >= 0:
        return stream.loops[loop].count[run]
    met = np.zeros(trips.shape)
    np.add.at(met, run, 1)
    aheads = span.start_ahead, span.stop_ahead
    last = min(*aheads, start_rows.layout.loops[loop].beyond)
    pairs = trips + last - max(*aheads, 0)
    return np.maximum(pairs[run] / met[run], 1.0)


def _pushed(stream: _Weighed, span: Span) -> _Ends:
    """Both ends in the cursor's segment."""
    rows, pushed = stream.rows, stream.pushed
    pairs = cursor.pair(rows, pushed, span)
    slot = rows.layout.slots[span.start]
    value = np.full(len(pairs.begin), np.nan)
    if slot.payload:
        value = np.where(pushed.valued[pairs.begin], _as_float(pushed.value[pairs.begin], slot), np.nan)
    row = pushed.row[pairs.begin]
    start, stop = pushed.clock[pairs.begin], pushed.clock[pairs.end]
    delays = None if pushed.delay is None else (pushed.delay[pairs.begin], pushed.delay[pairs.end])
    weight, fit = stream.segment.count[pairs.begin], stream.segment.fit[pairs.begin]
    taken = np.zeros(len(row))
    if pushed.taken is not None:
        taken = pushed.taken[pairs.end] - pushed.taken[pairs.begin]
    probes = np.zeros(len(row))
    if pushed.probes is not None:
        probes = pushed.probes[pairs.end] - pushed.probes[pairs.begin]
    numbers = np.maximum(pairs.iteration, -1), pairs.outer  # a wait before anything was issued is of none
    return _Ends(rows, rows, row, row, start, stop, *numbers, value, delays, weight, fit, taken, probes)


def _as_float(bits: np.ndarray, slot: Slot) -> np.ndarray:
    return bits.view(np.float64 if slot.payload == "f64" else np.int64).astype(np.float64)


def _columns(ends: _Ends, span: Span) -> Columns:
    """The intervals of one span. They lie in the stream in which they start."""
    rows, row = ends.start_rows, ends.start_row
    columns = {
        "launch": rows.launch.astype(np.uint32)[row],
        "program": rows.program.astype(np.uint32)[row],
        "stream": rows.instance.astype(np.uint16)[row],
        "unit": rows.unit.astype(np.uint32)[row],
        "region": np.full(len(row), span.region, np.uint32),
        "kind": np.full(len(row), KINDS.index(span.kind), np.uint8),
        "iteration": ends.iteration.astype(np.int32, copy=False),
        "outer": ends.outer,
        "start": ends.start,
        "stop": ends.stop,
        "value": ends.value,
        "weight": ends.weight,
        "fit": ends.fit,
        "taken": ends.taken,
        "probes": np.maximum(ends.probes, 0.0),
    }
    if ends.delays is not None:
        columns["start_corrected"] = ends.start - ends.delays[0]
        stop = ends.stop - ends.delays[1]
        if ends.start_rows is not ends.stop_rows:  # probes of two streams do not delay each other
            stop = np.where(ends.stop >= ends.start, np.maximum(stop, columns["start_corrected"]), stop)
        columns["stop_corrected"] = stop
        # the gaps from which was learnt what is usual had the cost of a record in them
        lasted = np.maximum(stop - columns["start_corrected"], 0.0)
        columns["taken"] = np.minimum(ends.taken, lasted)
    return columns


def _edges(ends: _Ends, span: Span) -> Columns:
    """From the issue of an asynchronous operation to the end of its wait."""
    count = len(ends.start_row)
    columns = {
        "launch": ends.start_rows.launch.astype(np.uint32)[ends.start_row],
        "kind": np.full(count, "issue-wait"),
    }
    both = (
        ("from", ends.start_rows, ends.start_row, ends.start),
        ("to", ends.stop_rows, ends.stop_row, ends.stop),
    )
    for end, rows, row, tick in both:
        columns[f"{end}_program"] = rows.program.astype(np.uint32)[row]
        columns[f"{end}_stream"] = rows.instance.astype(np.uint16)[row]
        columns[f"{end}_unit"] = rows.unit.astype(np.uint32)[row]
        columns[f"{end}_region"] = np.full(count, span.region, np.uint32)
        columns[f"{end}_tick"] = tick
    if ends.delays is not None:
        columns["from_tick_corrected"] = ends.start - ends.delays[0]
        columns["to_tick_corrected"] = ends.stop - ends.delays[1]
    return columns
