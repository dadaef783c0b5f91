"""delay: each execution of a region begins so many ticks of the clock later, and nothing is recorded.

In comes instrumented IR; out goes the kernel without a probe, but for delays where the chosen regions begin. How much
longer the whole kernel takes for it says how critical the region is. A delay of 0 ticks still reads the clock: it is
the kernel that longer delays are held against. Without a region, and where none is called so, nothing is left at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.ir.probe import IssueOp, ProbeOp, RegionOp, StartOp
from tileprobe.ir.record import DelayOp
from tileprobe.ir.registry import structure
from tileprobe.passes.user_probes import drop_user_probes


@dataclass(frozen=True)
class DelayPass(ModulePass):
    """Delays regions, and takes all probes out.

    `region` is a part of a name (`load @ 31`), or `#` and a region's number; `ticks` are those of its clock."""

    name = "delay"

    region: str = ""
    ticks: int = 0
    structure: str = "scf"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.ticks < 0:
            raise TileProbeError(f"a delay is 0 ticks or more, not {self.ticks}")
        for kernel in structure(self.structure).kernels(op):
            declared = [inner for inner in kernel.walk() if isinstance(inner, RegionOp)]
            chosen = {inner.region.data for inner in declared if self._is_meant(inner)}
            for probe in [inner for inner in kernel.walk() if isinstance(inner, ProbeOp)]:
                if isinstance(probe, (StartOp, IssueOp)) and probe.region_id in chosen:
                    assert probe.parent is not None
                    delay = DelayOp(self.ticks)
                    delay.location = probe.location
                    probe.parent.insert_op_before(delay, probe)
                probe.detach()
                probe.erase()
            for region in declared:
                region.detach()
                region.erase()
            drop_user_probes(kernel)
        for inner in op.walk():
            for name in [name for name in inner.attributes if name.startswith("probe.")]:
                del inner.attributes[name]

    def _is_meant(self, region: RegionOp) -> bool:
        if self.region.startswith("#"):
            return self.region[1:] == str(region.region.data)
        return bool(self.region) and self.region in region.label.data
