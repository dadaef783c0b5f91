"""Targets by name: all of ours keep the protocol, those of others are found by entry point, mistakes are said."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tileprobe
from tileprobe.errors import TileProbeError, UnsupportedError
from tileprobe.ir.layout import Capabilities
from tileprobe.ir.registry import dialects, structure
from tileprobe.targets.base import Launches, Level
from tileprobe.targets.catalog import _parts, available, find

EXAMPLE = Path(__file__).parents[2] / "examples" / "tilesim"
SCRIPT = """
import numpy as np, tileprobe, triton, triton.language as tl

@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        total += tl.load(x + at) * i
    tl.store(out + at, total)

x = np.arange(1024, dtype=np.float32)
out = tileprobe.array(np.zeros(1024, np.float32))
scale[(4,)](tileprobe.array(x), out, 5, BLOCK=256)
np.testing.assert_array_equal(out.numpy(), x * 10)
"""


def run(*words, path=None):
    before = os.environ.get("PYTHONPATH", "")
    where = os.pathsep.join(str(p) for p in (*(path or ()), before) if p)
    command = [sys.executable, "-m", "tileprobe", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": where}
    )


@pytest.fixture
def script(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    return file


@pytest.fixture
def installed(tmp_path):
    """The example as pip would install it: its module, and the entry points of its own pyproject."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "site" / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return [info.parent, EXAMPLE]


@pytest.mark.parametrize("target", available(), ids=lambda target: target.name)
def test_our_targets_keep_the_protocol(target):
    for part in _parts():
        assert hasattr(target, part), part
    assert isinstance(target.capabilities, Capabilities)
    assert all(isinstance(level, Level) for level in target.levels)
    assert sum(level.shown for level in target.levels) >= 1
    assert target.takes in ("probe", "record")
    assert structure(target.structure).kernels is not None
    assert all(dialect in dialects() for dialect in target.dialects())
    assert find(target.name) == (target, "")


def test_a_third_party_adds_a_target_by_entry_point(installed, script):
    done = run("run", "--target", "tilesim:large", "--json", "-", script, path=installed)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["target"] == "tilesim:large"
    (kernel,) = report["kernels"]
    regions = {region["name"].split(" @")[0]: region for region in kernel["regions"]}
    # large: 20 cycles a stage; 256 elements * (load, mul, add) are 12 cycles of arithmetic at 64 a cycle and 16 of
    # memory (256 * 4 bytes at 64 a cycle)
    assert regions["iteration"]["count"] == 4 * 5
    assert regions["iteration"]["mean_ns"] > 20
    assert kernel["records"]["lost"] == kernel["records"]["sampled_out"] == 0
    listed = json.loads(run("doctor", "--json", path=installed).stdout)
    assert any("tilesim:small" in row["text"] for row in listed if row["name"] == "target")


def test_machines_differ(installed, script):
    times = []
    for machine in ("small", "large"):
        done = run("run", "--target", f"tilesim:{machine}", "--json", "-", script, path=installed)
        times.append(json.loads(done.stdout)["kernels"][0]["duration_ns"])
    assert times[0] > 2 * times[1]


def test_a_target_is_named_by_its_file(script):
    done = run("run", "--target", f"{EXAMPLE / 'tilesim.py'}:TileSim", script)
    assert done.returncode == 0, done.stderr
    assert "scale  on tilesim:small" in done.stdout


def test_a_broken_target_takes_nothing_with_it(tmp_path, script):
    info = tmp_path / "site" / "broken-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tileprobe.targets]\nbroken = no_such_module:Target\n")
    assert run("run", "--quiet", script, path=[info.parent]).returncode == 0
    asked = run("run", "--target", "broken", script, path=[info.parent])
    assert asked.returncode == 2
    assert "the target 'broken' cannot be loaded: ModuleNotFoundError" in asked.stderr
    rows = json.loads(run("doctor", "--json", path=[info.parent]).stdout)
    assert any(row["state"] == "bad" and "broken cannot be loaded" in row["text"] for row in rows)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("abacus", "there is no target 'abacus'; there are cpu, "),
        ("cpu:fast", "the target 'cpu' has no machine 'fast'; there is one machine only"),
        ("cambricon:xl", "its machines are hbf, l, m, nand1600, nand3600, s"),
        ("nowhere.py:Target", "there is no file nowhere.py"),
    ],
)
def test_a_wrong_name_is_said(name, said):
    with pytest.raises(TileProbeError, match=said):
        find(name)


