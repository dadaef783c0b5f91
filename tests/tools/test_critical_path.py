"""The critical path: hand-built launches whose answer is known, and random ones that are run again with a piece of them
longer: what is on the path delays the end, what is beside it does not."""

from itertools import count

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.tools import load_tool
from tileprobe.tools.near import near
from tileprobe.tools.path import KINDS, path_of
from tileprobe.tools.slack import slack_of
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit

REGIONS = [
    Region(0, "k", "kernel", None, 0, "k.py", 1, 20),
    Region(1, "loop @ 3", "loop", 0, 0, "k.py", 3, 9),
    Region(2, "dot @ 5", "dot", 1, 0, "k.py", 5, 5),
    Region(3, "TMA load @ 4", "async", 1, 0, "k.py", 4, 4),
    Region(4, "exp @ 6", "exp2+mul", 1, 0, "k.py", 6, 7),
    Region(5, "release @ 8", "async", 1, 0, "k.py", 8, 8),
]
COLUMNS = ("unit", "program", "stream", "region", "kind", "start", "stop")
ENDS = ("program", "stream", "unit", "region", "ns")


def edge(kind, start, stop, launch=0):
    """From and to: program, stream, unit, region, time."""
    row = {"launch": launch, "kind": kind}
    row |= {f"from_{name}": value for name, value in zip(ENDS, start)}
    return row | {f"to_{name}": value for name, value in zip(ENDS, stop)}


def build(
    rows,
    edges=(),
    *,
    clock="simulated",
    streams=(),
    losses=None,
    durations=(None,),
    units=("sm",) * 4,
    **more,
):
    columns = {name: list(column) for name, column in zip(COLUMNS, zip(*rows))}
    told = {name: [each[name] for each in edges] for name in edges[0]} if edges else None
    return Trace.build(
        {**columns, **more},
        kernels=[Kernel(0, "k", "sim:h100", Clock(1e9, clock), streams=streams)],
        launches=[Launch(n, 0, (4,), 0.0, ns, losses=losses or Losses(1)) for n, ns in enumerate(durations)],
        regions=REGIONS,
        units=[Unit(n, f"{kind} {n}", kind) for n, kind in enumerate(units)],
        edges=told,
    )


def read(trace):
    result = load_tool("critical-path").read(trace)
    return {t.title.removeprefix("k: "): t.frame for t in result.tables}, result.findings


def on_path(tables, by="name", title="what is on the critical path"):
    return {row[by]: row for row in tables[title].iter_rows(named=True)}


def kinds(tables):
    return {kind: row["ns"] for kind, row in on_path(tables, "kind", "kinds of time on it").items()}


def steps(trace):
    """What the path is made of, first to last: program, stream, region, kind, start, stop."""
    path = path_of(trace, trace.kernels[0])
    assert path is not None
    rows = path.rows.reverse().select("program", "stream", "region", "kind", "start_ns", "stop_ns").rows()
    return [tuple(row) for row in rows]


# a loop of 100: products for 60, then 40 of waiting for a load that was issued 10 after its start
LATE_LOAD = [
    (0, 0, 0, 0, "region", 0, 120),
    (0, 0, 0, 1, "region", 0, 100),
    (0, 0, 0, 2, "region", 0, 60),
    (0, 0, 0, 3, "async", 10, 100),
    (0, 0, 0, 3, "wait", 60, 100),
]


def test_an_operation_that_was_waited_for_is_the_path_from_its_issue_on():
    assert steps(build(LATE_LOAD)) == [
        (0, 0, 2, "work", 0, 10),
        (0, 0, 3, "wait", 10, 100),
        (0, 0, 0, "work", 100, 120),
    ]
    tables, findings = read(build(LATE_LOAD))
    rows = on_path(tables)
    assert rows["TMA load @ 4"]["share"] == pytest.approx(0.75) and rows["TMA load @ 4"]["waited"] == 1.0
    assert rows["dot @ 5"]["ns"] == 10 and rows["dot @ 5"]["waited"] == 0
    assert rows["dot @ 5"]["spare_ns"] == 40  # what is left of it lies beside the load
    (held,) = tables["what it waits for"].to_dicts()
    assert (held["ns"], held["count"], held["longest_ns"]) == (40, 1, 40)
    assert held["name"] == held["whom"] == "TMA load @ 4"
    lines = on_path(tables, "line", "lines on it")
    assert {line: row["ns"] for line, row in lines.items()} == {"k.py:4": 90, "k.py:1-20": 20, "k.py:5": 10}
    assert "75.0 % TMA load @ 4, then 16.7 % k" in findings[0].text
    assert "held up most at TMA load @ 4, 33 % of the time" in findings[0].text


