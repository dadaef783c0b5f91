"""cam-split: divide the rows of a weight matrix between the flash, which computes them, and the NPU,
which streams them.

In come tiled gemvs; out go gemvs with `#cam.split`. `rule=paper` balances the total time of requests and pages of each
group of products, `rule=alpha` takes the paper's formula, which knows no whole requests, and rounds up; `rule=best`
tries splits on the engine. `edges=true` takes the NPU's share from the last columns first, which do not fill a request.
A step of mode flash-only or npu-only leaves nothing to decide.
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
from tileprobe.targets.cambricon.tiling import balance, cut_buffers, split_requests, whole_requests
from tileprobe.targets.cambricon.walk import blocks_of, precision_in, tile_of

RULES = ("paper", "alpha", "best")


@dataclass(frozen=True)
class CamSplitPass(ModulePass):
    name = "cam-split"

    rule: str = "paper"
    alpha: float = -1.0  # a share given by the user
    edges: bool = False
    striped: bool = True  # as cam-map-pages will lay the NPU's pages

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.rule not in RULES:
            raise TileProbeError(f"cam-split: rule is {', '.join(RULES)}, not {self.rule!r}")
        machine = find_machine(op)
        for step in (o for o in op.walk() if isinstance(o, StepOp)):
            for group in (g for block in blocks_of(step) for g in groups(block)):
                chunks = [_chunks(machine, gemv) for gemv in group]
                flash, edge = self._share(machine, step, group, chunks)
                for gemv, *numbers in zip(group, flash, edge, chunks):
                    gemv.split = SplitAttr.of(*numbers)

    def _share(
        self, machine: Machine, step: StepOp, group: list[GemvOp], chunks: list[int]
    ) -> tuple[list[int], list[int]]:
        if step.mode.data == FLASH_ONLY:
            return chunks, chunks
        if step.mode.data == NPU_ONLY:
            return [0] * len(chunks), [0] * len(chunks)
        precision, tile, cores = precision_in(step), tile_of(group[0]), machine.cores_per_channel
        shapes = [(g.rows.data, g.cols.data) for g in group]
        if self.alpha >= 0:
            if self.alpha > 1:
                raise TileProbeError(f"cam-split: alpha lies between 0 and 1, found {self.alpha}")
            return (split := whole_requests(self.alpha, chunks, cores)), split
        if self.rule == "best":
            from tileprobe.targets.cambricon.search import best_split

            found = best_split(machine, precision, shapes, tile)
            return found.flash, found.edge
        buffers = cut_buffers(machine, precision, tile, machine.core.input_slots, False)
        assert buffers is not None  # cam-tile has checked it
        if self.rule == "alpha":
            return (split := whole_requests(balance(machine, precision, tile, buffers), chunks, cores)), split
        return split_requests(machine, precision, tile, buffers, shapes, self.edges, self.striped)


def _chunks(machine: Machine, gemv: GemvOp) -> int:
    block_rows, _ = tile_of(gemv).block(machine)
    return -(-gemv.rows.data // block_rows)
