"""Corrected times are never below zero, whatever a record is said to cost, and sums stay what they were."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.ir.layout import EPOCH, PUSHED, Body, Span, Stamp, allocate
from tileprobe.trace.decode import decode
from tileprobe.trace.replay import Calibration

ROUNDS = 12
LAYOUT = allocate(
    [Stamp(0), Body(0, ROUNDS, (Stamp(1), Stamp(2), Stamp(3), Stamp(4))), Stamp(5)],
    spans=[Span(0, 0, 5), Span(1, 1, 4), Span(2, 1, 2), Span(3, 2, 3), Span(4, 3, 4)],
)
WHILE = allocate(
    [Stamp(0), Body(0, 1, (Stamp(1), Stamp(2), Stamp(3), Stamp(4)), counted=False), Stamp(5)],
    spans=LAYOUT.spans,
    cursor_capacity=4 * ROUNDS,
)


def written(gaps, layout):
    """One program whose records follow each other after these gaps."""
    clock = 1_000_000 + np.cumsum(gaps)
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, EPOCH] = 1
    inner = clock[1:-1]
    if layout is LAYOUT:
        words[0, LAYOUT.loops[0].trip_base] = (1 << 32) | ROUNDS
        words[0, LAYOUT.loops[0].trip_base + 1 :][: len(inner)] = inner
    else:
        words[0, PUSHED] = len(inner)
        at = layout.streams[0].cursor_base
        tags = [(n // 4 << 32) | (1 + n % 4) for n in range(len(inner))]
        words[0, at : at + 2 * len(inner) : 2], words[0, at + 1 : at + 2 * len(inner) : 2] = tags, inner
    words[0, layout.slots[0].base], words[0, layout.slots[5].base] = clock[0], clock[-1]
    return words


def corrected(gaps, cost, layout=LAYOUT):
    calibration = Calibration(cost, 1.0, {}, (1, 3))
    found = decode(written(gaps, layout), layout, epochs=[1], programs=1, calibration=calibration)
    return found, found.columns["start_corrected"], found.columns["stop_corrected"]


gap_lists = st.lists(st.integers(1, 60), min_size=4 * ROUNDS + 2, max_size=4 * ROUNDS + 2)


@settings(max_examples=80, deadline=None)
@given(gap_lists, st.floats(0, 80), st.sampled_from([LAYOUT, WHILE]))
def test_no_time_is_negative_and_nesting_stays(gaps, cost, layout):
    found, start, stop = corrected(gaps, cost, layout)
    region, iteration = found.columns["region"], found.columns["iteration"]
    assert (stop >= start).all()
    whole = region == 0
    assert (start >= start[whole]).all()
    assert (stop <= stop[whole]).all()
    for number in range(ROUNDS):
        outer = (region == 1) & (iteration == number)
        parts = (region > 1) & (iteration == number)
        assert outer.sum() == 1
        assert start[parts].min() >= start[outer] - 1e-6
        assert stop[parts].max() <= stop[outer] + 1e-6
        assert (stop - start)[parts].sum() == pytest.approx((stop - start)[outer].item(), abs=1e-6)


def test_what_is_not_negative_is_left_alone():
    found, start, stop = corrected([50] * (4 * ROUNDS + 2), 20.0)
    assert found.residual.records == 0
    assert set((stop - start)[found.columns["region"] == 3].round(6)) == {30.0}


@pytest.mark.parametrize("layout", [LAYOUT, WHILE])
def test_the_residual_is_counted_and_sums_stay(layout):
    """Two records that follow at once, among others: their gap of 10 ticks is less than a record's 20."""
    gaps = [100] * (4 * ROUNDS + 2)
    gaps[3::4] = [10] * len(gaps[3::4])  # between slots 2 and 3
    gaps[-1] = 2_000_000  # longer than the counter had run before
    found, start, stop = corrected(gaps, 20.0, layout)
    region = found.columns["region"]
    assert found.residual.records == ROUNDS
    assert found.residual.residual_ticks == pytest.approx(10 * ROUNDS)
    assert found.residual.share == pytest.approx(10 * ROUNDS / (20 * (4 * ROUNDS + 1)))
    assert (stop - start)[region == 3] == pytest.approx(0, abs=1e-9)
    truth = sum(gaps[1:]) - 20 * (4 * ROUNDS + 1)
    assert (stop - start)[region == 0].item() == pytest.approx(truth)
    assert (stop - start)[region == 1].mean() == pytest.approx(100 + 10 + 100 - 60)


def test_noise_around_nothing_comes_out_small_and_sums_come_out_right():
    """Regions that take no time at all, under records whose cost varies: nothing is added in the mean."""
    rng = np.random.default_rng(0)
    excess = []
    for _ in range(200):
        gaps = np.round(30 + rng.normal(0, 4, 4 * ROUNDS + 2)).astype(int)
        gaps[-1] += 500
        found, start, stop = corrected(gaps, 30.0)
        excess.append((stop - start)[found.columns["region"] == 0].item() - 500)
    assert abs(np.mean(excess)) < 3  # ticks, of 49 corrections of 30
