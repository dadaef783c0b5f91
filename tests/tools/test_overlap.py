"""What runs beside what: hand-built traces, and random ones against a look at every nanosecond."""

import io
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprobe.tools import load_tool
from tileprobe.tools.activities import OTHER, SIGNAL, WAITING, _ordered, activities, kind_of
from tileprobe.tools.overlap import overlaps
from tileprobe.tools.ratios import ratio, windows
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit
from tileprobe.trace.sweep import KINDS
from tileprobe.views.terminal import make_console, print_report

REGIONS = [
    Region(0, "k", "kernel"),
    Region(1, "loop @ 3", "loop", 0),
    Region(2, "dot @ 5", "dot", 1),
    Region(3, "TMA load @ 4", "async", 1),
    Region(4, "exp @ 6", "exp2+mul", 1),
    Region(5, "release @ 7", "async", 1),
    Region(6, "barrier @ 8", "barrier", 0),
]
PART = ", of what was recorded"
COLUMNS = ("unit", "program", "stream", "region", "kind", "start", "stop")


def build(rows, *, clock="simulated", edges=None, streams=(), losses=None, launches=1, **more):
    columns = {name: list(column) for name, column in zip(COLUMNS, zip(*rows))}
    units = [Unit(n, f"SM {n}", "sm") for n in range(max(columns["unit"]) + 1)]
    return Trace.build(
        {**columns, **more},
        kernels=[Kernel(0, "k", "sim:h100", Clock(1e9, clock), streams=streams)],
        launches=[Launch(n, 0, (4,), 0.0, 200.0, losses=losses or Losses(1)) for n in range(launches)],
        regions=REGIONS,
        units=units,
        edges=edges,
    )


def read(trace):
    result = load_tool("overlap").read(trace)
    titles = {t.title.removeprefix("k: ").removesuffix(PART): t.frame for t in result.tables}
    assert len({t.title.endswith(PART) for t in result.tables}) < 2  # all or none
    return titles, result.findings


def exposed(tables):
    return {row["kind"]: row for row in tables["what is exposed"].iter_rows(named=True)}


# a loop of 100 ns: products for 60, then 40 of waiting for a load that was issued at its start
LATE_LOAD = [
    (0, 0, 0, 0, "region", 0, 120),
    (0, 0, 0, 1, "region", 0, 100),
    (0, 0, 0, 2, "region", 0, 60),
    (0, 0, 0, 3, "async", 0, 100),
    (0, 0, 0, 3, "wait", 60, 100),
]


def test_a_load_that_products_do_not_cover_is_exposed():
    tables, findings = read(build(LATE_LOAD))
    rows = exposed(tables)
    assert rows["load"]["exposed_ns"] == 40 and rows["load"]["busy_ns"] == 100
    assert rows["load"]["hidden"] == pytest.approx(0.6)
    assert rows["dot"]["exposed_ns"] == 0 and rows["dot"]["hidden"] == 1
    assert rows["other"]["exposed_ns"] == 20
    assert "standing still" not in rows
    (pair,) = tables["at the same time"].to_dicts()
    assert (pair["kinds"], pair["both_ns"], pair["of_first"]) == ("load + dot", 60, pytest.approx(0.6))
    assert pair["of_second"] == pytest.approx(1.0)
    (bubble,) = tables["bubbles in loops"].to_dicts()
    assert (bubble["name"], bubble["ns"], bubble["count"]) == ("loop @ 3", 40, 1)
    assert bubble["share"] == pytest.approx(0.4) and bubble["mostly"] == "TMA load @ 4"
    first = next(f for f in findings if "exposed" in f.data)
    assert first.data["exposed"] == "load" and first.data["share"] == pytest.approx(40 / 120)
    assert "33.3 %" in first.text and "60 % of it runs beside other work" in first.text


def test_nothing_runs_while_everybody_waits_at_a_barrier():
    tables, findings = read(build([*LATE_LOAD, (0, 0, 0, 6, "region", 100, 120)]))
    rows = exposed(tables)
    assert rows["standing still"]["exposed_ns"] == 20 and "other" not in rows
    assert any("16.7 % of the time everything stands still" in f.text for f in findings)


