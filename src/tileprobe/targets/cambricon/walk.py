"""Small readings of `cam` IR that several passes and the encoder share."""

from __future__ import annotations

from xdsl.ir import Block

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.attributes import VectorType
from tileprobe.targets.cambricon.dialect import GemvOp, LayersOp, StepOp
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import Geometry, PageMap
from tileprobe.targets.cambricon.tiling import Tile


def blocks_of(step: StepOp) -> list[Block]:
    """The step's own block and those of its layer loops."""
    own = step.body.block
    return [own, *(op.body.block for op in own.ops if isinstance(op, LayersOp))]


def gemvs_of(step: StepOp) -> list[GemvOp]:
    return [op for op in step.walk() if isinstance(op, GemvOp)]


def hidden_size(step: StepOp) -> int:
    kind = step.body.block.args[0].type
    assert isinstance(kind, VectorType)
    return kind.length.data


def tile_of(gemv: GemvOp) -> Tile:
    if gemv.tile is None:
        raise TileProbeError(f"{gemv.label.data} has no tile yet; run cam-tile before")
    return Tile(*gemv.tile.numbers)


def page_map_of(gemv: GemvOp, machine: Machine, geometry: Geometry, layer: int) -> PageMap:
    """The page map of a placed matrix in one layer."""
    if gemv.split is None or gemv.place is None:
        raise TileProbeError(f"{gemv.label.data} has no pages yet; run cam-map-pages before")
    block_rows, block_cols = tile_of(gemv).block(machine)
    core, die, compute, compute_stride, stream, stream_stride = gemv.place.numbers
    return PageMap(
        geometry=geometry,
        rows=gemv.rows.data,
        cols=gemv.cols.data,
        block_rows=block_rows,
        block_cols=block_cols,
        flash_chunks=gemv.split.flash.data,
        first_core=core,
        first_die=die,
        compute_base=compute + layer * compute_stride,
        stream_base=stream + layer * stream_stride,
    )
