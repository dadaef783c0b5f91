"""A dozen kernels on every architecture, with the probes of a session and with the densest: all records are there;
without probes the machine code is Triton's."""

import pytest
import triton
from gpu_cases import CASES, DENSE, EVERYTHING, ttgir_of

from tileprobe.ir.bridge import from_xdsl
from tileprobe.session.session import Session
from tileprobe.targets.gpu.compile import _compiled, add_probes, gpu_target
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
PLAIN_FEW = [("softmax", "cuda:86"), ("early_return", "hip:gfx950")]
FEW = [("vector_add", "cuda:120"), ("softmax", "hip:gfx950"), ("matmul", "cuda:89")]
ALL = [(name, machine) for name in NAMES for machine in MACHINES]


def compiled(name, machine):
    case = CASES[name]
    return triton.compile(case.source(), target=gpu_target(*machine.split(":")), options=case.options)


@pytest.mark.parametrize(("name", "machine"), ALL if EVERYTHING else PLAIN_FEW)
def test_without_probes_machine_code_is_tritons_byte_for_byte(name, machine):
    """Over the bridge and back."""
    kernel = compiled(name, machine)
    module, context = ttgir_of(kernel)
    text = "ptx" if machine.startswith("cuda") else "amdgcn"
    assert _compiled(kernel, from_xdsl(module, context).str()).asm[text] == kernel.asm[text]


@pytest.mark.parametrize(("name", "machine"), ALL if EVERYTHING else FEW)
def test_records_survive_by_default_and_dense(name, machine):
    plain = compiled(name, machine)
    by_default = Session().plan
    for plan in (by_default, DENSE):
        made = add_probes(plain, plan.pipeline("ttgir"))
        assert made is not None
        assert made.records
        assert lost_records(read_code(made.kernel), made.records) == []
