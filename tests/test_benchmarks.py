"""Every benchmark can be imported: what they use of the package is still there."""

import os
import pkgutil
from importlib import import_module

import benchmarks
import pytest
from benchmarks import _suite

NAMES = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__"]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_imported(name):
    import_module(f"benchmarks.{name}")


@pytest.mark.parametrize("given", [None, "", "somewhere"])
def test_a_suite_imports_nothing_from_where_it_runs(given, monkeypatch):
    """An empty entry of PYTHONPATH is the folder of the suite, which has a package of the installed one's name."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if given is not None:
        monkeypatch.setenv("PYTHONPATH", given)
    entries = _suite._environment()["PYTHONPATH"].split(os.pathsep)
    assert entries[1:] == ([given] if given else [])
    assert all(entries)
