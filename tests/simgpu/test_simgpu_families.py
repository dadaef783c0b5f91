"""The engine's families: every instruction alone against a reference, and small kernels that use them. Of a few changed
families the cases must notice it; `mutation.py` tries all."""

import os

import family_cases
import family_kernels
import numpy as np
import pytest
from apart import apart
from family_kernels import CASES
from family_machine import GROUPS, compiled
from mutants_judged import GAP, verdict

import tileprobe


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_instruction(name):
    """Memory, answers and what the checks are told are as the reference says, byte for byte."""
    assert family_cases.GROUPS is GROUPS
    wrong = [
        (n, said)
        for n, case in enumerate(GROUPS[name]())
        if (said := case.bench.run(case, compiled(case.op)))
    ]
    assert not wrong


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


@pytest.mark.parametrize("module", ["clusters", "exchange"])
def test_changed_families_are_noticed(module):
    """Every eighth change."""
    count, alive = apart("family_mutants", "counted", module, 8)
    assert count >= 8
    assert not [what for what in alive if verdict(what)[0] == GAP]
