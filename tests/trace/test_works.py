"""Works: which launches repeat one another, in files, merged, filtered, and made up for files that are older."""

from dataclasses import replace

import planted
import polars as pl
from made import attention

from tileprobe.session.collect import Collected, build_trace
from tileprobe.session.recorded import Recorded
from tileprobe.targets.base import Variant
from tileprobe.trace import Trace, Work
from tileprobe.trace.works import standing_for, with_works


def known():
    """Three launches of one work of which ten ran, and two of another."""
    trace = attention(launches=5, programs=2, iterations=2)
    trace.works = [
        Work(0, 0, (2,), "n=64", ran=10, probed=3, plain=5, dosed=2),
        Work(1, 0, (2,), "n=128", ran=2, probed=2),
    ]
    trace.launches = [replace(launch, work=int(launch.id > 2)) for launch in trace.launches]
    trace.launches[0] = replace(trace.launches[0], preempted_ns=0.0)
    trace.kernels[0] = replace(trace.kernels[0], signature="x: *fp32, BLOCK=64")
    return trace


def test_a_file_keeps_weights_works_signatures_and_what_was_taken(tmp_path):
    trace = known()
    trace.frame = trace.intervals.with_columns(pl.lit(2.5, pl.Float32).alias("weight"))
    trace.save(tmp_path / "t.parquet")
    again = Trace.load(tmp_path / "t.parquet")
    assert again.works == trace.works
    assert again.launches == trace.launches
    assert again.launches[0].preempted_ns == 0.0
    assert again.launches[1].preempted_ns is None
    assert again.kernels[0].signature == "x: *fp32, BLOCK=64"
    assert again.intervals["weight"].unique().to_list() == [2.5]


def test_a_file_without_weights_has_intervals_that_stand_for_themselves(tmp_path):
    trace = attention(launches=1)
    trace.frame = trace.intervals.drop("weight")
    trace.save(tmp_path / "t.parquet")
    assert Trace.load(tmp_path / "t.parquet").intervals["weight"].unique().to_list() == [1.0]


def test_a_launch_stands_for_all_that_ran_of_its_work():
    assert standing_for(known()) == {0: 10 / 3, 1: 10 / 3, 2: 10 / 3, 3: 1.0, 4: 1.0}


def test_launches_of_a_trace_without_works_are_one_for_each_grid():
    trace = attention(launches=3, programs=4, unprobed=2)
    trace.launches[2] = replace(trace.launches[2], grid=(9,))
    works = with_works(trace).works
    assert [(w.grid, w.ran, w.probed, w.plain) for w in works] == [((4,), 4, 2, 2), ((9,), 1, 1, 0)]
    assert standing_for(trace) == {0: 2.0, 1: 2.0, 2: 1.0}


def test_works_of_merged_traces_stay_apart():
    merged = Trace.merge(known(), known(), attention(launches=1, programs=2))
    assert [w.id for w in merged.works] == [0, 1, 2, 3, 4]
    assert [w.ran for w in merged.works] == [10, 2, 10, 2, 1]
    assert {w.kernel for w in merged.works if w.arguments} == {0}
    assert [launch.work for launch in merged.launches] == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4]


def test_launches_asked_for_by_number_stand_for_themselves():
    few = known().filter(launches=[0, 4])
    assert [(w.id, w.ran, w.probed) for w in few.works] == [(0, 1, 1), (1, 1, 1)]
    assert standing_for(few) == {0: 1.0, 4: 1.0}
    assert known().filter(kernel="none").works == []
    assert known().filter(programs=[0]).works == known().works


class Code:
    """As much of a compiled kernel as counting needs."""

    machine, name, key = "cpu", "k", "code"


def test_a_session_counts_what_ran_beside_what_it_recorded():
    code, variant, collected = Code(), Variant("v", None), Collected()
    for launch in range(7):
        collected.saw(code, "light", (4,), "n=1", unrecorded=launch > 4)
    collected.saw(code, "heavy", (4,), "n=2")
    for cost in (1000, 9000, 2000):
        run = Recorded((4,), words=pl.Series([0]).to_numpy(), work="light", session_ns=cost)
        collected.add(code, variant, run, False)
    collected.add(code, variant, Recorded((4,), work="light"), False)
    collected.add(code, variant, Recorded((4,), dose=3, work="light"), True)
    (seen,) = collected.kernels.values()
    row = seen.works["light"].row(0, 0)
    assert row == Work(0, 0, (4,), "n=1", 7, 3, 1, 1, unrecorded=2, session_us=2.0)
    assert [(ran.arguments, ran.ran) for ran in collected.unrecorded(seen)] == [("n=2", 1)]


def test_a_launch_probed_otherwise_is_counted_with_its_own_kernel():
    code, collected = Code(), Collected()
    for key in ("one", "one", "other"):
        collected.saw(code, "work", (4,))
        collected.add(code, Variant(key, None), Recorded((4,), work="work"), False)
    assert [seen.works["work"].row(0, 0).ran for seen in collected.kernels.values()] == [2, 1]


def test_a_work_that_is_probed_in_another_way_is_counted_once():
    """Another session began or ended: from some launch on the kernel has other probes."""
    kernel, collected = planted.Kernel(), Collected()
    other = Variant("other", None, kernel.layout, kernel.variant.regions)
    for _ in range(5):
        collected.saw(kernel, "w", (4,), "n=3")
    for variant in (kernel.variant, kernel.variant, other):
        collected.add(kernel, variant, planted.launch(kernel, work="w"), False)
    assert sorted(work.ran for work in build_trace(collected, {}).works) == [1, 4]
