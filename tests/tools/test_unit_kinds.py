"""units: how busy kinds of units are, what they do and which one limits, on four intervals; tools that fail."""

import pytest

from tileprobe.tools.load import checked, failed, plan_of, read
from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.tools.streams import Partition, partitions
from tileprobe.tools.units import Units
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit

UNITS = [Unit(0, "core 0", "core"), Unit(1, "core 1", "core"), Unit(2, "bus", "bus")]
REGIONS = [Region(0, "dot"), Region(1, "copy")]
ROWS = [  # program, unit, region, start, stop
    (0, 0, 0, 0, 60),
    (1, 0, 0, 40, 80),
    (2, 1, 0, 0, 40),
    (3, 2, 1, 50, 100),
]


def trace_of(rows=ROWS, units=UNITS, counters=None, meta=None, **more):
    columns = dict(zip(("program", "unit", "region", "start", "stop"), zip(*rows))) | more
    made = Trace.build(
        columns,
        kernels=[Kernel(0, "k", "sim", Clock(1e9))],
        launches=[Launch(0, duration_ns=200.0)],
        regions=REGIONS,
        units=units,
        counters=counters,
    )
    made.meta = meta or {}
    return made


def tables(trace):
    return {table.title.split(": ")[1]: table.frame.to_dicts() for table in Units().read(trace).tables}


def test_how_busy_each_kind_is():
    """Core 0 is busy for 80 of 100 ns with 100 ns of work, core 1 for 40; the bus for 50."""
    core, bus = tables(trace_of())["busy"]
    assert core == {
        "kind": "core",
        "busy": pytest.approx(0.6),
        "count": 2,
        "busiest": pytest.approx(0.8),
        "idlest": pytest.approx(0.4),
        "at_once": pytest.approx(140 / 120),
    }
    assert (bus["kind"], bus["busy"], bus["count"], bus["at_once"]) == ("bus", 0.5, 1, 1.0)


def test_what_each_kind_does():
    """140 ns of dots on two cores in 100 ns: 70 %."""
    dots, copies = tables(trace_of())["what units do"]
    assert dots == {
        "kind": "core",
        "name": "dot",
        "share": pytest.approx(0.7),
        "count": 3,
        "mean_ns": pytest.approx(140 / 3),
        "ns": 140.0,
    }
    assert (copies["kind"], copies["share"], copies["count"], copies["mean_ns"]) == ("bus", 0.5, 1, 50.0)


def test_work_of_equal_shares_comes_by_name():
    rows = [(0, 0, 0, 0, 50), (1, 0, 1, 50, 100), (2, 2, 0, 0, 100)]
    found = tables(trace_of(rows))["what units do"]
    assert [(row["name"], row["share"]) for row in found if row["kind"] == "core"] == [
        ("copy", 0.5),
        ("dot", 0.5),
    ]


def test_recorded_work_stands_for_other_work():
    dots = tables(trace_of(weight=[3.0, 1.0, 1.0, 1.0]))["what units do"][0]
    assert (dots["count"], dots["mean_ns"]) == (5, pytest.approx((3 * 60 + 40 + 40) / 5))


def test_what_happens_at_the_same_time():
    """A core is busy up to 80, the bus from 50 on: 30 of 100."""
    assert tables(trace_of())["at the same time"] == [{"kinds": "core + bus", "share": pytest.approx(0.3)}]


def test_waits_are_no_work_and_one_unit_has_nothing_to_tell():
    busy = tables(trace_of(kind=["region", "wait", "region", "async"]))["busy"]
    assert [row["busy"] for row in busy] == pytest.approx([0.5, 0.5])
    assert Units().read(trace_of(ROWS[:2])).tables == []
    assert Units().read(trace_of([(0, 0, 0, 5, 5), (1, 1, 0, 5, 5)])).tables == []


def limit(trace):
    (finding,) = [f for f in Units().read(trace).findings if f.kernel == 0]
    return finding


def test_the_busiest_kind_is_named():
    found = limit(trace_of())
    assert found.text == "k: no kind of unit is busy all the time; the busiest: core (60 % busy)"
    assert list(found.data["kinds"]) == ["core"]
    whole = limit(trace_of([(0, 0, 0, 0, 100), (1, 2, 1, 0, 50)]))
    assert whole.text == "k: the units that limit it: core (100 % busy)"
    nearly = limit(trace_of([(0, 0, 0, 0, 82), (1, 2, 1, 25, 100)]))  # the busiest decides
    assert nearly.text == "k: the units that limit it: core (82 % busy) and bus (75 % busy), alike"
    alike = limit(trace_of([(0, 0, 0, 0, 100), (1, 2, 1, 0, 100)]))
    assert alike.text in (
        "k: the units that limit it: core (100 % busy) and bus (100 % busy), alike",
        "k: the units that limit it: bus (100 % busy) and core (100 % busy), alike",
    )


