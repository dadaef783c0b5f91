"""Iterations that are not kept and cost something all the same: single blocks, figures by hand.

A record takes 5 ticks; so does one that is passed and not kept. Work between records is 40 ticks, of the loop's own 12
an iteration; records are written `dose` times.
"""

import numpy as np
import pytest

from tileprobe.ir.layout import EPOCH, Body, Span, Stamp, allocate
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.trace.blocks import read_rows
from tileprobe.trace.decode import decode
from tileprobe.trace.replay import Calibration, calibrate

RECORD, WORK, OWN = 5, 40, 12
SPANS = [Span(0, 0, 3), Span(1, 1, 2)]
ROOM = 16
LAYOUT = allocate([Stamp(0), Body(0, ROOM, (Stamp(1), Stamp(2))), Stamp(3)], spans=SPANS)
WAITED = allocate(
    [Stamp(0), Body(0, ROOM, (Stamp(1), Stamp(2), Stamp(4), Stamp(5))), Stamp(3)],
    spans=[*SPANS, Span(2, 4, 5, "wait"), Span(2, 1, 5, "async", start_ahead=2)],
)


def block(layout, trips, every, dose=1, waited=0):
    """What a program writes. Without probes an iteration takes 52 ticks, and `waited` more where it ends with a wait,
    which is as much shorter as the three records before it took."""
    words = np.zeros(layout.block_words, np.uint64)
    words[EPOCH] = 1
    words[layout.loops[0].trip_base] = (1 << 32) | trips
    clock, kept = 1000, 0
    words[layout.slots[0].base] = clock
    for number in range(trips):
        ours = number >= every.phase and (number - every.phase) % every.stride == 0
        clock += OWN
        for slot in (s.id for s in layout.slots if s.loops):
            spent = {2: WORK, 5: max(0, waited - 3 * dose * RECORD)}.get(slot, 0)
            clock += spent + dose * RECORD
            if ours:
                words[layout.slots[slot].place([kept])] = clock
        kept += ours
    words[layout.slots[3].base] = clock + dose * RECORD
    return words


def rows_of(layout, trips, every, dose):
    sampling = Sampling(loops={0: every})
    blocks = np.stack([block(layout, trips, every, dose)] * 8)
    (rows,), _ = read_rows(blocks, layout, epochs=[1], programs=8, sampling=sampling)
    rows.passed = True
    return rows


@pytest.mark.parametrize("every", [Every(3), Every(4, 1), Every(2)])
def test_what_a_passed_iteration_costs_is_learnt_apart(every):
    """Two records of 5 ticks. Gaps across such iterations are not taken for the cost of the record behind them."""
    found = calibrate({dose: [rows_of(LAYOUT, 13, every, dose)] for dose in (1, 3)})
    assert found.cost_ticks == pytest.approx(RECORD, abs=0.3)
    assert found.passed[0] == pytest.approx(2 * RECORD, abs=0.3)
    assert found.to_json()["passed"] == {str(loop): cost for loop, cost in found.passed.items()}


def test_and_is_taken_out_of_the_loop():
    every = Every(3)
    calibration = Calibration(RECORD, 0.0, {}, (1, 3), {0: 2.0 * RECORD})
    found = decode(
        block(LAYOUT, 13, every), LAYOUT, epochs=[1], programs=1, sampling=Sampling(loops={0: every}),
        calibration=calibration, passed=True,
    ).columns  # fmt: skip
    loop = found["region"] == 0
    assert found["stop"][loop] - found["start"][loop] == 13 * (OWN + WORK + 2 * RECORD) + RECORD
    assert found["stop_corrected"][loop] - found["start_corrected"][loop] == pytest.approx(13 * (OWN + WORK))


@pytest.mark.parametrize(("waited", "longer"), [(60, 13 - 5), (0, 5)])
def test_a_loop_that_waits_hides_what_probes_take(waited, longer):
    """Copies are awaited two iterations later, of which every third is kept: no pair is there, but waits are.

    Where it waits, all but one record an iteration are hidden, and that of the five that were kept is taken out. Where
    it does not, all is taken out but the end of a wait, which is never taken for a cost."""
    every = Every(3)
    calibration = Calibration(RECORD, 0.0, {}, (1, 3), {0: 4.0 * RECORD})
    found = decode(
        np.stack([block(WAITED, 13, every, waited=waited)] * 2), WAITED, epochs=[1], programs=2,
        sampling=Sampling(loops={0: every}), calibration=calibration, passed=True,
    ).columns  # fmt: skip
    loop = (found["region"] == 0) & (found["kind"] == 0)
    took = (found["stop_corrected"] - found["start_corrected"])[loop]
    assert took.tolist() == pytest.approx([13 * (OWN + WORK + waited) + longer * RECORD] * 2)
