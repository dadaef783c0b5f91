"""What `whatif` makes of times, by hand: which regions, how long a dose, how many cores share it, what is won."""

from types import SimpleNamespace

import numpy as np
import pytest

from tileprobe.errors import TileProbeError
from tileprobe.session import delaying
from tileprobe.tools.slopes import DOSES
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
        launches=[Launch(n, 0, (PROGRAMS,), 0.0, 1.0 * LASTS * PROGRAMS / cores) for n in range(launches)],
        regions=REGIONS,
        units=[Unit(n, f"core {n}") for n in range(cores)],
    )


def asked(monkeypatch, cores, shows, word="", rounds=20, later=None):
    """`shows`: the part of what a core is delayed by that the launch takes longer."""
    before, after, took = trace(cores), trace(later or cores), LASTS * PROGRAMS / cores
    looks = iter([before, before, after])  # at regions, and at programs before the delays and after
    doses = {}

    def turns(launch, target, modes, seconds, progress):
        times = {"plain": [took] * rounds}
        for (number, dose), mode in modes.items():
            doses[number, dose] = ticks = int(mode)
            times[number, dose] = [took + shows * ticks * PROGRAMS / cores] * rounds
        return times

    monkeypatch.setattr(delaying, "_looked_at", lambda launch, plan: next(looks))
    monkeypatch.setattr(delaying, "_timed", lambda launch, mode, target: took)
    monkeypatch.setattr(delaying, "_mode", lambda number, ticks, structure: str(ticks))
    monkeypatch.setattr(delaying, "_turns", turns)
    target = SimpleNamespace(clock=SimpleNamespace(hz=lambda: 1e9), structure="tile", workers=lambda: 2)
    return delaying.ask(SimpleNamespace(name="k"), target, word, 1.0, lambda _: None), doses


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("shows", [1.0, 0.25, 0.0])
def test_a_slope_is_held_against_the_cores_that_worked(monkeypatch, cores, shows):
    found, doses = asked(monkeypatch, cores, shows)
    assert found.cores == cores and found.took_ns == LASTS * PROGRAMS / cores
    rows = {row.name: row for row in found.regions}
    assert set(rows) == {"load @ 4", "exp @ 5"}
    for row in rows.values():
        assert row.slope.value == pytest.approx(shows) and row.slope.told
    late = 0.3 * 30 / 60  # doses of 60 ticks may each be 30 longer, but for that of 0
    assert rows["exp @ 5"].slope.error == pytest.approx(late)
    assert rows["exp @ 5"].saved == pytest.approx(0.6 * shows)
    assert rows["exp @ 5"].saved_error == pytest.approx(0.6 * late)
    load = rows["load @ 4"]
    assert load.saved == pytest.approx(0.34 * shows)  # of the median launch
    assert load.saved_error == pytest.approx(
        0.34 * late + 0.04 * shows
    )  # how much longer it took in some launches
    assert [doses[3, dose] for dose in DOSES] == [60 * dose for dose in DOSES]  # 5 % of a core would be 50
    assert load.dose_ns == pytest.approx(60 * PROGRAMS / cores)


def test_regions_are_chosen_by_a_word(monkeypatch):
    found, _ = asked(monkeypatch, 1, 1.0, "load")
    assert [row.name for row in found.regions] == ["load @ 4"]
    with pytest.raises(
        TileProbeError, match=r"no region called 'nothing' .* it has loop @ 3, load @ 4, exp @ 5"
    ):
        asked(monkeypatch, 1, 1.0, "nothing")


def test_too_few_rounds_tell_nothing(monkeypatch):
    found, _ = asked(monkeypatch, 1, 1.0, rounds=3)
    assert all(row.saved_error is None and not row.slope.told for row in found.regions)
    assert np.isfinite(found.regions[0].saved)


def test_cores_that_were_not_always_as_many_make_the_slope_unsure_and_not_the_gain(monkeypatch):
    found, _ = asked(monkeypatch, 2, 1.0, later=1)
    assert found.cores == 1.5
    row = next(row for row in found.regions if row.name == "exp @ 5")
    assert not row.slope.told and row.slope.error == pytest.approx(0.75 * (0.15 / 1.0 + 0.5 / 1.5), abs=0.1)
    assert row.saved == pytest.approx(0.6) and row.saved_error is not None
