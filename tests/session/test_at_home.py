"""A script that was copied: Triton's cache has its kernels, which name the file that they were compiled in first."""

import linecache
import os
import subprocess
import sys
import types

import pytest
from examples.kernels.vector_add import add_kernel

from tileprobe.ir.parts import Part
from tileprobe.session.at_home import moves_of, part_at_home, variant_at_home
from tileprobe.targets.base import Exact, Source, Variant
from tileprobe.tools.source import line_times
from tileprobe.trace import Region, Trace

OLD, NEW, LIB = "/old/k.py", "/new/mine.py", "/lib/k.py"
HOME = Source(NEW, 3, "def k(): ...")
REGIONS = (
    Region(0, "k", "kernel", None, 0, OLD, 3, 9),
    Region(1, "load @ 5", "load", 0, 0, OLD, 5, 5, 1, parts=(Part(1.0, "load", ((LIB, 7), (OLD, 5))),)),
    Region(2, "exp @ 7", "exp", 0, 0, LIB, 7, 7, 1),
)
IR = {
    "ttir": f'loc("{OLD}":5:0) loc("{LIB}":7:0) loc("/x{OLD}":1:0)',
    "tile": f'does "load" from "{OLD}:5,6"',
    "ptx": '\t.file\t1 "/old" "k.py"\n\t.file\t2 "/lib" "k.py"',
}


def test_places_in_the_kernels_file_are_in_the_one_it_was_launched_from():
    found = variant_at_home(Variant("", None, regions=REGIONS, ir=IR), HOME)
    assert [region.file for region in found.regions] == [NEW, NEW, LIB]
    assert found.regions[1].parts[0].frames == ((LIB, 7), (NEW, 5))
    assert found.ir == {
        "ttir": f'loc("{NEW}":5:0) loc("{LIB}":7:0) loc("/x{OLD}":1:0)',
        "tile": f'does "load" from "{NEW}:5,6"',
        "ptx": '\t.file\t1 "/new" "mine.py"\n\t.file\t2 "/lib" "k.py"',
    }


def test_what_simulated_machines_count_by_line_goes_with_it():
    counters = {"file": [OLD, LIB], "line": [5, 7]}
    part, moves = part_at_home(Exact({}, REGIONS, (), 1.0, counters=counters), HOME)
    assert moves == {OLD: NEW}
    assert list(part.counters["file"]) == [NEW, LIB] and [r.file for r in part.regions] == [NEW, NEW, LIB]


@pytest.mark.parametrize("source", [Source(OLD, 3), Source("", 3)])
def test_a_kernel_at_home_or_of_nowhere_is_left_alone(source):
    variant = Variant("", None, regions=REGIONS, ir=IR)
    assert variant_at_home(variant, source) is variant
    bare = Variant("", None, regions=(Region(0, "step", "kernel"),), ir=IR)
    assert variant_at_home(bare, HOME) is bare


@pytest.fixture
def modules(monkeypatch, tmp_path):
    """Modules of a program: two that are called alike, and one in a package."""
    for name in ("a.parts", "b.parts", "a.only"):
        file = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
        module = types.ModuleType(name)
        module.__file__ = str(file)
        module.called = add_kernel
        monkeypatch.setitem(sys.modules, name, module)
    return tmp_path


@pytest.mark.parametrize(
    ("named", "home"),
    [
        ("/gone/a/parts.py", "a/parts.py"),
        ("/gone/b/parts.py", "b/parts.py"),
        ("/gone/parts.py", None),  # which of the two
        ("/gone/only.py", "a/only.py"),  # it has the name alone, but is not there any more
        ("/gone/other.py", None),
    ],
)
def test_functions_that_are_called_are_in_the_programs_modules(modules, named, home):
    regions = (REGIONS[0], Region(1, "exp @ 7", "exp", 0, 0, named, 7, 7, 1))
    found = moves_of(regions, HOME)
    assert found == {OLD: NEW} | ({} if home is None else {named: str(modules / home)})


def test_a_cell_of_a_notebook_is_at_home_and_a_file_that_was_read_is_not(modules, monkeypatch):
    (modules / "old/a").mkdir(parents=True)
    read, cell = modules / "old/a/parts.py", modules / "gone/a/parts.py"
    read.write_text("")
    for file in (read, cell):
        monkeypatch.setitem(linecache.cache, str(file), (0, None, [], str(file)))
    found = moves_of((), HOME, [str(read), str(cell)])
    assert found == {str(read): str(modules / "a/parts.py")}


def test_a_file_that_is_still_there_needs_more_than_its_name(modules):
    other = modules / "only.py"
    other.write_text("")
    region = Region(1, "exp @ 7", "exp", 0, 0, str(other), 7, 7, 1)
    assert moves_of((region,), HOME) == {}
    assert moves_of((region,), HOME, [str(modules / "elsewhere/a/only.py")]) == {
        str(modules / "elsewhere/a/only.py"): str(modules / "a/only.py")
    }
    own = Region(1, "exp @ 7", "exp", 0, 0, str(modules / "b/parts.py"), 7, 7, 1)
    assert moves_of((own,), HOME) == {}  # it is a module itself, and another is called alike


SCRIPT = """import numpy as np, tileprobe, triton, triton.language as tl

@triton.jit
def half(x):
    return x * 0.5

@triton.jit
def halves(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for n in range(4):
        tl.store(x + n * BLOCK + i, half(tl.load(x + n * BLOCK + i)))

x = tileprobe.array(np.ones(4096, np.float32))
for _ in range(3):
    halves[(1,)](x, BLOCK=1024)
"""


def test_a_copied_script_has_its_source_in_the_report(tmp_path):
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    for name in ("first.py", "copy.py"):
        script = tmp_path / name
        script.write_text(SCRIPT)
        program = "import sys; from tileprobe.cli import main; sys.exit(main(sys.argv[1:]))"
        arguments = ["run", "--quiet", "--trace", str(tmp_path / "t.parquet"), str(script)]
        subprocess.run([sys.executable, "-c", program, *arguments], check=True, env=environment)
        if name == "first.py":
            script.unlink()  # it was moved
    trace = Trace.load(tmp_path / "t.parquet")
    assert {region.file for region in trace.regions if region.file} == {str(script)}
    times = line_times(trace, trace.kernels[0])
    assert times.filter(times["ns"] > 0)["line"].to_list() and "half" in [
        f.name for f in trace.kernels[0].functions
    ]
