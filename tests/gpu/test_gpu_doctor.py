"""`tileprobe doctor --gpu`: what it says with a GPU that takes launches, with none, and when something is wrong."""

import json
import subprocess
import sys

import numpy as np
import pytest
from fake_gpu import fake_gpu

from tileprobe.cli import _gpu_checks as checks
from tileprobe.targets.catalog import AUTO, DEFAULT, default_target, find


@pytest.fixture
def gpu(monkeypatch):
    with fake_gpu("cuda:90", monkeypatch) as found:
        monkeypatch.setattr(checks, "STEPS", 8)
        yield found


def check(rounds=2):
    found, figures = checks.check_gpu(find("cuda")[0], "", rounds=rounds, programs=2)
    return {finding.name.removeprefix("gpu: "): finding for finding in found}, figures


def doctor(*words):
    command = [sys.executable, "-m", "tileprobe", "doctor", "--gpu", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_everything_is_checked_and_the_figures_are_those_of_the_launches(gpu):
    rows, figures = check(rounds=6)
    assert {row.state for name, row in rows.items() if "overhead" not in name and name != "clock"} == {"good"}
    assert "132 multiprocessors" in rows["machine"].text
    mine = figures["kernels"]["steps"]
    assert set(mine["plain_ns"]) == {gpu.plain_ns}
    assert mine["probed_ns"][0] > gpu.plain_ns
    assert mine["overhead"] == pytest.approx(np.median(mine["probed_ns"]) / gpu.plain_ns - 1)
    assert mine["records"] > 2 * checks.STEPS
    assert figures["units"] == ["SM 5"]
    json.dumps(figures)


def test_records_that_do_not_arrive_are_a_fault(gpu, monkeypatch):
    monkeypatch.setattr(gpu, "run", lambda number: gpu.plain_ns)  # nothing is written
    rows, _ = check()
    assert rows["steps"].state == "bad"
    assert rows["steps"].remedy


def test_other_results_are_a_fault(gpu, monkeypatch):
    seen = iter(range(10**6))
    original = checks._result
    monkeypatch.setattr(checks, "_result", lambda work: original(work) + (next(seen) == 2))
    rows, _ = check()
    assert rows["results"].state == "bad"
    assert "steps" in rows["results"].text


def test_without_a_gpu_it_says_so_and_exits_cleanly(monkeypatch):
    if default_target() == AUTO:
        pytest.skip("there is a GPU here")
    found = doctor()
    assert found.returncode == 0
    assert "no GPU" in found.stdout
    found = doctor("cuda", "--json")
    assert found.returncode == 0
    assert "no GPU" in json.loads(found.stdout)["findings"][0]["text"]


def test_a_machine_with_a_gpu_runs_scripts_there(monkeypatch, tmp_path):
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(type(find("cuda")[0]), "device_files", (str(tmp_path / "nvidia[0-9]*"),))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert default_target() == AUTO
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setattr(type(find("hip")[0]), "device_files", ())
    assert default_target() == DEFAULT
