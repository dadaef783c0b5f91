"""What code that is kept depends on: a module, and all that it imports, found in its text."""

import ast
from pathlib import Path

import pytest

from tileprobe.targets import jit
from tileprobe.targets.simgpu.engine import exchange, numbers, table

ROOT = Path(jit.__file__).parent.parent
ENGINES = sorted(p for p in (ROOT / "targets").rglob("*.py") if {"engine", "functional"} & set(p.parts))


def parsed(path):
    """The modules of the package that a module imports, by Python's own parser."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    places = [ROOT.parent.joinpath(*name.split(".")) for name in names if name.startswith("tileprobe.")]
    return {p for at in places for p in (at.with_suffix(".py"), at / "__init__.py") if p.exists()}


@pytest.mark.parametrize("path", ENGINES, ids=lambda p: f"{p.parent.name}.{p.stem}")
def test_imports_are_found_as_the_parser_finds_them(path):
    assert set(jit.imported_by(path)) == parsed(path)


def test_a_module_is_made_of_all_that_it_imports_directly_or_not():
    made_of = {path.stem for path in jit.sources_of(Path(exchange.__file__))}
    assert {"exchange", "fields", "raw", "layout", "numbers", "jit"} <= made_of
    assert not {"bulk", "atomics", "lanes_float", "loop"} & made_of
    assert {path.stem for path in jit.sources_of(Path(table.__file__))} >= {
        "bulk",
        "loop",
        "lanes_address",
        "races",
    }


def test_an_edit_changes_the_places_of_those_that_import_it_and_of_no_other(tmp_path, monkeypatch):
    root = tmp_path / "tileprobe"
    root.mkdir()
    (root / "a.py").write_text("from tileprobe.b import (  # a remark, with a comma\n    x,\n)\n")
    (root / "b.py").write_text("def x():\n    import tileprobe.c\n")
    for name in "cd":
        (root / f"{name}.py").write_text("")
    users = {"e": "import tileprobe.b\n", "f": "import tileprobe.d\n"}  # outside of the package: folders
    for name, text in users.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "own.py").write_text(text)
    monkeypatch.setattr(jit, "_ROOT", root)

    def places():
        for kept in (jit.imported_by, jit.sources_of, jit.sources_hash):
            kept.cache_clear()
        paths = {**{name: root / f"{name}.py" for name in "abcd"}, **{name: tmp_path / name for name in "ef"}}
        return {name: jit.cache_folder(path) for name, path in paths.items()}

    before = places()
    assert len(set(before.values())) == 6
    (root / "c.py").write_text("y = 1\n")
    after = places()
    assert {name for name in "abcdef" if before[name] != after[name]} == set("abce")
    (root / "d.py").write_text("from . import a\n")
    places()
    assert {p.stem for p in jit.sources_of(root / "d.py")} == set("abcd")


def test_the_second_process_compiles_what_the_first_has_not(monkeypatch, capsys):
    """It starts at the end; both look first for what is kept."""
    done = []

    class Family:
        def __init__(self, name):
            self.name, self.address = name, 7

        def compile(self):
            done.append(self.name)

    made = [Family(name) for name in ("first", "second", "third")]
    monkeypatch.setattr(numbers, "FAMILIES", {"LDG": made[0], "STG": made[0], "LDS": made[1], "BRA": made[2]})
    table.compile_from_the_end()
    assert done == ["third", "second", "first"]
    done.clear()
    monkeypatch.setattr(table, "_compile_timed", lambda: done.append("timed"))
    table.compile_from_the_end(timed=True)
    assert done == ["timed", "third", "second", "first"]
    monkeypatch.setattr(table, "is_kept", lambda compiled: True)
    monkeypatch.setattr(table.vectors, "kept", lambda: Path(__file__))
    monkeypatch.setattr(table.subprocess, "Popen", lambda *a, **k: pytest.fail("nothing has to be compiled"))
    with table._helper():
        pass
    assert capsys.readouterr().err == ""


def test_what_takes_time_is_said_to_be_compiled_and_shared_with_a_second_process(monkeypatch, capsys):
    """Also where the engine of values is kept; only that of time is missing."""
    asked, timed = [], [function for function, _ in table._TIMED]
    monkeypatch.setattr(table, "is_kept", lambda compiled: compiled not in timed)
    monkeypatch.setattr(table.vectors, "kept", lambda: Path(__file__))
    monkeypatch.setattr(table.os, "sched_getaffinity", lambda _: {0, 1})

    class Popen:
        def __init__(self, command, **_):
            asked.append(command[-1])

        def kill(self): ...

        def wait(self): ...

    monkeypatch.setattr(table.subprocess, "Popen", Popen)
    with table._helper():
        assert capsys.readouterr().err == ""
    with table._helper(timed=True):
        assert "compiling the simulated GPU's engine" in capsys.readouterr().err
    assert [code.rsplit("; ", 1)[-1] for code in asked] == ["c(True)"]


def test_compiled_families_are_known_to_be_kept():
    family = numbers.FAMILIES["SHFL"]
    family.compile()
    assert jit.is_kept(family)
