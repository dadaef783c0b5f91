"""Clocks of two units brought to one time by a coarse timer that both can read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.ir.layout import BEGIN, EPOCH, GLOBAL_BEGIN, GLOBAL_END, UNIT, Span, Stamp, allocate
from tileprobe.ir.machine import Clock, GlobalTimer, Unit
from tileprobe.trace import Kernel, Launch, Region, Trace, cursor
from tileprobe.trace.decode import decode, read_rows
from tileprobe.trace.domains import align

LAYOUT = allocate([Stamp(0), Stamp(1)], spans=[Span(0, 0, 1)])
CLOCK = Clock(2e9)  # two ticks a nanosecond
TIMER = GlobalTimer(1e9, step=1024)
OFFSETS = {0: 5_000_000.0, 1: -300_000.0}  # ns of the true time at tick 0 of each unit's clock


def words_of(begins, length_ns=700.0, offsets=OFFSETS, drift=0.0):
    """Programs that begin at these true times, on the units in turn; `drift` is the share by which the clock of
    unit 0 is fast."""
    words = np.zeros((len(begins), LAYOUT.block_words), np.uint64)
    for n, begin in enumerate(begins):
        unit = n % len(offsets)
        rate = 2 * (1 + (drift if unit == 0 else 0.0))
        ticks = [round((t - offsets[unit]) * rate) for t in (begin, begin + 10, begin + length_ns)]
        times = [int(t // TIMER.step * TIMER.step) for t in (begin, begin + length_ns + 5)]
        words[n, [EPOCH, UNIT, BEGIN, GLOBAL_BEGIN, GLOBAL_END]] = 1, unit, ticks[0], *times
        words[n, 8:10] = ticks[1:]
    return words


def aligned(words, **more):
    rows, _ = read_rows(words, LAYOUT, epochs=[1], programs=len(words))
    return align(rows, [cursor.read(part) for part in rows], CLOCK, TIMER, **more)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(10_000_000, 11_000_000), min_size=2, max_size=60))
def test_the_true_offset_is_within_the_error(begins):
    found = aligned(words_of(begins))
    assert not found.problems
    assert set(found.domains) == {0, 1}
    for unit, domain in found.domains.items():
        assert abs(domain.offset_ns - OFFSETS[unit]) <= domain.error_ns + 1  # a tick is rounded to
        assert domain.error_ns <= TIMER.step_ns / 2
        assert domain.hz == CLOCK.hz


def test_many_streams_narrow_the_offset():
    rng = np.random.default_rng(4)
    one = aligned(words_of([10_000_000, 10_000_400])).domains[0].error_ns
    many = aligned(words_of(rng.integers(10_000_000, 11_000_000, 400))).domains[0].error_ns
    assert many < one / 10
    assert many < TIMER.step_ns / 50


def test_the_end_of_a_stream_bounds_the_offset_as_well():
    """The stream begins just after a step of the timer and ends just before one."""
    begin = 10_000 * TIMER.step
    words = words_of([begin, begin], length_ns=TIMER.step - 10)
    with_end = aligned(words).domains[0].error_ns
    words[:, GLOBAL_END] = 0
    assert with_end < aligned(words).domains[0].error_ns / 10


def test_a_clock_that_drifts_is_reported():
    begins = np.linspace(10_000_000, 30_000_000, 41)
    found = aligned(words_of(begins, drift=1e-3))
    (problem,) = found.problems
    assert (problem.what, problem.unit) == ("drift", 0)
    assert problem.count > 0
    assert found.domains[0].error_ns > 5_000  # 20 ms at 1e-3 is 20 us from end to end
    assert found.domains[1].error_ns < TIMER.step_ns


def test_a_late_reading_of_the_timer_is_allowed_for():
    words = words_of([10_000 * TIMER.step - 100, 10_000 * TIMER.step - 100])
    words[:, GLOBAL_BEGIN] += np.uint64(TIMER.step)  # read 100 ns later than the own clock
    assert abs(aligned(words).domains[0].offset_ns - OFFSETS[0]) > aligned(words).domains[0].error_ns
    patient = aligned(words, slack_ns=200).domains[0]
    assert abs(patient.offset_ns - OFFSETS[0]) <= patient.error_ns


def test_units_without_the_timer_have_no_domain():
    words = words_of([10_000_000, 10_000_500])
    words[0, [GLOBAL_BEGIN, GLOBAL_END]] = 0
    assert set(aligned(words).domains) == {1}


def test_a_trace_of_two_domains_has_one_time():
    """The programs take turns on two units 5.3 ms apart by their own clocks; in the trace each begins 500 ns
    after the other."""
    begins = 10_000_000 + 500 * np.arange(200)
    words = words_of(begins)
    domains = aligned(words, name="core {}").domains
    decoded = decode(words, LAYOUT, epochs=[1], programs=len(words))
    trace = Trace.build(
        decoded.columns,
        kernels=[Kernel(0, "k", "moon", CLOCK)],
        launches=[Launch(0)],
        regions=[Region(0, "k")],
        units=[Unit(n, f"core {n}", domain=domains[n].name) for n in domains],
        domains=list(domains.values()),
    )
    start = trace.intervals.sort("program")["start_ns"].to_numpy()
    error = sum(domain.error_ns for domain in domains.values())
    assert error < 20
    assert np.abs(np.diff(start) - 500).max() <= error + 1
    assert start.max() == pytest.approx(199 * 500, abs=error + 1)


NARROW = allocate([Stamp(0), Stamp(1)], spans=[Span(0, 0, 1)], clock_bits=20)
FINE = GlobalTimer(1e9, step=32)


def narrow_words(begins, clock):
    """Programs on two units whose counters have 20 bits and nothing above."""
    mask = (1 << clock.bits) - 1
    words = np.zeros((len(begins), NARROW.block_words), np.uint64)
    for n, begin in enumerate(begins):
        ticks = [round((t - OFFSETS[n % 2]) * 2) & mask for t in (begin, begin + 10, begin + 700)]
        times = [int(t // FINE.step * FINE.step) for t in (begin, begin + 705)]
        words[n, [EPOCH, UNIT, BEGIN, GLOBAL_BEGIN, GLOBAL_END]] = 1, n % 2, ticks[0], *times
        words[n, 8:10] = [(1 << 32) | tick for tick in ticks[1:]]
    return words


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(10_000_000, 90_000_000), min_size=2, max_size=20))
def test_a_counter_of_20_bits_counts_on_from_program_to_program(begins):
    """It turns over every half millisecond, the programs lie tens of milliseconds apart."""
    clock = Clock(2e9, bits=20)
    words = narrow_words(begins, clock)
    before = words.copy()
    decoded = decode(words, NARROW, epochs=[1], programs=len(words), clock=clock, timer=FINE)
    assert not decoded.problems
    assert (words == before).all()
    start, unit = decoded.columns["start"], decoded.columns["unit"]
    for number in (0, 1):
        own = np.array(begins[number::2])
        assert np.abs(np.diff(start[unit == number]) - 2 * np.diff(own)).max(initial=0) <= 1
    rows, _ = read_rows(words, NARROW, epochs=[1], programs=len(words), clock=clock, timer=FINE)
    found = align(rows, [cursor.read(part) for part in rows], clock, FINE)
    assert not found.problems
    assert all(domain.error_ns <= FINE.step_ns / 2 for domain in found.domains.values())


def test_a_timer_that_is_too_coarse_for_a_narrow_counter_is_reported():
    clock, coarse = Clock(2e9, bits=20), GlobalTimer(1e9, step=1e6)
    words = narrow_words([10_000_000, 20_000_000], clock)
    decoded = decode(words, NARROW, epochs=[1], programs=2, clock=clock, timer=coarse)
    assert "too long to tell turns" in decoded.problems[0].text
    assert decoded.problems[0].count == 2
