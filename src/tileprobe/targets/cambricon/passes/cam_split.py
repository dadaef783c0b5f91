"""cam-split: divide the rows of a weight matrix between the flash, which computes them, and the NPU,
which streams them.

In come tiled gemvs; out go gemvs with `#cam.split`. `rule=paper` balances the two sides with the paper's
formula, `rule=best` tries the splits around it on the engine; a step of mode flash-only or npu-only
leaves nothing to decide.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.attributes import SplitAttr
from tileprobe.targets.cambricon.dialect import GemvOp, StepOp, find_machine, groups
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY
from tileprobe.targets.cambricon.precision import precision_of
from tileprobe.targets.cambricon.tiling import balance, cut_buffers, whole_requests
from tileprobe.targets.cambricon.walk import blocks_of, tile_of


@dataclass(frozen=True)
class CamSplitPass(ModulePass):
    name = "cam-split"

    rule: str = "paper"
    alpha: float = -1.0  # a share given by the user

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.rule not in ("paper", "best"):
            raise TileProbeError(f"cam-split: rule is paper or best, not {self.rule!r}")
        machine = find_machine(op)
        for step in (o for o in op.walk() if isinstance(o, StepOp)):
            for group in (g for block in blocks_of(step) for g in groups(block)):
                chunks = [_chunks(machine, gemv) for gemv in group]
                for gemv, flash, total in zip(group, self._share(machine, step, group, chunks), chunks):
                    gemv.split = SplitAttr.of(flash, total)

    def _share(self, machine: Machine, step: StepOp, group: list[GemvOp], chunks: list[int]) -> list[int]:
        if step.mode.data == FLASH_ONLY:
            return chunks
        if step.mode.data == NPU_ONLY:
            return [0] * len(chunks)
        precision, tile = precision_of(step.weights.data), tile_of(group[0])
        if self.alpha >= 0:
            if self.alpha > 1:
                raise TileProbeError(f"cam-split: alpha lies between 0 and 1, found {self.alpha}")
            return whole_requests(self.alpha, chunks, machine.cores_per_channel)
        if self.rule == "best":
            from tileprobe.targets.cambricon.search import best_split

            return best_split(machine, precision, [(g.rows.data, g.cols.data) for g in group], tile).flash
        buffers = cut_buffers(machine, precision, tile, machine.core.input_slots, False)
        assert buffers is not None  # cam-tile has checked it
        return whole_requests(balance(machine, precision, tile, buffers), chunks, machine.cores_per_channel)


def _chunks(machine: Machine, gemv: GemvOp) -> int:
    block_rows, _ = tile_of(gemv).block(machine)
    return -(-gemv.rows.data // block_rows)