def test_what_is_on_another_unit_hides_nothing():
    rows = [(0, 0, 0, 0, "region", 0, 100), (0, 0, 0, 2, "region", 0, 100)]
    rows += [(1, 1, 0, 0, "region", 0, 100), (1, 1, 0, 4, "region", 0, 100)]
    tables, findings = read(build(rows))
    assert exposed(tables)["dot"]["exposed_ns"] == 100
    assert exposed(tables)["special functions"]["hidden"] == 0
    assert "at the same time" not in tables
    assert not any("stands still" in f.text for f in findings)
    assert tables["units at work"].to_dicts() == [{"units": "2", "share": 1.0, "ns": 100.0, "count": 2}]
    assert any("nothing runs beside anything else" in f.text for f in findings)


def test_most_units_come_first():
    rows = [(0, 0, 0, 0, "region", 0, 100), (0, 0, 0, 2, "region", 0, 100)]
    rows += [(1, 1, 0, 0, "region", 0, 30), (1, 1, 0, 4, "region", 0, 30)]
    tables, _ = read(build(rows))
    assert tables["units at work"].rows() == [("2", 0.3, 30.0, 2), ("1", pytest.approx(0.7), 70.0, 1)]


def test_a_bubble_is_that_of_the_longest_wait_in_it():
    """Waits for the load of 5, for the release of 20 ns, in one loop."""
    rows = [(0, 0, 0, 0, "region", 0, 100), (0, 0, 0, 1, "region", 0, 100), (0, 0, 0, 2, "region", 0, 60)]
    rows += [(0, 0, 0, 3, "async", 0, 65), (0, 0, 0, 3, "wait", 60, 65), (0, 0, 0, 5, "wait", 70, 90)]
    (bubble,) = read(build(rows))[0]["bubbles in loops"].to_dicts()
    assert (bubble["ns"], bubble["count"], bubble["mostly"]) == (25, 2, "release @ 7")


def test_programs_on_one_unit_hide_each_other():
    rows = [(0, 0, 0, 0, "region", 0, 100), (0, 0, 0, 2, "region", 0, 100)]
    rows += [(0, 1, 0, 0, "region", 50, 150), (0, 1, 0, 4, "region", 50, 150)]
    found = exposed(read(build(rows))[0])
    assert found["dot"]["exposed_ns"] == 50 and found["special functions"]["exposed_ns"] == 50


def test_a_wait_names_who_ended_it():
    rows = [
        (0, 0, 0, 0, "region", 0, 100),
        (0, 0, 0, 2, "region", 0, 90),
        (0, 0, 1, 0, "region", 0, 100),
        (0, 0, 1, 5, "wait", 30, 95),
    ]
    edge = {"launch": [0], "kind": ["arrive-wait"], "from_ns": [90.0], "to_ns": [95.0]}
    for end, stream, region in (("from", 0, 2), ("to", 1, 5)):
        edge |= {
            f"{end}_program": [0],
            f"{end}_stream": [stream],
            f"{end}_unit": [0],
            f"{end}_region": [region],
        }
    late = read(
        build(rows, edges=edge | {"to_ns": [96.5]}, streams=("consumer / warp 0", "producer / warp 0"))
    )[0]
    assert late["waits"]["whom"].to_list() == ["meanwhile dot"]  # that is the end of another wait
    tables, findings = read(build(rows, edges=edge, streams=("consumer / warp 0", "producer / warp 0")))
    (wait,) = tables["waits"].to_dicts()
    assert (wait["name"], wait["whom"]) == ("producer: release @ 7", "consumer: dot @ 5")
    assert wait["ns"] == 65 and wait["share"] == pytest.approx(0.65)
    assert any("k: 65 % of the time of its streams is waited" in f.text for f in findings)
    assert any("for consumer: dot @ 5" in f.text for f in findings)
    tables, _ = read(build(rows))
    assert tables["waits"]["whom"].to_list() == ["meanwhile dot"]
    rows += [(0, 0, 2, 0, "region", 0, 100), (0, 0, 2, 4, "region", 0, 40)]  # longer, but before it
    tables, _ = read(build(rows))
    assert tables["waits"]["whom"].to_list() == ["meanwhile dot"]


