"""Points in processes of this machine, which do what points do."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.executors import open_executor
from tileprobe.sweeps.executors.local import Local
from tileprobe.sweeps.ledger import Ledger
from tileprobe.sweeps.points import Point, Work
from tileprobe.sweeps.process import Process


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def test_whatever_a_point_does_the_others_go_on(swept, tmp_path):
    deeds = ["refuse", "raise", "die", "exit", "hang", "object", "chat", "once", "well"]
    points = [{"do": do, "log": str(tmp_path / do)} for do in deeds]
    found = swept(Local(2), "misbehave", points, retries=1, seconds=2.0)
    told = {
        e["settings"]["do"]: (e["outcome"], e["attempts"], e.get("reason", e.get("result"))) for e in found
    }
    assert told["refuse"] == ("refused", 1, "no such thing")
    assert told["raise"][:2] == ("raised", 2)
    assert told["raise"][2].startswith("ValueError: two (")
    assert told["die"] == ("died", 2, "the worker process was killed (SIGKILL); it said last: last words")
    assert told["exit"] == ("raised", 2, "SystemExit(3)")
    assert told["hang"] == ("late", 2, "took longer than 2 s")
    assert told["object"][:2] == ("raised", 2)
    assert "not JSON serializable" in told["object"][2]
    assert told["chat"] == ("done", 1, {"y": ""})
    assert told["once"] == ("done", 2, {"y": "once"})
    assert told["well"] == ("done", 1, {"y": "well"})
    assert until(lambda: gone(int((tmp_path / "hang").read_text())))  # and what the point started


def test_a_worker_that_was_left_alone_ends_in_the_middle_of_its_point(tmp_path):
    process, child = Process(), tmp_path / "hang"
    task = Work("sweep_functions:misbehave", "1").task(Point("d", {"do": "hang", "log": str(child)}))
    with contextlib.closing(process):
        process.start(task.to_json(), None)
        assert until(lambda: child.exists() and child.read_text())
        assert process.process is not None and process.process.stdin is not None
        process.process.stdin.close()  # as it is when the driver is gone
        assert until(lambda: gone(process.process.pid) and gone(int(child.read_text())))


def test_workers_killed_in_the_middle(swept, tmp_path):
    log, killed = tmp_path / "log", set()
    executor = Local(2)

    def kill(standing):
        at = standing.ended // 5
        if 0 < at <= 4 and at not in killed:
            process = list(executor.busy.values())[-1].process
            killed.add(at)
            os.kill(process.pid, signal.SIGKILL)

    points = [{"x": x, "sleep": 0.01, "log": str(log)} for x in range(30)]
    found = swept(executor, "square", points, tell=kill)
    assert len(killed) == 4
    assert [e["result"]["y"] for e in found] == [x * x for x in range(30)]
    assert sum(e["attempts"] for e in found) == 34


DRIVER = """
import sys
sys.path[:0] = {path!r}
from tileprobe.sweeps.driver import Driver, Rules
from tileprobe.sweeps.executors.local import Local
from tileprobe.sweeps.ledger import Ledger
from tileprobe.sweeps.points import Work
from pathlib import Path
ledger = Ledger(Path({file!r}), "test")
points = [dict(x=x, sleep=0.05, log={log!r}) for x in range(40)]
Driver(Work("sweep_functions:square", "1"), ledger, Local(2), Rules()).run(points, 40)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_was_killed_goes_on(swept, tmp_path, number):
    log = tmp_path / "log"
    program = DRIVER.format(path=sys.path, file=str(tmp_path / "s.jsonl"), log=str(log))
    driver = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    assert until(lambda: log.exists() and len(log.read_text().splitlines()) > 8)
    workers = {int(line.split()[1]) for line in log.read_text().splitlines()}
    with pytest.raises(TileProbeError, match="another sweep writes"):
        Ledger(tmp_path / "s.jsonl", "test")
    driver.send_signal(number)
    driver.wait()
    assert until(lambda: all(map(gone, workers)))  # nothing is left behind
    before = len((tmp_path / "s.jsonl").read_text().splitlines())
    assert before > 5
    points = [{"x": x, "sleep": 0.05, "log": str(log)} for x in range(40)]
    found = swept(Local(2), "square", points)
    assert [e["result"]["y"] for e in found] == [x * x for x in range(40)]
    assert len((tmp_path / "s.jsonl").read_text().splitlines()) == 41
    ran = [line.split()[0] for line in log.read_text().splitlines()]
    assert len(ran) <= 40 + 3  # those under way once more, and no others


def test_a_worker_of_another_version_is_refused(swept, monkeypatch):
    from tileprobe.sweeps import points

    monkeypatch.setattr(points, "package_digest", lambda: "0" * 24)
    with pytest.raises(
        TileProbeError, match=r"has another version of TileProbe .* than this one \(00000000\)"
    ):
        swept(Local(1), "square", [{"x": 1}])


@pytest.mark.parametrize("change", [lambda path: path.write_text("2"), Path.unlink])
def test_a_file_that_is_not_the_same_for_a_worker(tmp_path, change):
    path = tmp_path / "ünï.json"
    path.write_text("1")
    task = Work("sweep_functions:square", "1", seen_files=lambda settings: (str(path),)).task(
        Point("d", {"x": 3})
    )
    process = Process()
    with contextlib.closing(process):
        process.start(task.to_json(), None)
        assert process.wait().result == {"y": 9}
        change(path)
        process.start(task.to_json(), None)
        outcome = process.wait()
    assert outcome.kind == "unfit"
    assert "ünï.json is another file than here" in outcome.reason or "cannot be read" in outcome.reason


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("cloud", "expected local, dask, ray"),
        ("local://a:1", "expected local, dask, ray"),
        ("dask://", "expected local, dask, ray"),
        ("dask://host", "expected local, dask, ray"),
        ("dask://host:99999", "expected local, dask, ray"),
        ("ray://a b:1", "expected local, dask, ray"),
    ],
)
def test_addresses_that_are_none(on, message):
    with pytest.raises(TileProbeError, match=message):
        open_executor(on)


def test_an_extra_that_is_missing(monkeypatch):
    from tileprobe.sweeps import executors

    monkeypatch.setattr(executors, "find_spec", lambda name: None)
    with pytest.raises(TileProbeError, match=r"pip install 'tileprobe\[dask\]'"):
        open_executor("dask://127.0.0.1:1")
