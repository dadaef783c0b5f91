"""The pytest plugin: kernels run on simulated GPUs, and what they take is compared with files beside the tests."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl
from examples.kernels import softmax  # noqa: F401  pytester unloads again what is first imported in its runs

import tileprobe
from tileprobe import sim
from tileprobe.errors import TileProbeError
from tileprobe.targets.simgpu.model import fingerprint
from tileprobe.testing import baselines

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "ci_performance"
ALONE = ("-p", "no:tileprobe", "-p", "tileprobe.testing.plugin", "-W", "ignore")  # installed anew or not
SUITE = """
import numpy as np
import pytest
from examples.kernels import softmax

class TestRows:
    @pytest.mark.parametrize("rows", [2, 4])
    def test_softmax(self, tileprobe, rows):
        x = np.ones((rows, 64), np.float32)
        with tileprobe.measure(MACHINE) as launches:
            softmax.softmax(tileprobe.array(x), tileprobe.array(np.zeros_like(x)))
        (result,) = launches
        tileprobe.check(result)
        tileprobe.check(result, "loosely", tolerance=TOLERANCE)
"""


@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def race(out):
    tl.store(out, tl.program_id(0))


@triton.jit
def crowded(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i)
    tl.store(out + i, values / tl.sum(tl.exp(values), 0) * tl.max(values, 0))


@pytest.fixture(scope="module", autouse=True)
def _started():
    """Whatever a launch imports is there before pytester takes note of what was."""
    for machine in ("sim:a100", "sim:h100"):
        sim.run(scale, (1,), np.zeros(1, np.float32), np.zeros(1, np.float32), 1, on=machine, BLOCK=16)


@pytest.fixture
def tester(request, monkeypatch):
    """pytester, whose home folder is an empty one: the compiled engine is found where it was."""
    from tileprobe.targets.simgpu.program import _kept

    monkeypatch.setenv("TILEPROBE_CACHE_DIR", str(_kept(b"", "").parents[1]))
    return request.getfixturevalue("pytester")


@pytest.fixture
def suite(tester):
    """Writes the tests and runs them; gives their results and the file of baselines."""

    def run(*options, machine="sim:a100", tolerance=0.0):
        text = SUITE.replace("MACHINE", repr(machine)).replace("TOLERANCE", repr(tolerance))
        tester.makepyfile(test_rows=text)
        return tester.runpytest_inprocess(*ALONE, *options)

    run.path = tester.path / "test_rows.baselines.toml"
    return run


def edited(path, before, after):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_baselines_are_made_kept_and_compared_with(suite):
    missing = suite()
    missing.assert_outcomes(failed=2)
    missing.stdout.fnmatch_lines(
        [
            "*has no baseline 'TestRows::test_softmax?2?'*",
            "*pytest --tileprobe-update 'test_rows.py::TestRows*",
        ]
    )
    assert not suite.path.exists()
    made = suite("--tileprobe-update")
    made.assert_outcomes(passed=2)
    made.stdout.fnmatch_lines(["*TestRows::test_softmax?4?, *cycles on sim:a100 (new)"])
    kept = tomllib.loads(suite.path.read_text())
    assert list(kept) == sorted(kept) and len(kept) == 4
    assert kept["TestRows::test_softmax[2]"]["cycles"] > 3000
    suite().assert_outcomes(passed=2)
    again = suite("--tileprobe-update")
    assert "baselines of kernels" not in again.stdout.str()  # nothing has changed, nothing is written


def test_a_change_is_shown_with_what_it_was_and_is(suite):
    suite("--tileprobe-update")
    cycles = tomllib.loads(suite.path.read_text())["TestRows::test_softmax[2]"]["cycles"]
    edited(suite.path, f"cycles = {cycles}", f"cycles = {cycles * 2}")
    failed = suite("-k", "2")
    failed.assert_outcomes(failed=1, deselected=1)
    failed.stdout.fnmatch_lines([f"*cycles  {cycles * 2:,}  {cycles:,}  -50.0%"])
    failed.stdout.no_fnmatch_line("*The model of*")
    edited(suite.path, fingerprint("a100"), "0123456789ab")
    edited(suite.path, f'"{triton.__version__}"', '"3.8.1"')
    suite("-k", "2").stdout.fnmatch_lines(
        [
            "*The model of sim:a100 is another than the baseline's (0123456789ab, now*",
            "*made with Triton 3.8.1*",
        ]
    )
    other = suite("-k", "4", machine="sim:h100")
    other.stdout.fnmatch_lines(["*the baseline was made on sim:a100, this ran on sim:h100"])


def test_a_model_that_changed_with_the_same_figures_is_no_failure(suite):
    suite("--tileprobe-update")
    edited(suite.path, fingerprint("a100"), "0123456789ab")
    suite().assert_outcomes(passed=2)
    renewed = suite("--tileprobe-update")
    renewed.stdout.fnmatch_lines(["*cycles on sim:a100 (the same figures, of another model or version)"])
    assert "0123456789ab" not in suite.path.read_text()


def test_figures_may_differ_by_a_tolerance(suite):
    suite("--tileprobe-update")
    kept = baselines.read(suite.path)
    name = "TestRows::test_softmax[2]: loosely"
    slower = kept[name] | {"cycles": round(kept[name]["cycles"] / 1.04)}
    baselines.update(suite.path, name, slower)
    suite(tolerance=0.03).assert_outcomes(passed=1, failed=1)
    suite(tolerance={"instructions": 0.05}).assert_outcomes(passed=1, failed=1)
    suite(tolerance=0.05).assert_outcomes(passed=2)
    suite(tolerance={"cycles": 0.05}).assert_outcomes(passed=2)


@pytest.mark.parametrize("text", ["[half", "a = 3", "[a]\ncycles = 'many'", "[a]"])
def test_a_damaged_file_is_one_message(suite, text):
    suite.path.write_text(text)
    failed = suite("-k", "2")
    failed.assert_outcomes(failed=1, deselected=1)
    failed.stdout.fnmatch_lines(["*test_rows.baselines.toml*"])
    failed.stdout.no_fnmatch_line("*Traceback*")
    assert suite.path.read_text() == text


def test_processes_that_update_one_file_lose_nothing(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom tileprobe.testing import baselines\n"
        "for n in range(60):\n"
        "    baselines.update(Path(sys.argv[1]), f'{sys.argv[2]} {n}', {'kernel': 'k', 'cycles': n})\n"
    )
    path = tmp_path / "kept.toml"
    writers = [subprocess.Popen([sys.executable, "-c", code, path, who]) for who in ("one", "two")]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert len(baselines.read(path)) == 120
    assert os.listdir(tmp_path) == ["kept.toml"]


def test_names_are_kept_as_they_are(tmp_path):
    path, name = tmp_path / "kept.toml", 'test_[a"b\\c.d é 漢]'
    baselines.update(path, name, {"kernel": 'k"', "cycles": 7})
    assert baselines.read(path) == {name: {"kernel": 'k"', "cycles": 7}}


@pytest.mark.parametrize(
    ("tolerance", "said"),
    [
        (2, "*between 0 and 1, such as 0.02; not 2"),
        ({"speed": 0.1}, "*no figure 'speed'*there are cycles, *"),
    ],
)
def test_a_tolerance_that_is_none_is_one_message(suite, tolerance, said):
    suite("--tileprobe-update")
    suite("-k", "2", tolerance=tolerance).stdout.fnmatch_lines([said])


def test_a_test_says_which_of_two_launches_it_checks(tester):
    tester.makepyfile(
        "def test_twice(tileprobe):\n"
        "    from examples.kernels import softmax\n"
        "    import numpy as np\n"
        "    with tileprobe.measure() as launches:\n"
        "        softmax.softmax(*(tileprobe.array(np.ones((1, 8), np.float32)) for _ in range(2)))\n"
        "    tileprobe.check(launches[0])\n"
        "    tileprobe.check(launches[0])\n"
    )
    failed = tester.runpytest_inprocess(*ALONE, "--tileprobe-update")
    failed.stdout.fnmatch_lines(["*test_twice was checked before in this test*"])


def test_faults_of_a_kernel_are_shown_at_the_line_that_runs_it(tester):
    tester.makepyfile(
        "import numpy as np\n"
        "import pytest\n"
        "from examples.kernels import softmax\n"
        "from tileprobe.errors import TileProbeError\n"
        "def run(tileprobe):\n"
        "    x = np.ones(4, np.float32)\n"
        "    tileprobe.run(softmax.softmax_kernel, 1, x, x, 64, 64, 1, 64, BLOCK=64)\n"
        "def test_shown(tileprobe):\n"
        "    run(tileprobe)\n"
        "def test_caught(tileprobe):\n"
        "    with pytest.raises(TileProbeError, match='a tensor of 16 bytes'):\n"
        "        run(tileprobe)\n"
    )
    shown = tester.runpytest_inprocess(*ALONE)
    shown.assert_outcomes(passed=1, failed=1)
    shown.stdout.fnmatch_lines(
        [">*tileprobe.run(softmax.softmax_kernel*", "E*KernelFault: kernel softmax_kernel*"]
    )
    shown.stdout.no_fnmatch_line("*timing/chip.py*")


def test_pytest_does_not_pay_for_the_plugin():
    code = (
        "import sys, tileprobe.testing.plugin\n"
        "assert not {'triton', 'numpy', 'numba', 'torch', 'polars', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points["pytest11"] == {"tileprobe": "tileprobe.testing.plugin"}


def test_pytest_leaves_the_package_as_it_is(pytester):
    """A plugin's asserts are rewritten, and with them all modules of its distribution."""
    pytester.makepyfile(
        "import sys\n"
        "def test_modules(tileprobe):\n"
        "    import tileprobe.testing.told as module\n"
        "    assert type(module.__loader__).__name__ == 'SourceFileLoader'\n"
    )
    code = "import pytest, sys; sys.exit(pytest.main(['-q']))"
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "PYTEST_PLUGINS": "", "PYTEST_ADDOPTS": ""}
    installed = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert installed.returncode == 0, installed.stdout  # where the fixture is not found: make setup