def test_a_wait_beside_which_nothing_runs_names_nobody():
    rows = [(0, 0, 0, 0, "region", 0, 100), (0, 0, 0, 2, "region", 0, 30), (0, 0, 0, 5, "wait", 30, 95)]
    assert read(build(rows))[0]["waits"]["whom"].to_list() == [""]


@pytest.mark.parametrize("more", [0, 1, 30])
def test_of_very_many_kinds_the_shortest_are_others(more):
    """A sweep tells 62 apart; one of them is waiting, and where there are too many one is all the others."""
    names = [f"kind {n:02}" for n in range(KINDS - 1 + more)]
    spans = pl.DataFrame(
        {"what": names, "start_ns": [0] * len(names), "stop_ns": range(2 * len(names), len(names), -1)}
    )
    found = _ordered(spans)
    assert found[0] == WAITING and len(found) == KINDS
    assert found[1:] == ([*names[: KINDS - 2], OTHER] if more else names)


def test_units_of_several_kinds_are_the_kinds():
    trace = Trace.build(
        {
            "program": [0, 1, 1, 1],
            "unit": [0, 1, 1, 1],
            "region": [0, 1, 2, 3],
            "kind": ["region", "region", "region", "wait"],
            "start": [0, 40, 80, 50],
            "stop": [50, 80, 100, 80],
        },
        kernels=[Kernel(0, "k", "cambricon:s", Clock(1e9, "simulated"))],
        launches=[Launch(0, 0, (2,), 0.0, 100.0)],
        regions=[Region(n, name, "hardware") for n, name in enumerate(("read", "slices", "result", "wait"))],
        units=[Unit(0, "plane 0", "plane"), Unit(1, "channel 0", "channel")],
    )
    tables, findings = read(trace)
    rows = exposed(tables)
    assert (rows["plane"]["exposed_ns"], rows["channel"]["exposed_ns"]) == (40, 50)
    (wait,) = tables["waits"].to_dicts()
    assert (wait["whom"], wait["ns"]) == ("meanwhile slices", 30)
    assert any("1 times, 30 ns each, meanwhile slices" in f.text for f in findings)
    assert all("cause" not in f.data for f in findings)  # a result takes half as long
    part = replace(trace, launches=[replace(trace.launches[0], losses=Losses(1, 9))])
    assert any("1 times of those recorded, 30 ns each" in f.text for f in read(part)[1])
    assert {table.title.endswith(PART) for table in load_tool("overlap").read(part).tables} == {True}
    assert {table.title.endswith(PART) for table in load_tool("overlap").read(trace).tables} == {False}


