"""The machine as data: devices, variants, and a clear error for every mistake in a file."""

import re

import pytest

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.device_file import device_names, files_of, overlay_names
from tileprobe.targets.cambricon.machine import SECTIONS, load_machine


def write(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("name", "cores"), [("cambricon:s", 32), ("cambricon:m", 128), ("cambricon:l", 512)])
def test_devices_of_the_paper(name, cores):
    machine = load_machine(name)
    assert machine.flash.channels * machine.cores_per_channel == cores
    assert machine.npu.macs_per_us * 2 == pytest.approx(2.048e6)  # 2 TOPS


@pytest.mark.parametrize("name", device_names())
def test_every_constant_has_a_source(name):
    sources = load_machine(name).sources
    for section, cls in SECTIONS.items():
        for constant in cls.__dataclass_fields__:
            assert re.match(r"\[[A-Z]\d?\]", sources[f"{section}.{constant}"])


def test_a_variant_lists_only_its_differences(tmp_path):
    machine = load_machine(
        write(tmp_path, 'name = "mine"\ninherits = "cambricon:l"\n[flash]\nread_us = 20.0\n')
    )
    assert machine.name == "mine"
    assert machine.flash.read_us == 20.0
    assert machine.flash.channels == 32
    assert "without a source" in machine.sources["flash.read_us"]


def test_replace_remembers_what_changed():
    machine = load_machine("cambricon:s").replace(channels=4).replace(dram_gb_per_s=80.0)
    assert machine.flash.channels == 4
    assert machine.dram.gb_per_s == 80.0
    assert machine.name == "cambricon:s[channels=4,dram_gb_per_s=80.0]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[flash", "not valid TOML"),
        ('inherits = "cambricon:s"\n[flahs]\nchannels = 4\n', r"unknown section \[flahs\]"),
        ('inherits = "cambricon:s"\n[flash]\nchanels = 4\n', "no constant `chanels`"),
        ('inherits = "cambricon:s"\n[flash]\nchannels = 0\n', "channels must be more than zero, found 0"),
        ('inherits = "cambricon:s"\n[flash]\nchannels = -2\n', "channels must be more than zero, found -2"),
        ('inherits = "cambricon:s"\n[flash]\nchannels = "8"\n', "channels must be of type int"),
        ('inherits = "cambricon:s"\n[flash]\nchannels = 8.5\n', "channels must be of type int"),
        ('inherits = "cambricon:s"\n[flash]\nread_us = nan\n', "read_us must be more than zero"),
        ('inherits = "cambricon:s"\n[flash]\nprefetch = 1\n', "prefetch must be of type bool"),
        ('inherits = "cambricon:s"\n[flash]\nplanes_per_die = 3\n', "planes_per_die must be even"),
        ('inherits = "cambricon:s"\n[flash]\nchannels = 10000000\n', "80,000,000 planes of all channels"),
        (f'inherits = "cambricon:s"\n[flash]\nchannels = {"9" * 30}\n', "channels is .*: at most"),
        ('inherits = "cambricon:s"\n[core]\ncores_per_die = 2\n', "cores_per_die must divide"),
        ('inherits = "cambricon:s"\n[flash]\nslice_bytes = 99999\n', "slice_bytes"),
        ('inherits = "cambricon:s"\n[flash]\nchannels = { source = "x" }\n', "must be a value or"),
        ('inherits = "cambricon:x"\n', "no device 'cambricon:x'"),
        ("inherits = 3\n", "`inherits` must be the name"),
        ("[flash]\nchannels = 4\n", "lacks `chips_per_channel`"),
    ],
)
def test_mistakes_in_a_file(tmp_path, text, message):
    with pytest.raises(TileProbeError, match=message):
        load_machine(write(tmp_path, text))


def test_a_circle_of_bases(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(f'inherits = "{path}"\n')
    with pytest.raises(TileProbeError, match="circle"):
        load_machine(path)


def test_unknown_and_ambiguous_constants():
    machine = load_machine("cambricon:s")
    with pytest.raises(TileProbeError, match="no constant of a machine is named `speed`"):
        machine.replace(speed=2)
    with pytest.raises(TileProbeError, match="ambiguous: say dram_gb_per_s or link_gb_per_s"):
        machine.replace(gb_per_s=2.0)


def test_an_overlay_is_laid_over_a_device(tmp_path):
    tlc = load_machine("cambricon:l+tlc")
    assert tlc.name == "cambricon:l+tlc"
    assert (tlc.flash.channels, tlc.flash.read_us, tlc.flash.endurance_cycles) == (32, 75.0, 1000)
    assert tlc.sources["flash.read_us"].startswith("[H]")
    mine = tmp_path / "slow.toml"
    mine.write_text("overlay = true\n[flash]\nread_us = 99.0\n")
    both = load_machine(f"cambricon:s+tlc+{mine}")
    assert (both.flash.read_us, both.flash.program_us, both.name) == (99.0, 1125.0, "cambricon:s+tlc+slow")
    assert files_of(f"cambricon:s+tlc+{mine}") == [str(mine)]
    device = write(tmp_path, 'inherits = "cambricon:m"\n')
    assert load_machine(f"{device}+tlc").flash.channels == 16
    assert files_of(str(device)) == [str(device)]


def test_devices_and_overlays_by_name():
    assert {"cambricon:s", "cambricon:m", "cambricon:l", "cambricon:nand3600", "cambricon:hbf"} <= set(
        device_names()
    )
    assert overlay_names() == ("tlc",)
    assert not any("base" in name or "tlc" in name for name in device_names())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cambricon:s+qlc", "nothing named 'qlc' can be laid over a device; there are tlc"),
        ("cambricon:s+s", "nothing named 's' can be laid over"),
        ("cambricon:tlc", r"is laid over a device: write cambricon:s\+tlc"),
        ("cambricon:x+tlc", "no device 'cambricon:x': expected .*cambricon:l, cambricon:m"),
        ("cambricon:../s", "no device"),
    ],
)
def test_mistakes_in_a_name(name, message):
    with pytest.raises(TileProbeError, match=message):
        load_machine(name)


def test_a_device_is_no_overlay(tmp_path):
    path = write(tmp_path, 'inherits = "cambricon:s"\n')
    with pytest.raises(TileProbeError, match="is a device of its own; an overlay says"):
        load_machine(f"cambricon:s+{path}")
    with pytest.raises(TileProbeError, match="`overlay` must be true or false"):
        load_machine(write(tmp_path, 'overlay = 1\ninherits = "cambricon:s"\n'))
    with pytest.raises(TileProbeError, match="`base` is written `inherits`"):
        load_machine(write(tmp_path, 'base = "cambricon:s"\n'))
