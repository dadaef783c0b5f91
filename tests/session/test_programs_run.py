"""Scripts, modules and commands as programs: what they find, their output, their threads and executors."""

import sys
import threading
from types import SimpleNamespace

import pytest

from tileprobe.errors import TileProbeError
from tileprobe.session import script

# -- programs that are run ----------------------------------------------------------------------------------------


def test_a_script_finds_what_lies_beside_it(tmp_path):
    (tmp_path / "beside_the_script.py").write_text("found = 3\n")
    (tmp_path / "a.py").write_text("import beside_the_script\nraise SystemExit(beside_the_script.found)\n")
    assert script.run([str(tmp_path / "a.py")]) == 3


def test_a_module_is_a_program_with_its_own_arguments(tmp_path, monkeypatch):
    (tmp_path / "as_a_module.py").write_text("import sys\nraise SystemExit(len(sys.argv[1:]))\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert script.run(["-m", "as_a_module", "a", "b"]) == 2
    assert script.resolve(["-m", "as_a_module", "a"])[1] == ["as_a_module", "a"]


@pytest.mark.parametrize(
    ("word", "text"), [("nowhere.py", "no script nowhere"), ("nowhere.zip", "command nowhere.zip is not")]
)
def test_what_cannot_be_run_is_named(word, text):
    with pytest.raises(TileProbeError, match=text):
        script.run([word])


def test_a_folder_with_a_main_is_a_program(tmp_path):
    (tmp_path / "__main__.py").write_text("raise SystemExit(4)\n")
    assert script.run([str(tmp_path)]) == 4


class Closed:
    closed = False

    def __init__(self, error):
        self.error = error

    def flush(self):
        raise self.error

    def fileno(self):
        return self.number

    def write(self, text):
        return len(text)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BrokenPipeError(32, "Broken pipe"), ""),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_output_that_cannot_be_written_is_120(error, said, monkeypatch, capsys, tmp_path):
    with open(tmp_path / "out", "w") as target:
        stream = Closed(error)
        stream.number = target.fileno()
        monkeypatch.setattr(sys, "stdout", stream)
        assert script._flushed() == 120
        monkeypatch.undo()
    assert said in capsys.readouterr().err
    assert script._flushed() == 0


def test_threads_that_go_on():
    thread = SimpleNamespace(daemon=False)
    assert script._goes_on(thread)  # type: ignore[arg-type]
    assert not script._goes_on(SimpleNamespace(daemon=True))  # type: ignore[arg-type]
    assert not script._goes_on(threading.current_thread())
    assert not script._goes_on(threading.main_thread())


def test_names_that_cannot_be_imported():
    assert script._importable("json")
    assert not script._importable("no_such_module_here")
    assert not script._importable("")
    assert not script._importable("no_such_module_here.part")


def test_processes_end_as_at_the_end_of_python(monkeypatch):
    """Those that are daemons are ended, the others are waited for; where there were none, nothing is loaded for it."""
    called = []
    ending = SimpleNamespace(_exit_function=lambda: called.append("ended"))
    monkeypatch.setitem(sys.modules, "multiprocessing.util", ending)
    monkeypatch.setitem(sys.modules, "multiprocessing.process", SimpleNamespace())
    script._rest()
    assert called == ["ended"]
    monkeypatch.setitem(sys.modules, "multiprocessing.process", None)
    script._rest()
    assert called == ["ended"]


def test_executors_run_dry(tmp_path):
    (tmp_path / "a.py").write_text(
        "import time\nfrom concurrent.futures import ThreadPoolExecutor\nfrom pathlib import Path\n"
        "def late():\n    time.sleep(0.1)\n    Path(__file__).with_name('done').touch()\n"
        "ThreadPoolExecutor(1).submit(late)\n"
    )
    assert script.run([str(tmp_path / "a.py")]) == 0
    assert (tmp_path / "done").exists()
