"""The search: fronts against brute force, and points that follow from the seed alone."""

import itertools
import math
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from told import Computed

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.driver import Driver, Rules
from tileprobe.sweeps.ledger import Ledger
from tileprobe.sweeps.outcome import DONE, REFUSED
from tileprobe.sweeps.pareto import Goal, front, hypervolume, parse_goals, values_of
from tileprobe.sweeps.points import Work
from tileprobe.sweeps.run import Running
from tileprobe.sweeps.search import Dimension, Search, parse_space, random_points
from tileprobe.targets.cambricon.command import parse_value

TABLES = st.tuples(st.integers(0, 25), st.integers(1, 4)).flatmap(
    lambda shape: arrays(float, shape, elements=st.integers(0, 4).map(float))
)


@given(TABLES)
def test_the_front_is_what_nothing_beats(values):
    def beats(a, b):
        return (a <= b).all() and (a < b).any()

    assert front(values).tolist() == [not any(beats(a, b) for a in values) for b in values]


@given(arrays(float, st.tuples(st.integers(0, 12), st.just(2)), elements=st.integers(0, 6).map(float)))
def test_the_hypervolume_is_the_area_behind(values):
    cells = itertools.product(range(5), range(6))
    behind = sum(any(x <= i and y <= j for x, y in values) for i, j in cells)
    assert hypervolume(values, (5, 6)) == behind


def read(name, text):
    return parse_value(text)


def test_spaces():
    space = parse_space(["a=4..32..4", "b-c=0.5..2.5", "d=x,y", "e=1,8,2", "f=1..3", "g=0.1..0.3..0.1"], read)
    assert space == [
        Dimension("a", (), 4, 32, 4), Dimension("b_c", (), 0.5, 2.5, None), Dimension("d", ("x", "y")),
        Dimension("e", (1, 8, 2)), Dimension("f", (), 1, 3, 1), Dimension("g", (), 0.1, 0.3, 0.1),
    ]  # fmt: skip
    assert [one.size for one in space] == [8, float("inf"), 2, 3, 3, 3]
    drawn = list(itertools.islice(random_points(space, 1), 200))
    assert {p["a"] for p in drawn} == set(range(4, 33, 4))
    assert {p["e"] for p in drawn} == {1, 2, 8}
    assert {p["g"] for p in drawn} == {0.1, 0.2, 0.3}
    assert all(0.5 <= p["b_c"] <= 2.5 for p in drawn)
    assert {p["d"] for p in drawn} == {"x", "y"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "write NAME=A,B"),
        ("a=", "write NAME=A,B"),
        ("a=3..1", "a range goes up"),
        ("a=1..3..5", "by steps that fit"),
        ("a=1..3..0", "by steps that fit"),
        ("a=1,2,1", "a value stands there twice"),
    ],
)
def test_mistakes_in_spaces(text, message):
    with pytest.raises(TileProbeError, match=message):
        parse_space([text], read)
    with pytest.raises(TileProbeError, match="given twice"):
        parse_space(["a=1,2", "a=1,2"], read)


@pytest.mark.parametrize(
    ("goals", "message"),
    [
        (["tokens"], "write max:COLUMN"),
        (["max:speed"], "a point has no speed; it has a, b"),
        (["max:a", "min:a"], "a is given twice"),
    ],
)
def test_mistakes_in_goals(goals, message):
    with pytest.raises(TileProbeError, match=message):
        parse_goals(goals, ["a", "b"])


GOALS = (Goal("speed", True), Goal("cost", False))
SPACE = [Dimension(f"x{n}", (), 0.0, 1.0) for n in range(6)] + [Dimension("k", tuple(range(1, 9)))]


def known(settings):
    """A front where all of x1 to x5 are 0.5 and k is 8; k of 3 cannot be."""
    if settings["k"] == 3:
        raise ValueError("no threes")
    off = sum((settings[f"x{n}"] - 0.5) ** 2 for n in range(1, 6)) + (8 - settings["k"]) / 8
    return {"speed": settings["x0"] - off, "cost": settings["x0"] ** 2 + off}


def searched(path, count, function=known, space=SPACE, seed=0, population=20, **executor):
    """Entries of a search in their order, how many points ran, and why it ended early."""
    with closing(Ledger(path, "test")) as ledger:
        computed = Computed(function, **executor)
        driver = Driver(Work("told:known", "1"), ledger, computed, Rules(settled=(DONE, REFUSED)))
        running = Running(driver, ledger)
        why = Search(space, GOALS, seed, population).run(running, {}, count, lambda entry: entry["result"])
        return list(running.entries()), len(computed.ran), why, driver.standing


