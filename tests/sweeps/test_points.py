"""Axes and digests."""

import pytest

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.points import Work, grid, parse_axes


def axes(*texts):
    return parse_axes(list(texts), "--vary", lambda name, text: text, "a=1,2")


def test_every_combination_in_the_order_of_the_axes():
    found = list(grid({"c": 0}, axes("a-b=1, 2", "d=x,y")))
    assert found == [
        {"c": 0, "a_b": "1", "d": "x"},
        {"c": 0, "a_b": "1", "d": "y"},
        {"c": 0, "a_b": "2", "d": "x"},
        {"c": 0, "a_b": "2", "d": "y"},
    ]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a"], "write NAME=A,B"),
        (["a="], "write NAME=A,B"),
        (["=1"], "write NAME=A,B"),
        (["a=1", "a=2"], "a is given twice"),
        (["a=1,2,1"], "1 stands there twice"),
        (
            [f"{n}=" + ",".join(map(str, range(100))) for n in "abcd"],
            "100,000,000 points are more than a grid can have",
        ),
    ],
)
def test_mistakes_in_axes(texts, message):
    with pytest.raises(TileProbeError, match=message):
        axes(*texts)


def test_a_digest_is_of_all_that_a_result_depends_on():
    work = Work("a:b", "1")
    same = work.digest({"x": 1, "ö": 2})
    assert same == Work("a:b", "1").digest({"ö": 2, "x": 1})
    others = [
        work.digest({"x": 2, "ö": 2}), work.digest({"x": "1", "ö": 2}), Work("a:c", "1").digest({"x": 1, "ö": 2}),
        Work("a:b", "2").digest({"x": 1, "ö": 2}), Work("a:b", "1", {"f": "0"}).digest({"x": 1, "ö": 2}),
        Work("a:b", "1", seen=lambda settings: {"file": "0"}).digest({"x": 1, "ö": 2}),
    ]  # fmt: skip
    assert len({same, *others}) == 7


def test_a_task_names_files_as_they_are_now(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("1")
    work = Work("a:b", "1", seen_files=lambda settings: (settings["file"],))
    from tileprobe.sweeps.points import Point

    first = work.task(Point("d", {"file": str(path)}))
    path.write_text("22")
    assert first.files != work.task(Point("d", {"file": str(path)})).files
    path.unlink()
    with pytest.raises(TileProbeError, match=r"model.json cannot be read: No such file"):
        work.task(Point("d", {"file": str(path)}))
