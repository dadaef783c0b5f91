"""A report names the constants that no source states, of those that its run uses."""

import json

import pytest

from tileprobe.cli import main
from tileprobe.targets.cambricon.assumptions import assumptions_before, spelled
from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.families import from_config
from tileprobe.targets.cambricon.machine import find_constant, load_machine
from tileprobe.targets.cambricon.points_told import told_of
from tileprobe.targets.cambricon.simulate import simulate, simulate_module

SMALL = from_config(
    {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2,
     "num_attention_heads": 8, "vocab_size": 1000}, name="small",
)  # fmt: skip
S = load_machine("cambricon:s")


def assumed(machine=S, **options):
    return set(simulate(SMALL, machine, Options(context=200, **options)).assumed)


def test_what_the_paper_states_is_not_assumed():
    found = assumed()
    assert "flash.command_us" in found
    assert not found & {"flash.read_us", "flash.channel_gb_per_s", "dram.gb_per_s", "core.page_us"}


@pytest.mark.parametrize(
    ("options", "constants"),
    [
        ({"age": "cycles=10"}, {"aging.retry_factor", "flash.pages_per_block", "flash.erase_us"}),
        ({"kv": "flash"}, {"flash.program_us", "flash.endurance_cycles"}),
        ({"packages": 2}, {"packages.latency_us"}),
        ({"weights": "w4a16"}, {"core.partial_sum_bytes_w4a16"}),
    ],
)
def test_a_constant_is_assumed_where_it_is_used(options, constants):
    assert constants <= assumed(**options)
    assert not constants & assumed()


def test_what_the_user_gives_is_the_user_s():
    assert "flash.command_us" not in assumed(S.replace(command_us=0.2))
    assert "flash.slice_bytes" not in assumed(slicing=False)


def test_numbers_at_second_hand_are_told_apart(capsys):
    given = ["llm", "--model", "opt-6.7b", "--device", "cambricon:s+tlc", "--age", "cycles=10"]
    assert main([*given]) == 0
    said = capsys.readouterr().out.replace("\n", " ")
    choices, _, others = said.partition("Assumed")[2].partition("2nd hand")
    assert "retry_factor 0.5" in choices
    assert "rber_wear 3.9e-10" in others
    assert "command_us" not in others


def test_they_are_in_the_json_with_what_stands_beside_them(tmp_path):
    out = tmp_path / "out.json"
    assert main(["llm", "--model", "opt-6.7b", "--json", str(out)]) == 0
    entry = json.loads(out.read_text())["assumed"]["flash.command_us"]
    assert entry["value"] == 0.1
    assert "ONFI" in entry["source"]


def test_the_same_from_the_ir_and_from_packages():
    options = Options(context=200, packages=2, age="cycles=10")
    whole = simulate(SMALL, S, options).assumed
    assert simulate_module(compile_step(SMALL, S, options), options.age).assumed == whole
    assert simulate(SMALL, S, Options(context=200, packages=2, split="pipeline")).assumed


def test_constants_are_spelled_as_set_takes_them():
    for name in S.sources:
        assert ".".join(find_constant(spelled(name))) == name


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weights": "w4a16", "slicing": False},
        {"mode": "flash-only"},
        {"prefill": True, "mode": "npu-only"},
        {"prefill": True, "prefill_split": True, "mode": "flash-only"},
        {"age": "cycles=10"},
        {"kv": "spill"},
        {"kv": "spill", "context": 2000},
        {"kv": "flash"},
        {"packages": 2},
        {"packages": 2, "split": "pipeline"},
    ],
    ids=str,
)
def test_they_are_known_before_a_run(options):
    machine, options = S.replace(dram_capacity_bytes=2_500_000), Options(**{"context": 200, **options})
    assert assumptions_before(SMALL, machine, options) == simulate(SMALL, machine, options).assumed


def test_a_sweep_names_them_once(tmp_path, capsys):
    sweep = [
        "llm",
        "sweep",
        "--model",
        "opt-6.7b",
        "--context",
        "10",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "s"),
    ]
    assert main([*sweep, "--vary", "slicing=true,false", "--vary", "command_us=0.1,0.2"]) == 0
    said = capsys.readouterr().out
    assert said.count("Assumed") == 1 and "slice_bytes 1024" in said and " command_us 0.1" not in said
    told = json.loads((tmp_path / "s.json").read_text())
    assert (told["points"], told["failed"]) == (4, 0)
    (sliced,) = told["assumed"]["flash.slice_bytes"]
    assert (sliced["value"], sliced["points"]) == (1024, 2) and sliced["source"].startswith("[D]")
    assert told["assumed"]["flash.prefetch"][0]["points"] == 4
    assert "flash.command_us" not in told["assumed"]


def test_a_search_names_them_too(tmp_path, capsys):
    search = [
        "llm",
        "search",
        "--model",
        "opt-6.7b",
        "--context",
        "10",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "s"),
    ]
    search += ["--space", "chips_per_channel=0,1,2", "--population", "3", "--points", "3"]
    assert main([*search, "--device", "cambricon:s+tlc", "--age", "cycles=10"]) == 0
    choices, _, others = capsys.readouterr().out.partition("Assumed")[2].partition("2nd hand")
    assert "retry_factor 0.5" in choices and "rber_wear 3.9e-10" in others
    told = json.loads((tmp_path / "s.json").read_text())
    assert told["assumed"]["flash.command_us"][0]["points"] == told["points"] - told["failed"] == 2
    assert told["front"]


def test_points_that_differ_are_told_apart():
    def point(**settings):
        return {"model": "opt-6.7b", "device": "cambricon:s", "context": 10, "kv": "dram"} | settings

    devices = told_of([point(device=f"cambricon:{name}") for name in ("s", "m", "hbf")]).assumed
    assert [(e["value"], e["points"]) for e in devices["flash.command_us"]] == [(0.1, 2), (0.001, 1)]
    assert not told_of([point(read_us=20.0), point(set=["command_us=0.1"])]).assumed.keys() & {
        "flash.read_us"
    }
    assert "flash.command_us" not in told_of([point(set=["command_us=0.1"])]).assumed
    spilled = [point(kv="spill", context=n) for n in (10, 20, 30_000)]
    assert told_of(spilled).assumed["flash.program_us"][0]["points"] == 1
    several = [point(packages=n) for n in (1, 2, 4)]
    assert told_of(several).assumed["packages.latency_us"][0]["points"] == 2
