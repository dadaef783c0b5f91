"""What a user says wrongly is told in one message, before anything runs: no traceback, no run for nothing."""

import sys
from pathlib import Path

import pytest
import session_kernels as K

import tileprobe
from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.session import hooks
from tileprobe.session.manager import manager
from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Result


@pytest.fixture
def script(tmp_path):
    """Notes that it ran."""
    path = tmp_path / "script.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    return path


WRONG = [
    ("--budget-mb nan", "total_mb (--budget-mb) is a number from"),
    ("--budget-mb inf", "--budget-mb"),
    ("--budget-mb -3", "--budget-mb"),
    ("--capacity 0", "capacity (--capacity) is a whole number from 1"),
    ("--capacity -5", "--capacity"),
    ("--capacity 99999999999999999999", "--capacity"),
    ("--skip -1", "--skip"),
    ("--take 0", "--take"),
    ("--programs random:-4", "cannot read 'random:-4'"),
    ("--programs random:0", "random:0 records nothing"),
    ("--programs nan%", "cannot read 'nan%'"),
    ("--programs 0,-1", "cannot read '0,-1'"),
    ("--programs=", "cannot read ''"),
    ("--programs ٣", "cannot read '٣'"),
    ("--iterations=", "cannot read ''"),
    ("--iterations every:0", "cannot read the iterations"),
    ("--iterations every:x", "cannot read"),
    ("--lines nonsense", "nonsense"),
    ("--lines 9-3", "9-3"),
    ("--records clock_bits=-3", "clock_bits"),
    ("--tool none", "there is no tool 'none'"),
    ("--tool absent.py:Tool", "there is no file absent.py"),
    ("--threads 0", "threads"),
    ("--threads -2", "threads"),
    ("--trace -", "--trace needs a file"),
    ("--chrome -", "--chrome needs a file"),
    ("--json same --chrome same", "need files of their own"),
]


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_a_wrong_option(words, message, script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", *words.split(), str(script)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("tileprobe: ")
    assert not (tmp_path / "ran").exists()
    assert not manager.sessions


class Broken:
    name = "broken"

    def __init__(self, plan=Plan(loops=True), result=None):  # noqa: B008
        self._plan, self._result = plan, result

    def plan(self):
        if self._plan is None:
            raise KeyError("no plan")
        return self._plan

    def read(self, trace):
        if self._result is None:
            raise ZeroDivisionError("in the tool")
        return self._result


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": []}, "a session needs a tool or a plan"),
        ({"tools": [3]}, "3 is no tool"),
        ({"tools": [Broken(plan=None)]}, r"'broken' failed in plan\(\): KeyError: 'no plan' \(.*, line "),
        ({"tools": [Broken(plan="loops")]}, r"gave no Plan but 'loops'"),
        ({"plan": "loops"}, "the plan of a session is a Plan"),
        ({"kernels": ()}, "needs kernel patterns"),
        ({"kernels": (3,)}, "needs kernel patterns"),
        ({"total_mb": float("nan")}, "total_mb"),
        ({"launch_mb": "much"}, "launch_mb"),
        ({"max_overhead": float("inf")}, "max_overhead"),
        ({"min_cost": -1.0}, "min_cost"),
        ({"capacity": 2.5}, "capacity"),
        ({"capacity": True}, "capacity"),
        ({"intervals": 0}, "intervals"),
        ({"skip": "3"}, "skip"),
    ],
)
def test_a_wrong_option_from_python(options, message):
    with pytest.raises(TileProbeError, match=message):
        tileprobe.profile(**options)


def test_one_tool_by_its_name():
    assert [tool.name for tool in tileprobe.profile(tools="regions").tools] == ["regions"]


@pytest.mark.parametrize("result", [None, "text"])
def test_a_tool_that_fails_takes_nothing_with_it(result):
    with tileprobe.profile(tools=[Broken(result=result), "regions"]) as p:
        K.launch(K.loop_kernel, 3, 4)
    broken, regions = p.results()
    assert isinstance(broken, Result)
    assert "'broken'" in broken.findings[0].text
    assert ("ZeroDivisionError: in the tool" in broken.findings[0].text) == (result is None)
    assert regions.tables


def test_a_tool_that_fails_from_the_shell(tmp_path, capfd):
    tool = tmp_path / "tool.py"
    tool.write_text(
        "from tileprobe.tools.plan import Plan\n"
        "class Tool:\n    name = 'mine'\n"
        "    def plan(self): return Plan(loops=True)\n"
        "    def read(self, trace): return trace.nothing\n"
    )
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import session_kernels as K\nK.launch(K.loop_kernel, 3, 4)\n"
    )
    out = tmp_path / "t.parquet"
    words = ["--tool", f"{tool}:Tool", "--tool", "regions"]
    assert main(["run", *words, "--trace", str(out), str(script)]) == 2
    said = capfd.readouterr()
    assert "the tool 'mine' failed: AttributeError" in said.out.replace("\n", " ")
    assert "loop @ 22" in said.out
    assert "a tool failed" in said.err
    assert main(["report", *words, str(out)]) == 2
    assert "loop @ 22" in capfd.readouterr().out
    assert "Traceback" not in said.err


@pytest.mark.parametrize("version", ["3.8.1", "3.10.0", "4.0.0+git1234", "nonsense"])
def test_another_version_of_triton_is_said(version, script, tmp_path, monkeypatch, capsys):
    import triton

    monkeypatch.setattr(triton, "__version__", version)
    for command in ("run", "inspect"):
        assert main([command, str(script)]) == 2
        said = capsys.readouterr().err
        assert f"profiling hooks into Triton 3.9, and Triton {version} is installed" in said
    assert not (tmp_path / "ran").exists()
    assert not manager.sessions
    assert sys.modules["tileprobe.session.hooks"] is hooks


@pytest.mark.parametrize("name", ["0.5", "..", "a.b.c", "no such", "-x"])
def test_a_program_that_is_none(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words in (["run", "--quiet", "--", name], ["inspect", "--", name], ["exec", "--", name]):
        assert main(words) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err


def test_a_command_that_cannot_be_read(tmp_path):
    """A file that is no text is no Python program, whatever its name."""
    path = tmp_path / "x.py"
    path.write_bytes(b"\x00\xff\xfe")
    assert main(["run", "--quiet", str(path)]) == 1
