"""What `whatif` makes of times, by hand: which regions, how long a dose, how many cores share it, what is won."""

import itertools
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from tileprobe.errors import TileProbeError
from tileprobe.session import delaying
from tileprobe.session.looks import Look, _look
from tileprobe.session.relaunching import Took
from tileprobe.tools.slopes import DOSES, sharing
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit

REGIONS = [
    Region(0, "k", "kernel", None, 0, "k.py", 1, 20),
    Region(1, "loop @ 3", "loop", 0, 0, "k.py", 3, 9),
    Region(2, "load @ 4", "load", 1, 0, "k.py", 4, 4),
    Region(3, "exp @ 5", "exp", 1, 0, "k.py", 5, 5),
]
PROGRAMS, LASTS = 8, 1000  # of which the load takes 300, some launches more, and exp 600


def trace(cores, launches=9):
    """Programs one behind the other on each core; the load takes 10 longer in each launch than in the one before."""
    rows = []
    for launch in range(launches):
        for program in range(PROGRAMS):
            unit, at = program % cores, program // cores * LASTS
            load = 300 + 10 * launch
            rows += [
                (launch, unit, program, 0, at, at + LASTS),
                (launch, unit, program, 2, at, at + load),
                (launch, unit, program, 3, at + 400, at + LASTS),
            ]
    names = ("launch", "unit", "program", "region", "start", "stop")
    return Trace.build(
        {name: list(column) for name, column in zip(names, zip(*rows))},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[
            Launch(n, 0, (PROGRAMS,), 0.0, 1.0 * LASTS * PROGRAMS / cores, ran_ns=1.0 * LASTS * PROGRAMS)
            for n in range(launches)
        ],
        regions=REGIONS,
        units=[Unit(n, f"core {n}") for n in range(cores)],
    )


def asked(monkeypatch, cores, shows, word="", rounds=20, later=None, on=None):
    """`shows`: the part of what a core is delayed by that the launch takes longer; `on`: of each launch in turn on how
    many cores it is, where that is not `cores`."""
    before, after = trace(cores), trace(later or cores)
    looks = iter(
        [before, before, after]
    )  # at regions, and at programs before the delays and after; the same between fences
    turn = itertools.cycle(on or (cores,))
    doses = {}

    def took(shown=0.0, delay=0.0):
        there = next(turn)
        return Took((LASTS * PROGRAMS + shown) / there, LASTS * PROGRAMS + delay)

    def turns(launch, target, modes, seconds, progress):
        plain = [took() for _ in range(rounds)]
        times = {key: [] for key in modes} | {(number, None): plain for number, _ in modes}
        for _ in range(rounds):
            for (number, dose), mode in modes.items():
                doses[number, dose] = ticks = int(mode)
                times[number, dose].append(took(shows * ticks * PROGRAMS, ticks * PROGRAMS))
        return times

    monkeypatch.setattr(delaying, "looked_at", lambda launch, plan, seconds: next(looks))
    monkeypatch.setattr(delaying, "looks_without", lambda launch, trace, found, *_: (found, found))
    monkeypatch.setattr(delaying, "timed", lambda launch, target, mode="": Took(LASTS * PROGRAMS / cores))
    monkeypatch.setattr(delaying, "_mode", lambda number, ticks, structure: str(ticks))
    monkeypatch.setattr(delaying, "_turns", turns)
    target = SimpleNamespace(clock=SimpleNamespace(hz=lambda: 1e9), structure="tile", workers=lambda: 2)
    return delaying.ask(SimpleNamespace(name="k"), target, word, 1.0, lambda _: None), doses


