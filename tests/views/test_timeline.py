"""The timeline of a trace with several programs on a unit, several streams in a program, edges and counters."""

import json
from collections import Counter

import numpy as np
import pytest
from made import attention
from made_streams import ITERATIONS, warp_specialised

from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit
from tileprobe.views.chrome import chrome_events
from tileprobe.views.tracks import tracks


def load(trace):
    return json.loads("".join(chrome_events(trace)))


def slices_of(events):
    """By track the slices as (start, stop, name) in nanoseconds, in the order of the file."""
    found = {}
    for e in events:
        if e["ph"] == "X":
            start = round(1e3 * e["ts"])
            found.setdefault((e["pid"], e["tid"]), []).append(
                (start, start + round(1e3 * e["dur"]), e["name"])
            )
    return found


def check_nesting(events):
    """On one track two slices are apart or one holds the other: checked pair by pair with a stack."""
    for track, slices in slices_of(events).items():
        open_ = []
        for start, stop, name in slices:
            while open_ and open_[-1][1] <= start:
                open_.pop()
            assert not open_ or stop <= open_[-1][1], (track, name, open_[-1])
            open_.append((start, stop))


def names_of(events):
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}


def test_lanes_and_streams_have_tracks_of_their_own():
    trace = warp_specialised()
    events = load(trace)["traceEvents"]
    check_nesting(events)
    names = names_of(events)
    assert len(names) == len(set(names.values())) == 2 * 2 * 3
    assert "SM 1 / lane 1 / consumer / warp 0" in names.values()
    on = {}
    for e in events:
        if e["ph"] == "X":
            on.setdefault(names[e["pid"], e["tid"]], Counter())[e["name"]] += 1
            assert names[e["pid"], e["tid"]].startswith(f"SM {e['args']['program'] % 2}")
    assert on["SM 0 / lane 0 / producer"] == {"ws": 2}
    assert on["SM 0 / lane 1 / consumer / warp 1"] == {
        "ws": 2,
        "loop @ 8": 2,
        "dot @ 9": 2 * ITERATIONS,
        "copy @ 7": 2 * ITERATIONS,
    }
    for e in events:
        if e["name"] == "ws":
            assert e["args"]["program"] // 2 % 2 == int(names[e["pid"], e["tid"]].split("lane ")[1][0])


def test_edges_are_arrows_between_slices():
    trace = warp_specialised()
    events = load(trace)["traceEvents"]
    names = names_of(events)
    starts, ends = ({e["id"]: e for e in events if e["ph"] == ph} for ph in "sf")
    assert set(starts) == set(ends)
    assert len(starts) == trace.edges.height == 8 * 2 * ITERATIONS + 4
    slices = slices_of(events)
    for key, start in starts.items():
        end = ends[key]
        around = {name for a, b, name in slices[end["pid"], end["tid"]] if a <= round(1e3 * end["ts"]) < b}
        if start["name"] == "issue-wait":
            assert "producer" in names[start["pid"], start["tid"]]
            assert "consumer" in names[end["pid"], end["tid"]]
            assert "copy @ 7" in around
            assert end["bp"] == "e"
        else:
            assert start["name"] == "program-slot"
            assert around == {"ws"}


def test_an_edge_to_what_is_not_there_is_left_out():
    trace = warp_specialised()
    trace.edge_frame = trace.edges.with_columns(to_stream=trace.edges["to_stream"] + 7)
    assert not [e for e in load(trace)["traceEvents"] if e["ph"] in "sf"]


def test_counters_show_while_their_launch_runs():
    events = load(warp_specialised(launches=2))["traceEvents"]
    counters = [(e["name"], e["ts"], e["args"]["value"]) for e in events if e["ph"] == "C"]
    assert ("bank conflicts", 0.0, 16.0) in counters
    assert ("stall cycles", 0.0, 900.5) in counters
    assert [value for name, ts, value in counters if ts > 0] == [0.0, 0.0]


def test_the_uncertainty_of_clocks_is_stated():
    data = load(warp_specialised())
    assert data["otherData"]["clock_error_ns"] == 42.0
    assert [d["name"] for d in data["otherData"]["clock_domains"]] == ["gpc 0", "gpc 1"]
    labels = [e["args"]["labels"] for e in data["traceEvents"] if e["name"] == "process_labels"]
    assert labels == ["times of different clocks compare to ±42 ns"]
    plain = load(attention())
    assert plain["otherData"] == {}
    assert not [e for e in plain["traceEvents"] if e["name"] == "process_labels"]


def test_a_unit_with_one_program_at_a_time_is_one_track():
    assert set(names_of(load(attention())["traceEvents"]).values()) == {"core 0", "core 1"}


def test_kernels_at_the_same_time_are_processes_of_their_own():
    trace = Trace.build(
        {"launch": [0, 1], "region": [0, 1], "start": [0, 5], "stop": [10, 15]},
        kernels=[Kernel(0, "a", "cpu", Clock(1e9)), Kernel(1, "b", "cpu", Clock(1e9))],
        launches=[Launch(0, 0), Launch(1, 1)],
        regions=[Region(0, "a", "kernel"), Region(1, "b", "kernel", kernel=1)],
        units=[Unit(0, "core 0")],
    )
    assert names_of(load(trace)["traceEvents"]) == {(0, 0): "core 0", (1, 0): "core 0"}


@pytest.mark.parametrize("seed", range(20))
def test_slices_of_any_trace_nest(seed):
    """Even where a unit does several things at once as one program (a die of a simulated flash chip)."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(1, 120))
    start = draw.integers(0, 200, n)
    trace = Trace.build(
        {
            "launch": draw.integers(0, 2, n),
            "program": draw.integers(0, 3, n),
            "stream": draw.integers(0, 2, n),
            "unit": draw.integers(0, 2, n),
            "region": draw.integers(0, 3, n),
            "kind": draw.choice(["region", "region", "wait", "async", "mark"], n),
            "start": start,
            "stop": start + draw.integers(0, 40, n),
        },
        kernels=[Kernel(0, "k", "cpu", Clock(3e9))],
        launches=[Launch(0), Launch(1)],
        regions=[Region(r, f"r{r}", "dot", depth=r) for r in range(3)],
        units=[Unit(0, "a"), Unit(1, "b")],
    )
    events = load(trace)["traceEvents"]
    check_nesting(events)
    assert sum(e["ph"] in "Xib" for e in events) == n
    names = names_of(events)
    assert len(set(names.values())) == len(names)
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] in "Xibe"} <= set(names)


def test_crossing_slices_of_one_stream_get_a_further_track():
    trace = Trace.build(
        {"region": [0, 0], "start": [0, 5], "stop": [10, 15]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0)],
        regions=[Region(0, "k")],
        units=[Unit(0, "die 0")],
    )
    assert tracks(trace).table["name"].to_list() == ["die 0", "die 0 / at the same time 1"]
