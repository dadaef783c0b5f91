"""The timeline as Perfetto's own format (ui.perfetto.dev, trace_processor): tracks, slices, flows, counters.

A kernel is a group of tracks, each a unit, or a lane of it with a stream of its program (`views/tracks.py`).
Asynchronous operations have tracks of their own below; edges are flows between instants; values and counters are
counter tracks. Program, launch, iteration and source are arguments of a slice.

Messages are made by Perfetto's classes; of the many that differ in their time and arguments alone the common part is
made once, and the rest is put behind it as the format allows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from tileprobe.files import write_file
from tileprobe.tools.signatures import told_apart
from tileprobe.trace import Trace
from tileprobe.trace.intervals import lanes
from tileprobe.views.brackets import brackets
from tileprobe.views.encodable import encodable
from tileprobe.views.tracks import ADDS_UP, SLICES, Tracks, tracks

Event = proto.TrackEvent
SEQUENCE = 1
PIECE = 100_000  # events that are joined before they are written
ARGUMENTS = ("launch", "program", "iteration", "source", "stands for")  # interned, numbered from 1
BELOW = (
    1 << 32
)  # added to a track's number: its asynchronous operations, and a step more for each lane of them
COUNTERS = 1 << 48
STAMP = 8  # bytes of a time: 7 bits each, 833 days of nanoseconds
# Numbers of fields, with the kind of value that follows, as the format writes them.
PACKET, TIMESTAMP, TRACK_EVENT = b"\x0a", b"\x40", b"\x5a"


class Perfetto:
    """The view called `perfetto`."""

    name = "perfetto"
    suffix = ".pftrace"

    def write(self, trace: Trace, path: str | os.PathLike[str]) -> None:
        write_file(path, perfetto(trace))


def perfetto(trace: Trace) -> Iterator[bytes]:
    """The file in pieces."""
    trace = encodable(trace)
    drawn = tracks(trace)
    yield _framed(_head(trace))
    yield from _descriptors(trace, drawn)
    slices = drawn.frame.filter(pl.col("kind").is_in(SLICES)).with_columns(uuid=_uuid("kernel", "track"))
    yield from _slices(trace, slices)
    yield from _asynchronous(trace, drawn)
    yield from _marks(trace, drawn)
    yield from _flows(trace, drawn)
    yield from _counters(trace, drawn)


def _uuid(kernel: str, track: str) -> pl.Expr:
    return ((pl.col(kernel).cast(pl.Int64) + 1) * (1 << 20) + pl.col(track) + 1).alias("uuid")


# -- messages ------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _framed(packet: proto.TracePacket) -> bytes:
    packet.trusted_packet_sequence_id = SEQUENCE
    data = packet.SerializeToString()
    return PACKET + _varint(len(data)) + data


def _packet() -> proto.TracePacket:
    packet = proto.TracePacket()
    packet.sequence_flags = proto.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
    packet.trusted_packet_sequence_id = SEQUENCE
    return packet


def _head(trace: Trace) -> proto.TracePacket:
    """Names are written once and referred to by number."""
    packet = proto.TracePacket()
    packet.sequence_flags = proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    for number, name in enumerate(ARGUMENTS, 1):
        packet.interned_data.debug_annotation_names.add(iid=number, name=name)
    for region in trace.regions:
        packet.interned_data.event_names.add(iid=2 * region.id + 1, name=region.name)
        packet.interned_data.event_names.add(iid=2 * region.id + 2, name=f"wait: {region.name}")
        packet.interned_data.event_categories.add(iid=region.id + 1, name=region.kind)
        packet.interned_data.debug_annotation_string_values.add(iid=region.id + 1, str=region.remark.encode())
    return packet


def _descriptors(trace: Trace, drawn: Tracks) -> Iterator[bytes]:
    for kernel in told_apart(trace.kernels):
        packet = proto.TracePacket()
        packet.track_descriptor.uuid = kernel.id + 1
        packet.track_descriptor.name = f"{kernel.name} on {kernel.target}"
        packet.track_descriptor.child_ordering = proto.TrackDescriptor.EXPLICIT
        yield _framed(packet)
    table = drawn.table.with_columns(_uuid("kernel", "track"))
    for kernel, track, uuid, name in table.select("kernel", "track", "uuid", "name").iter_rows():
        yield _descriptor(uuid, name, kernel + 1, track)


def _descriptor(uuid: int, name: str, parent: int, rank: int = 0) -> bytes:
    packet = proto.TracePacket()
    packet.track_descriptor.uuid = uuid
    packet.track_descriptor.parent_uuid = parent
    packet.track_descriptor.name = name
    packet.track_descriptor.sibling_order_rank = rank
    return _framed(packet)


def _event(kind: int, uuid: int) -> proto.TrackEvent:
    event = Event()
    event.type = kind  # type: ignore[assignment]
    event.track_uuid = uuid
    return event


class _Pieces(dict[Any, bytes]):
    """Bytes by what they are made of; each is made once."""

    def __init__(self, make: Callable[[Any], bytes]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Any) -> bytes:
        self[key] = made = self._make(key)
        return made


def _argument(number: int) -> _Pieces:
    """An argument of a slice as bytes of its event, by its value."""

    def make(value: float) -> bytes:
        event = Event()
        if number == 5:
            event.debug_annotations.add(name_iid=number, double_value=value)
        else:
            event.debug_annotations.add(name_iid=number, int_value=int(value))
        return event.SerializeToString()

    return _Pieces(make)


def _stamps(ns: np.ndarray) -> bytes:
    """Times as the format writes numbers, each in STAMP bytes: what is short is filled up, as the format allows."""
    left = np.maximum(ns, 0).astype(np.uint64)
    out = np.empty((len(left), STAMP), np.uint8)
    for n in range(STAMP):
        out[:, n] = (left & np.uint64(0x7F)).astype(np.uint8) | (0x80 if n < STAMP - 1 else 0)
        left >>= np.uint64(7)
    return out.tobytes()


# -- slices --------------------------------------------------------------------------------------------


def _slices(trace: Trace, frame: pl.DataFrame) -> Iterator[bytes]:
    """Events of slices that nest within `uuid`, track after track, each in the order of time."""
    columns = {name: frame[name].to_numpy() for name in ("uuid", "start_ns", "stop_ns")}
    ids, closes = brackets(columns["uuid"], columns["start_ns"], columns["stop_ns"])
    stamps = _stamps(np.where(closes, columns["stop_ns"][ids], columns["start_ns"][ids]))
    tail = _packet().SerializeToString()
    begin, end = _Pieces(_opener(trace)), _Pieces(lambda uuid: _closer(uuid, tail))
    launch, program, iteration, weight = (_argument(n) for n in (1, 2, 3, 5))
    iteration[-1] = weight[1.0] = b""
    wait = (frame["kind"] == "wait").to_list()
    keys = list(zip(frame["uuid"].to_list(), frame["region"].to_list(), wait))
    values = [frame[name].to_list() for name in ("launch", "program", "iteration", "weight")]
    launches, programs, iterations, weights = values
    sizes = [_varint(size) for size in range(4096)]
    out: list[bytes] = []
    for at, (n, closing) in enumerate(zip(ids.tolist(), closes.tolist())):
        stamp = stamps[at * STAMP : (at + 1) * STAMP]
        if closing:
            rest = end[keys[n][0]]
        else:
            event = begin[keys[n]] + launch[launches[n]] + program[programs[n]]
            event += iteration[iterations[n]] + weight[weights[n]]
            rest = TRACK_EVENT + sizes[len(event)] + event + tail
        out.append(PACKET + sizes[1 + STAMP + len(rest)] + TIMESTAMP + stamp + rest)
        if len(out) == PIECE:
            yield b"".join(out)
            out.clear()
    yield b"".join(out)


def _opener(trace: Trace) -> Callable[[tuple[int, int, bool]], bytes]:
    placed = {region.id for region in trace.regions if region.source}

    def make(key: tuple[int, int, bool]) -> bytes:
        uuid, region, wait = key
        event = _event(Event.TYPE_SLICE_BEGIN, uuid)
        event.name_iid = 2 * region + (2 if wait else 1)
        event.category_iids.append(region + 1)
        if region in placed:
            event.debug_annotations.add(name_iid=4, string_value_iid=region + 1)
        return event.SerializeToString()

    return make


def _closer(uuid: int, tail: bytes) -> bytes:
    event = _event(Event.TYPE_SLICE_END, uuid).SerializeToString()
    return TRACK_EVENT + _varint(len(event)) + event + tail


def _asynchronous(trace: Trace, drawn: Tracks) -> Iterator[bytes]:
    """Operations of one track can overlap: each lane of them is a track below it."""
    spans = drawn.frame.filter(pl.col("kind") == "async").with_columns(_uuid("kernel", "track"))
    if not spans.height:
        return
    lane = lanes(*(spans[name].to_numpy() for name in ("uuid", "start_ns", "stop_ns")))
    below = pl.Series((lane + 1) * BELOW, dtype=pl.Int64)
    spans = spans.with_columns(parent=pl.col("uuid"), uuid=spans["uuid"] + below)
    for uuid, parent in spans.select("uuid", "parent").unique().sort("uuid").iter_rows():
        yield _descriptor(uuid, "asynchronous", parent)
    yield from _slices(trace, spans)


def _marks(trace: Trace, drawn: Tracks) -> Iterator[bytes]:
    marks = drawn.frame.filter(pl.col("kind") == "mark").with_columns(_uuid("kernel", "track"))
    for uuid, region, ns in marks.select("uuid", "region", "start_ns").iter_rows():
        event = _event(Event.TYPE_INSTANT, uuid)
        event.name_iid = 2 * region + 1
        yield _at(ns, event)


def _at(ns: float, event: proto.TrackEvent) -> bytes:
    packet = _packet()
    packet.timestamp = max(0, round(ns))
    packet.track_event.CopyFrom(event)
    return _framed(packet)


def _flows(trace: Trace, drawn: Tracks) -> Iterator[bytes]:
    """An edge is a flow from one instant to another."""
    edges = trace.edges.with_row_index("number")
    for end in ("from", "to"):
        found = drawn.of(edges, end).with_columns(_uuid("kernel", f"{end}_track").alias(f"{end}_uuid"))
        edges = edges.join(found.select("number", f"{end}_uuid"), on="number", maintain_order="left")
    columns = ("number", "kind", "from_uuid", "from_ns", "to_uuid", "to_ns")
    for number, kind, source, leaves, sink, arrives in edges.select(columns).iter_rows():
        for uuid, ns in ((source, leaves), (sink, arrives)):
            event = _event(Event.TYPE_INSTANT, uuid)
            event.name = str(kind)
            event.flow_ids.append(number + 1)
            yield _at(ns, event)


# -- counters ------------------------------------------------------------------------------------------


def _counters(trace: Trace, drawn: Tracks) -> Iterator[bytes]:
    """Values that a kernel recorded, and what was counted: its sum over units and lines while its launch runs."""
    names = {region.id: region.name for region in trace.regions}
    values = drawn.frame.filter((pl.col("kind") == "value") & pl.col("value").is_finite())
    name = pl.col("region").replace_strict(names, default="?", return_dtype=pl.String)
    points = values.select("kernel", name.alias("name"), pl.col("start_ns").alias("ns"), "value")
    spans = drawn.frame.group_by("launch", "kernel").agg(pl.col("start_ns").min(), pl.col("stop_ns").max())
    sums = (
        trace.counters.filter(ADDS_UP)
        .group_by("launch", "name", maintain_order=True)
        .agg(pl.col("value").sum())
    )
    sums = sums.filter(pl.col("value").is_finite()).join(spans, on="launch", maintain_order="left")
    begin = sums.select("kernel", "name", pl.col("start_ns").alias("ns"), "value")
    end = sums.select("kernel", "name", pl.col("stop_ns").alias("ns"), pl.lit(0.0).alias("value"))
    known: dict[tuple[int, str], int] = {}
    for kernel, title, ns, value in pl.concat([points, begin, end]).sort("ns").iter_rows():
        if (kernel, title) not in known:
            known[kernel, title] = COUNTERS + len(known)
            yield _counter_track(known[kernel, title], title, kernel + 1)
        event = _event(Event.TYPE_COUNTER, known[kernel, title])
        event.double_counter_value = value
        yield _at(ns, event)


def _counter_track(uuid: int, name: str, parent: int) -> bytes:
    packet = proto.TracePacket()
    packet.track_descriptor.uuid = uuid
    packet.track_descriptor.parent_uuid = parent
    packet.track_descriptor.name = name
    packet.track_descriptor.counter.SetInParent()
    return _framed(packet)
