"""Recorded times against true ones, put together from made-up intervals: every figure by hand."""

from dataclasses import dataclass

import numpy as np
import pytest

from tileprobe.session.verifying import Verifying
from tileprobe.targets.base import Verified
from tileprobe.tools.verified import verified
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace


@dataclass
class Run:
    verified: Verified | None
    duration_ns: float


def columns(rows):
    """Rows of (launch, region, raw length, corrected length)."""
    launch, region, raw, corrected = (np.array(part) for part in zip(*rows))
    return {
        "launch": launch, "region": region, "start": np.full(len(raw), 10), "stop": 10 + raw,
        "start_corrected": np.full(len(raw), 10.0), "stop_corrected": 10.0 + corrected,
    }  # fmt: skip


def known(plain, free):
    return Verified(plain_ns=plain, free_ns=free, words=np.zeros(1, np.uint64))


@pytest.fixture
def found():
    """Launches 4 and 5 were verified, 6 was not. Region 2 was recorded once and is twice in the truth."""
    runs = [Run(known(100.0, 110.0), 130.0), Run(known(200.0, 240.0), 300.0), Run(None, 9e9)]
    recorded = columns(
        [(4, 0, 50, 40), (4, 1, 20, 16), (5, 0, 60, 46), (5, 1, 20, 18), (4, 2, 7, 7), (6, 0, 9999, 9999)]
    )
    asked = []

    def decoded(mine, ids):
        asked.append((list(mine), list(ids)))
        return columns(
            [(4, 0, 42, 0), (4, 1, 15, 0), (5, 0, 44, 0), (5, 1, 15, 0), (4, 2, 3, 0), (5, 2, 3, 0)]
        )

    verifying = Verifying()
    verifying.add(runs, [4, 5, 6], recorded, decoded)
    assert asked == [(runs[:2], [4, 5])]
    return verifying.to_json(hz=2e9)


def test_sums_are_of_the_launches_that_were_verified(found):
    assert (found["launches"], found["plain_ns"], found["free_ns"], found["probed_ns"]) == (
        2,
        300.0,
        350.0,
        430.0,
    )
    first, second = found["regions"]  # half a nanosecond a tick
    assert first == {"region": 0, "count": 2, "true_ns": 43.0, "raw_ns": 55.0, "corrected_ns": 43.0}
    assert second == {"region": 1, "count": 2, "true_ns": 15.0, "raw_ns": 20.0, "corrected_ns": 17.0}
    assert found["not_compared"] == 1


def test_groups_of_launches_add_up(found):
    verifying = Verifying()
    one = columns([(0, 0, 10, 8)])
    for _ in range(3):
        verifying.add([Run(known(1.0, 2.0), 3.0)], [0], one, lambda runs, ids: one)
    again = verifying.to_json(1e9)
    assert (again["launches"], again["probed_ns"], again["not_compared"]) == (3, 9.0, 0)
    assert again["regions"] == [
        {"region": 0, "count": 3, "true_ns": 30.0, "raw_ns": 30.0, "corrected_ns": 24.0}
    ]


def test_nothing_was_verified_and_nothing_is_said():
    verifying = Verifying()
    verifying.add([Run(None, 5.0)], [0], columns([(0, 0, 1, 1)]), lambda runs, ids: pytest.fail("asked"))
    assert verifying.to_json(1e9) == {}


def test_what_probes_cost_and_how_far_regions_are_off(found):
    """Probes took 430 where there were 300: 50 more for other code, 80 for records."""
    regions = [Region(n, f"r{n}", "kernel" if not n else "dot", None if not n else 0) for n in range(3)]
    trace = Trace.build(
        {"launch": [0], "region": [0], "start": [0], "stop": [1]},
        kernels=[Kernel(0, "k", "sim:a100", Clock(2e9), calibration={"verified": found})],
        launches=[Launch(0)],
        regions=regions,
    )
    truth = verified(trace, trace.kernels[0])
    assert truth is not None
    assert truth.overhead_percent == pytest.approx(100 * 130 / 300)
    assert truth.records_percent == pytest.approx(100 * 80 / 300)
    assert truth.code_percent == pytest.approx(100 * 50 / 300)
    assert truth.mean_error_percent == pytest.approx(
        100 * 2 / 15
    )  # of the dot alone: the kernel is no region inside
    assert truth.worst is not None
    assert truth.worst.region.name == "r1"
    assert truth.worst.error_percent == pytest.approx(100 * 2 / 15)
    assert truth.regions[0].error_percent == pytest.approx(0.0)
