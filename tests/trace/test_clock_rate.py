"""The CPU's counter against wall time. Both are read at the same moments, so a loaded machine changes nothing."""

import time

import pytest

from tileprobe.targets.cpu import clock_source


def moment():
    """The counter and the system's clock at one moment: of several tries the one with the least in between."""
    tries = []
    for _ in range(50):
        before = time.perf_counter_ns()
        tick = clock_source.ticks()
        after = time.perf_counter_ns()
        tries.append((after - before, tick, (before + after) / 2))
    return min(tries)[1:]


def test_the_rate_of_the_counter_is_what_wall_time_says():
    clock_source.start()
    first_tick, first_ns = moment()
    time.sleep(0.25)
    tick, ns = moment()
    passed = (tick - first_tick) * 1e9 / (ns - first_ns)
    assert clock_source.rate_hz() == pytest.approx(passed, rel=0.002)
    assert clock_source.CpuClock().hz() == pytest.approx(passed, rel=0.002)
