"""The timeline in a terminal."""

import io
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from made import attention
from made_streams import warp_specialised

from tileprobe.cli import main
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit
from tileprobe.views.screen import Screen
from tileprobe.views.terminal_timeline import LETTERS, _short, print_timeline, sparkline


def printed(trace, width=100, plain=False):
    out = io.StringIO()
    print_timeline(trace, Screen(out, width, plain))
    return out.getvalue()


def legend_of(text):
    """Letters and the regions that they stand for, as the tree has them."""
    rows = re.findall(r"^[│├└╴ ]*(\S.*?) +(\w) +[\d.<]+ % ", text, re.MULTILINE)
    return {letter: name for name, letter in rows}


def track(text, name):
    return re.search(rf"^{name} +[│|](.*)$", text, re.MULTILINE).group(1)


def test_a_cell_shows_what_took_most_of_it():
    """Of 19.6 µs in a program 6 are in the first dot, 5.3 in the second, 3 in the stage between them."""
    text = printed(attention(launches=3, programs=2, iterations=1), 120)
    line = track(text, "core 0")
    legend = legend_of(text)
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


def test_every_letter_is_in_the_tree_even_of_what_has_no_own_time():
    """The time of waits that lie side by side is more than that of what is around them."""
    text = printed(warp_specialised(), 120)
    drawn = set("".join(re.findall(r"[│|](.*)$", text, re.MULTILINE))) & set(LETTERS)
    legend = legend_of(text)
    assert drawn and drawn <= set(legend)


def test_what_is_drawn_is_in_the_tree_however_little_it_has_of_all_launches():
    trace = attention(launches=101, programs=2, iterations=1)
    elsewhere = (pl.col("region") == 1) & (pl.col("launch") != 50)  # 8 % of one launch, 0.08 % of all
    text = printed(replace(trace, frame=trace.intervals.filter(~elsewhere)), 120)
    assert "launch 50: " in text
    assert legend_of(text)[track(text, "core 0")[0]] == "load @ 26"


def test_each_region_of_a_loop_has_its_iterations_in_the_tree():
    text = printed(attention(launches=2, iterations=4), 140)
    slow = attention(launches=2, iterations=4).intervals
    late = (pl.col("region") == 5) & (pl.col("iteration") == 3)
    slow = slow.with_columns(pl.when(late).then(pl.col("stop_ns") + 6000).otherwise(pl.col("stop_ns")))
    changed = printed(replace(attention(launches=2, iterations=4), frame=slow), 140)
    assert re.search(r"├╴dot @ 35 .* ████ +6.00 µs ", text)
    assert re.search(r"dot @ 35 .* ▅▅▅█ +6.00 µs to 12.0 µs ", changed)
    assert "iterations" not in printed(only_stages(), 140)


def only_stages():
    trace = attention(launches=2)
    return replace(trace, frame=trace.intervals.filter(pl.col("iteration") < 0))


def test_the_longest_kernel_comes_first_with_the_time_of_its_launch():
    trace = Trace.merge(attention(name="short", iterations=1), attention(name="long"))
    trace.launches = [replace(one, duration_ns=5e6 if one.kernel else 40e3) for one in trace.launches]
    heads = re.findall(r"^(\w+), launch \d+: (.*), recorded for ", printed(trace), re.MULTILINE)
    assert heads == [("long", "5.00 ms"), ("short", "40.0 µs")]


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
    assert re.search(r"`-iteration +\w +9\d % #+ +@@@@@@ ", text)


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
    assert main(["view", str(tmp_path / "t.parquet"), "--out", str(tmp_path / "t.parquet")]) == 2
    assert "is the trace that is read" in capsys.readouterr().err
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda where: opened.append(where) or True)
    for screen in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(screen, raising=False)
    assert main(["view", str(tmp_path / "t.parquet")]) == 0
    assert not opened and "open it in a browser" in capsys.readouterr().out  # a machine without a screen
    monkeypatch.setenv("DISPLAY", ":0")
    assert main(["view", str(tmp_path / "t.parquet")]) == 0
    assert opened == [(tmp_path / "t.html").as_uri()] and "open it" not in capsys.readouterr().out


