"""The file of results: what was written is there, whatever happened to the end of the file."""

import json
import subprocess
import sys

import pytest

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.ledger import Ledger


def entry(n, outcome="done"):
    return {
        "point": f"p{n}",
        "settings": {"x": n, "name": "schlüssel\n"},
        "outcome": outcome,
        "result": {"y": n},
    }


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.jsonl"


def write(path, count, kind="test"):
    ledger = Ledger(path, kind)
    for n in range(count):
        ledger.add(entry(n))
    ledger.close()


def test_entries_come_back(path):
    write(path, 3)
    ledger = Ledger(path, "test")
    assert [ledger[f"p{n}"] for n in range(3)] == [entry(n) for n in range(3)]
    assert "p1" in ledger
    assert "p3" not in ledger
    ledger.add(entry(1, "raised"))  # the last one counts
    ledger.add(entry(3))
    assert [e["point"] for e in ledger.entries()] == ["p0", "p2", "p1", "p3"]
    assert "p1" not in ledger
    assert ledger.outcome("p1") == "raised"
    ledger.close()
    lines = path.read_text().splitlines()
    assert all(json.loads(line) for line in lines)  # for anyone to read
    assert len(lines) == 6


def test_a_torn_end_costs_its_line_and_nothing_else(path):
    write(path, 3)
    whole = path.read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole) if byte == 10]
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        ledger = Ledger(path, "test")
        there = sum(end <= size for end in ends[1:])
        assert sorted(ledger.places) == [f"p{n}" for n in range(there)], size
        ledger.add(entry(9))
        ledger.close()
        again = Ledger(path, "test")
        assert sorted(again.places) == [*(f"p{n}" for n in range(there)), "p9"]
        assert again.torn == 0
        again.close()


def test_damage_is_named_and_left_alone(path):
    write(path, 3)
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for at in range(second, whole.index(b"\n", second)):
        damaged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        path.write_bytes(damaged)
        with pytest.raises(TileProbeError, match=r"s\.jsonl, line [23]: it is damaged"):
            Ledger(path, "test")
        assert path.read_bytes() == damaged


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"nonsense\n", "line 1: it is damaged, or no line of a sweep's results"),
        (b"\0" * 100_000, "not the result of a sweep"),
        (b'{"crc": "00000000", "x": 1}\n', "line 1: it is damaged"),
    ],
)
def test_other_files_are_left_alone(path, content, message):
    path.write_bytes(content)
    with pytest.raises(TileProbeError, match=message):
        Ledger(path, "test")
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"my notes", b"x", b"\0" * 20, b'{"name": "mine"}'])
def test_a_short_file_of_someone_else_is_left_alone(path, content):
    """Without an end of line it looks like a line that was torn."""
    path.write_bytes(content)
    with pytest.raises(TileProbeError, match="is not the result of a sweep"):
        Ledger(path, "test")
    assert path.read_bytes() == content


def test_a_device_is_no_file_of_results(path):
    path.symlink_to("/dev/full")  # which can be read for ever
    with pytest.raises(TileProbeError, match="it is no file"):
        Ledger(path, "test")


def test_the_file_of_another_sweep_is_left_alone(path):
    write(path, 1, "tileprobe llm sweep")
    before = path.read_bytes()
    with pytest.raises(
        TileProbeError, match=r"results of another sweep \(tileprobe llm sweep\), not of test"
    ):
        Ledger(path, "test")
    assert path.read_bytes() == before
    Ledger(path, "test", restart=True).close()
    assert not Ledger(path, "test").places


def test_one_driver_at_a_time(path):
    ledger = Ledger(path, "test")
    with pytest.raises(TileProbeError, match="another sweep writes"):
        Ledger(path, "test", restart=True)
    ledger.add(entry(0))
    ledger.close()
    assert "p0" in Ledger(path, "test")


@pytest.mark.parametrize("place", ["nowhere/s.jsonl", "."])
def test_a_place_that_cannot_be_written(tmp_path, place):
    with pytest.raises(TileProbeError, match="cannot write"):
        Ledger(tmp_path / place, "test")


def test_a_full_disk_is_said_and_what_was_there_stays(path):
    """A limit on the size of files is a disk that is full."""
    program = f"""
import resource, signal, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from tileprobe.errors import TileProbeError
from tileprobe.sweeps.ledger import Ledger
from test_ledger import entry
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
ledger = Ledger(Path({str(path)!r}), "test")
try:
    for n in range(100): ledger.add(entry(n))
except TileProbeError as error:
    print(n, error)
ledger.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    count, _, message = done.stdout.partition(" ")
    assert "File too large" in message
    assert "run the same command to go on" in message.replace("\n", " ")
    ledger = Ledger(path, "test")
    assert len(ledger.places) == int(count) > 2
    ledger.close()
