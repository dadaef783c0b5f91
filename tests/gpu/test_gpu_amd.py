"""Records in AMD's machine code, read from the assembly that LLVM writes."""

from functools import cache

import pytest
import triton
from gpu_cases import CASES, DENSE, EVERYTHING

from tileprobe.ir.bridge import from_xdsl
from tileprobe.targets.gpu.compile import _compiled, add_probes, gpu_target
from tileprobe.targets.gpu.evidence import read_code
from tileprobe.targets.gpu.machine_code import lost_records, placed

NAMES = ["matmul", "softmax", "attention_forward", "layer_norm", "early_return"]
EACH = [(name, arch) for name in NAMES for arch in ("gfx942", "gfx950", "gfx1100")]
SMALL = [("matmul", "gfx942"), ("early_return", "gfx942"), ("softmax", "gfx950"), ("softmax", "gfx1100")]


@cache
def plain(name, arch):
    case = CASES[name]
    return triton.compile(case.source(), target=gpu_target("hip", arch), options=case.options)


@cache
def probed(name, arch, copies=1):
    return add_probes(plain(name, arch), DENSE.pipeline("ttgir", copies=copies))


@pytest.mark.parametrize(("name", "arch"), EACH if EVERYTHING else SMALL)
def test_every_record_survives(name, arch):
    made = probed(name, arch)
    assert made.records
    assert lost_records(read_code(made.kernel), made.records) == []


def test_doses_survive():
    made = probed("softmax", "gfx942", copies=3)
    assert lost_records(read_code(made.kernel), made.records) == []


def test_matrix_instructions_stand_between_their_clocks():
    """LLVM would spread them over the clocks of their neighbours."""
    made = probed("matmul", "gfx942")
    dots = [each for each in placed(read_code(made.kernel), made.sites) if each.site.op == "tt.dot"]
    assert dots
    assert all(each.inside == 16 and each.moved == 0 for each in dots)


def test_no_shared_memory_and_no_barrier_is_added():
    before, after = plain("matmul", "gfx942"), probed("matmul", "gfx942").kernel
    assert after.metadata.shared == before.metadata.shared
    barriers = [sum(op.opcode == "s_barrier" for op in read_code(k).work) for k in (before, after)]
    assert barriers[0] == barriers[1]


@pytest.mark.parametrize(("name", "arch"), EACH if EVERYTHING else SMALL[2:])
def test_without_probes_the_machine_code_is_tritons(name, arch):
    from gpu_cases import ttgir_of

    kernel = plain(name, arch)
    module, context = ttgir_of(kernel)
    assert _compiled(kernel, from_xdsl(module, context).str()).asm["amdgcn"] == kernel.asm["amdgcn"]