def test_the_example_project_keeps_its_figures(tester):
    shutil.copytree(EXAMPLE, tester.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    path = tester.path / "test_performance.baselines.toml"
    kept = tomllib.loads(path.read_text())
    current = all(held["model"] == fingerprint(held["machine"][4:]) for held in kept.values())
    if not current:  # as a user would where the model has changed
        tester.runpytest_inprocess(*ALONE, "--tileprobe-update").assert_outcomes(passed=4)
        assert tomllib.loads(path.read_text()).keys() == kept.keys()
    tester.runpytest_inprocess(*ALONE).assert_outcomes(passed=4)


# -- what a run gives ---------------------------------------------------------------------------------------------


def test_numpy_arrays_and_torch_tensors_are_taken_as_they_are():
    torch = pytest.importorskip("torch")
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    found = sim.run(scale, (4,), x, out, np.int32(1000), BLOCK=256)
    np.testing.assert_array_equal(out, x * 2)
    assert found.grid == (4, 1, 1) and found.kernel == "scale" and found.machine == "sim:a100"
    assert found.dram_bytes == found.counters["dram_bytes_read"] == 4000
    given, got = torch.arange(1000, dtype=torch.float32), torch.zeros(1000)
    assert sim.run(scale, (4,), given, got, 1000, BLOCK=256).cycles == found.cycles
    assert torch.equal(got, given * 2)


def test_a_launch_takes_the_same_whatever_ran_before():
    x, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    a, b = tileprobe.array(x), tileprobe.array(out)
    with sim.measure("sim:h100") as cold:
        for _ in range(2):
            scale[(4,)](a, b, 1000, BLOCK=256)
    with sim.measure("sim:h100", cold=False) as warm:
        for _ in range(2):
            scale[(4,)](a, b, 1000, BLOCK=256)
    assert cold[0].cycles == cold[1].cycles == warm[0].cycles > warm[1].cycles


def test_an_autotuned_kernel_is_measured_with_what_won():
    tuned = triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 1024)], key=["n"])(scale)
    x, out = np.ones(65536, np.float32), np.zeros(65536, np.float32)

    def grid(chosen):
        return (65536 // chosen["BLOCK"],)

    first, second = (sim.run(tuned, grid, x, out, 65536) for _ in range(2))
    assert first == second
    alone = [sim.run(scale, (65536 // b,), x, out, 65536, BLOCK=b) for b in (64, 1024)]
    assert first.cycles == min(each.cycles for each in alone) < max(each.cycles for each in alone)
    assert first.constants == min(alone, key=lambda each: each.cycles).constants


def test_races_are_found_and_counted():
    found = sim.run(race, (2,), np.zeros(1, np.int32))
    (said,) = found.races
    assert "program (0, 0, 0), warp 0 wrote" in said and "program (1, 0, 0)" in said
    assert baselines.figures(found)["races"] == 1


def test_registers_that_do_not_suffice_are_spilled_and_limit_less():
    x, out = (np.zeros(8192, np.float32) for _ in range(2))
    free, tight = (
        sim.run(crowded, (1,), x, out, BLOCK=8192, num_warps=4, **more) for more in ({}, {"maxnreg": 32})
    )
    assert free.spill_bytes == 0 < tight.spill_bytes
    assert free.registers > tight.registers == 32
    assert free.occupancy_limiter == "registers"
    assert free.occupancy == free.occupancy_warps / 64 < tight.occupancy
    assert tight.cycles > free.cycles


def test_what_is_not_timed_says_so():
    out = tileprobe.array(np.zeros(1, np.int32))
    with sim.measure(timed=False) as launches:
        race[(1,)](out)
    (found,) = launches
    assert found.instructions > 0 and not found.timed
    for name in ("cycles", "counters", "stalls", "conflicts", "dram_bytes", "microseconds"):
        with pytest.raises(TileProbeError, match=r"race .*without time"):
            getattr(found, name)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda x: sim.run(race, (1,), x, on="cpu"), r"'cpu' is no simulated GPU; there are sim:a100"),
        (lambda x: sim.run(race, (1,), x, on="sim:b200"), r"no machine 'b200'; its machines are a100"),
        (lambda x: sim.run(len, (1,), x), r"no Triton kernel.*measure"),
    ],
)
def test_mistakes_are_one_message(wrong, said):
    with pytest.raises(TileProbeError, match=said):
        wrong(np.zeros(1, np.int32))
