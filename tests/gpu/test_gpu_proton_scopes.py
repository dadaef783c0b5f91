"""A kernel that Proton instrumented: its records give way to ours, its scopes stay, by their lines."""

import triton
import triton.profiler.language as pl
from gpu_cases import DENSE, TARGETS, code
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.profiler.flags import flags

from tileprobe.targets.gpu.compile import add_probes
from tileprobe.targets.gpu.machine_code import lost_records
from tileprobe.targets.gpu.proton import _passes


@gluon.jit
def scoped(x, out, N: gl.constexpr, LAYOUT: gl.constexpr):
    i = gl.arange(0, N, layout=LAYOUT)
    pl.enter_scope("fetch")
    held = gl.load(x + i)
    pl.exit_scope("fetch")
    gl.store(out + i, held + 1.0)


def test_protons_records_give_way(monkeypatch):
    monkeypatch.setattr(flags, "instrumentation_on", True)
    constants = {"N": 128, "LAYOUT": gl.BlockedLayout([1], [32], [4], [0])}
    names = {"x": "*fp32", "out": "*fp32", **dict.fromkeys(constants, "constexpr")}
    source = GluonASTSource(scoped, names, constants)
    options = {"num_warps": 4, "instrumentation_mode": "tileprobe-test-proton"}
    with _passes(TARGETS["sm90"], "shared"):
        kernel = triton.compile(source, target=TARGETS["sm90"], options=options)
    assert "proton.record" in kernel.asm["ttgir"]
    made = add_probes(kernel, DENSE.pipeline("ttgir"))
    assert "proton.record" not in made.ir["probed"]
    assert lost_records(code(made.kernel), made.records) == []
    assert ("fetch", "scope") in {(region.name, region.kind) for region in made.regions}
