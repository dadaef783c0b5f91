"""cam-map-pages: give every page its channel, chip, die, plane and number, and spell out the commands.

In come buffered gemvs; out go gemvs with a body of command loops over affine page maps, which is all that the engine
and the functional model know of the layout. Matrices lie one behind the other on every plane, the layers of the loop
behind each other; what does not fit the flash is an error. `striped=false` keeps the pages for the NPU on the channels
of their columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap, AffineSymExpr
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.commands import BroadcastOp, LoopOp, PageReadOp, ReadComputeOp
from tileprobe.targets.cambricon.dialect import AttentionOp, GemvOp, LayersOp, StepOp, find_machine, groups
from tileprobe.targets.cambricon.kv_cache import Paged
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import Geometry, PageMap, geometry_of
from tileprobe.targets.cambricon.precision import Precision, precision_of
from tileprobe.targets.cambricon.tiling import Buffers
from tileprobe.targets.cambricon.walk import blocks_of, gemvs_of, page_maps_of, precision_in


@dataclass(frozen=True)
class CamMapPagesPass(ModulePass):
    name = "cam-map-pages"

    striped: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = find_machine(op)
        for step in (o for o in op.walk() if isinstance(o, StepOp)):
            precision = precision_in(step)
            geometry = geometry_of(machine, step.mode.data)
            compute = stream = 0  # pages, on each plane of the role
            own, *loops = blocks_of(step)
            for block in (*loops, own):  # layers first, then what stands outside of them, such as lm_head
                placed, pages = self._place(block, machine, geometry, compute, stream)
                for gemv, maps, each in placed:
                    assert gemv.buffers is not None
                    cut = Buffers(*gemv.buffers.numbers)
                    gemv.detach_region(gemv.regions[0]) if gemv.regions else None
                    gemv.add_region(Region(commands(maps, cut, machine, precision, pages, each)))
                layers = block.parent_op()
                count = layers.count.data if isinstance(layers, LayersOp) else 1
                compute, stream = compute + count * pages[0], stream + count * pages[1]
            cache = _place_cache(step, machine, geometry, stream) - stream
            _check_capacity(step, machine, max(compute, stream + cache), cache)

    def _place(
        self, block: Block, machine: Machine, geometry: Geometry, compute: int, stream: int
    ) -> tuple[list[tuple[GemvOp, list[PageMap], tuple[int, int]]], tuple[int, int]]:
        """The maps of a block's matrices, and the pages that they take on each plane of either role."""
        placed, planes = [], max(geometry.stream_planes, 1)
        lanes = geometry.dies_per_channel * (geometry.channels if self.striped else 1)
        whole = planes * lanes  # streamed pages that fill a page number on all planes
        base, turn = compute, stream * whole
        for group in groups(block):
            core = 0
            for gemv in group:
                if gemv.buffers is None:
                    raise TileProbeError(
                        f"cam-map-pages: {gemv.label.data} has no buffers; run cam-double-buffer before"
                    )
                if gemv.experts is not None:  # each begins anew, so that they differ by a page number alone
                    turn = -(-turn // whole) * whole
                maps, first, before = [], base, turn
                for one in page_maps_of(gemv, machine, geometry, self.striped):
                    one = replace(one, first_core=core, compute_base=base, stream_first=turn)
                    maps.append(one)
                    base, turn = base + one.compute_pages, turn + one.stream_count
                    core = (core + one.flash_chunks) % geometry.cores
                each = (0, 0)
                if gemv.experts is not None:
                    each, of = (base - first, -(-(turn - before) // whole)), gemv.experts.of.data
                    base, turn = first + of * each[0], before + of * each[1] * whole
                placed.append((gemv, maps, each))
        return placed, (base - compute, -(-turn // whole) - stream)


def _place_cache(step: StepOp, machine: Machine, geometry: Geometry, stream: int) -> int:
    """Pages of keys and values behind those of the weights: one after the other over all channels and dies. Returns
    where they end.
    """
    flash, kv_bytes = machine.flash, precision_of(step.weights.data).kv_bytes
    planes = max(geometry.stream_planes, 1)
    whole = planes * geometry.dies_per_channel * geometry.channels
    for op in (o for o in step.walk() if isinstance(o, AttentionOp) and o.flash.data):
        pages = Paged.of(op.cached_values * kv_bytes, flash.page_bytes).pages(op.flash.data)
        m = PageMap(geometry, pages, 1, 1, 1, 0, stream_first=stream * whole)
        each, s = -(-pages // whole), LoopOp.of(m.stream_rounds)
        read = PageReadOp.make(
            [s.index],
            stream_map(m, each, 0),
            stream_blocks(m),
            0,
            pages,
            1,
            1,
            flash.page_bytes,
            flash.page_bytes,
        )
        s.body.block.add_op(read)
        op.detach_region(op.regions[0]) if op.regions else None
        op.add_region(Region(Block([s])))
        layers = op.parent_op()
        stream += each * (layers.count.data if isinstance(layers, LayersOp) else 1)
    return stream


def _check_capacity(step: StepOp, machine: Machine, pages: int, cache: int) -> None:
    if pages <= machine.flash.pages_per_plane:
        return
    weights = 0
    for g in gemvs_of(step):
        layers = g.parent_op()
        count = layers.count.data if isinstance(layers, LayersOp) else 1
        weights += g.rows.data * g.cols.data * count * (g.experts.of.data if g.experts is not None else 1)
    gigabytes = weights * precision_of(step.weights.data).weight_bits / 8e9
    raise TileProbeError(
        f"{step.sym_name.data} does not fit {machine.name}: its {gigabytes:.1f} GB of {step.weights.data} "
        f"weights{' and its keys and values' if cache else ''} need "
        f"{pages} pages on the fullest plane, which has {machine.flash.pages_per_plane} "
        f"({machine.capacity_bytes / 1e9:.1f} GB in all); use a larger device, more chips, or w4a16"
    )


def commands(
    maps: Sequence[PageMap],
    buffers: Buffers,
    machine: Machine,
    precision: Precision,
    layer_pages: tuple[int, int] = (0, 0),
    expert_pages: tuple[int, int] = (0, 0),
) -> Block:
    """The loops over all pages of a matrix: requests first, then what streams to the NPU beside them."""
    block = Block()
    for m in maps:
        if not m.flash_chunks:
            continue
        j, i = LoopOp.of(m.col_requests), LoopOp.of(m.row_requests)
        inputs = BroadcastOp.of(m.block_cols * precision.input_bytes)
        compute = ReadComputeOp.make(
            [j.index, i.index], flash_map(m, layer_pages[0], expert_pages[0]), flash_blocks(m), 0, m.flash_chunks,
            m.block_rows, m.block_cols, precision.partial_sum_bytes(machine), -(-m.block_rows // buffers.rows),
            precision.tokens,
        )  # fmt: skip
        i.body.block.add_ops([compute] if buffers.keep else [inputs, compute])
        j.body.block.add_ops([inputs, i] if buffers.keep else [i])
        block.add_op(j)
    sent = machine.flash.page_bytes + (machine.flash.spare_bytes if machine.flash.spare_travels else 0)
    for m in maps:
        if m.stream_chunks:
            s = LoopOp.of(m.stream_rounds)
            read = PageReadOp.make(
                [s.index], stream_map(m, layer_pages[1], expert_pages[1]), stream_blocks(m), m.flash_chunks,
                m.row_chunks, m.block_rows, m.block_cols, sent, sent,
            )  # fmt: skip
            s.body.block.add_op(read)
            block.add_op(s)
    return block


CHANNEL, UNIT, LAYER, EXPERT = (AffineSymExpr(n) for n in range(4))


def flash_map(m: PageMap, layer_pages: int, expert_pages: int) -> AffineMap:
    """(j, i)[channel, core, layer, expert] -> (channel, chip, die, plane, page) of what the core computes."""
    g = m.geometry
    local = AffineDimExpr(0) * m.row_requests + AffineDimExpr(1)
    die = _floordiv(UNIT, g.cores_per_die)
    plane = local % g.planes_per_core
    if g.cores_per_die > 1:
        plane = UNIT % g.cores_per_die * g.planes_per_core + plane
    page = _floordiv(local, g.planes_per_core) + m.compute_base + LAYER * layer_pages
    page = page + EXPERT * expert_pages if expert_pages else page
    chip = _floordiv(die, g.dies)
    return AffineMap(2, 4, (CHANNEL, chip, die % g.dies, _const(plane, 2), page))


def flash_blocks(m: PageMap) -> AffineMap:
    """(j, i)[channel, core] -> (block row, block column) of it."""
    g = m.geometry
    core = (UNIT + (g.cores - m.first_core)) % g.cores if m.first_core else UNIT
    row, col = AffineDimExpr(1) * g.cores + core, AffineDimExpr(0) * g.channels + CHANNEL
    return AffineMap(2, 2, (row, col + m.first_block if m.first_block else col))


def stream_map(m: PageMap, layer_pages: int, expert_pages: int) -> AffineMap:
    """(s)[channel, die, layer, expert] -> (channel, chip, die, plane, page) of the page that the die sends."""
    g = m.geometry
    turn = AffineDimExpr(0) + m.stream_first // m.lanes
    plane = turn % g.stream_planes + g.compute_planes
    page = _floordiv(turn, g.stream_planes) + LAYER * layer_pages
    page = page + EXPERT * expert_pages if expert_pages else page
    return AffineMap(1, 4, (CHANNEL, _floordiv(UNIT, g.dies), UNIT % g.dies, _const(plane, 1), page))


def stream_blocks(m: PageMap) -> AffineMap:
    """(s)[channel, die] -> (block row, block column) of it; block rows before the NPU's are nothing."""
    g = m.geometry
    turn = AffineDimExpr(0) * g.dies_per_channel + UNIT
    if m.striped:
        n = turn * g.channels + CHANNEL - m.stream_first % m.lanes
        row, col = _floordiv(n, m.col_blocks), n % m.col_blocks
    else:
        n = turn - m.stream_first % m.lanes
        row, col = n % m.stream_chunks, _floordiv(n, m.stream_chunks) * g.channels + CHANNEL
    return AffineMap(1, 2, (row + m.flash_chunks, col + m.first_block if m.first_block else col))


def _floordiv(expr, by: int):
    return expr if by == 1 else expr // by


def _const(expr, dims: int):
    """Planes are mostly one number; say so instead of `x mod 1`."""
    values = {expr.eval([i] * dims, [0, c, 0, 0]) for i in range(3) for c in range(3)}
    values |= {expr.eval([0] * (dims - 1) + [1], [0, 0, 0, 0])}
    return AffineConstantExpr(values.pop()) if len(values) == 1 else expr
