"""Compiled code is kept outside the package, by what it was compiled from, whatever else writes there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tileprobe.targets import jit
from tileprobe.targets.cambricon.engine import channel
from tileprobe.targets.cambricon.functional import inject
from tileprobe.targets.cambricon.functional.ecc import bch

FUNCTIONS_OF = {
    "engine": channel.run_group.py_func,
    "functional": inject._inject.py_func,
    "ecc": bch._encode.py_func,
}
FUNCTIONS = """
from tileprobe.targets.jit import jit
from other import plus

@jit
def add(a, b):
    return plus(a, b)
"""
OTHER = """
from tileprobe.targets.jit import jit

@jit
def plus(a, b):
    return a {sign} b
"""


def package(folder, sign="+"):
    folder.mkdir(exist_ok=True)
    (folder / "functions.py").write_text(FUNCTIONS)
    (folder / "other.py").write_text(OTHER.format(sign=sign))
    return folder


def start(folder, cache, code):
    env = {
        **os.environ,
        "TILEPROBE_CACHE_DIR": str(cache),
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
    }
    prelude = "from functions import add\nfrom tileprobe.targets.jit import is_kept\n"
    return subprocess.Popen(
        [sys.executable, "-c", prelude + code],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process):
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out.split()


CALL = "print(is_kept(add), add(5, 3), sum(add.stats.cache_hits.values()))"


def test_code_is_kept_and_an_edit_in_another_file_is_seen(tmp_path):
    cache, folder = tmp_path / "cache", package(tmp_path / "package")
    assert output(start(folder, cache, CALL)) == ["False", "8", "0"]
    assert output(start(folder, cache, CALL)) == ["True", "8", "1"]
    package(folder, sign="-")
    assert output(start(folder, cache, CALL)) == ["False", "2", "0"]
    assert {p.name for p in folder.iterdir()} <= {"functions.py", "other.py", "__pycache__"}
    assert not list(folder.rglob("*.nb[ci]"))


def test_no_folder_to_write_means_compiling_each_time(tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    for _ in range(2):
        assert output(start(package(tmp_path / "package"), tmp_path / "cache", CALL)) == ["False", "8", "0"]


def test_a_damaged_file_means_compiling_again(tmp_path):
    cache, folder = tmp_path / "cache", package(tmp_path / "package")
    output(start(folder, cache, CALL))
    for path in cache.rglob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    assert output(start(folder, cache, CALL)) == ["True", "8", "0"]
    assert output(start(folder, cache, CALL)) == ["True", "8", "1"]


def test_each_signature_has_a_file_of_its_own(tmp_path):
    """Numba numbers the files of a function: two processes that save two signatures at once take one number."""
    folder = package(tmp_path / "package")
    for n, call in enumerate(("add(5, 3)", "add(5.5, 3)")):
        output(start(folder, tmp_path / str(n), f"print({call})"))
    for path in (tmp_path / "1").rglob("*.nbc"):
        target = tmp_path / "0" / path.relative_to(tmp_path / "1")
        assert not target.exists()
        shutil.copy(path, target)
    both = "print(add(5, 3), add(5.5, 3), sum(add.stats.cache_hits.values()))"
    assert output(start(folder, tmp_path / "0", both)) == ["8", "8.5", "2"]


def test_a_key_that_only_shares_the_name_is_not_taken(tmp_path):
    files = jit._Files(str(tmp_path), "f-1.py3", "stamp")
    files.save(("a",), "code of a")
    assert files.load(("a",)) == "code of a"
    (tmp_path / files._name(("a",))).rename(tmp_path / files._name(("b",)))
    assert files.load(("b",)) is None
    assert files.load(("a",)) is None


def test_one_place_for_the_engine_and_for_executed_models(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEPROBE_CACHE_DIR", str(tmp_path))
    here = Path(jit.__file__).parent / "cambricon"
    of = {name: jit.package_of(f).parent for name, f in FUNCTIONS_OF.items()}
    assert of == {
        "engine": here / "engine",
        "functional": here / "functional",
        "ecc": here / "functional" / "ecc",
    }
    assert jit.cache_folder(here / "engine").parent == tmp_path
    monkeypatch.delenv("TILEPROBE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert jit.cache_folder(here / "engine").parent == tmp_path / "xdg" / "tileprobe"
