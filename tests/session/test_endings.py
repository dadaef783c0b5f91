"""However a program ends, what it and its children recorded is kept, and the terminal shows what it should."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tileprobe.trace import Trace

HERE = Path(__file__).parent
SCRIPT = HERE / "run_script.py"
COMMAND = [sys.executable, "-m", "tileprobe", "run"]


def run(*words, out=None, **kwargs):
    options = [] if out is None else ["--trace", out]
    command = [*COMMAND, *map(str, [*options, *words])]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **kwargs)


def launched(path):
    """How many launches of each kernel the trace at `path` has, all of them probed."""
    trace = Trace.load(path)
    names = {kernel.id: kernel.name for kernel in trace.kernels}
    assert len(set(names.values())) == len(names), "the same kernel of two processes is one"
    found = {}
    for launch in trace.launches:
        found[names[launch.kernel]] = found.get(names[launch.kernel], 0) + 1
    return found


def clean(done):
    """No traceback, and no complaint of Python's at its end."""
    assert "Traceback" not in done.stderr, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    return done


def interrupted(number, *words, cwd):
    """Starts the program, waits until it is ready, sends a signal."""
    with subprocess.Popen(
        [*COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd
    ) as process:
        said = []
        for line in process.stdout:
            said.append(line)
            if line == "ready\n":
                process.send_signal(number)
        text = process.stderr.read()
        code = process.wait(120)
    return subprocess.CompletedProcess(words, code, "".join(said), text)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_program_costs_nothing(number, tmp_path):
    words = ["--trace", "t.parquet", "--json", "r.json", "--chrome", "c.json", SCRIPT, "wait"]
    done = clean(interrupted(number, *words, cwd=tmp_path))
    assert done.returncode == -number  # it died of the signal, as it would have on its own
    assert launched(tmp_path / "t.parquet") == {"loop_kernel": 1}
    assert json.loads((tmp_path / "r.json").read_text())["kernels"][0]["name"] == "loop_kernel"
    assert json.loads((tmp_path / "c.json").read_text())["traceEvents"]
    assert "loop_kernel" in done.stdout
    assert sorted(os.listdir(tmp_path)) == ["c.json", "r.json", "t.parquet"]


def test_ctrl_c(tmp_path):
    done = clean(interrupted(signal.SIGINT, "--trace", "t.parquet", SCRIPT, "wait", cwd=tmp_path))
    assert done.returncode == -signal.SIGINT  # as Python alone ends, so that a shell's loop ends, too
    assert launched(tmp_path / "t.parquet") == {"loop_kernel": 1}


def test_a_program_with_a_handler_of_its_own_keeps_it(tmp_path):
    done = clean(interrupted(signal.SIGTERM, "--trace", "t.parquet", SCRIPT, "own-handler", cwd=tmp_path))
    assert done.returncode == 5
    assert launched(tmp_path / "t.parquet") == {"loop_kernel": 1}


def test_a_program_that_goes_to_another_folder(tmp_path):
    """Files are written where the command was given."""
    words = ["--json", "r.json", "--chrome", "c.json", "--html", "p.html", "--view", "csv=t.csv"]
    done = clean(run(*words, SCRIPT.resolve(), "elsewhere", out="t.parquet", cwd=tmp_path))
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path)) == ["c.json", "p.html", "r.json", "t.csv", "t.parquet"]


def test_a_view_of_a_file_that_is_named_from_here(tmp_path):
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    name = 'mine'\n    suffix = '.txt'\n"
        "    def write(self, trace, path):\n        open(path, 'w').write(trace.kernels[0].name)\n"
    )
    words = ["--quiet", "--view", "mine.py:Mine=out.txt", SCRIPT.resolve(), "elsewhere"]
    assert clean(run(*words, cwd=tmp_path)).returncode == 0
    assert (tmp_path / "out.txt").read_text() == "loop_kernel"


def test_one_program_by_two_names_is_one_kernel(tmp_path):
    """The child is started with the whole path, the program itself from its folder."""
    done = clean(run(SCRIPT.name, "again", out=tmp_path / "t", cwd=SCRIPT.parent))
    assert done.returncode == 0, done.stderr
    assert launched(tmp_path / "t") == {"loop_kernel": 2}


@pytest.mark.parametrize("way", ["close", "close-1"])
def test_a_program_that_closes_its_output(way, tmp_path):
    done = clean(run(SCRIPT, way, out=tmp_path / "t"))
    assert done.returncode in (0, 120)  # Python's own answer to a descriptor that is gone
    assert launched(tmp_path / "t") == {"loop_kernel": 1}
    assert "loop_kernel  on cpu" in done.stdout


def test_json_for_an_output_that_is_closed_is_refused_before_the_program_runs():
    words = ["sh", "-c", 'exec "$@" >&-', "sh", *map(str, COMMAND), "--json", "-", str(SCRIPT)]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 2
    assert done.stderr == "tileprobe: --json - is the standard output, which is closed; give it a file\n"