LATE = 0.4 * 30 / 120  # doses of 120 ticks may each be up to 30 longer


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("shows", [1.0, 0.25, 0.0])
def test_a_slope_is_held_against_the_cores_that_worked(monkeypatch, cores, shows):
    found, doses = asked(monkeypatch, cores, shows)
    assert found.cores == found.cores_low == found.cores_high == cores
    assert found.took_ns == LASTS * PROGRAMS / cores
    rows = {row.name: row for row in found.regions}
    assert set(rows) == {"load @ 4", "exp @ 5"}
    for row in rows.values():
        assert row.slope.value == pytest.approx(shows) and row.slope.told and row.cores == cores
        assert row.saved.low <= row.saved.value <= row.saved.high <= row.most
        assert row.rounds == row.slope.rounds == 20
    exp, load = rows["exp @ 5"], rows["load @ 4"]
    assert exp.slope.error == pytest.approx(LATE)
    # doses are so long beside this kernel that launches with them have more of the time of one core
    assert exp.saved.value == pytest.approx(0.6 * shows, rel=0.2) and exp.saved.told
    assert exp.share == exp.most == pytest.approx(0.6) and exp.ns == pytest.approx(0.6 * LASTS * PROGRAMS)
    assert load.share == pytest.approx(0.34)  # of the median launch
    assert load.most == pytest.approx(0.38)  # and its interval, from launch to launch
    assert load.saved.value == pytest.approx(0.34 * shows, rel=0.2)
    assert [doses[3, dose] for dose in DOSES] == [
        120 + 120 * dose for dose in DOSES
    ]  # 5 % of a core would be 50
    assert exp.dose_ns == pytest.approx(120 * PROGRAMS / cores)


def test_regions_are_chosen_by_a_word(monkeypatch):
    found, _ = asked(monkeypatch, 1, 1.0, "load")
    assert [row.name for row in found.regions] == ["load @ 4"]
    with pytest.raises(
        TileProbeError, match=r"no region called 'nothing' .* it has loop @ 3, load @ 4, exp @ 5"
    ):
        asked(monkeypatch, 1, 1.0, "nothing")


def test_regions_are_chosen_by_lines(monkeypatch):
    assert [row.name for row in asked(monkeypatch, 1, 1.0, "4-4")[0].regions] == ["load @ 4"]
    both, _ = asked(monkeypatch, 1, 1.0, "k.py:3-9")
    assert {row.name for row in both.regions} == {"load @ 4", "exp @ 5"}  # the loop is made of these
    with pytest.raises(TileProbeError, match=r"no region called 'other.py:3-9'"):
        asked(monkeypatch, 1, 1.0, "other.py:3-9")


def test_too_few_rounds_tell_nothing(monkeypatch):
    found, _ = asked(monkeypatch, 1, 1.0, rounds=3)
    for row in found.regions:
        assert not row.saved.told and not row.slope.told and 0 <= row.saved.value <= row.most


@pytest.mark.parametrize("shows", [1.0, 0.0])
def test_what_changes_its_cores_from_round_to_round_has_a_gain_and_no_slope(monkeypatch, shows):
    """A round is on one core, the next on two."""
    per_round = 2 * len(DOSES)  # two regions
    on = [1] * per_round + [2] * per_round
    found, _ = asked(monkeypatch, 2, shows, later=1, on=[2] * 20 + on * 20)
    row = next(row for row in found.regions if row.name == "exp @ 5")
    assert found.cores == 1.5
    assert row.saved.value == pytest.approx(0.6 * shows, rel=0.2) and row.saved.told
    assert row.slope.told == (shows == 0.0)


def test_rounds_with_other_cores_within_are_left_out(monkeypatch):
    """Each fifth launch finds no second core: without a look at that half of the rounds say anything at all."""
    found, _ = asked(
        monkeypatch, 2, 1.0, rounds=60, on=[2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2]
    )
    assert found.cores_low == 1 and found.cores_high == 2
    for row in found.regions:
        assert 6 <= row.slope.rounds < row.rounds == 60
        assert row.slope.value == pytest.approx(1.0) and row.saved.told


def test_launches_that_were_recorded_on_other_cores_tell_no_slope(monkeypatch):
    for shows in (1.0, 0.5):
        found, _ = asked(monkeypatch, 2, shows, on=[1])  # one core works, and two did while it was recorded
        for row in found.regions:
            assert not row.slope.told and row.saved.told
            assert row.saved.value <= row.most
        exp = next(row for row in found.regions if row.name == "exp @ 5")
        assert exp.saved.value == pytest.approx(0.6 * shows, rel=0.15)


