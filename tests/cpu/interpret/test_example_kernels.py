"""The example kernels, interpreted and on the CPU: the same results, and right ones (`check` compares with NumPy)."""

from importlib import import_module

import pytest
from cpu_harness import INTERPRETED
from examples import kernels

pytestmark = pytest.mark.skipif(INTERPRETED, reason="compares with compiled code")

MODULES = {name: import_module(f"examples.kernels.{name}") for name in kernels.NAMES}
# The first cases of each that take well under a second.
SMALL = {
    "vector_add": [{"n": 1000}, {"n": 777, "dtype": "bfloat16", "block": 128}],
    "grouped_gemm": [],  # gets to its tensors through addresses in memory: test_launching
}
CASES = [(name, case) for name, module in MODULES.items() for case in SMALL.get(name, module.CASES[:2])]


def _label(value):
    return value if isinstance(value, str) else "-".join(f"{k}={v}" for k, v in value.items())


@pytest.mark.parametrize(("name", "case"), CASES, ids=_label)
def test_interpreted_as_compiled(name, case, alongside):
    MODULES[name].check(**case)
    assert alongside.count
