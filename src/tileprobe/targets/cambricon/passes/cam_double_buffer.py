"""cam-double-buffer: cut the buffer of a core into input slices and two output buffers.

In come split gemvs; out go gemvs with `#cam.buffers`: a core sums into one output buffer while the other
drains, and a page whose sums do not fit is returned in parts. `inputs=0` leaves the number of input
slices to the machine (`input_slots`), `keep=true` sends a slice once for successive requests that share
it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.attributes import BuffersAttr
from tileprobe.targets.cambricon.dialect import StepOp, find_machine
from tileprobe.targets.cambricon.tiling import check_tile, cut_buffers
from tileprobe.targets.cambricon.walk import gemvs_of, precision_in, tile_of


@dataclass(frozen=True)
class CamDoubleBufferPass(ModulePass):
    name = "cam-double-buffer"

    inputs: int = 0
    keep: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = find_machine(op)
        for step in (o for o in op.walk() if isinstance(o, StepOp)):
            precision = precision_in(step)
            for gemv in gemvs_of(step):
                if gemv.split is None:
                    raise TileProbeError(
                        f"cam-double-buffer: {gemv.label.data} is not split; run cam-split before"
                    )
                tile = tile_of(gemv)
                check_tile(machine, precision, tile)
                cut = cut_buffers(
                    machine, precision, tile, self.inputs or machine.core.input_slots, self.keep
                )
                assert cut is not None  # check_tile would have raised
                gemv.buffers = BuffersAttr.of(cut.inputs, cut.rows, cut.keep)
