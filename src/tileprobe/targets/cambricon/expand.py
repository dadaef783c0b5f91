"""What the loops of a mapped matrix command: IR in, tables of commands out, for time and for values alike.

Every page that the engine reads and every page that the functional model multiplies comes from here: `expand` runs the
loops of a `cam.gemv`, evaluates their affine maps for all channels and units at once, and leaves out what lies outside
of the matrix. `Expanded.table` is the place and the block of each page in a layer, `Expanded.body` the same as the
engine takes it, by channel and in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.commands import BroadcastOp, LoopOp, PageReadOp, ReadComputeOp
from tileprobe.targets.cambricon.engine.program import COMPUTE, REQUEST, STREAM, Bodies
from tileprobe.targets.cambricon.pagemap import Blocks, Geometry, Location


@dataclass(frozen=True)
class Pages:
    """Pages of commands of one kind, in the order of their execution. `order` is the request, or the turn in the
    stream; `stride` how far the page of the next layer and of the next expert are."""

    order: np.ndarray
    where: Location
    stride: np.ndarray
    blocks: Blocks
    more: np.ndarray  # part rows, sum bytes and tokens; or bytes and slice

    @staticmethod
    def join(parts: list[Pages]) -> Pages:
        if not parts:
            none = np.zeros(0, np.int64)
            return Pages(
                none,
                Location(*[none] * 6),
                np.zeros((0, 2), np.int64),
                Blocks(*[none] * 5),
                np.zeros((0, 3), np.int64),
            )
        return Pages(
            np.concatenate([p.order for p in parts]),
            Location(*(np.concatenate(columns) for columns in zip(*(p.where for p in parts)))),
            np.concatenate([p.stride for p in parts]),
            Blocks(*(np.concatenate(columns) for columns in zip(*(p.blocks for p in parts)))),
            np.concatenate([p.more for p in parts]),
        )


@dataclass(frozen=True)
class Expanded:
    """The commands of one matrix of `rows` x `cols`, in blocks of `block_rows` x `block_cols`."""

    name: str
    rows: int
    cols: int
    block_rows: int
    block_cols: int
    geometry: Geometry
    compute: Pages
    stream: Pages
    inputs: np.ndarray  # of each request: bytes of a full slice that are sent before it, 0 when it is there

    @property
    def pages(self) -> int:
        return len(self.compute.order) + len(self.stream.order)

    @cached_property  # asked for by every layer
    def strides(self) -> tuple[np.ndarray, np.ndarray]:
        """Pages from one layer, and one expert, to the next: of computed and of streamed pages."""
        return self._stride(self.compute), self._stride(self.stream)

    def _stride(self, part: Pages) -> np.ndarray:
        found = np.unique(part.stride, axis=0)
        if len(found) > 1:
            raise TileProbeError(f"{self.name}: its pages do not all move alike from layer to layer")
        return found[0] if len(found) else np.zeros(2, np.int64)

    def table(self, layer: int = 0, expert: int = 0) -> tuple[Location, Blocks]:
        """Place and block of every page in a layer, the computed ones first."""
        both = Pages.join([self.compute, self.stream])
        page = both.where.page + both.stride @ np.array([layer, expert])
        return both.where._replace(page=page), both.blocks

    def missing(self) -> int:
        """Weights that no command reads, or several do: 0 when the commands are the matrix."""
        _, blocks = self.table()
        once = np.unique(blocks.row * self.cols + blocks.col, return_index=True)[1]
        covered = int((blocks.rows[once] * blocks.cols[once]).sum())
        again = int((blocks.rows * blocks.cols).sum()) - covered
        return self.rows * self.cols - covered + again

    def body(self) -> Bodies:
        """The same by channel, as the engine takes it."""
        g, where, blocks = self.geometry, self.compute.where, self.compute.blocks
        requests = len(self.inputs)
        compute = np.zeros((requests, g.channels, g.cores), COMPUTE)
        per_core = max(g.planes_per_core, 1)
        core = (where.chip * g.dies + where.die) * g.cores_per_die + where.plane // per_core
        at = (self.compute.order, where.channel, core)
        if len(np.unique(np.ravel_multi_index(at, compute.shape))) < len(core):
            raise TileProbeError(f"{self.name}: a request has two pages for one core")
        part_rows, sum_bytes, tokens = self.compute.more.T
        compute["rows"][at], compute["cols"][at] = blocks.rows * tokens, blocks.cols  # once for each token
        compute["part_rows"][at], compute["sum_bytes"][at] = np.minimum(part_rows, blocks.rows), sum_bytes
        compute["plane"][at] = where.plane % per_core
        compute["number"][at] = where.page * g.planes + where.plane

        listed = np.zeros((requests, g.channels), REQUEST)
        pages, widest = (compute["rows"] > 0).sum(axis=2), compute["cols"].max(axis=2, initial=0)
        count = np.zeros(g.channels, np.int64)
        slice_ = np.zeros(g.channels, np.int64)  # bytes that a channel has still to send
        channels = np.arange(g.channels)
        for request, size in enumerate(self.inputs.tolist()):
            slice_ = np.full_like(slice_, size) if size else slice_
            here = channels[pages[request] > 0]
            place = (count[here], here)
            listed["row"][place], listed["pages"][place] = request, pages[request, here]
            listed["bytes"][place] = slice_[here] * widest[request, here] // self.block_cols
            count[here] += 1
            slice_[here] = 0

        stream, streamed = self._stream()
        counts = np.stack([count, streamed], axis=1)[None]
        return Bodies(compute, listed, stream, np.zeros((1, 2), np.int64), counts, np.array([len(core)]))

    def _stream(self) -> tuple[np.ndarray, np.ndarray]:
        g, part = self.geometry, self.stream
        turns = np.lexsort((part.order, part.where.channel))
        channel = part.where.channel[turns]
        count = np.bincount(channel, minlength=g.channels)
        nth = np.arange(len(turns)) - np.concatenate(([0], np.cumsum(count)))[channel]
        stream = np.zeros((int(count.max(initial=0)), g.channels), STREAM)
        at, where = (nth, channel), part.where
        stream["die"][at] = (where.chip * g.dies + where.die)[turns]
        stream["plane"][at] = where.plane[turns] - g.compute_planes
        stream["bytes"][at], stream["slice"][at] = part.more[turns, :2].T
        stream["number"][at] = (where.page * g.planes + where.plane)[turns]
        return stream, count


@dataclass(frozen=True)
class Placed:
    """A matrix of one layer, and of one expert where there are several, where the commands of its step read it."""

    commands: Expanded
    layer: int = 0
    expert: int = 0

    @property
    def rows(self) -> int:
        return self.commands.rows

    @property
    def cols(self) -> int:
        return self.commands.cols

    @property
    def block_rows(self) -> int:
        return self.commands.block_rows

    @property
    def block_cols(self) -> int:
        return self.commands.block_cols

    def table(self) -> tuple[Location, Blocks]:
        return self.commands.table(self.layer, self.expert)


def expand(name: str, rows: int, cols: int, body: Block | None, geometry: Geometry) -> Expanded:
    """Run the command loops of a matrix. What a map names must exist on the machine."""
    if body is None:
        raise TileProbeError(f"{name} has no commands; run cam-map-pages before")
    runs: dict[Operation, list[tuple[int, tuple[int, ...]]]] = {}
    inputs: list[int] = []
    pending, turns = 0, 0
    for op, indices in _executions(body, {}):
        if isinstance(op, BroadcastOp):
            pending = op.bytes.data
        elif isinstance(op, ReadComputeOp):
            runs.setdefault(op, []).append((len(inputs), indices))
            inputs.append(pending)
            pending = 0
        elif isinstance(op, PageReadOp):
            runs.setdefault(op, []).append((turns, indices))
            turns += 1
        else:
            raise TileProbeError(f"{name}: {op.name} is no command")
    found = {kind: [_pages(name, rows, cols, op, r, geometry) for op, r in runs.items() if isinstance(op, kind)]
             for kind in (ReadComputeOp, PageReadOp)}  # fmt: skip
    shapes = {(op.rows.data, op.cols.data) for op in runs if isinstance(op, (ReadComputeOp, PageReadOp))}
    if len(shapes) > 1:
        raise TileProbeError(f"{name}: blocks of several shapes, {sorted(shapes)}")
    block = shapes.pop() if shapes else (1, 1)
    return Expanded(
        name, rows, cols, *block, geometry, Pages.join(found[ReadComputeOp]), Pages.join(found[PageReadOp]),
        np.array(inputs, np.int64),
    )  # fmt: skip


def _executions(block: Block, env: dict[SSAValue, int]) -> Iterator[tuple[Operation, tuple[int, ...]]]:
    for op in block.ops:
        if isinstance(op, LoopOp):
            for n in range(op.trip.data):
                yield from _executions(op.body.block, {**env, op.index: n})
        elif isinstance(op, (ReadComputeOp, PageReadOp)):
            yield op, tuple(env[index] for index in op.indices)
        else:
            yield op, ()


def _pages(name: str, rows: int, cols: int, op: ReadComputeOp | PageReadOp, runs: list, g: Geometry) -> Pages:
    """The pages of all executions of one command."""
    computes = isinstance(op, ReadComputeOp)
    units = g.cores if computes else g.dies_per_channel
    indices = np.array([run for _, run in runs], np.int64).reshape(len(runs), -1)
    # affine maps take arrays as they take numbers
    dims: list[Any] = [indices[:, n, None, None] for n in range(indices.shape[1])]
    channel, unit = np.arange(g.channels)[None, :, None], np.arange(units)[None, None, :]
    symbols: list[Any] = [channel, unit]
    shape = (len(runs), g.channels, units)

    def spread(values) -> list[np.ndarray]:
        return [np.broadcast_to(np.asarray(v, np.int64), shape) for v in values]

    row, col = spread(op.block.data.eval(dims, symbols[:2]))
    height, width = op.rows.data, op.cols.data
    last = min(op.end.data, -(-rows // height))
    held = (row >= op.first.data) & (row < last) & (col >= 0) & (col * width < cols)
    where = [v[held] for v in spread(op.page.data.eval(dims, [*symbols, 0, 0]))]
    after = [spread(op.page.data.eval(dims, [*symbols, *one]))[4][held] for one in ((1, 0), (0, 1))]
    _check(name, where, g, computes)
    row, col = row[held] * height, col[held] * width
    blocks = Blocks(
        row, col, np.minimum(height, rows - row), np.minimum(width, cols - col), np.full(len(row), computes)
    )
    if computes:
        more = -(-height // op.parts.data), op.width.data, op.tokens.data
        order = np.broadcast_to(np.array([r for r, _ in runs])[:, None, None], shape)
    else:
        more = op.bytes.data, min(op.slice.data, op.bytes.data), 1
        order = np.array([r for r, _ in runs])[:, None, None] * units + unit
        order = np.broadcast_to(order, shape)
    more = np.tile(np.array(more, np.int64), (len(row), 1))
    stride = np.stack(after, axis=1) - where[4][:, None]
    return Pages(order[held], Location(*[*where, np.zeros_like(row)]), stride, blocks, more)


def _check(name: str, where: list[np.ndarray], g: Geometry, computes: bool) -> None:
    sizes = {"channel": g.channels, "chip": g.chips, "die": g.dies, "plane": g.planes}
    for (word, size), values in zip(sizes.items(), where):
        if len(values) and not 0 <= values.min() <= values.max() < size:
            raise TileProbeError(f"{name}: a command names {word} {values.max()}, the machine has {size}")
    wrong = where[3] >= g.compute_planes if computes else where[3] < g.compute_planes
    if wrong.any():
        plane, role = where[3][wrong][0], "serves reads" if computes else "computes"
        raise TileProbeError(f"{name}: plane {plane} of a die {role}, and a command uses it otherwise")
    if len(where[4]) and where[4].min() < 0:
        raise TileProbeError(f"{name}: a command names page {where[4].min()}")
