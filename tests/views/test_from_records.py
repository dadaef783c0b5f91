"""From the words of a warp-specialised kernel to the timeline: two partitions, a pipelined copy between them, 32-bit
clocks, two units whose clocks differ."""

import io
import json

import numpy as np
import pytest

from tileprobe.ir.layout import (
    BEGIN,
    EPOCH,
    GLOBAL_BEGIN,
    GLOBAL_END,
    UNIT,
    Body,
    Span,
    Stamp,
    StreamItems,
    allocate,
)
from tileprobe.ir.machine import GlobalTimer
from tileprobe.tools import load_tool
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit, cursor
from tileprobe.trace.blocks import read_rows
from tileprobe.trace.decode import decode
from tileprobe.trace.domains import align
from tileprobe.views.chrome import chrome_events
from tileprobe.views.terminal import make_console, print_report

EPOCH_NUMBER, TRIPS, HZ = 5, 4, 1e9
STARTED = {0: 1_000_000, 1: 1_000_050}  # when the program on each unit began, by the clock that all share
OWN = {0: 2**32 - 100, 1: 70_000}  # what the unit's own clock showed then; the first is about to wrap
ISSUES = (10, 20, 30, 80)  # ns after the start: two before the loop, then in iterations 0 and 1 for 2 and 3
DONE = (
    60,
    110,
    160,
    210,
)  # when each of the four copies is there; what iterations 2 and 3 issue nobody awaits
COPY, KERNEL = 1, 0
P_START, PRO_0, PRO_1, ISSUE, P_STOP, C_START, W_START, W_STOP, C_STOP = range(9)


def layout():
    """The producer: two copies of the prologue, a loop that issues two iterations ahead. The consumers: a loop that
    waits."""
    producer = [Stamp(P_START), Stamp(PRO_0), Stamp(PRO_1), Body(0, TRIPS, (Stamp(ISSUE),)), Stamp(P_STOP)]
    consumer = [Stamp(C_START), Body(1, TRIPS, (Stamp(W_START), Stamp(W_STOP))), Stamp(C_STOP)]
    spans = [
        Span(KERNEL, P_START, P_STOP),
        Span(KERNEL, C_START, C_STOP),
        Span(COPY, W_START, W_STOP, "wait"),
        Span(COPY, ISSUE, W_STOP, "async", start_ahead=2),
        Span(COPY, PRO_0, W_STOP, "async", start_peeled=0, start_ahead=0),
        Span(COPY, PRO_1, W_STOP, "async", start_peeled=0, start_ahead=1),
    ]
    streams = [StreamItems(producer, "producer"), StreamItems(consumer, "consumer", 2)]
    return allocate(streams, spans=spans, clock_bits=32, granularity="warp")


def write(block, layout, unit):
    """What the three streams of one program write."""
    for stream in layout.streams:
        for instance in range(stream.instances):
            at = stream.base + instance * stream.words
            mine = block[at : at + stream.words]
            mine[EPOCH], mine[UNIT], mine[BEGIN] = EPOCH_NUMBER, unit, OWN[unit]
            mine[GLOBAL_BEGIN], mine[GLOBAL_END] = STARTED[unit], STARTED[unit] + 300

            def stamp(slot, ns, *index, mine=mine):
                clock = (OWN[unit] + ns) & 0xFFFFFFFF
                mine[layout.slots[slot].place(index)] = EPOCH_NUMBER << 32 | clock

            trips = layout.loops[stream.id].trip_base
            mine[trips] = EPOCH_NUMBER << 32 | TRIPS
            if stream.name == "producer":
                stamp(P_START, 0)
                stamp(PRO_0, ISSUES[0])
                stamp(PRO_1, ISSUES[1])
                for i in range(TRIPS):
                    stamp(ISSUE, ISSUES[2] + 50 * i, i)
                stamp(P_STOP, 250)
            else:
                stamp(C_START, instance)
                for i, done in enumerate(DONE):
                    stamp(W_START, done - 15, i)
                    stamp(W_STOP, done + instance, i)
                stamp(C_STOP, 260 + instance)


