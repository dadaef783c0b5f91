"""Small readings of `cam` IR that several passes and the encoder share."""

from __future__ import annotations

from xdsl.ir import Block

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.attributes import VectorType
from tileprobe.targets.cambricon.dialect import GemvOp, LayersOp, StepOp
from tileprobe.targets.cambricon.expand import Expanded, expand
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import NPU_ONLY, Geometry, PageMap
from tileprobe.targets.cambricon.precision import Precision, precision_of
from tileprobe.targets.cambricon.tiling import Tile


def blocks_of(step: StepOp) -> list[Block]:
    """The step's own block and those of its layer loops."""
    own = step.body.block
    return [own, *(op.body.block for op in own.ops if isinstance(op, LayersOp))]


def gemvs_of(step: StepOp) -> list[GemvOp]:
    return [op for op in step.walk() if isinstance(op, GemvOp)]


def precision_in(step: StepOp) -> Precision:
    """How weights are kept, and how many vectors a core multiplies a page by: all of the step."""
    return precision_of(step.weights.data).together(step.tokens.data if step.mode.data != NPU_ONLY else 1)


def hidden_size(step: StepOp) -> int:
    kind = step.body.block.args[0].type
    assert isinstance(kind, VectorType)
    return kind.length.data


def tile_of(gemv: GemvOp) -> Tile:
    if gemv.tile is None:
        raise TileProbeError(f"{gemv.label.data} has no tile yet; run cam-tile before")
    return Tile(*gemv.tile.numbers)


def page_maps_of(gemv: GemvOp, machine: Machine, geometry: Geometry, striped: bool = True) -> list[PageMap]:
    """The page maps of a split matrix, not placed yet: one, or two where columns do not fill a request."""
    if gemv.split is None:
        raise TileProbeError(f"{gemv.label.data} is not split yet; run cam-split before")
    flash, edge, _ = gemv.split.numbers
    return cut_columns(tile_of(gemv), gemv.rows.data, gemv.cols.data, flash, edge, machine, geometry, striped)


def cut_columns(
    tile: Tile,
    rows: int,
    cols: int,
    flash: int,
    edge: int,
    machine: Machine,
    geometry: Geometry,
    striped: bool,
) -> list[PageMap]:
    block_rows, block_cols = tile.block(machine)
    whole = cols // tile.cols * tile.cols
    if flash == edge or whole in (0, cols):
        return [PageMap(geometry, rows, cols, block_rows, block_cols, flash, striped=striped)]
    return [
        PageMap(geometry, rows, whole, block_rows, block_cols, flash, striped=striped),
        PageMap(
            geometry, rows, cols - whole, block_rows, block_cols, edge, first_block=whole // block_cols,
            striped=striped,
        ),
    ]  # fmt: skip


def expanded(gemv: GemvOp, geometry: Geometry) -> Expanded:
    """What the loops of a mapped matrix command."""
    body = gemv.body.block if gemv.body is not None and gemv.body.blocks else None
    return expand(gemv.label.data, gemv.rows.data, gemv.cols.data, body, geometry)