def test_a_sampled_trace_has_an_error_and_a_whole_simulated_one_has_none():
    rng = np.random.default_rng(0)
    rows = []
    for program in range(40):
        split = int(rng.integers(20, 80))
        rows += [
            (program % 8, program, 0, 0, "region", 100 * (program // 8), 100 * (program // 8) + 100),
            (program % 8, program, 0, 2, "region", 100 * (program // 8), 100 * (program // 8) + split),
            (program % 8, program, 0, 4, "region", 100 * (program // 8) + split, 100 * (program // 8) + 100),
        ]
    whole = exposed(read(build(rows))[0])["dot"]
    assert whole["exposed_error"] is None
    sampled = exposed(read(build(rows, losses=Losses(10, 90), weight=[4.0] * len(rows)))[0])["dot"]
    assert sampled["exposed"] == whole["exposed"] and 0.01 < sampled["exposed_error"] < 0.2


def test_interrupted_programs_are_left_out():
    rows = [(0, 0, 0, 0, "region", 0, 100), (0, 0, 0, 2, "region", 0, 50), (0, 0, 0, 4, "region", 50, 100)]
    late = [(0, 1, 0, 0, "region", 100, 900), (0, 1, 0, 2, "region", 100, 900)]
    taken = [0.0, 0.0, 0.0, 700.0, 700.0]
    assert exposed(read(build(rows + late, taken_ns=taken))[0])["dot"]["busy_ns"] == 50
    everything = exposed(read(build(rows + late, taken_ns=[1.0, 0, 0, 700.0, 700.0]))[0])
    assert everything["dot"]["busy_ns"] == 850


def test_a_trace_with_nothing_in_it_says_so():
    empty = build([(0, 0, 0, 0, "region", 5, 5)])
    result = load_tool("overlap").read(empty)
    assert not result.tables and "nothing runs beside anything else" in result.findings[0].text
    assert result.findings[0].level == "warning"


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("load @ 1", "load", "load"),
        ("x", "load+mul", "load + compute"),
        ("x", "div+cast+store", "compute + store"),
        ("x", "max+exp2+reduce", "special functions"),
        ("x", "load+dot", "dot"),
        ("TMA load @ 4", "async", "load"),
        ("async dot @ 4", "async", "dot"),
        ("TMA store @ 4", "async", "store"),
        ("release @ 4", "async", SIGNAL),
        ("wait @ 4", "wait", WAITING),
        ("barrier @ 4", "barrier", WAITING),
        ("iteration", "iteration", OTHER),
        ("reduce @ 1", "reduce", "compute"),
    ],
)
def test_kinds_by_the_words_of_stages(name, kind, expected):
    assert kind_of(Region(0, name, kind)) == expected


def test_a_share_is_a_sum_over_a_sum():
    part, whole = np.array([1.0, 2.0, 3.0, 8.0]), np.array([2.0, 4.0, 6.0, 16.0])
    assert ratio(part, whole, np.arange(4)).value == 0.5
    assert ratio(part, whole, np.arange(4)).error == 0.0  # all alike
    assert ratio(part, whole, np.zeros(4, int)).error is None
    uneven = ratio(np.array([1.0, 0.0, 1.0, 0.0]), np.ones(4), np.arange(4))
    assert uneven.error == pytest.approx(3.182 * np.sqrt(4 / 3) / 4, rel=1e-3)  # Student's t, three degrees
    assert windows(np.zeros(32, int), np.ones(32)).tolist() == [n // 2 for n in range(32)]
    assert windows(np.array([5, 5, 7, 8, 9]), np.ones(5)).tolist() == [0, 0, 1, 2, 3]


STAGES = st.lists(st.tuples(st.sampled_from([2, 4]), st.integers(0, 6), st.integers(0, 3)), max_size=4)
ASYNC = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 8)), max_size=3)


@given(st.lists(st.tuples(st.integers(0, 1), STAGES, ASYNC), min_size=1, max_size=3))
def test_exposed_and_overlapping_time_at_every_nanosecond(programs):
    """Streams of stages one behind the other, each followed by a wait, with loads under way beside them."""
    rows, work = [], {}
    for program, (unit, stages, loads) in enumerate(programs):
        at = 0
        for region, length, wait in stages:
            rows.append((unit, program, 0, region, "region", at, at + length))
            rows.append((unit, program, 0, 3, "wait", at + length, at + length + wait))
            for t in range(at, at + length):
                work.setdefault((unit, t), set()).add("dot" if region == 2 else "special functions")
            for t in range(at + length, at + length + wait):
                work.setdefault((unit, t), set())
            at += length + wait
        rows.append((unit, program, 0, 0, "region", 0, at + 1))
        work.setdefault((unit, at), set()).add(OTHER)
        for start, length in loads:
            rows.append((unit, program, 0, 3, "async", start, start + length))
            for t in range(start, start + length):
                work.setdefault((unit, t), set()).add("load")
    trace = build(rows)
    found = activities(trace, trace.kernels[0])
    assert found is not None
    seen = overlaps(found)
    assert seen.total_ns == len(work)
    for kind in seen.kinds:
        assert seen.busy_ns[kind] == sum(kind in at for at in work.values())
        assert seen.exposed[kind].value * seen.total_ns == pytest.approx(
            sum({kind} == at for at in work.values())
        )
    for (a, b), ns in seen.both_ns.items():
        assert ns == sum({a, b} <= at for at in work.values())
    assert seen.still.value * seen.total_ns == pytest.approx(sum(not at for at in work.values()))


def test_lazy_traces_are_read_too(tmp_path):
    trace = build(LATE_LOAD)
    trace.save(tmp_path / "t.parquet")
    tables, _ = read(Trace.open(tmp_path / "t.parquet"))
    assert exposed(tables)["load"]["exposed_ns"] == 40
    assert isinstance(tables["what is exposed"], pl.DataFrame)


def test_a_stage_that_fills_its_scope_is_what_runs():
    """Of equal ones the stage is the innermost, whatever the order of the rows."""
    regions = [Region(0, "k", "kernel"), Region(1, "load it", "scope", 0, depth=1)]
    regions += [Region(2, "load @ 3", "load", 1, depth=2), Region(3, "exp @ 4", "exp", 0, depth=1)]
    rows = [(0, 0, 0, 0, "region", 0, 100), (0, 0, 0, 2, "region", 0, 60)]
    rows += [(0, 0, 0, 1, "region", 0, 60), (0, 0, 0, 3, "region", 60, 100)]
    trace = build(rows)
    found = exposed(read(Trace.build(trace.to_polars().select(COLUMNS).to_dict(as_series=False),
        kernels=trace.kernels, launches=trace.launches, regions=regions, units=trace.units))[0])  # fmt: skip
    assert {kind: row["busy_ns"] for kind, row in found.items()} == {"load": 60.0, "special functions": 40.0}


def test_how_many_units_work_at_once_is_not_known_of_a_sample():
    rows = [(unit, unit, 0, region, "region", 0, 100) for unit in range(3) for region in (0,)]
    rows += [(unit, unit, 0, 2, "region", 0, 50) for unit in range(3)]
    rows += [(unit, unit, 0, 4, "region", 50, 100) for unit in range(3)]
    assert read(build(rows))[0]["units at work"]["units"].to_list() == ["3"]
    assert "units at work" not in read(build(rows, losses=Losses(9, 90)))[0]


def test_a_kernel_of_which_the_tool_has_nothing_to_say_was_recorded_all_the_same():
    trace = build([(0, 0, 0, 0, "region", 0, 100)])
    out = io.StringIO()
    print_report(trace, [load_tool("overlap").read(trace)], make_console(out, 100))
    assert "overlap: nothing to show of this kernel" in out.getvalue()
    assert "nothing was recorded" not in out.getvalue()


@pytest.mark.parametrize(
    ("page", "result", "waited", "held"), [(40, 5, 30, True), (40, 11, 30, False), (40, 5, 19, False)]
)
def test_what_holds_a_unit_for_long_while_others_need_it_for_a_moment_is_named(page, result, waited, held):
    """A wait is for a long transfer when that takes four times as long as all else there and the wait half of it."""
    rows = [(0, 0, "region", 0, 100), (1, 1, "region", 0, page), (1, 2, "region", page, page + result)]
    rows.append((1, 3, "wait", page - waited, page))
    columns = {
        name: [row[n] for row in rows] for n, name in enumerate(("unit", "region", "kind", "start", "stop"))
    }
    trace = Trace.build(
        columns | {"program": columns["unit"]},
        kernels=[Kernel(0, "k", "cambricon:s", Clock(1e9, "simulated"))],
        launches=[Launch(0, 0, (2,), 0.0, 100.0)],
        regions=[Region(n, name, "hardware") for n, name in enumerate(("read", "slices", "result", "wait"))],
        units=[Unit(0, "plane 0", "plane"), Unit(1, "channel 0", "channel")],
    )
    (said,) = [f for f in read(trace)[1] if "wait" in f.data]
    assert ("shorter pieces" in said.text) is held
    named = {name: said.data.get(name) for name in ("cause", "by", "held_ns", "others_ns")}
    assert (named == {"cause": "held", "by": "slices", "held_ns": page, "others_ns": result}) is held
    assert ("cause" in said.data) is held