def test_a_slope_beyond_what_can_be_is_not_told(monkeypatch):
    found, _ = asked(monkeypatch, 1, 1.3)
    for row in found.regions:
        assert not row.slope.told and row.slope.value == 1.0 and row.saved.value <= row.most
    near, _ = asked(monkeypatch, 1, 1.05)
    assert all(row.slope.told and row.slope.value == 1.0 for row in near.regions)


def row_of(programs, records=0.0, unsure=0.0, shows=1.0, shared=2.0, programs_ns=8000.0):
    """Of a region that takes half of 8000 ns on two cores, by 20 rounds of doses of 120 ns."""
    doses = [[Took(4000.0 + shows * 120.0 * dose, 8000.0)] * 20 for dose in DOSES]
    share = 0.5 * min(1.0, programs_ns / 8000.0)
    look = Look(np.full(15, share), np.full(15, 2.0), 2 * share, records, 1.0, programs)
    return delaying._row(REGIONS[3], look, look, doses, 120.0, 120, shared, 0.0, 8000.0, 2.0, unsure)


def test_what_records_may_have_cost_widens_the_gain():
    even = [(np.array([0, 1]), np.array([0.5, 0.5]), 0)]
    known, unknown = row_of(even, shows=0.25), row_of(even, records=0.1, unsure=0.5, shows=0.25)
    assert (
        known.saved.value == unknown.saved.value == pytest.approx(0.25)
    )  # two cores: twice the slope, of a half
    wider = unknown.saved.high - known.saved.high
    assert wider == pytest.approx(0.5 * 0.1 * 0.5)  # of the slope that goes with it


def test_what_threads_do_beside_the_programs_cannot_be_won():
    """A launch of 4000 ns on two cores, whose programs take 400 of 8000: half of that is the region's."""
    even = [(np.array([0, 1]), np.array([0.5, 0.5]), 0)]
    row = row_of(even, shows=0.5, programs_ns=400.0)
    assert (
        row.share == pytest.approx(0.025)
        and row.ns == pytest.approx(200.0)
        and row.most == pytest.approx(0.05)
    )
    assert row.saved.value == pytest.approx(0.025) and row.saved.high <= row.most
    whole = row_of(even, shows=0.5, programs_ns=80000.0)  # longer while it was recorded than ever else
    assert whole.share == pytest.approx(0.5) and whole.most == 1.0 and whole.saved.value == pytest.approx(0.5)


def test_a_region_of_the_last_core_alone_is_shared_by_nobody():
    alone = row_of([(np.array([0, 0, 1, 1]), np.array([0.0, 0, 0, 1]), 1)])
    assert alone.cores == 1.0 and alone.slope.value == pytest.approx(1.0) and alone.slope.told
    both = row_of([(np.array([0, 0, 1, 1]), np.full(4, 0.25), 1)], shows=0.5)
    assert both.cores == 2.0 and both.slope.value == pytest.approx(1.0)


def test_a_region_of_the_last_program_alone_is_on_one_core(monkeypatch):
    """Two cores, and the last program has a region that the others do not have: all wait for it."""
    slow = trace(2)
    rows = slow.scan().filter((pl.col("region") != 3) | (pl.col("program") == PROGRAMS - 1)).collect()
    look = _look(
        rows.filter(pl.col("region") == 0).select(
            "launch",
            "unit",
            "program",
            program_ns=pl.col("stop_ns") - pl.col("start_ns"),
            end="stop_ns",
            all_probes_ns=0.0,
        ),
        rows.filter(pl.col("region") == 3).select(
            "launch",
            "unit",
            "program",
            "region",
            ns=pl.col("stop_ns") - pl.col("start_ns"),
            count=1.0,
            probes_ns=4.0,
            end="stop_ns",
        ),
        {launch: Took(4.0 * LASTS, 8.0 * LASTS) for launch in range(9)},
        dict.fromkeys(range(9), 8.0 * LASTS),
    )
    assert look.count == 1 and look.shares.tolist() == pytest.approx([0.6 / 8] * 9)
    assert look.records == pytest.approx(4 / 8000)  # of all programs
    assert look.most == pytest.approx(0.6 / 4)  # of the core that ran it
    units, count, last = look.programs[0]
    assert sharing(2.0, units, count, 1) == 1.0 and last in (0, 1)
