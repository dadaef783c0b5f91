"""The micro-kernels as assembly for machines other than this one: the right instructions, and no spills."""

from __future__ import annotations

import re

import dot_harness as harness
import llvmlite.binding as llvm
import pytest

from tileprobe.targets.cpu.codegen import dot

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
# triple, LLVM's CPU, bytes and number of the vector registers, multiply-adds in the loop over K, their form
MACHINES = {
    "sse2": (X86, "x86-64", 16, 16, 64, r"\bmulp[sd]\s.*%xmm"),
    "avx2": (X86, "x86-64-v3", 32, 16, 64, r"\bvfmadd\w+p[sd]\s.*%ymm"),
    "avx512": (X86, "x86-64-v4", 64, 32, 128, r"\bvfmadd\w+p[sd]\s.*%zmm"),
    "neon": (ARM, "generic", 16, 32, 128, r"\bfmla\s+v\d+\."),
}


def kernel(name: str, dtype: str, ahead: bool = False) -> str:
    triple, cpu, vector_bytes, registers, *_ = MACHINES[name]
    plan = dot.plan(128, 128, 32, dtype, dtype, dtype, vector_bytes, registers)

    def body(builder, args):
        a, b, c, stride = args
        size = plan.compute_bytes
        tiles = [dot.Ahead(a, stride, 128, 32 * size), dot.Ahead(b, stride, 32, 128 * size)]
        dot.emit(builder, plan, a, b, c, ahead=tiles if ahead else ())

    ir = harness.ir
    module = harness.build(body, [ir.PointerType()] * 3 + [ir.IntType(64)])
    return harness.assembly(module, triple, cpu)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", MACHINES)
def test_block_fills_the_registers(name: str, dtype: str) -> None:
    *_, count, form = MACHINES[name]
    assert len(re.findall(form, kernel(name, dtype))) == count


@pytest.mark.parametrize("ahead", [False, True], ids=["plain", "ahead"])
@pytest.mark.parametrize("name", MACHINES)
def test_no_vector_is_spilled(name: str, ahead: bool) -> None:
    text = kernel(name, "f32", ahead)
    spills = re.findall(r"movu?p[sd]\s.*\(%rsp\)|(?:str|ldr|stp|ldp)\s+q\d+.*\[sp", text)
    assert spills == []


@pytest.mark.parametrize(("name", "word"), [("avx2", "prefetch"), ("neon", "prfm")])
def test_prefetches_are_emitted(name: str, word: str) -> None:
    assert word in kernel(name, "f32", ahead=True)
    assert word not in kernel(name, "f32")
