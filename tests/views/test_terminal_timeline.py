"""The timeline in a terminal."""

import io
import re

import pytest
from made import attention
from made_streams import warp_specialised

from tileprobe.cli import main
from tileprobe.views.screen import Screen
from tileprobe.views.terminal_timeline import print_timeline, sparkline


def printed(trace, width=100, plain=False):
    out = io.StringIO()
    print_timeline(trace, Screen(out, width, plain))
    return out.getvalue()


def track(text, name):
    return re.search(rf"^{name} +[│|](.*)$", text, re.MULTILINE).group(1)


def test_a_cell_shows_what_took_most_of_it():
    """Of 19.6 µs in a program 6 are in the first dot, 5.3 in the second, 3 in the stage between them."""
    text = printed(attention(launches=3, programs=2, iterations=1), 120)
    line = track(text, "core 0")
    legend = dict(re.findall(r"^  (\w) +\S+ %  (.*)$", text, re.MULTILINE))
    assert [legend[letter] for letter in "ABC"] == [
        "dot @ 35",
        "mul + dot @ 41",
        "reduce + exp + mul @ 36-39",
    ]
    runs = [legend[letter] for letter in dict.fromkeys(line)]
    assert runs == [
        *("load @ 26", "load @ 33", "dot @ 35", "reduce + exp + mul @ 36-39", "load @ 40", "mul + dot @ 41"),
        "div + store @ 44-45",
    ]
    assert line.count("A") == pytest.approx(len(line) * 6000 / 19600, abs=1.5)


def test_idle_time_is_a_point():
    text = printed(attention(launches=1, programs=3), 80)
    idle = track(text, "core 1")
    assert set(idle[len(idle) // 2 + 2 :]) == {"·"}
    assert "·" not in track(text, "core 0")


@pytest.mark.parametrize("width", [30, 60, 200])
def test_no_line_is_wider_than_the_screen(width):
    for trace in (attention(), warp_specialised()):
        assert max(map(len, printed(trace, width).splitlines())) <= width


def test_plain_is_ascii_and_has_no_colour():
    text = printed(attention(name="kérnel\x1b[31m"), plain=True)
    assert text.isascii()
    assert "\x1b" not in text
    assert "loop @ 31: @" in text


def test_sparklines():
    assert sparkline([0, 1, 2, 4], 10) == "▁▃▄█" or sparkline([0, 1, 2, 4], 10) == "▁▃▅█"
    assert sparkline([8, 4, 4, 4], 10, plain=True)[0] == "@"
    assert len(sparkline(list(range(1000)), 40)) == 40
    assert sparkline([0.0, 0.0], 4) == "▁▁"


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    attention().save(tmp_path / "t.parquet")
    assert main(["view", "--terminal", str(tmp_path / "t.parquet"), "--launch", "2"]) == 0
    assert "attention, launch 2" in capsys.readouterr().out
    assert main(["view", str(tmp_path / "t.parquet"), "--no-open"]) == 0
    assert (tmp_path / "t.html").read_text().startswith("<!doctype html>")
    assert main(["view", str(tmp_path / "t.parquet"), "--launch", "99"]) == 2
    assert "no launch 99" in capsys.readouterr().err
