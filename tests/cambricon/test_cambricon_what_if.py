"""Devices that have one thing faster: what is changed, and that the gain is what a run of that device says."""

import json

import pytest

from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.limits import bottleneck
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.simulate import simulate
from tileprobe.targets.cambricon.what_if import faster, named, what_if

MODEL, MACHINE = load_model("opt-6.7b"), load_machine("cambricon:s")
SHORT = Options(context=100)


def test_one_thing_is_faster_and_nothing_else():
    flash = MACHINE.flash
    assert faster(MACHINE, "channel bandwidth", 3).flash.channel_gb_per_s == 3 * flash.channel_gb_per_s
    assert faster(MACHINE, "array reads", 2).flash.read_us == flash.read_us / 2
    assert faster(MACHINE, "array reads", 2).core == MACHINE.core
    both = faster(MACHINE, "array reads and cores", 2)
    assert (both.flash.read_us, both.core.page_us) == (flash.read_us / 2, MACHINE.core.page_us / 2)
    assert faster(MACHINE, "channels", 2).flash.channels == 2 * flash.channels
    assert faster(MACHINE, "chips of a channel", 0.1).flash.chips_per_channel == 1
    assert faster(MACHINE, "DRAM latency", 4).dram.latency_us == MACHINE.dram.latency_us / 4
    assert (
        faster(MACHINE, "latency between packages", 4).packages.latency_us == MACHINE.packages.latency_us / 4
    )
    assert faster(MACHINE, "special functions", 2).npu.sfu_lanes == 2 * MACHINE.npu.sfu_lanes
    for what in ("NPU array", "commands", "link bandwidth", "cores in the flash", "DRAM bandwidth"):
        changed = faster(MACHINE, what, 2)
        assert changed != MACHINE and len(changed.changes) <= 2
    with pytest.raises(TileProbeError, match="it has channel bandwidth"):
        faster(MACHINE, "luck", 2)
    with pytest.raises(TileProbeError, match="not 0 times"):
        faster(MACHINE, "channels", 0)


def test_a_gain_is_what_a_run_of_that_device_says():
    rows = what_if(MODEL, MACHINE, SHORT, 3.0, "channel")
    assert {row.what for row in rows} == {
        "channel bandwidth 3 times faster", "3 times as many channels", "3 times as many chips of a channel",
    }  # fmt: skip
    before = simulate(MODEL, MACHINE, SHORT)
    wide = simulate(MODEL, MACHINE.replace(channel_gb_per_s=3 * MACHINE.flash.channel_gb_per_s), SHORT)
    (row,) = [row for row in rows if "bandwidth" in row.what]
    assert (row.latency_ms, row.tokens_per_s) == (wide.latency_ms, wide.tokens_per_s)
    assert row.gain == 1 - wide.latency_ms / before.latency_ms > 0
    assert rows == sorted(rows, key=lambda row: -row.gain)


def test_what_the_compiler_could_do_otherwise_is_tried_too():
    (row,) = what_if(MODEL, MACHINE, Options(context=100, slicing=False), word="slice")
    assert row.what == "slice control" and row.latency_ms == simulate(MODEL, MACHINE, SHORT).latency_ms
    assert not any(row.what == "slice control" for row in what_if(MODEL, MACHINE, SHORT, word="l"))


def test_a_device_on_which_the_model_cannot_run_says_why():
    full = MACHINE.replace(pages_per_plane=9000)  # of which 8 channels have enough for 6.7 GB, and 4 have not
    rows = {row.what: row for row in what_if(MODEL, full, SHORT, 0.5, "c")}
    for what in ("channels", "chips of a channel"):
        row = rows[named(what, 0.5)]
        assert row.gain is None and row.latency_ms is None and row.tokens_per_s is None
        assert "does not fit" in row.why
    slower = rows[named("array reads and cores", 0.5)]
    assert slower.gain is not None and slower.gain < 0 and not slower.why
    assert [row.gain is None for row in rows.values()] == sorted(row.gain is None for row in rows.values())


def test_the_command_has_it_as_json_and_in_the_report(capsys):
    words = ["llm", "--model", "opt-6.7b", "--context", "100", "--what-if", "DRAM", "--scale", "4"]
    assert main([*words, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)["what_if"]
    assert told["scale"] == 4 and {row["what"] for row in told["rows"]} == {
        named("DRAM bandwidth", 4), named("DRAM latency", 4)
    }  # fmt: skip
    assert main(words) == 0
    assert "DRAM bandwidth 4 times faster" in capsys.readouterr().out
    assert main([*words[:-3], "luck"]) == 2
    assert "nothing called 'luck' can be made faster" in capsys.readouterr().err


def test_channels_that_meet_at_a_link_are_as_fast_as_it():
    """Faster channels bring nothing, nor does a faster link, where both are alike: the report does not say so."""
    stack, npu = load_machine("cambricon:hbf"), Options(context=100, mode="npu-only")
    gains = {row.what: row.gain for row in what_if(MODEL, stack, npu, 2.0, "bandwidth")}
    for alone in ("channel bandwidth", "link bandwidth"):
        assert abs(gains[named(alone, 2.0)]) < 0.01
    assert gains[named("channel and link bandwidth", 2.0)] > 0.1
    said, helps = bottleneck(simulate(MODEL, stack, npu), stack)
    assert (
        said.startswith("the channels and the link to the NPU")
        and helps == "faster channels with a faster link"
    )
    narrow = MACHINE.replace(link_gb_per_s=4.0)
    assert bottleneck(simulate(MODEL, narrow, npu), narrow)[0].startswith("the link to the NPU, busy")
    assert bottleneck(simulate(MODEL, MACHINE, npu), MACHINE)[1] == "faster or more channels"
    assert not any("channel and link" in row.what for row in what_if(MODEL, MACHINE, SHORT, 2.0, "link"))


def test_planes_that_read_for_the_channels_limit_beside_them():
    stack = load_machine("cambricon:hbf")
    said, helps = bottleneck(simulate(load_model("llama3-8b"), stack, Options()), stack)
    assert "and the planes that read for them, busy 83%, alike" in said
    assert helps == "faster channels with a faster link, and a shorter tR or more chips: neither side alone"