def test_an_operation_that_was_over_before_its_wait_is_not_on_the_path():
    rows = [*LATE_LOAD[:3], (0, 0, 0, 3, "async", 10, 60), (0, 0, 0, 3, "wait", 60, 60)]
    late = edge("issue-wait", (0, 0, 0, 3, 10), (0, 0, 0, 3, 60))
    for trace in (build(rows), build(rows, [late])):
        assert [(region, kind) for _, _, region, kind, _, _ in steps(trace)] == [
            (2, "work"),
            (1, "work"),
            (0, "work"),
        ]


def test_edges_of_a_target_without_waits_are_what_was_waited_for():
    rows = [(0, 0, 0, 0, "region", 0, 100), (0, 0, 0, 4, "region", 0, 30), (0, 0, 0, 2, "region", 30, 100)]
    trace = build(rows, [edge("issue-wait", (0, 0, 0, 4, 20), (0, 0, 0, 2, 90))])
    assert steps(trace) == [(0, 0, 4, "work", 0, 20), (0, 0, 4, "wait", 20, 90), (0, 0, 2, "work", 90, 100)]


def test_who_arrives_last_at_a_barrier_is_on_the_path():
    rows = [
        (0, 0, 0, 0, "region", 0, 100),
        (0, 0, 0, 2, "region", 0, 90),
        (0, 0, 1, 0, "region", 0, 110),
        (0, 0, 1, 4, "region", 0, 30),
        (0, 0, 1, 5, "wait", 30, 95),
    ]
    early, late = ((0, 0, 0, 2, at) for at in (50, 90))
    waits = (0, 1, 0, 5, 95)
    trace = build(
        rows,
        [edge("arrive-wait", late, waits), edge("arrive-wait", early, waits)],
        streams=("consumer / warp 0", "producer / warp 0"),
    )
    assert steps(trace) == [(0, 0, 2, "work", 0, 90), (0, 0, 2, "wait", 90, 95), (0, 1, 0, "work", 95, 110)]
    tables, _ = read(trace)
    (held,) = tables["what it waits for"].to_dicts()
    assert (held["name"], held["whom"], held["ns"]) == ("producer: release @ 8", "consumer: dot @ 5", 65)
    legs = tables["the chain"]["what"].to_list()
    assert legs == ["consumer: dot @ 5", "waits for consumer: dot @ 5", "producer: k"]
    path = path_of(trace, trace.kernels[0])
    assert path is not None and path.handed is not None
    assert path.handed.from_ns.tolist() == [90]  # who came earlier was not waited for
    beside = near(path)
    assert beside is not None and beside.spare_ns[4] == (65, 65)  # what the producer did before it waited


def test_what_is_handed_over_right_before_the_end():
    rows = [(0, 0, 0, 2, "region", 0, 99), (0, 0, 1, 4, "region", 0, 10), (0, 0, 1, 5, "wait", 10, 100)]
    trace = build(rows, [edge("arrive-wait", (0, 0, 0, 2, 99), (0, 1, 0, 5, 100))])
    assert steps(trace) == [(0, 0, 2, "work", 0, 99), (0, 0, 2, "wait", 99, 100)]


def test_what_takes_no_time_is_not_waited_for():
    rows = [(0, 0, 0, 2, "region", 0, 50), (0, 0, 1, 4, "region", 0, 100)]
    trace = build(rows, [edge("arrive-wait", (0, 0, 0, 2, 50), (0, 1, 0, 4, 50))])
    assert steps(trace) == [(0, 1, 4, "work", 0, 100)]


def test_without_waits_nobody_waited_before_it_was_issued():
    rows = [(0, 0, 0, 4, "region", 0, 30), (0, 0, 0, 2, "region", 30, 100)]
    trace = build(rows, [edge("issue-wait", (0, 0, 0, 3, 50), (0, 0, 0, 2, 90))])
    (held,) = read(trace)[0]["what it waits for"].to_dicts()
    assert held["ns"] == 40