@pytest.mark.parametrize("way", ["print", "nothing"])
def test_a_reader_that_goes_away(way, tmp_path):
    """`tileprobe run ... | head -1`"""
    read, write = os.pipe()
    os.close(read)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [*COMMAND, "--trace", tmp_path / "t", SCRIPT, way],
        stdout=write, stderr=subprocess.PIPE, text=True, timeout=300, env=buffered,
    )  # fmt: skip
    os.close(write)
    assert launched(tmp_path / "t") == {"loop_kernel": 1}
    assert "Exception ignored" not in done.stderr
    assert ("Traceback" in done.stderr) == (way == "print")  # the program's own
    assert done.returncode == (1 if way == "print" else 120)


def test_no_standard_output_at_all(tmp_path):
    words = " ".join(map(str, [*COMMAND, "--trace", tmp_path / "t", SCRIPT, "nothing", ">&-"]))
    done = subprocess.run(["sh", "-c", words], stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert launched(clean(done) and tmp_path / "t") == {"loop_kernel": 1}


def test_json_is_alone_on_the_standard_output():
    done = run("--json", "-", SCRIPT, "shout")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kernels"][0]["name"] == "loop_kernel"
    assert "in the program\n" in done.stderr
    assert "from a child\n" in done.stderr


@pytest.mark.parametrize(("way", "scaled"), [("thread", 1), ("thread-exit", 1), ("executor", 3)])
def test_threads_that_outlive_main(way, scaled, tmp_path):
    done = clean(run("--no-alternate", SCRIPT, way, out=tmp_path / "t"))
    assert done.returncode == 0
    assert launched(tmp_path / "t") == {"loop_kernel": 1, "scale_kernel": scaled}


def test_a_program_that_leaves_by_the_back_door(tmp_path):
    done = clean(run(SCRIPT, "_exit", out=tmp_path / "t"))
    assert done.returncode == 3
    assert launched(tmp_path / "t") == {"loop_kernel": 1}
    assert "loop_kernel  on cpu" in done.stdout


CHILDREN = {
    "fork": {"loop_kernel": 1, "scale_kernel": 1},
    "pool-fork": {"loop_kernel": 1, "scale_kernel": 4},
    "pool-spawn": {"loop_kernel": 1, "scale_kernel": 4},
    "pool-forkserver": {"loop_kernel": 1, "scale_kernel": 4},
    "process": {"loop_kernel": 1, "scale_kernel": 1},
    "grandchild": {"loop_kernel": 2, "scale_kernel": 1},
}


@pytest.mark.parametrize("way", CHILDREN)
def test_what_children_record_is_in_the_trace(way, tmp_path, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp().parent / f"t{os.getpid()}"  # sockets have short names only
    folder.mkdir(exist_ok=True)
    done = clean(run(SCRIPT, way, out=tmp_path / "t", env={**os.environ, "TMPDIR": str(folder)}))
    assert done.returncode == 0, done.stderr
    assert launched(tmp_path / "t") == CHILDREN[way]
    assert done.stdout.count("loop_kernel  on cpu") == 1  # one report, by the process that was asked for it
    left = [name for name in os.listdir(folder) if name.startswith(("tileprobe", ".t"))]
    assert not left


def test_a_child_that_is_killed_loses_its_own_and_it_is_said(tmp_path):
    done = clean(run("--json", tmp_path / "r.json", SCRIPT, "killed", out=tmp_path / "t"))
    assert done.returncode == 0
    assert launched(tmp_path / "t") == {"loop_kernel": 1, "scale_kernel": 1}
    assert "was killed: its launches are not in this report" in done.stderr


def test_a_sitecustomize_of_the_environment_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.customized = 'yes'\n")
    inner = "import sys; print(customized, [p for p in sys.path if '_startup' in p])"
    script = tmp_path / "s.py"
    script.write_text(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {inner!r}], check=True)\n"
    )
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run("--quiet", script, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    assert done.stdout == "yes []\n"


def test_workers_of_torchrun(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "worker.py"
    script.write_text(
        f"import os, sys\nsys.path.insert(0, {str(HERE)!r})\nimport session_kernels as K\n"
        "K.launch(K.scale_kernel, 2 + int(os.environ['RANK']), 2.0)\n"
    )
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    done = clean(run("--quiet", *words, out=tmp_path / "t"))
    assert done.returncode == 0, done.stderr
    assert launched(tmp_path / "t") == {"scale_kernel": 2}


def test_workers_of_pytest_xdist(tmp_path):
    (tmp_path / "test_it.py").write_text(
        f"import sys\nsys.path.insert(0, {str(HERE)!r})\nimport pytest\n"
        "@pytest.mark.parametrize('n', [2, 3])\n"
        "def test_it(n):\n    import session_kernels as K\n    K.launch(K.scale_kernel, n, 2.0)\n"
    )
    words = ["--", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", tmp_path]
    done = clean(run("--quiet", *words, out=tmp_path / "t", cwd=tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert launched(tmp_path / "t") == {"scale_kernel": 2}
