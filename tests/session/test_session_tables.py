"""What is kept of launches, which work they are of and what becomes of them, without a kernel that runs."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from session_parts import kernel_of, recorded, work_of

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Body, Stamp, StreamItems, allocate
from tileprobe.ir.machine import Domain, Unit
from tileprobe.ir.regions import Region
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.session.arguments import REAL_VALUES, VALUES, WORKS, Telling, in_words
from tileprobe.session.collect import Collected, build_trace
from tileprobe.session.decoding import _groups
from tileprobe.session.flights import Flight, Looking
from tileprobe.session.gathering import gather
from tileprobe.session.making import Making, Units, joined, parents_first, stacked
from tileprobe.session.places import Places
from tileprobe.session.recorded import Ready, Recorded
from tileprobe.session.tally import Ran
from tileprobe.session.works import LEFT_OUT, PLAIN, PROBED
from tileprobe.targets.base import Exact, Variant

# -- what is kept of a block ---------------------------------------------------------------------------------------


def test_words_worth_keeping():
    """Header 0-7, a record, a trip count, four places of two words, a record: 8, 9, 10-17, 18."""
    layout = allocate([Stamp(0), Body(0, 4, (Stamp(1), Stamp(2))), Stamp(3)])
    places = Places(layout)
    blocks = np.zeros((3, layout.block_words), np.uint64)
    trip = layout.loops[0].trip_base
    blocks[:, trip] = [(7 << 32) | 3, 0, (7 << 32) | 2]
    assert places.most(blocks) == [3]
    assert places.least(blocks, layout.loops[0]) == 2
    used = places.used(blocks, [2], Sampling())
    assert used.words.tolist() == [*range(14), 18]
    assert used.parts == (slice(0, 14), slice(18, 19))
    assert used.whole
    assert places.used(blocks, [2], Sampling()) is used
    assert places.used(blocks, [9], Sampling()).words.tolist() == list(range(19))
    assert places.used(blocks, [9], Sampling(loops={0: Every(5)})).words.tolist() == used.words.tolist()
    blocks[:] = np.arange(24)
    assert used.copied(blocks)[0].tolist() == used.words.tolist()
    assert places.used(blocks, [9], Sampling()).copied(blocks).tolist() == blocks[:, :19].tolist()


def test_many_pieces_are_picked_word_by_word():
    """Ten instances of a stream with a loop that is half full: more pieces than are copied one by one."""
    layout = allocate(
        [StreamItems([Body(0, 4, (Stamp(0),))], "warp", 10), StreamItems([Stamp(1)], "other")],
        granularity="warp",
    )
    places = Places(layout)
    blocks = np.arange(2 * layout.block_words, dtype=np.uint64).reshape(2, -1)
    used = places.used(blocks, [2], Sampling())
    assert len(used.parts) == 8
    assert not used.whole
    assert len(used.words) == 10 * (8 + 1 + 2) + 8 + 1  # headers, trip counts, places
    assert used.copied(blocks).tolist() == blocks[:, used.words].tolist()
    inside = {word for part in used.parts for word in range(part.start, part.stop)}
    assert inside.issuperset(used.words.tolist())


def test_what_keeping_a_launch_takes():
    run = recorded(records=8, programs=4)
    assert run.nbytes == 512 + 4 * 16 * 8
    assert run.kept() == 4 * 8
    assert run.full_words().shape == (4, 16)
    assert (run.programs, run.probed, Recorded((2, 3)).probed, Recorded((2, 3)).programs) == (
        4,
        True,
        False,
        6,
    )
    exact = Recorded((1,), exact=(Exact({"start": np.zeros(10, np.int64)}, (), (), 5.0),))
    assert (exact.nbytes, exact.probed, exact.kept()) == (512 + 80, True, 0)


# -- which work a launch is of -------------------------------------------------------------------------------------


def test_values_are_told_apart_up_to_a_number():
    telling = Telling()
    keys = [telling.key((1,), (n,)) for n in range(100, 100 + VALUES + 1)]
    assert keys[:-1] == [((1,), n) for n in range(100, 100 + VALUES)]
    assert keys[-1] == ((1,), "2^6..")
    assert telling.key((1,), (-5,)) == ((1,), "-2^2..")
    assert telling.key((1,), (0,)) == ((1,), 0)
    assert telling.key((1,), (105,)) == ((1,), 105)  # seen before
    real = Telling()
    assert [real.key((1,), (x / 2,))[1] for x in range(REAL_VALUES + 1)] == [0.0, 0.5, 1.0, 1.5, "*"]
    shapes = Telling()
    found = [shapes.key((1,), ((n, 64),))[1] for n in range(1, VALUES + 2)]
    assert found[-1] == ("2^4..", "2^6..")
    assert Telling().key((1,), (float("nan"), np.int32(7), np.array([2, 3]), object(), "s", None, True)) == (
        (1,), "nan", 7, (2, 3), None, "s", None, True,
    )  # fmt: skip


def test_a_kernel_has_so_many_works():
    telling = Telling()
    for n in range(WORKS):
        assert telling.key((n,), ()) == ((n,),)
    assert not telling.full
    assert telling.key((WORKS,), ()) is None
    assert telling.full
    assert telling.key((3,), ()) == ((3,),)


def test_works_in_words():
    named = [("x", "*fp32"), ("n", "i32"), ("scale", "fp32"), ("y", "*i8"), ("s", "*bf16")]
    key = ((1,), (1024, 64), 4096, 0.125, (), None)
    assert in_words(key, named) == "n=4096, scale=0.125; x 1024x64 f32, y scalar i8"
    assert in_words(((1,), 3, (2,)), []) == "#0=3; #1 2"
    assert in_words(None, named) == "others"


# -- the trace that a session makes --------------------------------------------------------------------------------


def test_units_of_several_machines_have_numbers_of_their_own():
    units = Units()
    assert units.add("cpu", [Unit(0, "core 0"), Unit(5, "core 5")]) == {0: 0, 5: 5}
    assert units.add("sim", [Unit(6, "warp", parent=5), Unit(5, "SM"), Unit(0, "other")]) == {
        5: 6,
        6: 7,
        0: 8,
    }
    assert units.add("cpu", [Unit(5, "core 5"), Unit(1, "core 1")]) == {5: 5, 1: 1}
    assert [(unit.id, unit.name, unit.parent) for unit in units.rows] == [
        (0, "core 0", None), (5, "core 5", None), (6, "SM", None), (7, "warp", 6), (8, "other", None),
        (1, "core 1", None),
    ]  # fmt: skip
    order = parents_first(
        [Unit(2, "c", parent=1), Unit(0, "a"), Unit(1, "b", parent=0), Unit(3, "d", parent=9)]
    )
    assert [unit.id for unit in order] == [0, 1, 2, 3]


def test_tables_of_several_kernels_are_put_behind_each_other():
    pieces = [{"a": np.array([1]), "b": np.array([2])}, {"b": np.array([3]), "a": np.array([4])}]
    assert {name: column.tolist() for name, column in joined(pieces).items()} == {"a": [1, 4], "b": [2, 3]}
    assert list(joined([*pieces, {"a": np.array([5])}])) == ["a"]
    assert joined([]) == {}
    assert stacked([]) is None
    assert stacked([{"a": [1]}, {"a": [2], "b": [3]}]).rows() == [(1, None), (2, 3)]


def test_clocks_of_kernels_that_disagree_are_noted():
    making = Making()
    making.add_domain(Domain("d", 1e9, 100.0, 50.0))
    making.add_domain(Domain("d", 1e9, 160.0, 30.0))
    assert making.domains["d"] == Domain("d", 1e9, 140.0, 10.0)
    making.add_domain(Domain("d", 1e9, 900.0, 1.0))
    assert making.domains["d"].offset_ns == 140.0
    assert making.notes == ["the clock of d drifts: its kernels do not agree on its offset"]


def test_launches_that_were_recorded_alike_are_decoded_together(monkeypatch):
    one, other = recorded(), recorded(records=9)
    same = replace(one)
    sampled = replace(one, sampling=Sampling(Every(2)))
    assert _groups([one, other, same, Recorded((4,)), sampled]) == [[0, 2], [1], [4]]
    monkeypatch.setattr("tileprobe.session.decoding._DECODED_BYTES", 2 * 4 * 16 * 8)
    assert _groups([one] * 5) == [[0, 1], [2, 3], [4]]


def simulated(part=None, **more):
    columns = {"region": [0], "start": [10], "stop": [30]} | more
    return Exact(columns, (Region(0, "r"),), (), 20.0, part or "", (2,), kept=4, lost=1)


def exact_trace(*launches):
    collected, kernel = Collected(), kernel_of(takes="probe")
    variant = Variant("v", None, ir={"probe": "module {}"}, notes=("odd",))
    for number, parts in enumerate(launches):
        collected.saw(kernel, "w", (2,), "n=1")
        collected.add(kernel, variant, Recorded((2,), 1000 + number, exact=parts, work="w"), False)
    return build_trace(collected, {"a": 1})


def test_a_simulated_launch_is_taken_as_it_is():
    trace = exact_trace((simulated(),), (simulated(),))
    (kernel,) = trace.kernels
    assert (kernel.name, kernel.ir, kernel.clock.hz) == ("k", {"probe": "module {}"}, 2e9)
    assert [(x.start_ns, x.duration_ns, x.preempted_ns, x.work) for x in trace.launches] == [
        (0.0, 20.0, 0.0, 0), (1.0, 20.0, 0.0, 0),
    ]  # fmt: skip
    assert trace.intervals["stop_ns"].to_list() == [10.0, 10.0]  # 20 ticks at 2 GHz
    assert trace.intervals.select("weight", "fit", "taken_ns").unique().rows() == [(1.0, 1.0, 0.0)]
    rest = trace.intervals.select("program", "stream", "unit", "kind", "iteration", "outer")
    assert rest.unique().rows() == [(0, 0, 0, "region", -1, 0)]
    assert (trace.launches[0].losses.kept, trace.launches[0].losses.lost) == (4, 1)
    assert trace.works[0].ran == 2
    assert trace.meta["notes"] == ["k: odd"]
    assert [unit.name for unit in trace.units] == ["cpu"]


def test_all_instances_of_a_stream_are_looked_at():
    """The second warp's loop ran longer than the first one's."""
    layout = allocate([StreamItems([Body(0, 4, (Stamp(0),))], "warp", 2)], granularity="warp")
    places, blocks = Places(layout), np.zeros((1, layout.block_words), np.uint64)
    stream, trip = layout.streams[0], layout.loops[0].trip_base
    blocks[0, trip], blocks[0, stream.words + trip] = (7 << 32) | 2, (7 << 32) | 3
    assert places.most(blocks) == [3]
    assert places.least(blocks, layout.loops[0]) == 2


def test_a_launch_at_the_first_nanosecond():
    collected, kernel = Collected(), kernel_of(takes="probe")
    for start in (0, 7):
        run = Recorded((2,), start, exact=(simulated(),), work="w")
        collected.add(kernel, Variant("v", None), run, False)  # type: ignore[arg-type]
    assert [launch.start_ns for launch in build_trace(collected, {}).launches] == [0.0, 7.0]


def test_parts_of_a_simulated_launch_are_kernels_of_their_own():
    trace = exact_trace((simulated("first"), simulated("second")), ())
    assert [(kernel.name, kernel.ir) for kernel in trace.kernels] == [("k: first", {}), ("k: second", {})]
    assert trace.intervals["region"].to_list() == [0, 1]
    assert trace.intervals["launch"].to_list() == [0, 1]
    assert "k: the target said nothing of what happened in 1 of its launches" in trace.meta["notes"]


def test_a_simulator_must_name_what_is_there():
    with pytest.raises(TileProbeError, match="something happened in region 1, and names no such region"):
        exact_trace((simulated(region=[1]),))
    with pytest.raises(TileProbeError, match="something happened in unit 3, and names no such unit"):
        exact_trace((simulated(unit=[3]),))
    with pytest.raises(
        TileProbeError, match="intervals are of the kinds region, async, wait, mark, value, not 'x'"
    ):
        exact_trace((simulated(kind=["x"]),))
    assert exact_trace((simulated(kind=["wait"]),)).intervals["kind"].to_list() == ["wait"]


@pytest.mark.parametrize("end", ["from", "to"])
@pytest.mark.parametrize("what", ["region", "unit"])
def test_an_edge_has_two_ends_that_are_there(end, what):
    edge = {"kind": ["issue-wait"], "from_tick": [11], "to_tick": [12], "from_region": [0], "to_region": [0]}
    edge |= {"from_unit": [0], "to_unit": [0]}
    told = replace(simulated(), edges=edge)
    assert len(exact_trace((told,)).edges) == 1
    with pytest.raises(TileProbeError, match=f"something happened in {what} 1, and names no such {what}"):
        exact_trace((replace(told, edges=edge | {f"{end}_{what}": [1]}),))


def test_regions_of_a_second_kernel_have_parents_of_their_own():
    making = Making()
    regions = (Region(0, "k", "kernel"), Region(1, "loop", "loop", 0), Region(2, "iteration", "iteration", 1))
    assert [making.add_regions(kernel, regions) for kernel in (0, 1)] == [0, 3]
    assert [(r.id, r.kernel, r.parent) for r in making.regions] == [
        (0, 0, None), (1, 0, 0), (2, 0, 1), (3, 1, None), (4, 1, 3), (5, 1, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sampling", "turns"), [(Sampling(Every(4)), 4), (Sampling(), 1), (Sampling(Every(4), chosen=(1, 2)), 1)]
)
def test_programs_that_are_drawn_in_turns(sampling, turns):
    ready = Ready.__new__(Ready)
    ready.sampling = sampling
    assert ready.turns == turns


def test_works_of_a_session_in_the_order_in_which_they_ran():
    variant = Variant("v", None)
    first, second, borrowing, nothing = (work_of(arguments=name) for name in "abcd")
    for work in (first, second, borrowing, nothing):
        work.kernel = first.kernel
        work.ran = 3
    first.runs = [(variant, recorded(duration=1)), (None, Recorded((4,), start_ns=30))]
    first.runs[0][1].start_ns = 20
    second.runs = [
        (variant, replace(recorded(), start_ns=10)),
        (variant, replace(recorded(dose=3), start_ns=5)),
    ]
    borrowing.borrowed = variant, replace(recorded(), start_ns=15)
    found = gather([first, second, borrowing, nothing])
    (seen,) = found.kernels.values()
    assert [run.start_ns for run in seen.launches] == [10, 15, 20, 30]
    assert [run.start_ns for run in seen.dosed] == [5]
    assert [run.work for run in seen.launches] == [1, 2, 0, 0]
    assert [ran.arguments for ran in found.unrecorded(seen)] == ["d"]
    rows = {ran.arguments: ran.row(0, 0) for ran in found.works.values()}
    assert [(rows[n].ran, rows[n].probed, rows[n].plain, rows[n].dosed) for n in "abcd"] == [
        (3, 1, 1, 0), (3, 1, 0, 1), (3, 1, 0, 0), (3, 0, 0, 0),
    ]  # fmt: skip


def test_a_work_ran_at_least_as_often_as_it_was_kept():
    ran = Ran("k", (1,), ran=1, probed=2, plain=1, dosed=1, session_ns=[1000, 5000, 3000])
    row = ran.row(3, 2)
    assert (row.id, row.kernel, row.ran, row.session_us) == (3, 2, 4, 3.0)
    assert Ran("k", (1,)).row(0, 0).session_us is None


# -- launches under way --------------------------------------------------------------------------------------------


def looking(dose, choices="same", recorded=0):
    return Looking(SimpleNamespace(choices=choices), work_of(recorded=recorded), dose)  # type: ignore[arg-type]


def test_whose_a_launch_is():
    plain, probed, other, left = looking(PLAIN), looking(PROBED), looking(PROBED, "other"), looking(LEFT_OUT)
    flight = Flight(lambda *_: None, [plain, probed, other, left])
    assert [work for _, work in flight.sharing()] == [plain.work]  # it ran without probes
    assert flight.borrowing() == []
    flight.led_by(probed)
    assert (probed.work.recorded, probed.work.dosed) == (1, 0)
    assert [work for _, work in flight.sharing()] == [plain.work, probed.work]
    assert [work for _, work in flight.borrowing()] == [other.work]
    unasked = looking(PLAIN, "other")  # it was to run without probes
    flight.looking.append(unasked)
    assert [work for _, work in flight.borrowing()] == [other.work]
    other.work.recorded = 1
    assert flight.borrowing() == []
    alone = Flight(lambda *_: None, [left])
    alone.led_by(left)
    assert [work for _, work in alone.sharing()] == [left.work]
    assert flight.concerns(plain.session)
    assert not alone.concerns(plain.session)


def test_the_sessions_time_is_that_of_launches_with_records():
    ran = Ran("k", (4,))
    for dose, spent in ((PROBED, 3000), (PROBED, 0), (PLAIN, 9000)):
        run = recorded(dose=dose) if dose == PROBED else Recorded((4,))
        ran.add(replace(run, session_ns=spent), calibration=False)
    assert (ran.probed, ran.plain, ran.session_ns) == (2, 1, [3000])
    assert ran.row(0, 0).session_us == 3.0
