"""`tileprobe run` and `inspect` from the shell: scripts, modules, commands, exit codes, files."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tileprobe.trace import Trace

HERE = Path(__file__).parent

SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import session_kernels as K
K.launch(K.loop_kernel, 3, 4)
K.launch(K.scale_kernel, 2, 2.0)
print("arguments", sys.argv[1:], __name__)
if "raise" in sys.argv:
    raise ValueError("from the script")
if "exit" in sys.argv:
    sys.exit(7)
"""

CUDA = """
import torch, triton, triton.language as tl

@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

assert torch.cuda.is_available() and torch.cuda.device_count() == 1
properties = torch.cuda.get_device_properties(0)
assert properties.multi_processor_count >= 1 and torch.cuda.get_device_capability() == (9, 0)
device = torch.device("cuda", torch.cuda.current_device())
x = torch.randn(5000, device="cuda")
out = torch.empty_like(x).to(device)
model = torch.nn.Linear(4, 4).to("cuda").cuda()
assert x.is_cuda and x.cuda() is x and model(torch.ones(1, 4, device=device)).shape == (1, 4)
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
    start.record()
    double_kernel[(5,)](x, out, 5000, BLOCK=1024)
    end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) > 0
torch.testing.assert_close(out, x * 2)
print("cuda script done")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(here=str(HERE)))
    return path


def tileprobe(*words, cwd=None, **kwargs):
    command = [sys.executable, "-m", "tileprobe", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, **kwargs)


def test_a_script_with_its_arguments(script, tmp_path):
    out = tmp_path / "out.json"
    done = tileprobe("run", "--json", out, script, "--take", "raisins")
    assert done.returncode == 0, done.stderr
    assert "arguments ['--take', 'raisins'] __main__" in done.stdout
    assert "loop_kernel" in done.stdout
    report = json.loads(out.read_text())
    assert report["schema"] == 2
    assert report["target"] == "cpu"
    assert [kernel["name"] for kernel in report["kernels"]] == ["loop_kernel", "scale_kernel"]
    first = report["kernels"][0]
    assert not first["overhead"]["measurable"]
    assert first["records"]["kept"] > 0
    assert first["regions"][0]["share"] == 1.0
    assert first["regions"][0]["source"].startswith("session_kernels.py:")


def test_an_exception_is_shown_and_the_trace_kept(script, tmp_path):
    out = tmp_path / "out.parquet"
    done = tileprobe("run", "--trace", out, script, "raise")
    assert done.returncode == 1
    assert "ValueError: from the script" in done.stderr
    assert "runpy" not in done.stderr
    trace = Trace.load(out)
    assert {kernel.name for kernel in trace.kernels} == {"loop_kernel", "scale_kernel"}


def test_the_exit_code_is_passed_on(script):
    assert tileprobe("run", "--quiet", script, "exit").returncode == 7


def test_a_module(script):
    done = tileprobe("run", "--quiet", "-m", "script", "one", cwd=script.parent)
    assert done.returncode == 0, done.stderr
    assert "arguments ['one'] __main__" in done.stdout


def test_a_command(tmp_path):
    (tmp_path / "test_it.py").write_text(
        f"import sys\nsys.path.insert(0, {str(HERE)!r})\n"
        "def test_it():\n    import session_kernels as K\n    K.launch(K.scale_kernel, 2, 2.0)\n"
    )
    words = ["run", "--json", tmp_path / "out.json", "--", "pytest", "-q", "-p", "no:cacheprovider", tmp_path]
    done = tileprobe(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 passed" in done.stdout
    assert json.loads((tmp_path / "out.json").read_text())["kernels"][0]["name"] == "scale_kernel"


def test_json_to_the_standard_output(script):
    done = tileprobe("run", "--kernel", "scale*", "--json", "-", script)
    assert done.returncode == 0
    text = done.stdout
    assert json.loads(text[text.index("{") :])["kernels"][0]["name"] == "scale_kernel"


def test_an_unknown_kernel(script):
    done = tileprobe("run", "--kernel", "*attn*", script)
    assert done.returncode == 2
    assert "no kernel that ran matches '*attn*'" in done.stderr
    assert "loop_kernel, scale_kernel" in done.stderr


def test_a_script_for_cuda(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "for_cuda.py"
    path.write_text(CUDA)
    done = tileprobe("run", "--device-map", "cuda=cpu", "--chrome", tmp_path / "out.json", path)
    assert done.returncode == 0, done.stderr
    assert "cuda script done" in done.stdout
    assert "double_kernel" in done.stdout
    assert json.loads((tmp_path / "out.json").read_text())["traceEvents"]


def test_a_script_for_cuda_without_the_map_is_told_of_it(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "for_a_gpu.py"
    path.write_text("import torch\ntorch.ones(4, device='cuda')\n")
    done = tileprobe("run", path)
    assert done.returncode == 1
    assert "with --device-map cuda=cpu a script's `cuda` is the target" in done.stderr


def test_a_wrong_map_is_refused(script):
    done = tileprobe("run", "--device-map", "cuda=tpu", script)
    assert done.returncode == 2
    assert "the map is cuda=cpu" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent.py"], "there is no script absent.py"),
        (["-m", "absent_module"], "there is no module absent_module"),
        (["-m", __file__], "-m takes the name of a module"),
        (["--", "no-such-command"], "no-such-command is not found"),
        ([], "nothing to run"),
        (["--trace", "no/such/folder/out.parquet", "x.py"], "there is no folder"),
        (["--target", "tpu", __file__], "there is no target 'tpu'"),
        (["--programs", "many", __file__], "cannot read 'many'"),
    ],
)
def test_mistakes_are_told_before_anything_runs(words, message, tmp_path):
    done = tileprobe("run", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_read_only_folder(script, tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(folder, os.W_OK):
        folder = Path("/proc")  # for a superuser, whom no mode stops
    done = tileprobe("run", "--trace", folder / "out.parquet", script)
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert str(folder / "out.parquet") in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_is_said_and_the_report_is_still_printed(script, tmp_path):
    """The limit on file sizes stands in for a disk that is full: writing fails half-way."""
    out = tmp_path / "out.json"
    text = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "from tileprobe.cli import main; import tileprobe.cli._outputs as o; write = o.write\n"
        "def limited(*a):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)); return write(*a)\n"
        "o.write = limited\n"
        f"sys.exit(main(['run', '--json', {str(out)!r}, {str(script)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done.stderr
    assert f"cannot write {out}" in done.stderr
    assert "loop_kernel" in done.stdout
    assert list(tmp_path.iterdir()) == [script]


def test_two_sessions_at_once(script, tmp_path):
    """Two processes profile the same script and share a cache."""
    words = [sys.executable, "-m", "tileprobe", "run", "--json"]
    runs = [subprocess.Popen([*words, tmp_path / f"{n}.json", "--quiet", script]) for n in range(2)]
    assert [run.wait(300) for run in runs] == [0, 0]
    names = [
        [k["name"] for k in json.loads((tmp_path / f"{n}.json").read_text())["kernels"]] for n in range(2)
    ]
    assert names == [["loop_kernel", "scale_kernel"]] * 2


def test_inspect_shows_the_levels(script, tmp_path):
    done = tileprobe("inspect", "--kernel", "loop*", "--level", "tile", "--level", "record", script)
    assert done.returncode == 0, done.stderr
    tile, record = done.stdout.split("// loop_kernel: record")
    assert "record.open" not in tile
    assert "record.open" in record
    assert "// scale_kernel" not in done.stdout


def test_inspect_reads_a_trace(script, tmp_path):
    out = tmp_path / "out.parquet"
    assert tileprobe("run", "--quiet", "--trace", out, script).returncode == 0
    done = tileprobe("inspect", "--level", "probe", "--level", "asm", "--kernel", "scale*", out)
    assert done.returncode == 0, done.stderr
    assert 'probe.region 0 "scale_kernel"' in done.stdout
    assert "scale_kernel:" in done.stdout