LAZY = """
from __future__ import annotations
from dataclasses import dataclass
from tileprobe.targets.base import FixedClock, SimulatedTarget

@dataclass
class Machine:  # a dataclass whose annotations are text looks its module up
    cores: int = 1

class Lazy(SimulatedTarget):
    name, about, structure, levels = "lazy", "", "scf", ()
    def use(self, machine="", **settings): ...

class Whole(Lazy):
    clock = FixedClock("simulated", 1e9)

class Absent(Whole):
    def __init__(self):
        raise OSError("no device")
"""


def test_a_file_without_the_class_is_said(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("class Half:\n    name = 'half'\n")
    with pytest.raises(TileProbeError, match="has no class Whole"):
        find(f"{file}:Whole")
    with pytest.raises(TileProbeError, match=r"Half is no target: it has no .*structure"):
        find(f"{file}:Half")
    file.write_text(LAZY)
    with pytest.raises(TileProbeError, match=r"Lazy is no target: it has no clock"):
        find(f"{file}:Lazy")
    with pytest.raises(TileProbeError, match="Absent cannot be made: OSError: no device"):
        find(f"{file}:Absent")
    with pytest.raises(TileProbeError, match="the target 'lazy' has no machine 'fast'"):
        find(f"{file}:Whole:fast")
    assert find(f"{file}:Whole")[0].name == "lazy"
    file.write_text("1 / 0")
    with pytest.raises(TileProbeError, match="cannot be loaded: ZeroDivisionError"):
        find(f"{file}:Half")


def test_a_file_does_not_replace_an_installed_target(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text((EXAMPLE / "tilesim.py").read_text().replace('name = "tilesim"', 'name = "cpu"'))
    with pytest.raises(TileProbeError, match="there is a target 'cpu' already"):
        find(f"{file}:TileSim")


def test_settings_of_another_target_are_refused():
    with pytest.raises(TileProbeError, match="threads: no setting of the target 'cuda'"):
        tileprobe.use("cuda", threads=2)
    with pytest.raises(UnsupportedError, match="tileprobe llm --model NAME --device cambricon:m"):
        tileprobe.use("cambricon:m")


def test_the_target_before_comes_back(monkeypatch):
    import numpy as np

    with tileprobe.use("cpu"), tileprobe.use(f"{EXAMPLE / 'tilesim.py'}:TileSim"):
        assert type(tileprobe.array(np.zeros(3))).__name__ == "Array"
        from triton.runtime import driver

        assert type(driver.active).__name__ == "Driver"
    assert type(driver.active).__name__ == "CpuDriver"


def test_two_observers_are_refused():
    launches = Launches()
    stop = launches.subscribe(lambda kernel, grid, plain: None)
    with pytest.raises(TileProbeError, match="observed already"):
        launches.subscribe(lambda kernel, grid, plain: None)
    stop()
    assert launches.observer is None


def test_inspect_shows_the_levels_of_the_target(script):
    name = f"{EXAMPLE / 'tilesim.py'}:TileSim"
    shown = run("inspect", "--target", name, script)
    assert "// scale: probe" in shown.stdout
    assert "probe.start" in shown.stdout
    assert "record." not in shown.stdout
    wrong = run("inspect", "--level", "ptx", script)
    assert wrong.returncode == 2
    assert "has no level 'ptx'; its levels are ttir, tile, probe, record, llir, asm" in wrong.stderr


ONE = (
    "import atexit, sys\nimport numpy as np\nimport tileprobe, triton, triton.language as tl\n"
    "@triton.jit\ndef one(x):\n    tl.store(x, 1.0)\n"
    "{around}x = tileprobe.array(np.zeros(1, np.float32)); one[(1,)](x)\n"
    "print(x.numpy()[0])\n"
    "import weakref\nlate = weakref.finalize(one, lambda: 'torch' in sys.modules and print('torch'))\n"
)


@pytest.mark.parametrize(
    ("words", "around"),
    [
        ((), "with tileprobe.use('sim:a100'): "),
        ((), "with tileprobe.use('cpu'): "),
        (("-m", "tileprobe", "run"), ""),
    ],
)
def test_a_program_that_used_a_target_for_a_while_ends_without_a_word(tmp_path, words, around):
    """Kernels ask for a driver when they go, and Triton would import torch at the very end to find one."""
    import subprocess
    import sys

    script = tmp_path / "script.py"
    script.write_text(ONE.format(around=around))
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", *words, script], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.split("\n")[0]) == (0, "1.0")
    said = [line for line in ran.stderr.splitlines() if line.strip() and "engine, once" not in line]
    assert not said  # but for what a first use of the simulated GPU says
    assert "torch" not in ran.stdout.split("\n")
