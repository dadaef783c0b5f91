"""A script that was copied: Triton's cache has its kernels, which name the file that they were compiled in first."""

import os
import subprocess
import sys

import pytest

from tileprobe.ir.parts import Part
from tileprobe.session.at_home import part_at_home, variant_at_home
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
    part, old = part_at_home(Exact({}, REGIONS, (), 1.0, counters=counters), HOME)
    assert old == OLD
    assert list(part.counters["file"]) == [NEW, LIB] and [r.file for r in part.regions] == [NEW, NEW, LIB]


@pytest.mark.parametrize("source", [Source(OLD, 3), Source("", 3)])
def test_a_kernel_at_home_or_of_nowhere_is_left_alone(source):
    variant = Variant("", None, regions=REGIONS, ir=IR)
    assert variant_at_home(variant, source) is variant
    bare = Variant("", None, regions=(Region(0, "step", "kernel"),), ir=IR)
    assert variant_at_home(bare, HOME) is bare


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
