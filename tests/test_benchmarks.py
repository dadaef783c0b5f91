"""Every benchmark can be imported: what they use of the package is still there."""

import pkgutil
from importlib import import_module

import benchmarks
import pytest

NAMES = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__"]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_imported(name):
    import_module(f"benchmarks.{name}")