def test_the_slow_program_of_the_tail():
    rows = [(n % 4, n, 0, 0, "region", n // 4 * 100, n // 4 * 100 + 100) for n in range(16)]
    rows[14] = (2, 14, 0, 0, "region", 300, 800)
    tables, findings = read(build(rows, durations=(900.0,)))
    assert kinds(tables) == {"work": 400, "tail": 400, "launch ramp": 100}
    assert tables["the chain"]["program"].to_list() == ["2", "6", "10", "14"]
    assert on_path(tables)["k"]["waited"] == 0  # work, and in the tail, too
    tail = next(f for f in findings if "tail" in f.data)
    assert tail.data["program"] == 14 and tail.data["of_it"] == 1
    assert tail.data["tail"]["share"] == pytest.approx(400 / 900)
    beside = next(f for f in findings if "close" in f.data).data
    assert beside["close"] == 1 and beside["next_ns"] == 400 and beside["units"] == 4


def test_units_are_near_within_a_hundredth():
    rows = [(0, 0, 0, 2, "region", 0, 1000), (1, 1, 0, 2, "region", 0, 995), (2, 2, 0, 2, "region", 0, 970)]
    tables, findings = read(build(rows))
    beside = next(f for f in findings if "close" in f.data).data
    assert (beside["units"], beside["close"], beside["next_ns"]) == (3, 2, 5)
    assert on_path(tables)["dot @ 5"]["spare_ns"] == 5  # half of what lies beside the path has no more


def test_the_chain_has_its_longest_legs():
    rows, edges = [], []
    for n in range(40):  # two streams that take turns, each leg longer than the one before
        at, lasts = n * (n + 19) // 2, 10 + n
        rows.append((0, 0, n % 2, 2, "region", at, at + lasts))
        if n:
            edges.append(edge("arrive-wait", (0, 1 - n % 2, 0, 2, at - 1), (0, n % 2, 0, 4, at)))
    legs = read(build(rows, edges))[0]["the chain"]
    assert legs.height == 24 and legs["at_ns"].is_sorted()


def test_gaps_between_programs_and_before_the_first():
    rows = [(0, 0, 0, 0, "region", 10, 50), (0, 1, 0, 0, "region", 60, 100), (1, 2, 0, 0, "region", 0, 45)]
    tables, _ = read(build(rows, durations=(130.0,)))
    assert kinds(tables) == {"launch ramp": 40, "work": 35, "tail": 55}  # the gap is in the tail
    rows += [(1, 3, 0, 0, "region", 45, 99)]
    tables, _ = read(build(rows, durations=(130.0,)))
    assert kinds(tables) == {"launch ramp": 40, "work": 79, "idle": 10, "tail": 1}


def test_a_program_follows_the_one_whose_place_it_took():
    rows = [(0, 0, 0, 2, "region", 0, 50), (0, 1, 0, 4, "region", 0, 60), (0, 2, 0, 2, "region", 65, 100)]
    assert [row[0] for row in steps(build(rows))] == [1, 2, 2]
    slot = edge("program-slot", (0, 0, 0, None, 50), (2, 0, 0, None, 65))
    assert [row[0] for row in steps(build(rows, [slot]))] == [0, 2, 2]


def test_a_partition_begins_when_its_program_lets_it():
    rows = [(0, 0, 0, 0, "region", 0, 40), (0, 0, 1, 2, "region", 30, 90)]
    assert steps(build(rows)) == [(0, 0, 0, "work", 0, 30), (0, 1, 2, "work", 30, 90)]
    over = [(0, 0, 0, 0, "region", 0, 40), (0, 0, 1, 4, "region", 10, 20), (0, 0, 2, 2, "region", 30, 90)]
    assert steps(build(over)) == [
        (0, 0, 0, "work", 0, 30),
        (0, 2, 2, "work", 30, 90),
    ]  # by who was still there


def test_time_on_the_path_has_nothing_to_spare_and_counts_for_none():
    rows = [(0, 0, 0, 2, "region", 0, 1000), (1, 1, 0, 2, "region", 0, 10)]
    assert on_path(read(build(rows))[0])["dot @ 5"]["spare_ns"] == 990


def test_what_was_not_recorded_is_said():
    rows = [(0, 0, 0, 2, "region", 0, 100), (0, 9, 0, 2, "region", 300, 400)]
    tables, findings = read(build(rows, losses=Losses(2, 8), weight=[5.0, 5.0]))
    assert kinds(tables) == {"work": 200, "not recorded": 200}
    said = next(f for f in findings if "unknown" in f.data)
    assert said.level == "warning" and "50.0 % of the critical path is not known" in said.text
    part = build([(0, 0, 0, 2, "region", 0, 100), (0, 0, 0, 2, "region", 150, 200)])
    assert kinds(read(part)[0]) == {"work": 150, "not recorded": 50}


def test_units_that_hand_work_to_each_other():
    rows = [
        (0, 0, 0, 2, "region", 0, 50),
        (1, 1, 0, 4, "region", 50, 90),
        (1, 1, 0, 4, "region", 20, 40),
        (0, 0, 0, 2, "region", 70, 90),
        (1, 1, 0, 2, "region", 95, 120),
        (1, 1, 0, 3, "wait", 0, 120),
    ]
    trace = build(rows, units=("plane", "channel"))
    assert [row[1:] for row in steps(trace)] == [
        (0, 2, "work", 0, 50),
        (0, 4, "work", 50, 90),
        (0, -1, "idle", 90, 95),
        (0, 2, "work", 95, 120),
    ]
    assert "not recorded" in kinds(read(build(rows, units=("plane", "channel"), losses=Losses(5, 5)))[0])


def test_launches_are_the_samples():
    rng = np.random.default_rng(1)
    rows, launches = [], []
    for launch in range(20):
        split = int(rng.integers(20, 80))
        rows += [(0, 0, 0, 2, "region", 0, split), (0, 0, 0, 4, "region", split, 100)]
        launches += [launch] * 2
    more = {"launch": launches, "durations": (100.0,) * 20}
    noisy = on_path(read(build(rows, clock="tsc", **more))[0])["dot @ 5"]
    splits = [row[6] for row in rows[::2]]
    assert noisy["share"] == pytest.approx(np.mean(splits) / 100) and noisy["ns"] == pytest.approx(
        np.mean(splits)
    )
    assert noisy["error"] == pytest.approx(2.093 * np.std(splits, ddof=1) / np.sqrt(20) / 100, rel=1e-3)
    assert on_path(read(build(rows, **more))[0])["dot @ 5"]["error"] is None


def test_interrupted_launches_are_left_out():
    rows = [(0, 0, 0, 2, "region", 0, 100), (0, 0, 0, 2, "region", 0, 900)]
    tables, _ = read(build(rows, launch=[0, 1], durations=(100.0, 900.0), taken_ns=[0.0, 800.0]))
    assert on_path(tables)["dot @ 5"]["ns"] == 100
    assert kinds(read(build(rows[1:], taken_ns=[800.0]))[0]) == {"work": 900}


def test_launches_of_which_all_was_recorded_are_taken_where_there_are_some():
    rows = [(0, 0, 0, 2, "region", 0, 100), (0, 1, 0, 4, "region", 500, 700)]
    trace = build(rows, launch=[0, 1], durations=(100.0, 900.0), weight=[1.0, 4.0])
    trace.launches[1] = Launch(1, 0, (4,), 0.0, 900.0, losses=Losses(1, 3))
    tables, findings = read(trace)
    assert kinds(tables) == {"work": 100} and not any("unknown" in f.data for f in findings)


def test_nothing_recorded():
    tables, findings = read(build([(0, 0, 0, 0, "region", 5, 5)]))
    assert not tables and findings[0].level == "warning"


# -- against running it again --------------------------------------------------------------------------------------

ACTIONS = st.one_of(
    st.tuples(st.just("work"), st.integers(0, 2), st.integers(1, 9)),
    st.tuples(st.just("signal"), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just("issue"), st.integers(0, 2), st.integers(1, 20)),
    st.tuples(st.just("await"), st.integers(0, 2), st.just(0)),
)


def run(actions, longer=None, by=0):
    """Streams of one program that do what they are told in order; the rows and edges of the trace, the pieces of work
    as (stream, start, stop), and when all is over. `longer`: a piece of work that takes so much more."""
    clock, rows, edges, pieces, pending = [0] * 3, [], [], [], {n: [] for n in range(3)}
    number = count()
    for what, stream, value in actions:
        if what == "work":
            took = value + (by if next(number) == longer else 0)
            rows.append((0, 0, stream, 2, "region", clock[stream], clock[stream] + took))
            pieces.append((stream, clock[stream], clock[stream] + took))
            clock[stream] += took
        elif what == "signal" and stream != value:
            since, until = clock[value], max(clock[value], clock[stream] + 1)
            edges.append(edge("arrive-wait", (0, stream, 0, 2, clock[stream]), (0, value, 0, 5, until)))
            rows.append((0, 0, value, 5, "wait", since, until))
            rows.append((0, 0, value, 4, "region", until, until + 1))
            clock[value] = until + 1
        elif what == "issue":
            pending[stream].append((clock[stream], value))
        elif what == "await" and pending[stream]:
            issued, latency = pending[stream].pop(0)
            since, until = clock[stream], max(clock[stream], issued + latency)
            if until > issued:
                edges.append(edge("issue-wait", (0, stream, 0, 3, issued), (0, stream, 0, 3, until)))
            rows.append((0, 0, stream, 3, "wait", since, until))
            rows.append((0, 0, stream, 3, "async", issued, until))
            rows.append((0, 0, stream, 4, "region", until, until + 1))
            clock[stream] = until + 1
    return rows, edges, pieces, max(clock)


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, min_size=1, max_size=30))
def test_what_is_on_the_path_delays_the_end_and_nothing_else_does(actions):
    rows, edges, pieces, end = run(actions)
    if not pieces or any(not any(p[0] == s and p[1] == 0 for p in pieces) for s, *_ in pieces):
        return  # a stream that begins with a wait has no place to be before it
    trace = build(rows, edges)
    path = path_of(trace, trace.kernels[0])
    assert path is not None and path.streams is not None and path.handed is not None
    table = path.rows.reverse()
    starts, stops = table["start_ns"].to_list(), table["stop_ns"].to_list()
    assert starts[0] == 0 and stops[-1] == end and starts[1:] == stops[:-1]
    assert set(table["kind"]) <= set(KINDS) - {"tail", "not recorded"}
    slack = slack_of(path.streams, path.handed, path.before)
    stream = path.streams.key["stream"].to_numpy()[path.streams.number]
    work = set(table.filter(pl.col("kind") == "work").select("stream", "start_ns", "stop_ns").rows())
    for number, (mine, start, stop) in enumerate(pieces):
        whole = any(s == mine and a <= start and stop <= b for s, a, b in work)
        here = (stream == mine) & (path.streams.start == start) & (path.streams.stop == stop)
        spare = slack.spare[np.isin(slack.piece, np.flatnonzero(here))].min()
        for by in (1, 5):
            later = run(actions, number, by)[3] - end
            if whole:
                assert later == by and spare == 0
            assert later >= by - spare
    beside = near(path)
    assert beside is not None and beside.units == beside.close == 1


