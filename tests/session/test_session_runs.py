"""Progress on a terminal, programs that are run inside the process, and tuning told from work."""

import io
import sys
import threading
import time

import pytest

from tileprobe.errors import TileProbeError
from tileprobe.session import hooks, script
from tileprobe.session.progress import Progress

# -- progress, and programs that are run ---------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_begins_after_two_seconds_and_comes_twice_a_second(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("tileprobe.session.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", Terminal())
    progress = Progress(True)
    for passed in (1.9, 2.0, 2.4, 2.5, 2.9, 3.1):
        now[0] = 100.0 + passed
        progress.launched("k")
    progress.end()
    said = sys.stderr.getvalue().split("\r\033[K")[1:]
    assert said == [
        "tileprobe: 2 launches, now k",
        "tileprobe: 4 launches, now k",
        "tileprobe: 6 launches, now k",
        "",
    ]
    progress.end()
    assert sys.stderr.getvalue().count("\r\033[K") == 4
    with progress.compiling("k"):
        pass
    assert sys.stderr.getvalue().count("\r\033[K") == 4
    now[0] = 200.0
    progress.say("writing")
    with progress.compiling("j"):
        pass
    now[0] = 300.0
    with progress.compiling("k"):
        pass
    assert sys.stderr.getvalue().endswith(
        "\r\033[Ktileprobe: writing\r\033[Ktileprobe: 6 launches, compiling k with probes"
    )


def test_what_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(
        "import sys\nfrom pathlib import Path\nPath('said').write_text(repr(sys.argv))\n"
    )
    assert script.run(["a.py", "x"]) == 0
    assert (tmp_path / "said").read_text() == "['a.py', 'x']"
    assert script.run(["python3", "a.py"]) == 0  # as one would write it without us
    assert script.run(["-m", "a", "y"]) == 0
    assert "'y'" in (tmp_path / "said").read_text()
    for words, text in (
        ([], "nothing to run"),
        (["-m"], "needs the name of a module"),
        (["-x"], "-x is no option of tileprobe run"),
        (["b.py"], "there is no script b.py"),
        (["-m", "no_such_module_here"], "there is no module no_such_module_here"),
        (["no-such-command-here"], "is not found"),
        (["true"], "is no Python program"),
    ):
        with pytest.raises(TileProbeError, match=text):
            script.run(words)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit('no')", 1, "no\n"),
        ("raise KeyboardInterrupt", 130, "tileprobe: the program was interrupted\n"),
        ("raise ValueError('wrong')", 1, "ValueError: wrong\n"),
    ],
)
def test_how_a_program_ends(text, code, said, tmp_path, capsys):
    (tmp_path / "a.py").write_text(text)
    before = list(sys.argv), list(sys.path)
    assert script.run([str(tmp_path / "a.py")]) == code
    shown = capsys.readouterr().err
    assert shown.endswith(said)
    assert "runpy" not in shown
    assert "session/script.py" not in shown
    assert (sys.argv, sys.path) == before


def test_a_program_ends_with_its_last_thread(tmp_path):
    (tmp_path / "a.py").write_text(
        "import threading, time\nfrom pathlib import Path\n"
        "def late():\n    time.sleep(0.2)\n    Path(__file__).with_name('done').touch()\n"
        "threading.Thread(target=late).start()\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    began = time.monotonic()
    assert script.run([str(tmp_path / "a.py")]) == 0
    assert (tmp_path / "done").exists()
    assert time.monotonic() - began < 50


def test_tuning_is_told_from_work():
    class Tuner:
        def bench(self, what):
            return what, hooks.local.tuning

    plain = Tuner.bench
    hooks._wrap(Tuner, "bench")
    hooks._wrap(Tuner, "nothing of that name")
    assert Tuner().bench("x") == ("x", 1)
    assert hooks.local.tuning == 0
    seen = []
    with hooks.tuning():
        thread = threading.Thread(target=lambda: seen.append(hooks.local.tuning))
        thread.start()
        thread.join()
        assert hooks.local.tuning == 1
    assert seen == [0]  # each thread by itself
    hooks._restore.pop()()
    assert Tuner.bench is plain
