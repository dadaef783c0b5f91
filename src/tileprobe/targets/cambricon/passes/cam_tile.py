"""cam-tile: choose the shape of the requests that a weight matrix is cut into.

In comes a step; out goes the same step whose gemvs carry `#cam.tile`. `rule=paper` is the paper's shape
of least traffic for all matrices, `rule=best` searches the shape that the engine runs fastest for each,
`tile=HxW` is the user's.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.attributes import TileAttr
from tileprobe.targets.cambricon.dialect import StepOp, find_machine, groups
from tileprobe.targets.cambricon.tiling import check_tile, paper_tile, parse_tile
from tileprobe.targets.cambricon.walk import blocks_of, hidden_size, precision_in


@dataclass(frozen=True)
class CamTilePass(ModulePass):
    name = "cam-tile"

    rule: str = "paper"
    tile: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.rule not in ("paper", "best"):
            raise TileProbeError(f"cam-tile: rule is paper or best, not {self.rule!r}")
        machine = find_machine(op)
        for step in (o for o in op.walk() if isinstance(o, StepOp)):
            precision = precision_in(step)
            hidden = hidden_size(step)
            fixed = parse_tile(self.tile) if self.tile else None
            if fixed is None and self.rule == "paper":
                fixed = paper_tile(machine, precision, hidden)
            if fixed is not None:
                check_tile(machine, precision, fixed)
            for group in (g for block in blocks_of(step) for g in groups(block)):
                if fixed is None:
                    from tileprobe.targets.cambricon.search import best_choice

                    shapes = [(gemv.rows.data, gemv.cols.data) for gemv in group]
                    chosen = best_choice(machine, precision, step.mode.data, shapes, hidden).tile
                else:
                    chosen = fixed
                for gemv in group:
                    gemv.tile = TileAttr.of(chosen.rows, chosen.cols)
