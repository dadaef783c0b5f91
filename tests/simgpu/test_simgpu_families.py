"""The engine's families on small kernels against NumPy, compiled and in Python; with a place changed they must fail."""

import os

import family_kernels
import numpy as np
import pytest
from apart import apart
from family_kernels import CASES

import tileprobe


def pairs():
    """One machine for each, or all of them."""
    most = None if os.environ.get("TILEPROBE_SIMGPU_ALL") else 1
    return [(machine, name) for name, (_, _, machines) in CASES.items() for machine in machines[:most]]


@pytest.mark.parametrize(("machine", "name"), pairs())
def test_family(machine, name):
    if name in ("eight_bits", "half_atomics"):
        pytest.importorskip("torch")
    family_kernels.RANDOM = np.random.default_rng(7)
    with tileprobe.use(machine):
        found, wanted = family_kernels.run(name)
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("module", ["exchange"])
def test_changed_families_are_noticed(module):
    count, alive = apart("family_mutants", "judged", module, 8)
    assert count == 8
    assert len(alive) <= 1, alive
