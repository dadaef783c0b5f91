"""The bridge changes nothing: modules print the same after it, and the same assembly comes out of Triton.

Every kernel goes over the bridge on one target, chosen in turn so that all get their share, and some on
all of theirs. TILEPROBE_BRIDGE_ALL=1 runs every kernel on every target it compiles for.
"""

import os

import kernels_attention
import kernels_basic
import kernels_control
import kernels_gluon
import kernels_matmul
import pytest
from bridge_stages import EVERY, Case, check_identity

CASES = [
    *kernels_basic.CASES,
    *kernels_control.CASES,
    *kernels_matmul.CASES,
    *kernels_attention.CASES,
    *kernels_gluon.CASES,
]
# Cheap kernels that between them use constants, reductions, loops, dots and warp specialisation.
ON_ALL_TARGETS = {"constants", "softmax", "early_return", "calls", "matmul", "specialised_matmul", "hand_off"}


def _selection() -> list[tuple[Case, str]]:
    everything = bool(os.environ.get("TILEPROBE_BRIDGE_ALL"))
    chosen = []
    for index, case in enumerate(CASES):
        if everything or case.name in ON_ALL_TARGETS:
            chosen += [(case, target) for target in case.targets]
        else:
            chosen.append((case, case.targets[index % len(case.targets)]))
    return chosen


SELECTION = _selection()


@pytest.mark.parametrize(("case", "target"), SELECTION, ids=[f"{c.name}-{t}" for c, t in SELECTION])
def test_assembly_is_identical(case, target):
    assembly = check_identity(case, target)
    assert case.fn.__name__ in assembly
    assert ".loc" in assembly  # line information came along


def test_every_target_and_kernel_is_covered():
    assert {target for _, target in SELECTION} == set(EVERY)
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert {case.name for case, _ in SELECTION} == set(names)
