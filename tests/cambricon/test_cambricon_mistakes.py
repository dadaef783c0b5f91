"""What a careless user types: each is one clear line, and nothing that was given is passed over in silence."""

import polars as pl
import pytest

from tileprobe.cli import main
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.simulate import simulate

MODEL = ["llm", "--model", "opt-6.7b"]
SWEEP = ["llm", "sweep", "--model", "opt-6.7b", "--vary", "context=10"]
SEARCH = ["llm", "search", "--model", "opt-6.7b", "--space", "context=10,20"]
MIXTURE = ["llm", "--model", "mixtral-8x7b"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*MIXTURE, "--expert-cache", "nan"], "--expert-cache must be zero or more GB, found nan"),
        ([*MIXTURE, "--expert-cache", "-1"], "--expert-cache must be zero or more GB, found -1"),
        ([*MIXTURE, "--seed", "-1"], "--seed must be zero or more, found -1"),
        ([*MIXTURE, "--routing", "zipf:nan"], "--routing 'zipf:nan': expected uniform, zipf:S with S from 0 to 100"),
        ([*MIXTURE, "--routing", "zipf:-1"], "zipf:S with S from 0 to 100"),
        ([*MODEL, "--routing", "zipf:1"], "opt-6.7b has no experts that tokens are routed to"),
        ([*MODEL, "--prefill", "--verify", "4"], "no --verify with --prefill"),
        ([*MODEL, "--prefill-split"], "give --prefill, too"),
    ([*MODEL, "--prefill", "--prefill-split", "--npu-only"], "give one of the two"),
        ([*MODEL, "--acceptance", "0.8"], "--acceptance has no say without --verify of 2 or more"),
        ([*MODEL, "--verify", "1", "--acceptance", "0.5"], "--acceptance has no say without --verify"),
        ([*MODEL, "--split", "tensor"], "--split has no say without --packages of 2 or more"),
        ([*MODEL, "--what-if", "--scale", "inf"], "--scale: something can be 2 times faster, or 0.5 times, not inf"),
        ([*MODEL, "--what-if", "--scale", "-1"], "not -1 times"),
        ([*MODEL, "--prefill", "--flash-only"], "--flash-only needs --prefill-split, too"),
        ([*MODEL, "--seed", "5"], "opt-6.7b has no experts that tokens are routed to: no --seed"),
        ([*MODEL, "--set", "read_us=20", "--set", "flash_read_us=30"], "read_us of the device is given twice"),
        ([*MODEL, "--channels", "8", "--set", "channels=16"], "channels of the device is given twice"),
        ([*MODEL, "--scale", "3"], "--scale says how many times faster what is tried by --what-if"),
        ([*SWEEP, "--acceptance", "0.5"], "--acceptance has no say without --verify"),
        ([*SWEEP, "--vary", "acceptance=0.5,0.8"], "--acceptance has no say without --verify"),
        ([*SEARCH, "--space", "acceptance=0.5..0.8"], "--acceptance has no say without --verify"),
        ([*SEARCH, "--space", "split=tensor,pipeline"], "--split has no say without --packages"),
        ([*MODEL, "--device", "cambricon:base"], "what devices share and none itself: use cambricon:hbf, cambricon:l"),
        ([*MODEL, "--device", "cambricon:base+tlc"], "cambricon:base is what devices share"),
        ([*MODEL, "--batch", "100"], "the KV cache of 100 sequences of 1000 tokens"),
        ([*MODEL, "--batch", "100"], "use a context of at most 76, or a smaller --batch"),
        ([*MODEL, "--age", "cycles=1,cycles=2"], "--age: cycles is given twice"),
        ([*MODEL, "--ir", "built", "--json", "x.json"], "--ir prints a step and runs nothing: leave out --json"),
        ([*MODEL, "--ir", "--what-if"], "leave out --what-if"),
        (["llm", "--from-ir", "x.mlir", "--context", "9"], "--context has no say in it"),
        (["llm", "--from-ir", "x.mlir", "--model", "opt-6.7b"], "--model has no say in it"),
        (["llm", "--from-ir", "x.mlir", "--set", "read_us=9"], "--set has no say in it"),
        (["llm", "--from-ir", "x.mlir", "--baselines"], "--baselines has no say in it"),
    ],
)  # fmt: skip
def test_one_clear_line(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    found = capsys.readouterr().err
    assert said in found
    assert found.count("\n") == 1


@pytest.mark.parametrize(("cycles", "beyond"), [("200000", True), ("100000", False)])
def test_more_cycles_than_blocks_are_made_for(cycles, beyond, capsys):
    assert main([*MODEL, "--age", f"cycles={cycles}"]) == 0
    assert ("blocks are made for 100,000 cycles" in capsys.readouterr().out) == beyond


def test_what_has_a_say_in_some_points_only(capsys, tmp_path):
    sweep = [
        *SWEEP,
        "--vary",
        "verify=1,2",
        "--acceptance",
        "0.5",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "s"),
    ]
    assert main(sweep) == 0
    speeds = pl.read_parquet(tmp_path / "s.parquet")["tokens_per_s"].to_list()
    plain, drafted = (
        simulate(
            load_model("opt-6.7b"), load_machine("cambricon:s"), Options(context=10, verify=n, acceptance=0.5)
        )
        for n in (1, 2)
    )
    assert speeds == [plain.tokens_per_s, drafted.tokens_per_s]


def test_what_devices_share_can_be_inherited(tmp_path):
    (tmp_path / "mine.toml").write_text('inherits = "cambricon:base"\n[flash]\nchannels = 4\n')
    assert load_machine(tmp_path / "mine.toml").flash.channels == 4


@pytest.mark.parametrize("command", [[], ["sweep"], ["search"]])
def test_help_fits_eighty_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["llm", *command, "--help"])
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []
