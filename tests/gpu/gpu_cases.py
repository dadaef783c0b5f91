"""Kernels for the tests of GPU probes, compiled once a process: plain, and with probes."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import triton
from triton._C.libtriton import ir
from triton.compiler.compiler import make_backend

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ir"))
import kernels_attention
import kernels_basic
import kernels_control
import kernels_gluon
import kernels_gpu
import kernels_matmul
from bridge_stages import TARGETS, Compilation

from tileprobe.ir.bridge import parse_triton, to_xdsl
from tileprobe.targets.gpu.compile import add_probes
from tileprobe.targets.gpu.sass import read_cubin
from tileprobe.tools.plan import Plan

CASES = {
    case.name: case
    for module in (
        kernels_basic,
        kernels_control,
        kernels_matmul,
        kernels_attention,
        kernels_gluon,
        kernels_gpu,
    )
    for case in module.CASES
}
EVERYTHING = bool(os.environ.get("TILEPROBE_GPU_ALL"))  # all kernels on all machines, some minutes
DENSE = Plan(loops=True, iterations=True, kinds=("all",))
HERE = Path(__file__).parent


@cache
def ttgir(name: str, target: str):
    """The final TTGIR of a kernel as text, without compiling further."""
    compilation = Compilation(CASES[name], target)
    first = compilation.run(compilation.module, compilation.first, compilation.metadata)
    return compilation.run(first, "ttgir", compilation.metadata).str()


def bridged(name: str, target: str):
    """The final TTGIR of a kernel in xDSL, anew each time."""
    return _bridged(ttgir(name, target), TARGETS[target])


def ttgir_of(kernel):
    """That of a compiled kernel."""
    return _bridged(kernel.asm["ttgir"], kernel.metadata.target)


def _bridged(text, target):
    context = ir.context()
    ir.load_dialects(context)
    make_backend(target).load_dialects(context)
    return to_xdsl(parse_triton(text, context)), context


@cache
def plain(name: str, target: str):
    case = CASES[name]
    return triton.compile(case.source(), target=TARGETS[target], options=case.options)


@cache
def probed(name: str, target: str, copies: int = 1, dynamic: bool = True, capacity: int = 64, **_):
    return add_probes(
        plain(name, target), DENSE.pipeline("ttgir", copies=copies, dynamic=dynamic, capacity=capacity)
    )


def code(kernel):
    return read_cubin(kernel.asm["cubin"], kernel.asm["ptx"])