def test_points_follow_from_the_seed_and_from_nothing_else(tmp_path):
    first, ran, why, standing = searched(tmp_path / "a", 100)
    assert why == ""
    assert 100 <= ran == len(first) < 120
    assert (standing.total, standing.ended, standing.there) == (ran, ran, 0)
    again, *_ = searched(tmp_path / "b", 100, room=1, last_first=False)
    other, *_ = searched(tmp_path / "c", 100, room=7, last_first=True)
    assert [e["settings"] for e in first] == [e["settings"] for e in again] == [e["settings"] for e in other]
    different, *_ = searched(tmp_path / "d", 100, seed=1)
    assert [e["settings"] for e in first] != [e["settings"] for e in different]
    assert any(e["outcome"] == REFUSED for e in first)


def test_a_search_goes_on_where_it_was(tmp_path):
    whole, *_ = searched(tmp_path / "a", 120)
    searched(tmp_path / "b", 60)
    lines = (tmp_path / "b").read_text().splitlines(keepends=True)
    (tmp_path / "b").write_text("".join(lines[:50]))  # in the middle of a generation
    on, ran, _, standing = searched(tmp_path / "b", 120)
    assert ran == len(whole) - 49
    assert (standing.total, standing.there) == (len(whole), 49)
    assert [e["settings"] for e in on] == [e["settings"] for e in whole]


def test_it_finds_more_than_chance(tmp_path):
    """The same number of points, several seeds: the worst search is better than the best draw."""

    def volume(points):
        good = [known(p) for p in points if p["k"] != 3]
        return hypervolume(values_of(good, GOALS), (0.5, 1.5))

    found = [volume(e["settings"] for e in searched(tmp_path / f"{s}", 400, seed=s)[0]) for s in range(3)]
    drawn = [volume(itertools.islice(random_points(SPACE, s), 400)) for s in range(3)]
    assert min(found) > 1.1 * max(drawn)


def test_a_small_space_ends(tmp_path):
    space = [
        Dimension("x0", (0.0, 1.0)),
        *(Dimension(f"x{n}", (0.5,)) for n in range(1, 6)),
        Dimension("k", (1, 2)),
    ]
    entries, ran, why, _ = searched(tmp_path / "a", 100, space=space)
    assert (len(entries), ran, why) == (4, 4, "the space has no more points")


def test_a_space_that_gives_nothing_new_ends(tmp_path):
    """Its size is not known where a range has no steps."""
    narrow = [
        *(Dimension(f"x{n}", (0.5,)) for n in range(6)),
        Dimension("k", (), 8.0, math.nextafter(8.0, 9.0)),
    ]
    _, ran, why, _ = searched(tmp_path / "a", 100, space=narrow)
    assert ran <= 2
    assert why == "the last 8 generations had no new points"


def test_a_space_where_nothing_can_run(tmp_path):
    entries, ran, _, _ = searched(tmp_path / "a", 40, space=[*SPACE[:-1], Dimension("k", (3,))])
    assert ran == len(entries) == 40
    assert {e["outcome"] for e in entries} == {REFUSED}


def test_figures_that_are_no_numbers_are_left_out(tmp_path):
    entries, *_ = searched(tmp_path / "a", 40, function=lambda s: {"speed": float("nan"), "cost": 1.0})
    assert len(entries) == 40


@pytest.mark.parametrize(("count", "population", "message"), [(0, 20, "--points"), (10, 1, "--population")])
def test_searches_that_make_no_sense(tmp_path, count, population, message):
    with pytest.raises(TileProbeError, match=message):
        searched(tmp_path / "a", count, population=population)


def test_axes_of_a_front_have_plain_numbers():
    polars, pyplot = pytest.importorskip("polars"), pytest.importorskip("matplotlib.pyplot")
    from tileprobe.sweeps.front_plot import draw_front

    rows = {"fast": [1.0, 100.0], "mm2": [0.5, 40.0], "error": [None, None], "front": [True, True]}
    figure = draw_front(polars.DataFrame(rows), parse_goals(["max:fast", "min:mm2"], rows), {})
    figure.canvas.draw()
    shown = [
        t.get_text() for axis in ("xaxis", "yaxis") for t in getattr(figure.axes[0], axis).get_ticklabels()
    ]
    pyplot.close(figure)
    assert {"1", "2", "5", "10", "20", "50"} <= set(shown)
    assert not any("^" in text for text in shown)
