"""`tileprobe sweep`: scripts with settings, and the figures of their kernels."""

import json

import polars as pl
import pytest

from tileprobe.cli import main
from tileprobe.sweeps.script import arguments, figures_of, option_words

KERNEL = """
import os, sys
import numpy as np, triton, triton.language as tl, tileprobe

@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)

block, count = int(os.environ["BLOCK"]), int(sys.argv[1].removeprefix("n="))
if block == 32:
    sys.exit("no small blocks")
x = tileprobe.array(np.ones(count, np.float32))
double[(triton.cdiv(count, block),)](x, count, BLOCK=block)
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.py").write_text(KERNEL)
    return "scale.py"


def test_settings_reach_the_script_and_the_machine(script, tmp_path, capsys):
    command = [
        "sweep",
        "--set",
        "BLOCK=32,64",
        "--set",
        "target=sim:a100,cpu",
        "--set",
        "N=256",
        "--retries",
        "0",
    ]
    assert main([*command, "--jobs", "2", "--out", "s", script, "n={N}"]) == 0
    shown = capsys.readouterr()
    frame = pl.read_parquet("s.parquet")
    assert frame["BLOCK"].to_list() == [32, 32, 64, 64]
    assert frame["error"].is_not_null().to_list() == [True, True, False, False]
    assert frame["error"][0] == "the script ended with status 1: no small blocks"
    assert frame["instructions"][2] > 0  # of a GPU without time
    assert frame["kernels_us"][3] > 0
    assert frame["double launches"].to_list() == [None, None, 1, 1]
    assert "2 of 4 points failed" in shown.err
    assert "kernels_us" in shown.out
    assert (tmp_path / "s.png").exists()
    entry = json.loads((tmp_path / "s.jsonl").read_text().splitlines()[-1])
    assert entry["settings"]["script"] == [script, "n={N}"]
    before = (tmp_path / "s.jsonl").read_text()
    done = [
        "sweep",
        "--set",
        "BLOCK=64",
        "--set",
        "target=sim:a100,cpu",
        "--set",
        "N=256",
        "--jobs",
        "2",
        "--out",
        "s",
    ]
    assert main([*done, script, "n={N}"]) == 0
    assert (tmp_path / "s.jsonl").read_text() == before  # all of it is there
    (tmp_path / script).write_text(KERNEL + "# changed\n")
    capsys.readouterr()
    assert main(["sweep", "--set", "BLOCK=64", "--set", "N=256", "--out", "s", script, "n={N}"]) == 0
    assert "4 more results, which are not of these points" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "BLOCK=1"], "say which script"),
        (["--set", "BLOCK=1", "nothing.py"], "there is no script nothing.py"),
        (["--set", "BLOCK", "k.py"], "write NAME=A,B"),
        (["--set", "2x=1", "k.py"], "--set 2x: a setting has the name of a variable"),
        (["--set", "BLOCK=1", "k.py", "{BLOK}"], "{BLOK} is among the arguments, but there is no --set BLOK"),
        (["--set", "target=gpu", "k.py"], "there is no target 'gpu'"),
        (["--set", "target=sim:b100", "k.py"], "has no machine 'b100'"),
        (["--set", "timed=maybe", "k.py"], "timed is true or false, found 'maybe'"),
        (["--set", "timed=true", "k.py"], "--timed is for the simulated GPUs"),
        (["--set", "threads=x", "k.py"], "threads must be a number, found 'x'"),
        (
            ["--set", "clock=fast", "--target", "sim:a100", "--timed", "k.py"],
            "clock must be nominal, sustained",
        ),
        (["--set", "target=cpu", "--target", "cpu", "k.py"], "target is given twice"),
        (["--set", "BLOCK=1", "--on", "moon", "k.py"], "--on 'moon': expected local"),
        (["--set", "BLOCK=1", "--jobs", "-1", "k.py"], "--jobs must be zero"),
        (["--set", "BLOCK=1", "--retries", "-1", "k.py"], "--retries must be zero or more"),
        (
            ["--set", "BLOCK=1", "--verify", "k.py"],
            "--verify, --values-only and --no-check are for single runs",
        ),
    ],
)
def test_mistakes_are_one_message(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text("BLOCK = 1\n")
    assert main(["sweep", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_setting_that_nothing_reads_is_named_and_a_script_without_kernels_too(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text("print(1)\n")
    assert main(["sweep", "--set", "BLOCK=1", "k.py"]) == 1
    said = capsys.readouterr().err
    assert "BLOCK is neither in the arguments, as {BLOCK}, nor in k.py" in said
    assert "BLOCK 1: the script launched no Triton kernel" in said


def test_places_and_options():
    assert arguments(["{A}.py", "--a={A}", "{A}{B}", "{"], {"A": "1", "B": "x y"}) == [
        "{A}.py",
        "--a=1",
        "1x y",
        "{",
    ]
    assert option_words({"target": "cpu", "timed": "true", "cold": "false", "check": True}) == [
        "--target", "cpu", "--timed", "--check",
    ]  # fmt: skip


def test_figures_of_a_report():
    kernels = [
        {"label": "a", "launches": 3, "total_ns": 3000.0, "duration_ns": 1000.0, "cycles": 1410},
        {"label": "b", "launches": 1, "total_ns": 500.0, "duration_ns": None},
    ]
    assert figures_of({"unit": "ns", "kernels": kernels}) == {
        "kernels_us": 3.5, "a launches": 3, "a us": 1.0, "a cycles": 1410, "b launches": 1, "b us": None,
    }  # fmt: skip
    assert figures_of({"unit": "instructions", "kernels": kernels}) == {
        "instructions": 3500.0, "a launches": 3, "b launches": 1,
    }  # fmt: skip