@pytest.fixture(scope="module")
def trace():
    place = layout()
    words = np.zeros((1, 2, place.block_words), np.uint64)
    for program in range(2):
        write(words[0, program], place, unit=program)
    clock, timer = Clock(HZ, bits=32), GlobalTimer(1e9, step=32)
    streams, _ = read_rows(words, place, epochs=[EPOCH_NUMBER], programs=2)
    aligned = align(streams, [cursor.read(rows) for rows in streams], clock, timer)
    decoded = decode(words, place, epochs=[EPOCH_NUMBER], programs=2, clock=clock, timer=timer)
    assert decoded.problems == aligned.problems == []
    return Trace.build(
        decoded.columns,
        kernels=[Kernel(0, "ws", "sim:h100", clock, layout=json.loads(json.dumps(place.to_json())))],
        launches=[Launch(0, 0, (2,))],
        regions=[Region(KERNEL, "ws", "kernel"), Region(COPY, "copy", "async", KERNEL, depth=1)],
        units=[Unit(n, f"SM {n}", "SM", domain=aligned.domains[n].name) for n in range(2)],
        edges=decoded.edges,
        domains=list(aligned.domains.values()),
    )


def test_times_of_both_clocks_compare(trace):
    whole = trace.filter(kind="kernel").intervals.filter(stream=0).sort("program")
    assert [domain.error_ns for domain in trace.domains] == pytest.approx([16, 16], abs=16)
    apart = whole["start_ns"][1] - whole["start_ns"][0]
    assert apart == pytest.approx(50, abs=sum(domain.error_ns for domain in trace.domains))
    assert (whole["stop_ns"] - whole["start_ns"]).to_list() == pytest.approx([250, 250])


def test_copies_meet_the_waits_of_both_consumers(trace):
    edges = trace.edges.filter(from_program=0).sort("to_ns", "to_stream")
    assert edges.height == 2 * TRIPS
    assert edges["from_stream"].unique().to_list() == [0]
    assert edges["to_stream"].to_list() == [1, 2] * TRIPS
    begin = trace.intervals.filter(program=0, stream=0, region=KERNEL)["start_ns"][0]
    assert (edges["from_ns"] - begin).to_list() == pytest.approx([t for t in ISSUES for _ in "12"])
    assert (edges["to_ns"] - begin).to_list() == pytest.approx([t + n for t in DONE for n in (0, 1)])
    waits = trace.intervals.filter(kind="wait", program=0, stream=1)
    assert waits["iteration"].sort().to_list() == list(range(TRIPS))


def test_every_view_shows_it(trace, tmp_path):
    trace.save(tmp_path / "t.parquet")
    for one in (trace, Trace.open(tmp_path / "t.parquet")):
        out = io.StringIO()
        results = [
            load_tool(name).read(one) for name in ("regions", "source", "iterations", "programs", "units")
        ]
        print_report(one, results, make_console(out, 100))
        assert "3 streams a program: producer, consumer / warp 0, consumer / warp 1" in out.getvalue()
        assert "2 clock domains: times of different ones compare to" in out.getvalue()
        assert "consumer x 2" in out.getvalue()
        events = json.loads("".join(chrome_events(one)))["traceEvents"]
        names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        assert list(names.values()) == [
            f"SM {sm} / {stream}" for sm in (0, 1) for stream in one.stream_names(0)
        ]
        arrows = [(names[e["tid"]], e["ph"]) for e in events if e["ph"] in "sf"]
        assert arrows.count(("SM 1 / producer", "s")) == 2 * TRIPS
        assert arrows.count(("SM 1 / consumer / warp 1", "f")) == TRIPS
        assert sum(e["ph"] == "b" for e in events) == 2 * 2 * TRIPS
