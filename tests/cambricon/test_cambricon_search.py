"""`tileprobe llm search`: the front of devices, their area and cost, and the files that say it."""

import json

import numpy as np
import polars as pl
import pytest

from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.prices import counts, parse_prices

SEARCH = ["llm", "search", "--model", "opt-6.7b", "--context", "10", "--jobs", "1", "--population", "4"]
SPACE = ["--space", "channels=8,16", "--space", "chips_per_channel=0,1,2", "--space", "tiling=paper"]


def test_the_front_in_all_its_forms(tmp_path, capsys):
    name = str(tmp_path / "s")
    command = [*SEARCH, *SPACE, "--points", "6", "--out", name, "--cost", "die=1", "--cost", "dram_gb=2.5"]
    assert main(command) == 0
    shown = capsys.readouterr()
    frame = pl.read_parquet(f"{name}.parquet")
    assert frame.height == 6
    assert "2 of 6 points failed" in shown.err
    good = frame.filter(pl.col("error").is_null())
    for row in good.to_dicts():
        dies = row["channels"] * row["chips_per_channel"] * 2
        assert row["cost"] == dies + 5.0
        assert row["mm2"] == pytest.approx(dies * (496.0 + 562.0 + 58755.0) * 1e-6)
    columns = [
        good[c].to_numpy() * sign for c, sign in (("tokens_per_s", -1), ("joules_per_token", 1), ("cost", 1))
    ]
    table = np.stack(columns, axis=1)
    beaten = [bool(((table <= row).all(axis=1) & (table < row).any(axis=1)).any()) for row in table]
    assert good["front"].to_list() == [not b for b in beaten]
    document = json.loads((tmp_path / "s.json").read_text())
    assert document["goals"] == ["max:tokens_per_s", "min:joules_per_token", "min:mm2", "min:cost"]
    assert (document["points"], document["failed"], document["cost"]) == (6, 2, {"die": 1.0, "dram_gb": 2.5})
    speeds = [one["tokens_per_s"] for one in document["front"]]
    assert (
        speeds == sorted(speeds, reverse=True) == sorted(good.filter("front")["tokens_per_s"], reverse=True)
    )
    assert set(document["front"][0]["settings"]) == {"channels", "chips_per_channel", "tiling"}
    counted = "mm2 counts compute cores (the device's file); cost counts die 1, dram_gb 2.5"
    for word in ("tokens/s", counted, "of 4 points"):
        assert word in shown.out
    assert (tmp_path / "s.png").read_bytes()[:4] == b"\x89PNG"
    before = (tmp_path / "s.jsonl").read_text()
    assert main(command) == 0
    assert (tmp_path / "s.jsonl").read_text() == before
    assert capsys.readouterr().out == shown.out


def test_area_and_cost_are_what_was_said():
    machine = load_machine("cambricon:m")
    there = counts(machine)
    assert there["channel"] == 16
    assert there["chip"] == 64
    assert there["die"] == there["core"] == 128
    assert there["pe"] == 256
    assert there["sram_mib"] == there["dram_gb"] == 2.0
    prices = parse_prices(["die=66", "npu=4.5"], ["chip=3", "device=100"])
    assert prices.mm2(machine) == pytest.approx(128 * 66 + 4.5 + machine.core_area_mm2)
    assert prices.price(machine) == 64 * 3 + 100
    assert parse_prices(["core=0.5"], []).mm2(machine) == 64.0  # instead of the file's
    assert prices.price(machine, 3) == 3 * prices.price(machine)
    assert prices.mm2(machine, 3) == 3 * prices.mm2(machine)


def test_every_package_has_its_parts(tmp_path):
    name = str(tmp_path / "s")
    command = [
        *SEARCH,
        "--space",
        "packages=1,2,4",
        "--space",
        "split=tensor",
        "--points",
        "3",
        "--out",
        name,
    ]
    assert main([*command, "--cost", "die=1", "--cost", "device=10"]) == 0
    rows = pl.read_parquet(f"{name}.parquet").to_dicts()
    assert {row["packages"]: row["cost"] for row in rows} == {1: 42.0, 2: 84.0, 4: 168.0}
    assert {row["packages"]: row["mm2"] / rows[0]["mm2"] * rows[0]["packages"] for row in rows} == {
        1: 1,
        2: 2,
        4: 4,
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--area", "wafer=3"], "no part 'wafer'; the parts are device, channel"),
        (["--area", "die"], "write PART=NUMBER"),
        (["--area", "die=-1"], "write PART=NUMBER"),
        (["--cost", "die=nan"], "write PART=NUMBER"),
        (["--cost", "die=1", "--cost", "die=2"], "--cost die is given twice"),
        (["--goal", "min:cost"], "there is no cost: say what parts cost"),
        (["--goal", "max:beauty"], "a point has no beauty"),
        (["--space", "colour=1,2"], "no constant of a machine is named `colour`"),
        (["--space", "read_us=20..x"], "read_us takes numbers, or true and false; found '20..x'"),
        (["--space", "read_us=30..20"], "a range goes up"),
        (["--points", "0"], "--points must be one or more"),
        (["--population", "1"], "--population must be 2 or more"),
    ],
)
def test_mistakes_are_one_message(words, message, tmp_path, capsys):
    assert main([*SEARCH, "--space", "channels=8,16", "--out", str(tmp_path / "s"), *words]) == 2
    assert message in capsys.readouterr().err


def test_without_optuna(monkeypatch):
    import sys

    from tileprobe.sweeps.search import Search

    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(TileProbeError, match=r"pip install 'tileprobe\[search\]'"):
        Search([], [], 0, 4)
