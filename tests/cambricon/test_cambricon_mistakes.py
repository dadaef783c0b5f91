"""What a careless user types: each is one clear line, and nothing that was given is passed over in silence."""

import pytest

from tileprobe.cli import main

MODEL = ["llm", "--model", "opt-6.7b"]
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
