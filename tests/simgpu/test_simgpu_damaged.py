"""Damaged cubins end in an error of ours, a fault of the kernel, or a run; `python -m fuzz.cubins` tries thousands."""

import pytest

from fuzz import cubins


@pytest.fixture(scope="module")
def found():
    return cubins.cubins()


def test_whole_cubins_run(found):
    for arch, (data, shared) in found.items():
        assert cubins.attempt(data, arch, shared) == "finished"


# The last one has a relocation that names no section.
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 99, 770075])
def test_a_damaged_cubin(found, seed):
    assert cubins.case(seed, found) in ("refused", "fault", "finished")
