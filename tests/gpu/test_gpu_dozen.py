"""A dozen kernels on every architecture, with the probes of a session and with the densest: all records are there."""

import pytest
import triton
from gpu_cases import CASES, DENSE, EVERYTHING

from tileprobe.session.session import Session
from tileprobe.targets.gpu.compile import add_probes, gpu_target
from tileprobe.targets.gpu.evidence import read_code
from tileprobe.targets.gpu.machine_code import lost_records

NAMES = [
    *(
        "vector_add",
        "softmax",
        "layer_norm",
        "matmul",
        "matmul_ieee",
        "attention_forward",
        "attention_backward",
    ),
    *("nested_loops", "loops_and_branches", "early_return", "reduce_scan_sort", "descriptor_matmul"),
]
MACHINES = (
    "cuda:80",
    "cuda:86",
    "cuda:89",
    "cuda:90",
    "cuda:100",
    "cuda:120",
    "hip:gfx942",
    "hip:gfx950",
    "hip:gfx1100",
)
FEW = [("softmax", "cuda:120"), ("softmax", "hip:gfx950"), ("matmul", "cuda:89")]
ALL = [(name, machine) for name in NAMES for machine in MACHINES]


@pytest.mark.parametrize(("name", "machine"), ALL if EVERYTHING else FEW)
def test_records_survive_by_default_and_dense(name, machine):
    case = CASES[name]
    plain = triton.compile(case.source(), target=gpu_target(*machine.split(":")), options=case.options)
    by_default = Session().plan
    for plan in (by_default, DENSE):
        made = add_probes(plain, plan.pipeline("ttgir"))
        assert made is not None
        assert made.records
        assert lost_records(read_code(made.kernel), made.records) == []
