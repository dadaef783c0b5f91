"""The machine as data: devices, variants, and a clear error for every mistake in a file."""

import pytest

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.machine import BUILT_IN, SECTIONS, load_machine


def write(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("name", "cores"), [("cambricon:s", 32), ("cambricon:m", 128), ("cambricon:l", 512)])
def test_devices_of_the_paper(name, cores):
    machine = load_machine(name)
    assert machine.flash.channels * machine.cores_per_channel == cores
    assert machine.npu.macs_per_us * 2 == pytest.approx(2.048e6)  # 2 TOPS


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_constant_has_a_source(name):
    sources = load_machine(name).sources
    for section, cls in SECTIONS.items():
        for constant in cls.__dataclass_fields__:
            assert sources[f"{section}.{constant}"][:3] in ("[P]", "[C]", "[A]", "[D]")


def test_a_variant_lists_only_its_differences(tmp_path):
    machine = load_machine(write(tmp_path, 'name = "mine"\nbase = "cambricon:l"\n[flash]\nread_us = 20.0\n'))
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
        ('base = "cambricon:s"\n[flahs]\nchannels = 4\n', r"unknown section \[flahs\]"),
        ('base = "cambricon:s"\n[flash]\nchanels = 4\n', "no constant `chanels`"),
        ('base = "cambricon:s"\n[flash]\nchannels = 0\n', "channels must be more than zero, found 0"),
        ('base = "cambricon:s"\n[flash]\nchannels = -2\n', "channels must be more than zero, found -2"),
        ('base = "cambricon:s"\n[flash]\nchannels = "8"\n', "channels must be of type int"),
        ('base = "cambricon:s"\n[flash]\nchannels = 8.5\n', "channels must be of type int"),
        ('base = "cambricon:s"\n[flash]\nread_us = nan\n', "read_us must be more than zero"),
        ('base = "cambricon:s"\n[flash]\nprefetch = 1\n', "prefetch must be of type bool"),
        ('base = "cambricon:s"\n[flash]\nplanes_per_die = 3\n', "planes_per_die must be even"),
        ('base = "cambricon:s"\n[core]\ncores_per_die = 2\n', "cores_per_die must divide"),
        ('base = "cambricon:s"\n[flash]\nslice_bytes = 99999\n', "slice_bytes"),
        ('base = "cambricon:s"\n[flash]\nchannels = { source = "x" }\n', "must be a value or"),
        ('base = "cambricon:x"\n', "no device 'cambricon:x'"),
        ("base = 3\n", "`base` must be the name"),
        ("[flash]\nchannels = 4\n", "lacks `chips_per_channel`"),
    ],
)
def test_mistakes_in_a_file(tmp_path, text, message):
    with pytest.raises(TileProbeError, match=message):
        load_machine(write(tmp_path, text))


def test_a_circle_of_bases(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(f'base = "{path}"\n')
    with pytest.raises(TileProbeError, match="circle"):
        load_machine(path)


def test_unknown_and_ambiguous_constants():
    machine = load_machine("cambricon:s")
    with pytest.raises(TileProbeError, match="no constant of a machine is named `speed`"):
        machine.replace(speed=2)
    with pytest.raises(TileProbeError, match="ambiguous: say dram_gb_per_s or link_gb_per_s"):
        machine.replace(gb_per_s=2.0)
