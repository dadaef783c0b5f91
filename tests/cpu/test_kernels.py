"""The example kernels against float64 references: odd sizes, masks, strides, several dtypes."""

from importlib import import_module

import pytest
from examples import kernels

MODULES = {name: import_module(f"examples.kernels.{name}") for name in kernels.NAMES}
CASES = [(name, case) for name, module in MODULES.items() for case in module.CASES]


def _label(value):
    return value if isinstance(value, str) else "-".join(f"{k}={v}" for k, v in value.items())


@pytest.mark.parametrize(("name", "case"), CASES, ids=_label)
def test_matches_reference(name, case):
    MODULES[name].check(**case)
