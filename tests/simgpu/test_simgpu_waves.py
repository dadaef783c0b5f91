"""Launches of which a part is timed: right values everywhere, figures of all by those that were timed, and said so."""

import json

import numpy as np
import polars as pl
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.targets.simgpu.launched import observing
from tileprobe.targets.simgpu.timing.part import ENDS, Part


@triton.jit
def busy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(x + i)
    for _ in range(n):
        y = y * 0.5 + 1.0
    tl.store(out + i, y)


@triton.jit
def counted(total, n):
    for _ in range(n):
        tl.atomic_add(total, 1)


def launched(programs=108 * 16 * 3 + 7, n=20, **part):
    x = np.arange(programs * 128, dtype=np.float32)
    out, found = tileprobe.array(np.zeros_like(x)), []
    with tileprobe.use("sim:a100", timed=True, cold=True, check=False, **part), observing(found.append):
        busy[(programs,)](tileprobe.array(x), out, n, BLOCK=128, num_warps=4)
    y = x
    for _ in range(n):
        y = np.float32(y * np.float32(0.5)) + np.float32(1.0)
    np.testing.assert_allclose(out.numpy(), y, rtol=1e-6)
    return found[0]


@pytest.mark.parametrize("part", [{"waves": 1}, {"waves": 2}, {"sms": 27}, {"sms": 5, "waves": 1}])
def test_every_program_is_executed_and_some_are_timed(part):
    whole, some = launched(), launched(**part)
    assert whole.took.part.whole and not some.took.part.whole
    wave = some.took.part.multiprocessors * some.took.part.slots
    assert some.took.part.timed <= wave * part.get("waves", 100)
    assert some.instructions == whole.instructions
    assert some.took.cycles == pytest.approx(whole.took.cycles, rel=0.25)
    assert some.took.counters["dram_bytes_read"] == pytest.approx(
        whole.took.counters["dram_bytes_read"], rel=0.1
    )
    assert some.took.statistics[:, 0].sum() == pytest.approx(whole.took.statistics[:, 0].sum(), rel=0.01)


def test_as_many_waves_as_there_are_is_all_of_it():
    whole, same = launched(), launched(waves=50, sms=500)
    assert same.took.part.whole and same.took.cycles == whole.took.cycles
    assert same.took.part.said() == ""


def test_a_few_multiprocessors_have_their_share_of_dram():
    """Bytes that come once: what a quarter of the chip takes over its quarter of them is what all take over all."""
    programs = 108 * 16 * 4
    whole, some = (launched(programs, 1, **part) for part in ({}, {"sms": 27}))
    assert some.took.cycles == pytest.approx(whole.took.cycles, rel=0.05)


def test_programs_that_others_wait_for_are_all_timed():
    total, found = tileprobe.array(np.zeros(1, np.int32)), []
    with tileprobe.use("sim:a100", timed=True, check=False, waves=1), observing(found.append):
        counted[(4000,)](total, 2, num_warps=4)
    assert found[0].took.part.whole and total.numpy()[0] == 8000


def test_rows_of_programs_that_are_not_timed():
    part = Part.of_launch(1000, 100, 2, 0, 30)
    rows = list(part.others())
    timed = set(range(1000)) - {n for first, end in rows for n in range(first, end)}
    assert timed == {n for n in range(1000) if n % 100 < 30} and part.timed == len(timed)
    part = Part.of_launch(1000, 100, 2, 1, 30)
    assert part.timed == 60
    timed = set(range(1000)) - {n for first, end in part.others() for n in range(first, end)}
    assert timed == {*range(30), *range(100, 130)}
    part = Part.of_launch(1000, 100, 2, 1, 0)
    assert list(part.others()) == [(200, 1000)]


def test_programs_that_follow_take_the_places_that_are_free():
    part = Part.of_launch(11, 2, 2, 1, 0)  # two multiprocessors of two places: four timed, seven to follow
    ends = np.array([(0, 10, 0), (0, 20, 2), (0, 30, 1), (0, 40, 3)], ENDS)
    # 10 -> 20, 20 -> 40 (place 2), 20 -> 50, 30 -> 70, then 40 -> 50, 40 -> 60, 50 -> 80
    assert part.cycles(ends) == 80


def test_the_report_says_what_it_is(tmp_path, capsys):
    script, said = tmp_path / "script.py", tmp_path / "report.json"
    script.write_text(
        "import numpy as np\nimport tileprobe\nfrom examples.kernels import softmax\n"
        "x, out = (tileprobe.array(np.zeros((4000, 64), np.float32)) for _ in range(2))\n"
        "softmax.softmax(x, out, programs=4000)\n"
    )
    assert (
        main(["run", "--target", "sim:a100", "--timed", "--waves", "1", "--json", str(said), str(script)])
        == 0
    )
    assert "an estimate: " in capsys.readouterr().out.replace("\n", " ")
    assert any("an estimate" in note for note in json.loads(said.read_text())["notes"])


def test_intervals_stand_for_all_programs():
    x, out = (tileprobe.array(np.zeros(4000 * 128, np.float32)) for _ in range(2))
    with tileprobe.use("sim:a100", timed=True, check=False, waves=1), tileprobe.profile() as session:
        busy[(4000,)](x, out, 5, BLOCK=128, num_warps=4)
    trace = session.trace
    whole = trace.intervals.filter(pl.col("region") == 0)
    assert whole["weight"].sum() == pytest.approx(4000 * 4)
    assert trace.losses.sampled_out > 0


def test_a_few_multiprocessors_stand_for_all_of_them():
    from tileprobe.tools.accounting import accounted

    x, out = (tileprobe.array(np.zeros(108 * 128, np.float32)) for _ in range(2))
    found = []
    for part in ({}, {"sms": 27}):
        with (
            tileprobe.use("sim:a100", timed=True, check=False, cold=True, **part),
            tileprobe.profile() as session,
        ):
            busy[(108,)](x, out, 5, BLOCK=128, num_warps=4)
        found.append(accounted(session.trace, session.trace.kernels[0]))
    assert found[0].threads == found[1].threads == 108
    assert found[1].percent == pytest.approx(found[0].percent, rel=0.05)


@pytest.mark.parametrize("words", [["--waves", "0"], ["--sms", "-1"]])
def test_a_number_below_one_is_refused(words, tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("")
    assert main(["run", "--target", "sim:a100", "--timed", *words, str(script)]) != 0
    assert "is a number from 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"waves": 0, "timed": True}, "from 1"),
        ({"sms": True, "timed": True}, "from 1"),
        ({"waves": 2}, "timed=True"),
        ({"waves": 2, "timed": True, "probes": "free"}, "all programs timed"),
        ({"sms": 2, "verify": True}, "all programs timed"),
    ],
)
def test_what_cannot_be_is_refused(given, said):
    with pytest.raises(TileProbeError, match=said):
        tileprobe.use("sim:a100", **given)