def test_units_that_count_themselves_are_believed():
    """The bus counted 180 and 190 of the launch's 200 ns; what is recorded is a sample of it."""
    counters = {"name": ["busy_ns", "busy_ns", "other"], "unit": [2, 2, 0], "value": [180.0, 190.0, 999.0]}
    found = limit(trace_of(counters=counters))
    assert found.data["busy"] == {"bus": pytest.approx(0.925)}


def test_notes_of_a_simulator_are_findings():
    found = Units().read(trace_of(meta={"notes": ["a", "b"]})).findings
    assert [f.text for f in found if f.kernel is None] == ["a", "b"]


def test_units_without_a_kind_are_units():
    assert tables(trace_of([(0, 7, 0, 0, 10), (1, 8, 0, 0, 10)], units=[]))["busy"][0]["kind"] == "unit"


# -- tools of a user's --------------------------------------------------------------------------------------------


class Fine:
    name = "fine"

    def plan(self):
        return Plan()

    def read(self, trace):
        return Result("fine")


class Broken(Fine):
    name = "broken"

    def plan(self):
        return 3

    def read(self, trace):
        return {}["missing"]


class Odd(Fine):
    name = "odd"

    def plan(self):
        raise ValueError("no plan")

    def read(self, trace):
        return 7


class Deaf(Fine):
    name = "deaf"

    def read(self):
        return Result("deaf")


def test_a_tool_that_fails_says_where():
    trace = trace_of()
    good, bad, odd = (read(tool, trace) for tool in (Fine(), Broken(), Odd()))
    assert (good.tool, good.findings) == ("fine", [])
    (said,) = bad.findings
    assert said.text.startswith("the tool 'broken' failed: KeyError: 'missing' (")
    assert f"{__file__}, line " in said.text
    assert (said.level, said.data) == ("warning", {"failed": "broken"})
    assert odd.findings[0].text == "the tool 'odd' gave no Result but 7"
    (said,) = read(Deaf(), trace).findings
    assert "takes 1 positional argument but 2 were given" in said.text
    assert ".py" not in said.text  # no line of the tool's was reached, and ours are not to blame
    assert [failed([result]) for result in (good, bad, odd)] == [False, True, True]
    with pytest.raises(Exception, match="plan\\(\\) of the tool 'broken' gave no Plan but 3"):
        plan_of(Broken())  # type: ignore[arg-type]
    with pytest.raises(
        Exception, match=r"the tool 'odd' failed in plan\(\): ValueError: no plan \(.*line \d+\)"
    ):
        plan_of(Odd())  # type: ignore[arg-type]
    with pytest.raises(Exception, match="x is no tool: it needs a name, plan"):
        checked(object(), "x")


def test_results_as_data():
    frame = trace_of().intervals.select("region").head(1)
    result = Result(
        "t", [Table("a", frame, [Column("region")], 0)], [Finding("said", "warning", {"n": 1}, 0)]
    )
    assert result.to_json() == {
        "tool": "t",
        "tables": [
            {
                "title": "a",
                "kernel": 0,
                "columns": [{"name": "region", "form": "text", "title": ""}],
                "rows": [{"region": 0}],
            }
        ],
        "findings": [{"text": "said", "level": "warning", "kernel": 0, "data": {"n": 1}}],
    }
    infinite = Result("t", [], [Finding("x", data={"a": [float("inf"), 1.0], "b": {"c": float("nan")}})])
    assert infinite.to_json()["findings"][0]["data"] == {"a": [None, 1.0], "b": {"c": None}}


def test_plans_in_a_pipeline():
    assert Plan().pipeline(level="probe") == (
        'select{structure=scf kernel=true loops=false iterations=false kinds="none" min_cost=0.0},'
        "instrument{structure=scf},user-probes{structure=scf}"
    )
    text = Plan(False, True, True, ("dot",), ("3-4", "9"), ("s@1-2",), 8.0).pipeline(
        "tile", capacity=7, dynamic=False, copies=3, records={"clock_bits": 32}
    )
    assert text == (
        'select{structure=tile kernel=false loops=true iterations=true kinds="dot" lines="3-4","9" '
        'scopes="s@1-2" min_cost=8.0},instrument{structure=tile},user-probes{structure=tile},'
        "merge-probes{structure=tile},sample{structure=tile capacity=7 dynamic=false},"
        "assign-slots{structure=tile capacity=7 cursor_capacity=0 max_words=16384 clock_bits=32},"
        "probe-to-record{structure=tile copies=3}"
    )
    assert "capacity=256 dynamic=true}" in Plan().pipeline()
    assert (Plan(min_cost=3.0) | Plan(min_cost=2.0)).min_cost == 2.0
    assert (Plan(kernel=False) | Plan(kernel=False)).kernel is False


def test_a_kernel_without_streams_has_one_partition():
    trace = trace_of()
    assert partitions(trace, trace.kernels[0]) == [Partition("", (0,))]
    trace.kernels = [Kernel(0, "k", "sim", Clock(1e9), streams=("", "load"))]
    assert partitions(trace, trace.kernels[0]) == [Partition("default", (0,)), Partition("load", (1,))]
