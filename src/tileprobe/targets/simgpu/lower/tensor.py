"""Tensor cores: how their instructions become micro-ops."""

from __future__ import annotations

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.lower.case import Case, lowers

_MACHINES = {80: "a100", 90: "h100"}


@lowers("HMMA")
def hmma(x: Case) -> None:
    shape = x.one_of("16816", "1688")
    sums = x.one_of("F32", "F16")
    form = x.one_of("BF16", "TF32", default="F16").lower()
    if (form == "tf32") != (shape == "1688") or (sums == "F16" and form != "f16"):
        raise x.refuse("this shape")
    half = sums == "F16"
    rows = 2 if half else 4
    x.result(rows=rows)
    x.source(at.A, "bits", rows=4)
    x.source(at.B, "bits", rows=2)
    x.source(at.C, "bits", rows=rows)
    x.emit(f"hmma_{form}{'_half' * half}_{_MACHINES[x.kernel.arch]}")


@lowers("IMMA")
def imma(x: Case) -> None:
    x.one_of("16832")
    kinds = [mod for mod in x.mods if mod in ("S8", "U8")]
    if len(kinds) != 2:
        raise x.refuse("these types")
    x.has("S8", "U8")
    saturate = x.has("SAT")
    x.result(rows=4)
    for source, rows, order in ((at.A, 4, "ROW"), (at.B, 2, "COL")):
        operand = x.take()
        if operand.kind != "R" or operand.suffixes not in ((order,), ()):
            raise x.refuse(f"the operand {operand.text}")
        x.set(source, x.register("R", operand.number, rows, writing=False))
    x.source(at.C, "bits", rows=4)
    x.emit(f"imma_{kinds[0][0].lower()}{kinds[1][0].lower()}{'_sat' * saturate}")


@lowers("DMMA")
def dmma(x: Case) -> None:
    x.one_of("884", "8x8x4")
    x.result(rows=4)
    x.source(at.A, "bits", rows=2)
    x.source(at.B, "bits", rows=2)
    x.source(at.C, "bits", rows=4)
    x.emit("dmma")
