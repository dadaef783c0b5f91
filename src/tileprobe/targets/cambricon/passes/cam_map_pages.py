"""cam-map-pages: give every page its channel, chip, die, plane and number, and spell out the commands.

In come buffered gemvs; out go gemvs with `#cam.place` and a body of command loops over affine page maps.
Matrices lie one behind the other on every plane, the layers of the loop behind each other; what does not
fit the flash is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap, AffineSymExpr
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.attributes import PlaceAttr
from tileprobe.targets.cambricon.commands import BroadcastOp, LoopOp, PageReadOp, ReadComputeOp
from tileprobe.targets.cambricon.dialect import GemvOp, LayersOp, StepOp, find_machine, groups
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import Geometry, PageMap, geometry_of
from tileprobe.targets.cambricon.precision import precision_of
from tileprobe.targets.cambricon.walk import blocks_of, gemvs_of, page_map_of


@dataclass(frozen=True)
class CamMapPagesPass(ModulePass):
    name = "cam-map-pages"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = find_machine(op)
        for step in (o for o in op.walk() if isinstance(o, StepOp)):
            geometry = geometry_of(machine, step.mode.data)
            self._place(step, machine, geometry)
            for gemv in gemvs_of(step):
                page_map = page_map_of(gemv, machine, geometry, 0)
                gemv.detach_region(gemv.regions[0]) if gemv.regions else None
                gemv.add_region(Region(_commands(step, gemv, page_map)))

    def _place(self, step: StepOp, machine: Machine, geometry: Geometry) -> None:
        compute, stream = 0, 0
        own, *loops = blocks_of(step)
        for block in (*loops, own):  # layers first, then what stands outside of them, such as lm_head
            layers = block.parent_op()
            count = layers.count.data if isinstance(layers, LayersOp) else 1
            first_compute, first_stream, placed = compute, stream, []
            for group in groups(block):
                core, die = 0, 0
                for gemv in group:
                    if gemv.buffers is None:
                        raise TileProbeError(
                            f"cam-map-pages: {gemv.label.data} has no buffers; run cam-double-buffer before"
                        )
                    gemv.place = PlaceAttr.of(core, die, compute, 0, stream, 0)
                    page_map = page_map_of(gemv, machine, geometry, 0)
                    placed.append(gemv)
                    compute, stream = compute + page_map.compute_pages, stream + page_map.stream_pages
                    core = (core + page_map.flash_chunks) % geometry.cores
                    die = (die + page_map.stream_chunks) % geometry.dies_per_channel
            per_layer = compute - first_compute, stream - first_stream
            for gemv in placed:
                core, die, base, _, base_s, _ = gemv.place.numbers
                gemv.place = PlaceAttr.of(core, die, base, per_layer[0], base_s, per_layer[1])
            compute, stream = first_compute + count * per_layer[0], first_stream + count * per_layer[1]
        _check_capacity(step, machine, max(compute, stream))


def _check_capacity(step: StepOp, machine: Machine, pages: int) -> None:
    if pages <= machine.flash.pages_per_plane:
        return
    weights = sum(
        g.rows.data * g.cols.data * (g.parent_op().count.data if isinstance(g.parent_op(), LayersOp) else 1)  # pyright: ignore
        for g in gemvs_of(step)
    )
    gigabytes = weights * precision_of(step.weights.data).weight_bits / 8e9
    raise TileProbeError(
        f"{step.sym_name.data} does not fit {machine.name}: its {gigabytes:.1f} GB of {step.weights.data} "
        f"weights need "
        f"{pages} pages on the fullest plane, which has {machine.flash.pages_per_plane} "
        f"({machine.capacity_bytes / 1e9:.1f} GB in all); use a larger device, more chips, or w4a16"
    )


def _commands(step: StepOp, gemv: GemvOp, m: PageMap) -> Block:
    assert gemv.buffers is not None
    machine, precision = find_machine(step.parent_op() or step), precision_of(step.weights.data)
    block = Block()
    if m.flash_chunks:
        j, i = LoopOp.of(m.col_requests), LoopOp.of(m.row_requests)
        inputs = BroadcastOp.of(m.block_cols * precision.activation_bytes)
        parts = -(-m.block_rows // gemv.buffers.rows.data)
        compute = ReadComputeOp.make(
            [j.index, i.index], flash_map(m), m.block_rows, precision.partial_sum_bytes(machine), parts
        )
        i.body.block.add_ops([compute] if gemv.buffers.keep.data else [inputs, compute])
        j.body.block.add_ops([inputs, i] if gemv.buffers.keep.data else [i])
        block.add_op(j)
    if m.stream_chunks:
        j, i = LoopOp.of(m.col_requests), LoopOp.of(m.stream_rounds)
        sent = machine.flash.page_bytes + (machine.flash.spare_bytes if machine.flash.spare_travels else 0)
        i.body.block.add_op(PageReadOp.make([j.index, i.index], stream_map(m), 1, sent))
        j.body.block.add_op(i)
        block.add_op(j)
    return block


def flash_map(m: PageMap) -> AffineMap:
    """(j, i)[channel, core] -> (channel, chip, die, plane, page) of the block row that the core computes."""
    g = m.geometry
    j, i = AffineDimExpr(0), AffineDimExpr(1)
    channel, core = AffineSymExpr(0), AffineSymExpr(1)
    local = j * m.row_requests + i
    die = _floordiv(core, g.cores_per_die)
    plane = local % g.planes_per_core
    if g.cores_per_die > 1:
        plane = core % g.cores_per_die * g.planes_per_core + plane
    page = _floordiv(local, g.planes_per_core) + m.compute_base
    return AffineMap(2, 2, (channel, _floordiv(die, g.dies), die % g.dies, _const(plane), page))


def stream_map(m: PageMap) -> AffineMap:
    """(j, s)[channel, die] -> (channel, chip, die, plane, page) of the page that the die sends."""
    g = m.geometry
    j, s = AffineDimExpr(0), AffineDimExpr(1)
    channel, die = AffineSymExpr(0), AffineSymExpr(1)
    local = j * m.stream_rounds + s
    plane = local % g.stream_planes + g.compute_planes
    page = _floordiv(local, g.stream_planes) + m.stream_base
    return AffineMap(2, 2, (channel, _floordiv(die, g.dies), die % g.dies, _const(plane), page))


def _floordiv(expr, by: int):
    return expr if by == 1 else expr // by


def _const(expr):
    """Planes are mostly one number; say so instead of `x mod 1`."""
    values = {expr.eval([j, i], [0, c]) for j in range(3) for i in range(3) for c in range(3)}
    return AffineConstantExpr(values.pop()) if len(values) == 1 else expr
