"""compare: each side's regions by that side's numbers, noise that is no drift, and what the findings say."""

import numpy as np
import polars as pl
import pytest

from tileprobe.tools.compare import _error_of_median, compare
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace


def staged(**lasted):
    """Four launches of a kernel with a stage for each name, in this order; a stage of 0 ns did not run."""
    regions = [Region(0, "k", "kernel")]
    rows = [(n, 0, 1_000_000 * n, 1_000_000 * n + 1000) for n in range(4)]
    for number, (kind, ns) in enumerate(lasted.items(), 1):
        regions.append(Region(number, f"{kind} @ {number}", kind, 0, depth=1))
        rows += [(n, number, 1_000_000 * n, 1_000_000 * n + ns) for n in range(4) if ns]
    return Trace.build(
        dict(zip(("launch", "region", "start", "stop"), zip(*rows))),
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(n, 0, (1,), duration_ns=1e6, work=0, preempted_ns=0.0) for n in range(4)],
        regions=regions,
    )


def rows(a, b):
    frame = compare(a, b).tables[0].frame
    return {row["name"].split(" @ ")[0]: row for row in frame.iter_rows(named=True)}


def test_stages_with_other_numbers_are_held_against_themselves():
    found = rows(staged(exp=100, load=300, dot=600), staged(load=330, dot=660))
    assert (found["dot"]["a_ns"], found["dot"]["b_ns"]) == (600.0, 660.0)
    assert (found["load"]["a_ns"], found["load"]["b_ns"]) == (300.0, 330.0)


@pytest.mark.parametrize(("of_a", "of_b"), [(0, 600), (600, 0)])
def test_a_stage_that_did_not_run_on_one_side_is_not_compared(of_a, of_b):
    """Its number is on the other side that of a stage which did."""
    assert set(rows(staged(exp=100, load=300, dot=of_a), staged(load=300, dot=of_b))) == {"k", "load"}
    assert set(rows(staged(load=300, dot=of_a), staged(exp=100, load=300, dot=of_b))) == {"k", "load"}


@pytest.mark.parametrize("estimated", [0, 1])
def test_an_estimate_on_either_side_is_marked(estimated):
    sides = staged(exp=100, load=300, dot=600), staged(load=300, dot=600)
    number = next(region.id for region in sides[estimated].regions if region.kind == "dot")
    weight = pl.when(pl.col("region") == number).then(2.0).otherwise(1.0)
    sides[estimated].frame = sides[estimated].intervals.with_columns(weight=weight)
    found = rows(*sides)
    assert (found["dot"]["estimate"], found["load"]["estimate"]) == (True, False)


def test_batches_that_differ_by_chance_are_no_drift():
    """Eight batches whose medians differ by about as much as those of independent launches would; then by more."""
    pace = np.array([0, 1, -1, 1, -1, 1, -1, 0])

    def samples(by):
        return (np.array([-30, -30, 0, 30, 30])[None, :] + by * pace[:, None]).ravel() + 1000.0

    def own(values):
        return 1.4826 * np.median(np.abs(values - np.median(values))) * np.sqrt(np.pi / 2 / len(values))

    slow = 21 * pace.std(ddof=1) / np.sqrt(8)
    assert 2.1 * own(samples(21)) < slow**2 < 2.1 * own(samples(21)) ** 2
    assert _error_of_median(samples(21)) == pytest.approx(own(samples(21)))
    assert _error_of_median(samples(90)) == pytest.approx(slow * 90 / 21)


def test_a_few_launches_have_no_batches():
    """Twelve would be eight batches of one: two that took longer at times are no pace that changed."""
    samples = np.full(12, 100.0)
    samples[[2, 5]] = 150.0
    assert _error_of_median(samples) == 0.0


def test_findings_say_the_change_and_its_noise():
    a, b = staged(dot=1000), staged(dot=1250)
    a.frame = a.intervals.with_columns(stop_ns=pl.col("stop_ns") + 200.0 * (pl.col("launch") == 3))
    b.frame = b.intervals.with_columns(
        stop_ns=pl.when(pl.col("region") == 0).then(pl.col("start_ns") + 1250.0).otherwise("stop_ns")
    )
    (text,) = [finding.text for finding in compare(a, b).findings if "than A" in finding.text]
    assert "B is 25.0 % slower than A, noise 20.0 %" in text
