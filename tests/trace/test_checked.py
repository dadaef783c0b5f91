"""What may stand in a trace's description and what may not: each rule at its border. And clocks of several units."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from tileprobe.ir.layout import (
    BEGIN,
    EPOCH,
    GLOBAL_BEGIN,
    GLOBAL_END,
    PUSHED,
    UNIT,
    Body,
    Span,
    Stamp,
    allocate,
)
from tileprobe.ir.machine import Clock, Domain, GlobalTimer
from tileprobe.trace import Kernel, Launch, Losses, Region, Unit, Work, cursor
from tileprobe.trace.blocks import read_rows, walk
from tileprobe.trace.check import Damaged, check_description, check_rows, check_table
from tileprobe.trace.domains import align, check_wraps, combined
from tileprobe.trace.timer import in_their_turns

LARGE = 2**53
NONE = Losses()


class Spot(NamedTuple):
    number: int
    name: str


NOWHERE = Spot(0, "")


@dataclass(frozen=True)
class Row:
    id: int
    real: float = 0.0
    maybe: int | None = None
    pair: tuple[int, str] = (0, "")
    many: tuple[int, ...] = ()
    table: dict[str, int] | None = None
    anything: Any = None
    inner: Losses = NONE
    yes: bool = False
    spot: Spot = NOWHERE


FINE = [
    {"id": LARGE},
    {"id": -LARGE},
    {"real": 3},
    {"real": 1e300},
    {"maybe": None},
    {"pair": [1, "x"]},
    {"spot": [1, "x"]},
    {"many": []},
    {"many": [1, 2, 3]},
    {"table": {"a": 1}},
    {"table": {}},
    {"anything": {"a": [1, 2.5, True, None, "x"]}},
    {"inner": {"kept": 1}},
    {"inner": [1, 2, 3]},
    {"inner": [1]},
    {"yes": True},
    {"unknown": ("a", "tuple")},  # of a newer writer
]
WRONG = [
    {"id": LARGE + 1},
    {"id": -LARGE - 1},
    {"id": True},
    {"id": 1.0},
    {"id": None},
    {"real": float("inf")},
    {"real": "1"},
    {"real": False},
    {"maybe": "1"},
    {"pair": [1]},
    {"pair": [1, "x", 2]},
    {"pair": ["x", 1]},
    {"pair": "1x"},
    {"many": [1, "2"]},
    {"many": 1},
    {"spot": [1]},
    {"spot": ["x", 1]},
    {"spot": "x"},
    {"table": {"a": "1"}},
    {"table": [1]},
    {"anything": [float("nan")]},
    {"anything": {"a": {"b": float("inf")}}},
    {"inner": {"kept": "1"}},
    {"inner": {"other": 1}},
    {"inner": [1, 2, 3, 4]},
    {"inner": 5},
    {"yes": 1},
]


@pytest.mark.parametrize("row", FINE, ids=str)
def test_rows_that_fit(row):
    check_rows(Row, [row])


@pytest.mark.parametrize("row", WRONG, ids=str)
def test_rows_that_do_not(row):
    (name,) = row
    with pytest.raises(Damaged, match=f"the {name} of a row cannot be "):
        check_rows(Row, [{"id": 0}, row])


def test_a_table_is_a_list_of_rows():
    for rows in ({}, "", None, [1], [{}, []]):
        with pytest.raises(Damaged, match="its rows are no table"):
            check_rows(Row, rows)


def parts(**changes):
    whole = {
        "kernels": [Kernel(0, "k", "cpu", Clock(1e9))],
        "launches": [Launch(0), Launch(1)],
        "regions": [Region(0, "k"), Region(1, "a", parent=0), Region(2, "b", parent=1)],
        "units": [Unit(0, "core 0")],
        "works": [Work(0)],
        "domains": [],
        "meta": {},
    }
    return whole | changes


def kernel(clock=None, **more):
    return {"kernels": [replace(Kernel(0, "k", "cpu", clock or Clock(1e9)), **more)]}


def launch(**more):
    return {"launches": [replace(Launch(0), **more)]}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"launches": [Launch(2**32 - 1)]},
        {"units": [Unit(5, "x"), Unit(0, "y", parent=5)]},
        launch(grid=(2**26, 2**27)),
        launch(grid=(0,)),
        launch(duration_ns=0.0, preempted_ns=0.0),
        launch(duration_ns=None),
        kernel(Clock(1e-9, bits=1)),
        kernel(Clock(1e9, bits=64)),
        kernel(calibration={"cost_ticks": 0, "error_ticks": 0.0, "floor_ticks": 1.5, "doses": [1]}),
        kernel(layout=allocate([Stamp(0)]).to_json()),
        {"domains": [Domain("d", 1e-6)]},
        {"meta": {"notes": ["x"], "problems": {"a": "b"}, "busy": {"k": {"core": 0.5}}, "kernels": ["*"]}},
        {"meta": {"kernels_seen": {"k": 3}, "anything": [1, {"a": None}]}},
    ],
)
def test_a_description_that_is_right(changes):
    check_description(parts(**changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"launches": [Launch(2**32)]}, "its launches are not numbered one by one"),
        ({"launches": [Launch(-1)]}, "its launches are not numbered one by one"),
        ({"kernels": [Kernel(0, "k", "cpu", Clock(1e9))] * 2}, "its kernels are not numbered one by one"),
        ({"works": [Work(0), Work(0)]}, "its works are not numbered one by one"),
        ({"works": [Work(0, 1)]}, "one of its works is of kernel 1, and there is none"),
        ({"regions": [Region(0, "k", kernel=2)]}, "one of its regions is of kernel 2, and there is none"),
        (launch(grid=()), r"there is no grid of \(\) programs"),
        (launch(grid=(4, -1)), "there is no grid of"),
        (launch(grid=(2**27, 2**27)), "there is no grid of"),
        ({"works": [Work(0, 0, (-2,))]}, "there is no grid of"),
        (launch(duration_ns=-0.5), "launch 0 took less than no time"),
        (launch(preempted_ns=-0.5), "launch 0 took less than no time"),
        (launch(ran_ns=-0.5), "launch 0 took less than no time"),
        (launch(losses=Losses(0, -1, 0)), "sampled_out cannot be -1"),
        ({"works": [Work(0, ran=-3)]}, "ran cannot be -3"),
        (kernel(Clock(0.0)), "the clock of k has 64 bits and 0.0 Hz"),
        (kernel(Clock(1e-300)), "the clock of k has 64 bits and 1e-300 Hz"),
        (kernel(Clock(1e300)), "the clock of k has 64 bits and 1e.300 Hz"),
        (kernel(Clock(1e9, bits=0)), "the clock of k has 0 bits"),
        (kernel(Clock(1e9, bits=65)), "the clock of k has 65 bits"),
        (kernel(calibration={"cost_ticks": -0.1}), "the cost_ticks of k cannot be -0.1"),
        (kernel(calibration={"error_ticks": "x"}), "the error_ticks of k cannot be 'x'"),
        (kernel(calibration={"floor_ticks": float("inf")}), "the floor_ticks of k cannot be inf"),
        (kernel(layout={"block_words": 8, "slots": [{}]}), "the layout of k cannot be read"),
        ({"regions": [Region(0, "a", parent=1), Region(1, "b", parent=0)]}, "its regions lie in one another"),
        ({"regions": [Region(0, "a", parent=0)]}, "its regions lie in one another"),
        ({"regions": [Region(0, "a", first_line=5, last_line=2**31)]}, "lines of a, 5 to 2147483648"),
        ({"regions": [Region(0, "a", first_line=-1)]}, "no source file has the lines of a, -1 to 0"),
        ({"regions": [Region(0, "a", lines=(3, 1_000_001))]}, "lines of a, 0 to 1000001"),
        (
            {"units": [Unit(0, "a", parent=3)]},
            "its units lie in one another in a circle, or in one that is not",
        ),
        ({"domains": [Domain("d", 0.0)]}, "a clock does not run at 0.0 Hz"),
        ({"domains": [Domain("d", 1e-300)]}, "a clock does not run at 1e-300 Hz"),
        ({"domains": [Domain("d", 1e300)]}, "a clock does not run at 1e.300 Hz"),
        ({"meta": {"x": float("nan")}}, "what it says of the session is no table"),
        ({"meta": {"notes": "x"}}, "is not right: notes is 'x'"),
        ({"meta": {"problems": []}}, "is not right: problems is"),
        ({"meta": {"problems": {"a": 1}}}, "texts are texts, shares are numbers"),
        ({"meta": {"busy": {"k": {"core": "x"}}}}, "texts are texts, shares are numbers"),
        ({"meta": {"busy": {"k": 1}}}, "texts are texts, shares are numbers"),
        ({"meta": {"kernels_seen": {"k": "x"}}}, "is not right: kernels_seen is"),
        ({"meta": {"kernels": [1]}}, "is not right: kernels is"),
    ],
)
def test_a_description_that_is_wrong(changes, text):
    with pytest.raises(Damaged, match=text):
        check_description(parts(**changes))


@pytest.mark.parametrize(
    ("column", "values", "text"),
    [
        ("launch", [0, 1], ""),
        ("launch", [0, 2], "launch is none of its launches in a row"),
        ("launch", [0, None], "launch is missing in a row"),
        ("to_unit", [7, 7], ""),
        ("to_unit", [7, 8], "to_unit is none of its units in a row"),
        ("from_region", [3, None], ""),
        ("from_region", [3, 4], "from_region is none of its regions in a row"),
        ("ns", [1.0, -5.0], ""),
        ("ns", [1.0, float("inf")], "ns is no number in a row"),
        ("value", [None, 2.0], ""),
        ("value", [float("nan"), 2.0], "value is no number in a row"),
    ],
)
def test_a_tables_rows(column, values, text):
    schema = {
        "launch": pl.Int64,
        "to_unit": pl.Int64,
        "from_region": pl.Int64,
        "ns": pl.Float64,
        "value": pl.Float64,
    }
    fine = {"launch": [0, 1], "to_unit": [7, 7], "from_region": [3, 3], "ns": [0.0, 1.0], "value": [1.0, 2.0]}
    frame = pl.DataFrame(fine | {column: values}, schema=schema).lazy()
    known = {"launches": [0, 1], "units": [7], "regions": [3]}
    if "launch is none" in text:  # the first that is wrong is said
        frame = frame.with_columns(pl.lit(float("nan")).alias("value"))
    if not text:
        return check_table(frame, schema, known, {"from_region", "value"})
    with pytest.raises(Damaged, match=text):
        check_table(frame, schema, known, {"from_region", "value"})


# -- clocks -------------------------------------------------------------------------------------------------------

LAYOUT = allocate([Stamp(0), Stamp(1)], spans=[Span(0, 0, 1)])
CLOCK, TIMER = Clock(2e9), GlobalTimer(1e9, step=100)


def aligned(*streams, slack=0.0):
    """Each stream: unit, own clock at its beginning and at its last record, shared times at both ends."""
    words = np.zeros((len(streams), LAYOUT.block_words), np.uint64)
    for block, (unit, begin, last, first_ns, end_ns) in zip(words, streams):
        block[[EPOCH, UNIT, BEGIN, GLOBAL_BEGIN, GLOBAL_END]] = 1, unit, begin, first_ns, end_ns
        block[8], block[9] = begin, last
    rows, _ = read_rows(words, LAYOUT, epochs=[1], programs=len(words))
    return align(rows, [cursor.read(part) for part in rows], CLOCK, TIMER, slack_ns=slack)


def test_a_stream_bounds_its_clocks_offset_to_a_step_of_the_timer():
    """Tick 2000 is 1000 ns; the timer said 5000 and goes in steps of 100: the offset is 4000 to 4100."""
    found = aligned((3, 2000, 2002, 5000, 0))
    assert found.domains == {3: Domain("unit 3", 2e9, 4050.0, 50.0)}
    assert aligned((3, 2000, 2002, 5000, 0), slack=30.0).domains[3] == Domain("unit 3", 2e9, 4035.0, 65.0)


def test_the_end_of_a_stream_bounds_it_too():
    """Its last record, at 1080 ns of its own, came before the timer went on from 5000: at most 4020."""
    assert aligned((0, 2000, 2160, 5000, 5000)).domains[0] == Domain("unit 0", 2e9, 4010.0, 10.0)


def test_streams_of_a_unit_narrow_it_down_together():
    found = aligned((0, 2000, 2000, 5000, 0), (0, 4140, 4140, 6000, 0), (1, 2000, 2000, 7000, 0))
    assert found.domains[0] == Domain("unit 0", 2e9, (4000 + 4030) / 2, 15.0)
    assert found.domains[1] == Domain("unit 1", 2e9, 6050.0, 50.0)
    assert found.problems == []


def test_a_clock_that_contradicts_itself_drifts():
    """Offsets of 4000 to 4100, and of 4300 to 4400: 4200 is 200 off from both."""
    found = aligned((0, 2000, 2000, 5000, 0), (0, 4000, 4000, 6300, 0))
    assert found.domains[0] == Domain("unit 0", 2e9, 4200.0, 100.0)
    (problem,) = found.problems
    assert (problem.what, problem.unit, problem.count) == ("drift", 0, 2)
    assert problem.text == "the clock of unit 0 drifts: its offset moves by 200 ns or more"


def test_two_kernels_know_a_clock_better_together():
    a, b = Domain("d", 1e9, 100.0, 50.0), Domain("d", 1e9, 160.0, 30.0)
    assert combined(a, b) == Domain("d", 1e9, 140.0, 10.0)
    assert combined(a, Domain("d", 1e9, 170.0, 20.0)) == Domain("d", 1e9, 150.0, 0.0)
    assert combined(a, Domain("d", 1e9, 171.0, 20.0)) is None


def test_narrow_counters_count_on_from_the_first_stream_of_their_unit():
    """An 8-bit counter at a GHz, read at shared times 1000, 1300 and 2000 on one unit, and 1000 on another."""
    begin = np.array([250, 38, 226, 7, 9])  # 250, 250 + 300 = 2 * 256 + 38, 250 + 1000 = 4 * 256 + 226
    shared, unit = np.array([1000, 1300, 2000, 1000, 0]), np.array([0, 0, 0, 1, 1])
    found = in_their_turns(begin, shared, unit, Clock(1e9, bits=8), GlobalTimer(1e9))
    assert found.tolist() == [250, 550, 1250, 7, 9]  # the last did not read the timer


def test_clocks_unwrap_from_the_beginning_of_their_row():
    low, row = np.array([250, 3, 1, 5, 5]), np.array([0, 0, 0, 2, 2])
    assert walk(low, row, np.array([1000, 0, 300]), 8).tolist() == [1018, 1027, 1281, 517, 517]


def wraps(took, passed, *, bits=20, clock=CLOCK, timer=TIMER, turn=0):
    layout = allocate([Stamp(0), Stamp(1)], spans=[Span(0, 0, 1)], clock_bits=bits)
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, [EPOCH, BEGIN, GLOBAL_BEGIN, GLOBAL_END]] = 1, 1000, 5000, 5000 + passed
    epoch = 0 if bits == 64 else 1 << 32
    words[0, 8], words[0, 9] = epoch | 1000, epoch | (1000 + took) % (turn or 1 << 32)
    rows, _ = read_rows(words, layout, epochs=[1], programs=1, clock=clock)
    return [p.text for p in check_wraps(rows, [cursor.read(r) for r in rows], clock, timer, np.array([4]))]


def test_a_turn_of_the_clock_that_left_no_trace_is_said():
    """Two ticks a nanosecond and a turn of 2^20: with the timer's step, 2^20 - 200 ticks more than recorded."""
    turn = 1 << 20
    assert wraps(1000, 500) == []
    assert wraps(0, (turn - 200) // 2 - 1) == []
    (text,) = wraps(0, (turn - 200) // 2)
    assert text.startswith("a stream took longer than its records by a turn of the clock or more")
    assert wraps(1200, 500) == []
    (text,) = wraps(1201, 500)
    assert text.startswith("a stream has records over more time than passed")
    coarse = GlobalTimer(1e9, step=1 << 19)
    text = wraps(1000, 500, clock=Clock(2e9, bits=20), timer=coarse)[0]
    assert text == "a step of the shared timer is too long to tell turns of the 20-bit clock apart"
    assert not any(
        "too long" in text for text in wraps(1000, 500, timer=coarse)
    )  # the machine's own clock is wide
    assert wraps(9000, -5000) == []  # the end was not noted


@pytest.mark.parametrize("room", [64, 32])
def test_turns_of_a_counter_that_is_narrower_than_records_have_room_for_are_said(room):
    """RDNA's has 20 bits; whole words and halves hold it as it is."""
    turn, clock = 1 << 20, Clock(2e9, bits=20)
    assert wraps(turn - 500, turn // 2 - 250, bits=room, clock=clock, turn=turn) == []  # the record reads 500
    assert wraps(500, (turn - 200) // 2 + 249, bits=room, clock=clock) == []
    (text,) = wraps(500, (turn - 200) // 2 + 250, bits=room, clock=clock)
    assert text.startswith("a stream took longer than its records by a turn of the clock or more")
    (text,) = wraps(1201, 500, bits=room, clock=clock)
    assert text.startswith("a stream has records over more time than passed")
    coarse = GlobalTimer(1e9, step=1 << 19)
    (text, *_) = wraps(1000, 500, bits=room, clock=clock, timer=coarse)
    assert text == "a step of the shared timer is too long to tell turns of the 20-bit clock apart"


@pytest.mark.parametrize(("passed", "pushes", "said"), [(2**20 - 1, 1, 0), (2**20, 1, 1), (2**20, 0, 0)])
def test_a_segment_between_other_records_is_in_doubt_once_the_clock_has_turned(passed, pushes, said):
    loop = Body(0, 1, (Stamp(1), Stamp(2)), counted=False)
    layout = allocate([Stamp(0), loop, Stamp(3)], spans=[Span(0, 0, 3), Span(1, 1, 2)], cursor_capacity=4)
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, [EPOCH, PUSHED, GLOBAL_BEGIN, GLOBAL_END]] = 1, pushes, 5000, 5000 + passed - 1
    for n, slot in enumerate((0, 3)):
        words[0, layout.slots[slot].base] = 2**19 * n + 5
    base = layout.streams[0].cursor_base
    words[0, base : base + 2] = 1, 2**19 - 50
    clock, timer = Clock(1e9, bits=20), GlobalTimer(1e9)
    rows, _ = read_rows(words, layout, epochs=[1], programs=1, clock=clock)
    found = check_wraps(rows, [cursor.read(r) for r in rows], clock, timer, np.array([4]))
    assert [problem.text.startswith("a stream with a `while` loop took a turn") for problem in found] == [
        True
    ] * said
