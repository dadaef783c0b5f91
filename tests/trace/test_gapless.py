"""Iterations of a loop follow one another, where they were recorded one after another."""

import numpy as np

from tileprobe.ir.regions import Region
from tileprobe.trace.gapless import without_gaps

REGIONS = [
    Region(0, "k", "kernel"),
    Region(1, "loop @ 3", "loop", 0),
    Region(2, "iteration", "iteration", 1),
    Region(3, "dot @ 4", "dot", 2),
]


def made(rows, hidden=1.0):
    """Rows of (program, region, iteration, start, stop), as a decoder makes them."""
    table = np.array(rows, np.int64)
    columns = {
        name: table[:, n].copy() for n, name in enumerate(("program", "region", "iteration", "start", "stop"))
    }
    columns |= {name: np.zeros(len(table), np.int64) for name in ("launch", "stream", "kind")}
    columns |= {f"{name}_corrected": columns[name] - 1.0 for name in ("start", "stop")}
    without_gaps(columns, REGIONS, hidden)
    return columns


def ends(columns, region=2):
    mine = columns["region"] == region
    return list(zip(columns["start"][mine].tolist(), columns["stop"][mine].tolist()))


LOOP = [(0, 1, -1, 100, 200), (0, 2, 0, 120, 140), (0, 2, 1, 145, 170), (0, 2, 2, 172, 195)]


def test_the_first_begins_with_its_loop_and_others_where_one_ends():
    columns = made(LOOP)
    assert ends(columns) == [(100, 145), (145, 172), (172, 195)]
    assert ends(columns, 1) == [(100, 200)]
    mine = columns["region"] == 2
    assert columns["start_corrected"][mine].tolist() == [99, 144, 171]
    assert columns["stop_corrected"][mine].tolist() == [144, 171, 194]


def test_iterations_that_were_left_out_leave_a_gap():
    rows = [LOOP[0], LOOP[2], (0, 2, 3, 172, 195)]
    assert ends(made(rows)) == [(145, 170), (172, 195)]


def test_runs_programs_and_stages_are_kept_apart():
    other = [(1, 1, -1, 90, 150), (1, 2, 0, 95, 140)]
    again = [(0, 1, -1, 300, 400), (0, 2, 0, 310, 350), (0, 2, 1, 360, 390)]
    dots = [(0, 3, 0, 125, 130), (0, 3, 1, 150, 160)]
    columns = made([*again, *other, *dots, *LOOP])
    assert ends(columns) == [(300, 360), (360, 390), (90, 140), (100, 145), (145, 172), (172, 195)]
    assert ends(columns, 3) == [(125, 130), (150, 160)]


def test_what_is_not_hidden_between_iterations_stays_there():
    assert ends(made(LOOP, hidden=0.0)) == [(120, 140), (145, 170), (172, 195)]
    assert ends(made(LOOP, hidden=0.5)) == [(110, 142), (145, 171), (172, 195)]