@pytest.mark.parametrize("command", [["report"], ["view", "--terminal"]], ids=lambda command: command[0])
def test_a_launch_has_its_kernel_alone_and_is_refused_where_nothing_was_recorded(command, tmp_path, capsys):
    two = Trace.merge(attention(launches=2, unprobed=1), attention(launches=10, name="other"))
    two.meta["kernels_seen"] = {"attention": 3, "other": 10}
    two.save(tmp_path / "t.parquet")
    recorded = [launch.id for launch in two.launches if launch.probed and launch.kernel == 1]
    assert main([*command, str(tmp_path / "t.parquet"), "--launch", str(recorded[3])]) == 0
    out = capsys.readouterr().out
    assert "other" in out and "attention  on cpu" not in out and "attention," not in out
    assert "nothing" not in out and "none recorded" not in out
    plain = next(launch.id for launch in two.launches if not launch.probed)
    assert main([*command, str(tmp_path / "t.parquet"), "--launch", str(plain)]) == 2
    said = capsys.readouterr().err
    assert f"nothing was recorded of launch {plain}; recorded are 0, 1, " in said and said.strip().endswith(
        ", ..."
    )


def test_a_trace_of_nothing_says_so():
    empty = replace(attention(launches=0), kernels=[], regions=[])
    assert printed(empty) == "the trace holds no kernel\n"


@pytest.mark.parametrize(
    "command",
    [["report"], ["view", "--terminal"], ["export", "--to", "csv", "--out", "-"]],
    ids=lambda command: command[0],
)
def test_who_reads_no_further_is_no_error(command, tmp_path):
    attention(launches=200).save(tmp_path / "t.parquet")  # more than a pipe holds
    program = "import sys; from tileprobe.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = [sys.executable, "-c", program, *command, "--full" * (command == ["report"]), "t.parquet"]
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run([a for a in arguments if a], cwd=tmp_path, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (run.returncode, run.stderr) == (0, b"")


def test_a_track_on_which_nothing_is_drawn_is_left_out():
    """Asynchronous operations have no row here."""
    trace = warp_specialised()
    kinds = trace.intervals["kind"].cast(pl.String)
    streams = trace.intervals.with_columns(kinds.alias("kind")).filter(kinds.is_in(["region", "wait"]))[
        "stream"
    ]
    alone = trace.intervals.with_columns(
        pl.when(kinds == "async").then(9).otherwise(pl.col("stream")).cast(pl.UInt16).alias("stream")
    )
    text = printed(replace(trace, frame=alone), 120)
    assert 9 not in streams and "stream 9" not in text and "and" not in re.findall(r"^and .* tracks", text)


def partly(busy):
    """Ten programs of which each works for a part of its time; half of the records kept."""
    start = 1000 * np.arange(100)
    return Trace.build(
        {"region": np.ones(100, int), "start": start, "stop": start + np.maximum(busy * 1000, 1).astype(int)},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (1,), 0.0, 1e5, losses=Losses(100, 60, 40))],
        regions=[Region(0, "k", "kernel"), Region(1, "load", "load")],
        units=[Unit(0, "core 0", "core")],
    )


def test_a_cell_in_which_something_ran_for_less_than_half_of_it_is_no_idle_one():
    share = np.where(np.arange(100) < 50, 0.3, 0.001)
    text = printed(partly(share), 60)
    cells = track(text, "core 0")
    assert set(cells) == {":", "·"} and cells.index("·") == pytest.approx(len(cells) / 2, abs=1)
    assert ": something ran there, for less than half of the time" in text
    busy = printed(partly(np.full(100, 0.8)), 60)
    assert set(track(busy, "core 0")) == {"A"} and "something ran" not in busy


def test_how_much_of_a_launch_was_recorded_is_said():
    assert "k, launch 0: 100 µs, 50 % of it recorded" in printed(partly(np.ones(100)), 60)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (40, "channel 1 / chip 0 / die 1 / read planes"),
        (39, "channel 1/chip 0/die 1/read planes"),
        (33, "c1/c0/d1/read planes"),
        (20, "c1/c0/d1/read planes"),
        (15, "c1/c0/d… planes"),
    ],
)
def test_names_of_tracks_are_shortened_so_that_they_can_be_told_apart(width, shown):
    assert _short("channel 1 / chip 0 / die 1 / read planes", width, False) == shown
    assert len(shown) <= width


def test_tracks_have_names_of_their_own_on_a_narrow_screen():
    text = printed(warp_specialised(), 80)
    names = re.findall(r"^(SM .*?|S\d.*?) +│", text, re.MULTILINE)
    assert len(names) == len(set(names)) == 12
    assert _short("x" * 30, 20, True) == "x" * 8 + "..." + "x" * 9