@pytest.mark.parametrize("lost", [0, 5])
def test_what_began_behind_a_gap_is_not_known_where_not_all_was_recorded(lost):
    """A read that ended when a transfer began; before it, nothing was recorded for longer than it lasts."""
    rows = [
        (0, 0, 0, 2, "region", 0, 10),
        (1, 1, 0, 4, "region", 100, 130),  # the gap is 90
        (0, 0, 0, 2, "region", 130, 150),
        (0, 0, 0, 2, "region", 152, 160),  # and here 2, which is on its way
    ]
    trace = build(rows, units=("channel", "plane"), losses=Losses(4, lost), durations=(160.0,))
    path = path_of(trace, trace.kernels[0])
    assert path is not None and path.sampled == bool(lost)
    told = {row["region"]: row["stop_ns"] - row["start_ns"] for row in path.rows.iter_rows(named=True)}
    assert (4 in told) == (lost == 0)  # the read
    kinds = path.rows.group_by("kind").agg((pl.col("stop_ns") - pl.col("start_ns")).sum())
    ns = dict(kinds.iter_rows())
    assert ns["work"] == (68 if lost == 0 else 38)
    assert ns["not recorded" if lost else "idle"] == (122 if lost else 92)


def test_a_path_goes_past_layers_that_nobody_recorded_by_the_edge_that_says_when_they_were_over():
    """Two recorded layers and one between; reads of the second ran ahead of it, and stand for nothing here."""
    rows = [
        (0, 0, 0, 2, "region", 0, 100),
        (1, 1, 0, 4, "region", 140, 170),
        (1, 1, 0, 4, "region", 170, 200),  # of the second layer, in the time of the one that was left out
        (0, 0, 0, 2, "region", 200, 300),
    ]
    gap = edge("release-acquire", (0, 0, 0, None, 100), (0, 0, 0, None, 200))
    trace = build(rows, [gap], units=("channel", "plane"), losses=Losses(4, 4), durations=(300.0,))
    path = path_of(trace, trace.kernels[0])
    assert path is not None
    told = [(r["region"], r["kind"], r["start_ns"], r["stop_ns"]) for r in path.rows.iter_rows(named=True)]
    assert told == [(2, "work", 200, 300), (-1, "not recorded", 100, 200), (2, "work", 0, 100)]
    assert path.rows["stands"].to_list() == [1.0, 0.0, 1.0]
    ahead = [(1, 1, 0, 4, "region", 150, 230), *rows[:1], (0, 0, 0, 2, "region", 230, 300)]
    trace = build(ahead, [gap], units=("channel", "plane"), losses=Losses(3, 4), durations=(300.0,))
    path = path_of(trace, trace.kernels[0])
    assert path is not None
    told = [(r["region"], r["start_ns"], r["stop_ns"]) for r in path.rows.iter_rows(named=True)]
    assert told == [
        (2, 230, 300),
        (4, 200, 230),
        (-1, 100, 200),
        (2, 0, 100),
    ]  # as far as it is in its layer's time
